//! `grains.*`.

use minijinja::value::Value;
use zagent_config::Value as Data;
use zagent_config::value::DEFAULT_DELIMITER;

use super::live::{self, Filter};
use super::table::{Entry, data, live};
use super::{Bound, Inner, Refusal};
use crate::jinja::object::{Dict, Key, dict, text, to_template};

pub(super) const TABLE: &[Entry] = &[
    live("grains.get", "key default? delimiter? ordered?", get),
    live("grains.fetch", "key default? delimiter? ordered?", get),
    live("grains.item", "* default? delimiter? sanitize? **", item),
    live("grains.items", "sanitize?", items),
    live("grains.filter_by", "lookup_dict grain? merge? default? base?", filter_by),
    data("grains.has_value", "key", has_value),
    data("grains.equals", "key value", equals),
    data("grains.ls", "", ls),
];

fn delimiter(args: &Bound<Value>) -> &str {
    args.get("delimiter").and_then(Value::as_str).unwrap_or(DEFAULT_DELIMITER)
}

fn get(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let key = args.get("key").cloned().unwrap_or_default();
    let found = live::traverse(&inner.grains, &key, delimiter(args))?;
    Ok(found.or_else(|| args.get("default").cloned()).unwrap_or_else(live::empty))
}

fn item(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let default = args.get("default").cloned().unwrap_or_else(live::empty);
    let mut out = Dict::new();
    for key in args.rest() {
        let found = live::traverse(&inner.grains, key, delimiter(args))?;
        out.insert(Key::new(key.clone())?, found.unwrap_or_else(|| default.clone()));
    }
    if args.get("sanitize").is_some_and(Value::is_true) {
        sanitize(&mut out);
    }
    Ok(dict(out))
}

/// All grains in a dictionary of the caller's own; the values are shared.
fn items(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let mut out = live::as_dict(&inner.grains).map(|g| g.with(|pairs| pairs.clone())).unwrap_or_default();
    if args.get("sanitize").is_some_and(Value::is_true) {
        sanitize(&mut out);
    }
    Ok(dict(out))
}

/// Takes out what tells one machine from another.
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

fn filter_by(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let family = Value::from("os_family");
    choose(&inner.grains, Some(args.get("grain").unwrap_or(&family)), args)
}

/// `filter_by` over grains or pillar.
pub(super) fn choose(root: &Value, path: Option<&Value>, args: &Bound<Value>) -> Result<Value, Refusal> {
    let by = match path {
        Some(path) => live::traverse(root, path, DEFAULT_DELIMITER)?,
        None => None,
    };
    live::filter_by(&Filter {
        lookup: args.get("lookup_dict").unwrap_or(&Value::UNDEFINED),
        by,
        merge: args.get("merge"),
        default: args.get("default").cloned().unwrap_or_else(|| Value::from("default")),
        base: args.get("base"),
    })
}

fn has_value(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let key = args.get("key").map(to_template).unwrap_or_default();
    Ok(live::traverse(&inner.grains, &key, DEFAULT_DELIMITER)?.is_some().into())
}

fn equals(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let key = args.get("key").map(to_template).unwrap_or_default();
    let found = live::traverse(&inner.grains, &key, DEFAULT_DELIMITER)?.unwrap_or_else(live::empty);
    let want = args.get("value").map(to_template).unwrap_or_default();
    Ok((text(&found) == text(&want)).into())
}

fn ls(inner: &Inner, _: &Bound<Data>) -> Result<Data, Refusal> {
    let all = inner.inputs.host.grains();
    let mut names: Vec<Data> = all.as_map().map(|m| m.keys().cloned().collect()).unwrap_or_default();
    names.sort_by(|a, b| a.py_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    Ok(names.into())
}
