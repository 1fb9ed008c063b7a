//! `pillar.*`.

use minijinja::value::Value;
use zagent_config::Value as Data;
use zagent_config::value::DEFAULT_DELIMITER;

use super::live::{self, Update};
use super::table::{Entry, data, live};
use super::{Bound, Inner, Refusal};
use crate::jinja::object::{Dict, Key, PyList, dict, to_template};

pub(super) const TABLE: &[Entry] = &[
    live("pillar.get", GET, get),
    live("pillar.fetch", GET, get),
    live("pillar.item", "* default? delimiter? pillarenv? saltenv? unmask?", item),
    live("pillar.items", ITEMS, items),
    live("pillar.data", ITEMS, items),
    live("pillar.raw", "key? unmask?", raw),
    live("pillar.filter_by", "lookup_dict pillar merge? default? base?", filter_by),
    data("pillar.keys", "key delimiter? unmask?", keys),
    data("pillar.ls", ITEMS, ls),
    data("pillar.obfuscate", ITEMS, obfuscate),
];

const GET: &str = "key default? merge? merge_nested_lists? delimiter? pillarenv? saltenv? unmask?";
const ITEMS: &str = "* pillar? pillar_enc? pillarenv? saltenv? unmask?";

fn delimiter(args: &Bound<Value>) -> &str {
    args.get("delimiter").and_then(Value::as_str).unwrap_or(DEFAULT_DELIMITER)
}

/// One value: the pillar's own object, or a merge of it over the default.
fn get(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let key = args.get("key").cloned().unwrap_or_default();
    let found = live::traverse(&inner.pillar, &key, delimiter(args))?;
    let is_set = |name: &str| args.get(name).is_some_and(|v| !v.is_none());
    let merge = args.get("merge").is_some_and(Value::is_true);
    if let Some(default) = args.get("default").filter(|_| merge) {
        let lists = match args.get("merge_nested_lists").filter(|_| is_set("merge_nested_lists")) {
            Some(lists) => lists.is_true(),
            None => inner.inputs.options.pillar_merge_lists,
        };
        let is_list = default.downcast_object_ref::<PyList>().is_some();
        match &found {
            None if live::is_mapping(default) || is_list => return live::deep_copy(default),
            Some(found) if live::is_mapping(default) && live::is_mapping(found) => {
                return live::update(&live::deep_copy(default)?, found, Update { flat: false, lists });
            }
            Some(found) if is_list && found.downcast_object_ref::<PyList>().is_some() => {
                return live::join(default, found);
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
        (None, None) => Ok(live::empty()),
    }
}

fn missing(key: &Value) -> Refusal {
    Refusal::failed(format!("the pillar has no key `{key}`"))
}

/// Several values, by the paths they were asked for.
fn item(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    let default = args.get("default").filter(|d| !d.is_none()).cloned().unwrap_or_else(live::empty);
    let mut out = Dict::new();
    for key in args.rest() {
        let found = live::traverse(&inner.pillar, key, delimiter(args))?;
        out.insert(Key::new(key.clone())?, found.unwrap_or_else(|| default.clone()));
    }
    Ok(dict(out))
}

/// The pillar as it was compiled, whatever templates did to theirs.
fn items(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    if args.rest().is_empty() { Ok(to_template(&inner.compiled)) } else { item(inner, args) }
}

fn raw(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    match (args.get("key").filter(|k| k.is_true()), live::as_dict(&inner.pillar)) {
        (Some(key), Some(pillar)) => Ok(pillar.get(key).unwrap_or_else(|| dict(Dict::new()))),
        (_, Some(pillar)) => Ok(dict(pillar.with(|pairs| pairs.clone()))),
        _ => Ok(dict(Dict::new())),
    }
}

fn filter_by(inner: &Inner, args: &Bound<Value>) -> Result<Value, Refusal> {
    super::grains::choose(&inner.pillar, args.get("pillar"), args)
}

fn keys(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let key = args.get("key").map(to_template).unwrap_or_default();
    let delimiter = args.get("delimiter").and_then(Data::as_str).unwrap_or(DEFAULT_DELIMITER);
    let found = live::traverse(&inner.pillar, &key, delimiter)?.ok_or_else(|| missing(&key))?;
    let found = live::as_dict(&found)
        .ok_or_else(|| Refusal::failed(format!("the pillar's value of `{key}` is not a mapping")))?;
    found
        .keys()
        .iter()
        .map(|k| Ok(crate::jinja::object::to_value(k)?))
        .collect::<Result<Vec<_>, _>>()
        .map(Data::from)
}

fn chosen(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    if args.rest().is_empty() {
        return Ok(inner.compiled.clone());
    }
    let mut out = zagent_config::Map::new();
    for key in args.rest() {
        let found = live::traverse(&inner.pillar, &to_template(key), DEFAULT_DELIMITER)?;
        let found = found.unwrap_or_else(live::empty);
        out.insert(key.clone(), crate::jinja::object::to_value(&found)?);
    }
    Ok(out.into())
}

fn ls(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let all = chosen(inner, args)?;
    Ok(all.as_map().map(|m| m.keys().cloned().collect::<Data>()).unwrap_or_else(Data::empty_list))
}

/// The same shape with the names of the types instead of the values.
fn obfuscate(inner: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    fn veil(value: &Data) -> Data {
        match value {
            Data::Map(m) => {
                Data::from(m.iter().map(|(k, v)| (k.clone(), veil(v))).collect::<zagent_config::Map>())
            }
            Data::List(l) => l.iter().map(veil).collect(),
            other => Data::from(format!("<{}>", other.type_name())),
        }
    }
    Ok(veil(&chosen(inner, args)?))
}
