//! Methods of dictionaries.

use std::sync::Arc;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use super::args::{CallArgs, undefined_error};
use crate::jinja::object::{DictKey, DictView, PyDict, ViewKind, dict, pairs_of, repr, to_storable, tuple};

/// The names of all methods.
pub const NAMES: &[&str] = &[
    "clear",
    "copy",
    "fromkeys",
    "get",
    "items",
    "keys",
    "pop",
    "popitem",
    "setdefault",
    "update",
    "values",
];

/// Calls a method of a dictionary.
///
/// # Errors
/// Fails when the method is unknown, the arguments are wrong, or Python would raise.
pub fn call(this: &Arc<PyDict>, _: &mut State<'_, '_>, method: &str, args: &[Value]) -> Result<Value, Error> {
    let args = CallArgs::new(format!("dict.{method}()"), args);
    let none = Value::from(());
    if method != "update" {
        args.only_positional()?;
    }
    match method {
        "get" => {
            let [key, default] = args.bind(["key", "default"], 1)?;
            Ok(this.get(&hashable(&args, key)?).unwrap_or_else(|| default.unwrap_or(none)))
        }
        "items" => view(this, &args, ViewKind::Items),
        "keys" => view(this, &args, ViewKind::Keys),
        "values" => view(this, &args, ViewKind::Values),
        "setdefault" => {
            let [key, default] = args.bind(["key", "default"], 1)?;
            let key = hashable(&args, key)?;
            if let Some(found) = this.get(&key) {
                return Ok(found);
            }
            let default = to_storable(default.unwrap_or(none))?;
            this.insert(args.function_name(), DictKey::new(key)?, default.clone())?;
            Ok(default)
        }
        "update" => update(this, &args).map(|()| none),
        "pop" => {
            let [key, default] = args.bind(["key", "default"], 1)?;
            let key = hashable(&args, key)?;
            this.remove(&key).or(default).ok_or_else(|| args.error(format_args!("no key {}", repr(&key))))
        }
        "popitem" => {
            args.expect_none()?;
            let last = this.with(|pairs| pairs.pop());
            let (key, value) = last.ok_or_else(|| args.error("the dictionary is empty"))?;
            Ok(tuple(vec![key.into_value(), value]))
        }
        "copy" => {
            args.expect_none()?;
            Ok(dict(this.with(|pairs| pairs.clone())))
        }
        "clear" => {
            args.expect_none()?;
            let old = this.with(std::mem::take);
            drop(old);
            Ok(none)
        }
        "fromkeys" => from_keys(&args),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn hashable(args: &CallArgs, key: Option<Value>) -> Result<Value, Error> {
    let key = key.unwrap_or_default();
    if key.is_undefined() {
        return Err(undefined_error(&key));
    }
    if !crate::jinja::object::is_hashable(&key) {
        return Err(args.type_error("the key", "hashable", &key));
    }
    Ok(key)
}

fn view(this: &Arc<PyDict>, args: &CallArgs, kind: ViewKind) -> Result<Value, Error> {
    args.expect_none()?;
    Ok(DictView::new_value(Value::from_dyn_object(Arc::clone(this)), kind))
}

fn update(this: &PyDict, args: &CallArgs) -> Result<(), Error> {
    let more = match args.positional() {
        [] => Vec::new(),
        [one] => pairs(args, one)?,
        _ => return Err(args.error("takes at most one positional argument")),
    };
    for (key, value) in more {
        this.insert(args.function_name(), DictKey::new(key)?, to_storable(value)?)?;
    }
    for (key, value) in args.named() {
        this.insert(args.function_name(), DictKey::from(key.as_str()), to_storable(value.clone())?)?;
    }
    Ok(())
}

/// The pairs of a mapping, or of an iterable of pairs.
///
/// # Errors
/// Fails when an item is not a pair.
pub fn pairs(args: &CallArgs, value: &Value) -> Result<Vec<(Value, Value)>, Error> {
    if value.kind() == ValueKind::Map {
        return Ok(pairs_of(value).unwrap_or_default());
    }
    let mut out = Vec::new();
    for (i, item) in args.items(value)?.iter().enumerate() {
        match <[Value; 2]>::try_from(args.items(item)?) {
            Ok([key, value]) => out.push((key, value)),
            Err(other) => {
                let n = other.len();
                return Err(args.error(format_args!("item {i} has length {n}, a pair is needed")));
            }
        }
    }
    Ok(out)
}

fn from_keys(args: &CallArgs) -> Result<Value, Error> {
    let [keys, value] = args.bind(["iterable", "value"], 1)?;
    let value = to_storable(value.unwrap_or_else(|| Value::from(())))?;
    let mut out = crate::jinja::object::Dict::new();
    for key in args.items(&keys.unwrap_or_default())? {
        out.insert(DictKey::new(key)?, value.clone());
    }
    Ok(dict(out))
}
