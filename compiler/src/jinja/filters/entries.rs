//! Salt's filters on dictionaries: colon paths that read and write, and lists of entries.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::Filter;
use super::numbers::number_of;
use crate::jinja::methods::args::Args;
use crate::jinja::methods::dict::pairs;
use crate::jinja::object::{
    Dict, Key, LazyDict, PyDict, PyList, dict, list, own, pairs_of, resolve_index, to_template, type_name,
};

pub(super) const FILTERS: &[(&str, Filter)] = &[
    ("traverse", traverse),
    ("to_entries", to_entries),
    ("from_entries", from_entries),
    ("set_dict_key_value", |s, a| write(s, a, Change::Set)),
    ("append_dict_key_value", |s, a| write(s, a, Change::Append)),
    ("extend_dict_key_value", |s, a| write(s, a, Change::Extend)),
    ("update_dict_key_value", |s, a| write(s, a, Change::Update)),
    ("mysql_to_dict", mysql_to_dict),
];

fn traverse(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let [data, key, default, delimiter] = args.bind(["data", "key", "default", "delimiter"], 2)?;
    let (data, key) = (data.unwrap_or_default(), key.unwrap_or_default());
    let default = default.unwrap_or_else(|| Value::from(()));
    let steps: Vec<Value> = match key.as_str() {
        Some(text) => {
            let delimiter = delimiter.map_or_else(|| Ok(":".to_owned()), |v| args.text(&v))?;
            if delimiter.is_empty() {
                return Err(args.wrong("empty delimiter"));
            }
            text.split(delimiter.as_str()).map(Value::from).collect()
        }
        None if key.kind() == ValueKind::Number => vec![key],
        None => args.items(&key)?,
    };
    let mut at = data;
    for step in &steps {
        let found = if type_name(&at) == "list" { list_step(args, &at, step)? } else { map_step(&at, step) };
        match found {
            Some(value) => at = value,
            None => return Ok(default),
        }
    }
    Ok(at)
}

fn list_step(args: &Args, at: &Value, step: &Value) -> Result<Option<Value>, Error> {
    let items = args.items(at)?;
    let index = match step.as_str() {
        Some(text) => text.trim().parse::<i64>().ok(),
        None => step.as_i64(),
    };
    let key = index.map_or_else(|| step.clone(), Value::from);
    let embedded = items
        .iter()
        .filter(|v| v.kind() == ValueKind::Map)
        .find_map(|v| v.get_item(&key).ok().filter(|found| !found.is_undefined()));
    Ok(embedded.or_else(|| index.and_then(|i| resolve_index(i, items.len())).map(|i| items[i].clone())))
}

fn map_step(at: &Value, step: &Value) -> Option<Value> {
    let look = |key: &Value| at.get_item(key).ok().filter(|found| !found.is_undefined());
    match (at.kind(), step.as_str()) {
        (ValueKind::Map, Some(text)) => look(step).or_else(|| {
            // Salt reads the step as YAML: `80` finds an integer key, `true` a boolean one.
            let read = crate::yaml::load(text, &crate::Limits::default()).ok()?;
            if read.as_str() == Some(text) { None } else { look(&to_template(&read)) }
        }),
        (ValueKind::Map, None) => look(step),
        (ValueKind::Seq | ValueKind::String, None) => look(step),
        _ => None,
    }
}

fn to_entries(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let data = args.one("data")?;
    let pairs: Vec<(Value, Value)> = match pairs_of(&data) {
        Some(pairs) => pairs,
        None if type_name(&data) == "list" => {
            args.items(&data)?.into_iter().enumerate().map(|(i, v)| (Value::from(i), v)).collect()
        }
        None => return Err(args.wrong_type("the value", "a dict or a list", &data)),
    };
    let entry = |(k, v)| dict([(Key::from("key"), k), (Key::from("value"), v)].into_iter().collect());
    Ok(list(pairs.into_iter().map(entry).collect()))
}

fn from_entries(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let mut out = Dict::new();
    for entry in args.items(&args.one("entries")?)? {
        let entry = pairs(args, &entry)?;
        let find = |name: &str| {
            let found =
                entry.iter().rev().find(|(k, _)| k.as_str().is_some_and(|k| k.eq_ignore_ascii_case(name)));
            found.map(|(_, v)| v.clone())
        };
        if let Some(key) = ["key", "name"].iter().find_map(|n| find(n).filter(Value::is_true)) {
            out.insert(Key::new(key)?, find("value").unwrap_or_else(|| Value::from(())));
        }
    }
    Ok(dict(out))
}

#[derive(Clone, Copy)]
enum Change {
    Set,
    Append,
    Extend,
    Update,
}

/// The dictionary behind a value that may be changed in place.
fn writable(args: &Args, value: &Value) -> Result<std::sync::Arc<PyDict>, Error> {
    if let Some(lazy) = value.downcast_object_ref::<LazyDict>() {
        return Ok(lazy.full());
    }
    value.downcast_object::<PyDict>().ok_or_else(|| args.wrong_type("the value", "a dict", value))
}

fn write(state: &mut State<'_, '_>, args: &Args, change: Change) -> Result<Value, Error> {
    let [target, keys, value, delimiter, _] =
        args.bind(["in_dict", "keys", "value", "delimiter", "ordered_dict"], 3)?;
    let target = own(target.unwrap_or_default())?;
    let keys = args.text(&keys.unwrap_or_default())?;
    let value = own(value.unwrap_or_default())?;
    let delimiter = delimiter.map_or_else(|| Ok(":".to_owned()), |v| args.text(&v))?;
    let (path, last) = if delimiter.is_empty() {
        ("", keys.as_str())
    } else {
        keys.rsplit_once(&delimiter).unwrap_or(("", &keys))
    };
    let mut at = writable(args, &target)?;
    for step in path.split(&delimiter).filter(|_| !path.is_empty()) {
        let next = at.get_str(step).filter(|v| v.kind() == ValueKind::Map);
        let next = match next {
            Some(next) => next,
            None => {
                let fresh = dict(Dict::new());
                at.insert(args.what(), Key::from(step), fresh.clone())?;
                fresh
            }
        };
        at = writable(args, &next)?;
    }
    let current = |otherwise: Value| -> Result<Value, Error> {
        match at.get_str(last).filter(|v| !v.is_none()) {
            Some(found) => Ok(found),
            None => {
                at.insert(args.what(), Key::from(last), otherwise.clone())?;
                Ok(otherwise)
            }
        }
    };
    match change {
        Change::Set => {
            at.insert(args.what(), Key::from(last), value)?;
        }
        Change::Append | Change::Extend => {
            let found = current(list(Vec::new()))?;
            let Some(items) = found.downcast_object_ref::<PyList>() else {
                return Err(args.wrong_type("the last key", "a list", &found));
            };
            let more = if matches!(change, Change::Append) { vec![value] } else { args.items(&value)? };
            items.extend(args.what(), more)?;
        }
        Change::Update => {
            let found = current(dict(Dict::new()))?;
            found.call_method(state, "update", &[value])?;
        }
    }
    Ok(target)
}

fn mysql_to_dict(_: &mut State<'_, '_>, args: &Args) -> Result<Value, Error> {
    let [data, key] = args.bind(["data", "key"], 2)?;
    let key = key.unwrap_or_default();
    let mut out = Dict::new();
    let mut headers: Vec<String> = Vec::new();
    for line in args.items(&data.unwrap_or_default())? {
        let line = args.str("each line", &line)?;
        if line.is_empty() || line.starts_with('+') {
            continue;
        }
        let columns: Vec<String> = line.split('|').map(|c| c.trim().to_owned()).collect();
        if headers.len() <= 1 {
            headers = columns;
            continue;
        }
        let mut row = Dict::new();
        for (name, column) in headers.iter().zip(&columns).take(headers.len() - 1).skip(1) {
            row.insert(Key::from(name.as_str()), number_of(column));
        }
        let Some(id) = row.get(&Key::new(key.clone())?).cloned() else {
            return Err(args.wrong("a row does not have the key"));
        };
        out.insert(Key::new(id)?, dict(row));
    }
    Ok(dict(out))
}
