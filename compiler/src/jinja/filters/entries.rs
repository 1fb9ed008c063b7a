//! Salt's filters on dictionaries: colon paths that read and write, and lists of entries.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::FilterFn;
use super::numbers::number_of;
use crate::jinja::methods::args::CallArgs;
use crate::jinja::methods::dict::pairs;
use crate::jinja::object::{
    Dict, DictKey, LazyDict, PyDict, PyList, dict, list, pairs_of, resolve_index, to_storable, to_template,
    type_name,
};

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("traverse", traverse),
    ("to_entries", to_entries),
    ("from_entries", from_entries),
    ("set_dict_key_value", |s, a| change_dict(s, a, DictChange::Set)),
    ("append_dict_key_value", |s, a| change_dict(s, a, DictChange::Append)),
    ("extend_dict_key_value", |s, a| change_dict(s, a, DictChange::Extend)),
    ("update_dict_key_value", |s, a| change_dict(s, a, DictChange::Update)),
    ("mysql_to_dict", mysql_to_dict),
];

fn traverse(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [data, key, default, delimiter] = args.bind(["data", "key", "default", "delimiter"], 2)?;
    let (data, key) = (data.unwrap_or_default(), key.unwrap_or_default());
    let default = default.unwrap_or_else(|| Value::from(()));
    let steps: Vec<Value> = match key.as_str() {
        Some(text) => {
            let delimiter = delimiter.map_or_else(|| Ok(":".to_owned()), |v| args.text(&v))?;
            if delimiter.is_empty() {
                return Err(args.error("empty delimiter"));
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

fn list_step(args: &CallArgs, at: &Value, step: &Value) -> Result<Option<Value>, Error> {
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
            let read = crate::yaml::load(text, &crate::TreeLimits::default()).ok()?;
            if read.as_str() == Some(text) { None } else { look(&to_template(&read)) }
        }),
        (ValueKind::Map, None) => look(step),
        (ValueKind::Seq | ValueKind::String, None) => look(step),
        _ => None,
    }
}

fn to_entries(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let data = args.expect_one("data")?;
    let pairs: Vec<(Value, Value)> = match pairs_of(&data) {
        Some(pairs) => pairs,
        None if type_name(&data) == "list" => {
            args.items(&data)?.into_iter().enumerate().map(|(i, v)| (Value::from(i), v)).collect()
        }
        None => return Err(args.type_error("the value", "a dict or a list", &data)),
    };
    let entry = |(k, v)| dict([(DictKey::from("key"), k), (DictKey::from("value"), v)].into_iter().collect());
    Ok(list(pairs.into_iter().map(entry).collect()))
}

fn from_entries(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let mut out = Dict::new();
    for entry in args.items(&args.expect_one("entries")?)? {
        let entry = pairs(args, &entry)?;
        let find = |name: &str| {
            let found =
                entry.iter().rev().find(|(k, _)| k.as_str().is_some_and(|k| k.eq_ignore_ascii_case(name)));
            found.map(|(_, v)| v.clone())
        };
        if let Some(key) = ["key", "name"].iter().find_map(|n| find(n).filter(Value::is_true)) {
            out.insert(DictKey::new(key)?, find("value").unwrap_or_else(|| Value::from(())));
        }
    }
    Ok(dict(out))
}

#[derive(Clone, Copy)]
enum DictChange {
    Set,
    Append,
    Extend,
    Update,
}

/// The dictionary of a value that can be changed in place.
fn as_mutable_dict(args: &CallArgs, value: &Value) -> Result<std::sync::Arc<PyDict>, Error> {
    if let Some(lazy) = value.downcast_object_ref::<LazyDict>() {
        return Ok(lazy.load_all());
    }
    value.downcast_object::<PyDict>().ok_or_else(|| args.type_error("the value", "a dict", value))
}

fn change_dict(state: &mut State<'_, '_>, args: &CallArgs, change: DictChange) -> Result<Value, Error> {
    let [target, keys, value, delimiter, _] =
        args.bind(["in_dict", "keys", "value", "delimiter", "ordered_dict"], 3)?;
    let target = to_storable(target.unwrap_or_default())?;
    let keys = args.text(&keys.unwrap_or_default())?;
    let value = to_storable(value.unwrap_or_default())?;
    let delimiter = delimiter.map_or_else(|| Ok(":".to_owned()), |v| args.text(&v))?;
    let (path, last) = if delimiter.is_empty() {
        ("", keys.as_str())
    } else {
        keys.rsplit_once(&delimiter).unwrap_or(("", &keys))
    };
    let mut at = as_mutable_dict(args, &target)?;
    for step in path.split(&delimiter).filter(|_| !path.is_empty()) {
        let next = at.get_str(step).filter(|v| v.kind() == ValueKind::Map);
        let next = match next {
            Some(next) => next,
            None => {
                let fresh = dict(Dict::new());
                at.insert(args.function_name(), DictKey::from(step), fresh.clone())?;
                fresh
            }
        };
        at = as_mutable_dict(args, &next)?;
    }
    let current = |otherwise: Value| -> Result<Value, Error> {
        match at.get_str(last).filter(|v| !v.is_none()) {
            Some(found) => Ok(found),
            None => {
                at.insert(args.function_name(), DictKey::from(last), otherwise.clone())?;
                Ok(otherwise)
            }
        }
    };
    match change {
        DictChange::Set => {
            at.insert(args.function_name(), DictKey::from(last), value)?;
        }
        DictChange::Append | DictChange::Extend => {
            let found = current(list(Vec::new()))?;
            let Some(items) = found.downcast_object_ref::<PyList>() else {
                return Err(args.type_error("the last key", "a list", &found));
            };
            let more = if matches!(change, DictChange::Append) { vec![value] } else { args.items(&value)? };
            items.extend(args.function_name(), more)?;
        }
        DictChange::Update => {
            let found = current(dict(Dict::new()))?;
            found.call_method(state, "update", &[value])?;
        }
    }
    Ok(target)
}

fn mysql_to_dict(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
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
            row.insert(DictKey::from(name.as_str()), number_of(column));
        }
        let Some(id) = row.get(&DictKey::new(key.clone())?).cloned() else {
            return Err(args.error("a row does not have the key"));
        };
        out.insert(DictKey::new(id)?, dict(row));
    }
    Ok(dict(out))
}
