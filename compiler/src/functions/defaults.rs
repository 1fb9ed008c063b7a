//! `defaults.*`: merging in place, and a formula's `defaults.yaml`.

use minijinja::value::Value;
use zagent_config::Value as Data;
use zagent_config::value::{DEFAULT_DELIMITER, traverse};

use super::table::{FunctionEntry, data_function, live_function};
use super::value_ops::{self, UpdateMode};
use super::{FunctionArgs, FunctionError, FunctionsInner, serialize};
use crate::jinja::object::{Dict, DictKey, dict};

pub(super) const TABLE: &[FunctionEntry] = &[
    live_function("defaults.merge", "dest src merge_lists? in_place? convert_none?", merge),
    live_function("defaults.update", "dest defaults merge_lists? in_place? convert_none?", update),
    live_function("defaults.deepcopy", "source", deepcopy),
    data_function("defaults.get", "key default?", get),
];

fn flag(args: &FunctionArgs<Value>, name: &str, default: bool) -> bool {
    args.get(name).map_or(default, Value::is_true)
}

fn or_empty(value: Option<&Value>, convert: bool) -> Value {
    match value {
        Some(v) if v.is_none() && convert => dict(Dict::new()),
        Some(v) => v.clone(),
        None => Value::UNDEFINED,
    }
}

fn merge(_: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (convert, in_place) = (flag(args, "convert_none", true), flag(args, "in_place", true));
    let src = or_empty(args.get("src"), convert);
    if in_place && args.get("dest").is_some_and(Value::is_none) {
        return Err(FunctionError::failed("cannot merge into `none` in place"));
    }
    let dest = or_empty(args.get("dest"), convert);
    let dest = if in_place { dest } else { value_ops::deep_copy(&dest)? };
    value_ops::update(&dest, &src, UpdateMode { flat: false, lists: flag(args, "merge_lists", false) })
}

/// Merges defaults under each value of a mapping.
fn update(_: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let (convert, in_place) = (flag(args, "convert_none", true), flag(args, "in_place", true));
    if in_place && args.get("dest").is_some_and(Value::is_none) {
        return Err(FunctionError::failed("cannot update `none` in place"));
    }
    let dest = or_empty(args.get("dest"), convert);
    let nodes = if in_place { dest } else { value_ops::deep_copy(&dest)? };
    let defaults = or_empty(args.get("defaults"), convert);
    let how = UpdateMode { flat: false, lists: flag(args, "merge_lists", true) };
    let target =
        value_ops::as_dict(&nodes).ok_or_else(|| FunctionError::failed("`dest` must be a mapping"))?;
    for (name, vars) in target.pairs() {
        let node =
            value_ops::update(&value_ops::deep_copy(&defaults)?, &or_empty(Some(&vars), convert), how)?;
        target
            .insert("defaults.update", DictKey::new(name).map_err(crate::functions::from_jinja)?, node)
            .map_err(crate::functions::from_jinja)?;
    }
    Ok(nodes)
}

fn deepcopy(_: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    value_ops::deep_copy(args.get("source").unwrap_or(&Value::UNDEFINED))
}

/// A value of the `defaults.yaml` or `defaults.json` of a formula: `formula:path`.
fn get(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let key = args
        .get("key")
        .and_then(Data::as_str)
        .ok_or_else(|| FunctionError::bad_arguments("`key` must be text"))?;
    let (formula, path) = key.split_once(DEFAULT_DELIMITER).map_or((key, None), |(f, p)| (f, Some(p)));
    let mut all = Data::Null;
    for kind in ["yaml", "json"] {
        if let Some(text) = super::files::read(inner, "base", &format!("{formula}/defaults.{kind}"))? {
            all = serialize::parse(inner, kind, &text)?;
            if all.is_null() {
                all = Data::empty_map();
            }
            break;
        }
    }
    let default = || args.get("default").cloned().unwrap_or_else(|| Data::from(""));
    Ok(match path.filter(|p| !p.is_empty()) {
        Some(path) => traverse(&all, path, DEFAULT_DELIMITER).cloned().unwrap_or_else(default),
        None => all,
    })
}
