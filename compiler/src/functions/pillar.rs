//! `pillar.*`.

use minijinja::value::Value;
use zagent_config::Value as Data;
use zagent_config::value::DEFAULT_DELIMITER;

use super::table::{FunctionEntry, data_function, live_function};
use super::value_ops::{self, UpdateMode};
use super::{FunctionArgs, FunctionError, FunctionsInner};
use crate::jinja::object::{Dict, DictKey, PyList, dict, to_template};

pub(super) const TABLE: &[FunctionEntry] = &[
    live_function("pillar.get", GET_SIGNATURE, get),
    live_function("pillar.fetch", GET_SIGNATURE, get),
    live_function("pillar.item", "* default? delimiter? pillarenv? saltenv? unmask?", item),
    live_function("pillar.items", ITEMS_SIGNATURE, items),
    live_function("pillar.data", ITEMS_SIGNATURE, items),
    live_function("pillar.raw", "key? unmask?", raw),
    live_function("pillar.filter_by", "lookup_dict pillar merge? default? base?", filter_by),
    data_function("pillar.keys", "key delimiter? unmask?", keys),
    data_function("pillar.ls", ITEMS_SIGNATURE, ls),
    data_function("pillar.obfuscate", ITEMS_SIGNATURE, obfuscate),
];

const GET_SIGNATURE: &str = "key default? merge? merge_nested_lists? delimiter? pillarenv? saltenv? unmask?";
const ITEMS_SIGNATURE: &str = "* pillar? pillar_enc? pillarenv? saltenv? unmask?";

fn delimiter(args: &FunctionArgs<Value>) -> &str {
    args.get("delimiter").and_then(Value::as_str).unwrap_or(DEFAULT_DELIMITER)
}

/// One value: the pillar's own object, or a merge of it over the default.
fn get(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let key = args.get("key").cloned().unwrap_or_default();
    let found = value_ops::traverse(&inner.pillar, &key, delimiter(args))?;
    let is_set = |name: &str| args.get(name).is_some_and(|v| !v.is_none());
    let merge = args.get("merge").is_some_and(Value::is_true);
    if let Some(default) = args.get("default").filter(|_| merge) {
        let lists = match args.get("merge_nested_lists").filter(|_| is_set("merge_nested_lists")) {
            Some(lists) => lists.is_true(),
            None => inner.inputs.options.pillar_merge_lists,
        };
        let is_list = default.downcast_object_ref::<PyList>().is_some();
        match &found {
            None if value_ops::is_mapping(default) || is_list => return value_ops::deep_copy(default),
            Some(found) if value_ops::is_mapping(default) && value_ops::is_mapping(found) => {
                return value_ops::update(
                    &value_ops::deep_copy(default)?,
                    found,
                    UpdateMode { flat: false, lists },
                );
            }
            Some(found) if is_list && found.downcast_object_ref::<PyList>().is_some() => {
                return value_ops::concat_lists(default, found);
            }
            _ => {}
        }
    }
    match (found, args.get("default")) {
        (Some(found), _) => Ok(found),
        (None, Some(default)) => Ok(default.clone()),
        (None, None)
            if inner.inputs.options.opts.get("pillar_raise_on_missing").is_some_and(Data::is_truthy) =>
        {
            Err(missing(&key))
        }
        (None, None) => Ok(value_ops::empty_text()),
    }
}

fn missing(key: &Value) -> FunctionError {
    FunctionError::failed(format!("the pillar has no key `{key}`"))
}

/// Several values, by their paths.
fn item(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let default = args.get("default").filter(|d| !d.is_none()).cloned().unwrap_or_else(value_ops::empty_text);
    let mut out = Dict::new();
    for key in args.rest() {
        let found = value_ops::traverse(&inner.pillar, key, delimiter(args))?;
        out.insert(
            DictKey::new(key.clone()).map_err(crate::functions::from_jinja)?,
            found.unwrap_or_else(|| default.clone()),
        );
    }
    Ok(dict(out))
}

/// The pillar as compiled, without changes that templates made.
fn items(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    if args.rest().is_empty() { Ok(to_template(&inner.compiled)) } else { item(inner, args) }
}

fn raw(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    match (args.get("key").filter(|k| k.is_true()), value_ops::as_dict(&inner.pillar)) {
        (Some(key), Some(pillar)) => Ok(pillar.get(key).unwrap_or_else(|| dict(Dict::new()))),
        (_, Some(pillar)) => Ok(dict(pillar.with(|pairs| pairs.clone()))),
        _ => Ok(dict(Dict::new())),
    }
}

fn filter_by(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    super::grains::choose(&inner.pillar, args.get("pillar"), args)
}

fn keys(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let key = args.get("key").map(to_template).unwrap_or_default();
    let delimiter = args.get("delimiter").and_then(Data::as_str).unwrap_or(DEFAULT_DELIMITER);
    let found = value_ops::traverse(&inner.pillar, &key, delimiter)?.ok_or_else(|| missing(&key))?;
    let found = value_ops::as_dict(&found)
        .ok_or_else(|| FunctionError::failed(format!("the pillar's value of `{key}` is not a mapping")))?;
    found
        .keys()
        .iter()
        .map(|k| crate::jinja::object::to_value(k).map_err(crate::functions::from_jinja))
        .collect::<Result<Vec<_>, _>>()
        .map(Data::from)
}

fn selected_value(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    if args.rest().is_empty() {
        return Ok(inner.compiled.clone());
    }
    let mut out = zagent_config::Map::new();
    for key in args.rest() {
        let found = value_ops::traverse(&inner.pillar, &to_template(key), DEFAULT_DELIMITER)?;
        let found = found.unwrap_or_else(value_ops::empty_text);
        out.insert(
            key.clone(),
            crate::jinja::object::to_value(&found).map_err(crate::functions::from_jinja)?,
        );
    }
    Ok(out.into())
}

fn ls(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let all = selected_value(inner, args)?;
    Ok(all.as_map().map(|m| m.keys().cloned().collect::<Data>()).unwrap_or_else(Data::empty_list))
}

/// The same shape with the names of the types instead of the values.
fn obfuscate(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    fn type_names(value: &Data) -> Data {
        match value {
            Data::Map(m) => {
                Data::from(m.iter().map(|(k, v)| (k.clone(), type_names(v))).collect::<zagent_config::Map>())
            }
            Data::List(l) => l.iter().map(type_names).collect(),
            other => Data::from(format!("<{}>", other.type_name())),
        }
    }
    Ok(type_names(&selected_value(inner, args)?))
}
