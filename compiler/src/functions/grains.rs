//! `grains.*`.

use minijinja::value::Value;
use zagent_config::Value as Data;
use zagent_config::value::DEFAULT_DELIMITER;

use super::table::{FunctionEntry, data_function, live_function};
use super::value_ops::{self, FilterBy};
use super::{FunctionArgs, FunctionError, FunctionsInner};
use crate::jinja::object::{Dict, DictKey, dict, py_str, to_template};

pub(super) const TABLE: &[FunctionEntry] = &[
    live_function("grains.get", "key default? delimiter? ordered?", get),
    live_function("grains.fetch", "key default? delimiter? ordered?", get),
    live_function("grains.item", "* default? delimiter? sanitize? **", item),
    live_function("grains.items", "sanitize?", items),
    live_function("grains.filter_by", "lookup_dict grain? merge? default? base?", filter_by),
    data_function("grains.has_value", "key", has_value),
    data_function("grains.equals", "key value", equals),
    data_function("grains.ls", "", ls),
];

fn delimiter(args: &FunctionArgs<Value>) -> &str {
    args.get("delimiter").and_then(Value::as_str).unwrap_or(DEFAULT_DELIMITER)
}

fn get(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let key = args.get("key").cloned().unwrap_or_default();
    let found = value_ops::traverse(&inner.grains, &key, delimiter(args))?;
    Ok(found.or_else(|| args.get("default").cloned()).unwrap_or_else(value_ops::empty_text))
}

fn item(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let default = args.get("default").cloned().unwrap_or_else(value_ops::empty_text);
    let mut out = Dict::new();
    for key in args.rest() {
        let found = value_ops::traverse(&inner.grains, key, delimiter(args))?;
        out.insert(
            DictKey::new(key.clone()).map_err(crate::functions::from_jinja)?,
            found.unwrap_or_else(|| default.clone()),
        );
    }
    if args.get("sanitize").is_some_and(Value::is_true) {
        sanitize(&mut out);
    }
    Ok(dict(out))
}

/// All grains in a new dictionary; the values are shared.
fn items(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let mut out =
        value_ops::as_dict(&inner.grains).map(|g| g.with(|pairs| pairs.clone())).unwrap_or_default();
    if args.get("sanitize").is_some_and(Value::is_true) {
        sanitize(&mut out);
    }
    Ok(dict(out))
}

/// Removes what identifies a machine.
fn sanitize(grains: &mut Dict) {
    for (key, value) in grains.iter_mut() {
        match key.as_str() {
            Some("serialnumber" | "uuid") => *value = Value::from("**SANITIZED**"),
            Some("domain" | "fqdn" | "id" | "nodename" | "host" | "localhost") => {
                *value = Value::from("MINION");
            }
            _ => {}
        }
    }
}

fn filter_by(inner: &FunctionsInner, args: &FunctionArgs<Value>) -> Result<Value, FunctionError> {
    let family = Value::from("os_family");
    choose(&inner.grains, Some(args.get("grain").unwrap_or(&family)), args)
}

/// `filter_by` over grains or pillar.
pub(super) fn choose(
    root: &Value,
    path: Option<&Value>,
    args: &FunctionArgs<Value>,
) -> Result<Value, FunctionError> {
    let by = match path {
        Some(path) => value_ops::traverse(root, path, DEFAULT_DELIMITER)?,
        None => None,
    };
    value_ops::filter_by(&FilterBy {
        lookup: args.get("lookup_dict").unwrap_or(&Value::UNDEFINED),
        by,
        merge: args.get("merge"),
        default: args.get("default").cloned().unwrap_or_else(|| Value::from("default")),
        base: args.get("base"),
    })
}

fn has_value(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let key = args.get("key").map(to_template).unwrap_or_default();
    Ok(value_ops::traverse(&inner.grains, &key, DEFAULT_DELIMITER)?.is_some().into())
}

fn equals(inner: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let key = args.get("key").map(to_template).unwrap_or_default();
    let found =
        value_ops::traverse(&inner.grains, &key, DEFAULT_DELIMITER)?.unwrap_or_else(value_ops::empty_text);
    let want = args.get("value").map(to_template).unwrap_or_default();
    Ok((py_str(&found) == py_str(&want)).into())
}

fn ls(inner: &FunctionsInner, _: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let all = inner.inputs.host.grains();
    let mut names: Vec<Data> = all.as_map().map(|m| m.keys().cloned().collect()).unwrap_or_default();
    zagent_config::sorted::sort_by(&mut names, |a, b| a.py_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    Ok(names.into())
}
