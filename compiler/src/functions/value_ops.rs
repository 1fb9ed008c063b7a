//! Operations on the template's own values: traverse, copy, update, filter.
//!
//! Law: identity is kept. What Salt returns by reference is the same object here, what Salt changes in place
//! changes here too; a value that contains itself is an error, not a stack overflow (held by
//! `values_returned_by_functions_are_shared`, `hostile_values_end_in_errors`).

use std::sync::Arc;

use minijinja::value::{Value, ValueKind};
use zagent_config::glob::Glob;

use super::FunctionError;
use crate::jinja::object::budget::{self, MAX_DEPTH};
use crate::jinja::object::{
    Dict, DictKey, LazyDict, PyDict, PyList, dict, items_of, list, pairs_of, py_str, type_name,
};

/// The dictionary of a value.
pub(super) fn as_dict(value: &Value) -> Option<Arc<PyDict>> {
    value
        .downcast_object::<PyDict>()
        .or_else(|| value.downcast_object_ref::<LazyDict>().map(LazyDict::load_all))
}

/// True for a Python mapping.
pub(super) fn is_mapping(value: &Value) -> bool {
    value.kind() == ValueKind::Map
}

/// An empty string, Salt's usual value for a missing key.
pub(super) fn empty_text() -> Value {
    Value::from("")
}

/// Follows a path: text with delimiters, an index, or a list of steps. `None` when a step does not exist.
pub(super) fn traverse(root: &Value, path: &Value, delimiter: &str) -> Result<Option<Value>, FunctionError> {
    if let Some(text) = path.as_str() {
        if delimiter.is_empty() {
            return Err(FunctionError::failed("the delimiter is empty"));
        }
        return Ok(walk(root, text.split(delimiter).map(Value::from)));
    }
    if path.is_integer() {
        return Ok(walk(root, [path.clone()]));
    }
    if matches!(path.kind(), ValueKind::Seq | ValueKind::Iterable) {
        return Ok(walk(root, items_of(path).map_err(crate::functions::from_jinja)?));
    }
    Err(FunctionError::failed(format!("a key must be text or a list of steps, not '{}'", type_name(path))))
}

fn walk(root: &Value, steps: impl IntoIterator<Item = Value>) -> Option<Value> {
    let mut at = root.clone();
    for part in steps {
        at = step_into(&at, &part)?;
    }
    Some(at)
}

fn step_into(at: &Value, part: &Value) -> Option<Value> {
    if let Some(items) = at.downcast_object_ref::<PyList>() {
        let items = items.items();
        let index = parse_int(part);
        let key = index.map_or_else(|| part.clone(), Value::from);
        let embedded = items.iter().filter_map(as_dict).find_map(|d| d.get(&key));
        return embedded.or_else(|| {
            let index = crate::jinja::object::resolve_index(index?, items.len())?;
            items.get(index).cloned()
        });
    }
    let get = |key: &Value| match at.downcast_object_ref::<LazyDict>() {
        Some(lazy) => key.as_str().map_or_else(|| lazy.load_all().get(key), |k| lazy.get_str(k)),
        None => at.downcast_object_ref::<PyDict>().and_then(|d| d.get(key)),
    };
    get(part).or_else(|| get(&parse_scalar(part.as_str()?)?))
}

/// Python's `int()`.
fn parse_int(part: &Value) -> Option<i64> {
    match part.as_str() {
        Some(text) => text.trim().parse().ok(),
        None => part.as_i64(),
    }
}

/// A path's step as YAML reads it: keys may be numbers and booleans.
fn parse_scalar(text: &str) -> Option<Value> {
    if let Ok(i) = text.parse::<i64>() {
        return Some(Value::from(i));
    }
    match text {
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(Value::from(true)),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(Value::from(false)),
        "null" | "Null" | "NULL" | "~" => Some(Value::from(())),
        _ if text.contains('.') => text.parse::<f64>().ok().map(Value::from),
        _ => None,
    }
}

/// A deep copy: it shares nothing mutable.
pub(super) fn deep_copy(value: &Value) -> Result<Value, FunctionError> {
    copy_nested(value, 0, &mut budget::items())
}

fn copy_nested(value: &Value, depth: usize, left: &mut usize) -> Result<Value, FunctionError> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    *left = left.checked_sub(1).ok_or_else(|| FunctionError::failed("the value is too large to copy"))?;
    if let Some(d) = as_dict(value) {
        if let Some(raw) = d.original_data() {
            return Ok(Value::from_object(PyDict::from_data(raw)));
        }
        let mut out = Dict::with_capacity(d.len());
        for (k, v) in d.pairs() {
            out.insert(
                DictKey::new(k).map_err(crate::functions::from_jinja)?,
                copy_nested(&v, depth + 1, left)?,
            );
        }
        return Ok(dict(out));
    }
    if let Some(l) = value.downcast_object_ref::<PyList>() {
        let items = l.items().iter().map(|v| copy_nested(v, depth + 1, left)).collect::<Result<_, _>>()?;
        return Ok(list(items));
    }
    Ok(value.clone())
}

fn too_deep() -> FunctionError {
    FunctionError::failed(format!("the value contains itself or is nested deeper than {MAX_DEPTH} levels"))
}

/// How dictionaries are updated.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UpdateMode {
    /// Replace whole values instead of merging into them.
    pub(super) flat: bool,
    /// Lists are concatenated, without duplicates.
    pub(super) lists: bool,
}

/// Updates `dest` in place with the content of `upd`, and returns it.
pub(super) fn update(dest: &Value, upd: &Value, how: UpdateMode) -> Result<Value, FunctionError> {
    update_at(dest, upd, how, 0)?;
    Ok(dest.clone())
}

fn update_at(dest: &Value, upd: &Value, how: UpdateMode, depth: usize) -> Result<(), FunctionError> {
    let (Some(target), Some(pairs)) = (as_dict(dest), pairs_of(upd)) else {
        let (a, b) = (type_name(dest), type_name(upd));
        return Err(FunctionError::failed(format!("only mappings can be merged, not '{a}' and '{b}'")));
    };
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    for (key, value) in pairs {
        let old = if how.flat { None } else { target.get(&key) };
        let new = match &old {
            Some(old) if is_mapping(old) && is_mapping(&value) => {
                update_at(old, &value, UpdateMode { flat: false, ..how }, depth + 1)?;
                old.clone()
            }
            Some(old) if how.lists && is_list(old) && is_list(&value) => concat_lists(old, &value)?,
            _ => value,
        };
        target
            .insert("merge", DictKey::new(key).map_err(crate::functions::from_jinja)?, new)
            .map_err(crate::functions::from_jinja)?;
    }
    Ok(())
}

fn is_list(value: &Value) -> bool {
    value.downcast_object_ref::<PyList>().is_some()
}

/// A new list: a copy of the first, then the new items of the second.
pub(super) fn concat_lists(first: &Value, second: &Value) -> Result<Value, FunctionError> {
    let mut out = match deep_copy(first)?.downcast_object_ref::<PyList>() {
        Some(items) => items.items(),
        None => Vec::new(),
    };
    for item in items_of(second).map_err(crate::functions::from_jinja)? {
        if !out.contains(&item) {
            out.push(item);
        }
    }
    Ok(list(out))
}

/// The arguments of the `filter_by` family.
pub(super) struct FilterBy<'a> {
    /// What to choose from.
    pub(super) lookup: &'a Value,
    /// The value, or values, that the keys are compared with.
    pub(super) by: Option<Value>,
    /// What is merged over the choice.
    pub(super) merge: Option<&'a Value>,
    /// The key to choose when none matches.
    pub(super) default: Value,
    /// The key of the base that the choice is merged over.
    pub(super) base: Option<&'a Value>,
}

/// Chooses a value by keys that are shell patterns; the choice is the lookup's own object, and a merge changes it.
pub(super) fn filter_by(filter: &FilterBy<'_>) -> Result<Value, FunctionError> {
    let Some(lookup) = as_dict(filter.lookup) else {
        let got = type_name(filter.lookup);
        return Err(FunctionError::failed(format!("the lookup must be a mapping, not '{got}'")));
    };
    let mut found = choose_by_pattern(&lookup, filter.by.as_ref())?;
    if found.is_none() {
        found = lookup.get(&filter.default).filter(|v| !v.is_none());
    }
    if let Some(base) = filter.base.filter(|b| b.is_true()).and_then(|b| lookup.get(b)) {
        found = match found {
            None => Some(base),
            Some(found) if is_mapping(&base) && !is_mapping(&found) => {
                return Err(FunctionError::failed(format!(
                    "the base is a mapping, but the choice is '{}'",
                    type_name(&found)
                )));
            }
            Some(found) if is_mapping(&base) => {
                Some(update(&deep_copy(&base)?, &found, UpdateMode::default())?)
            }
            other => other,
        };
    }
    if let Some(merge) = filter.merge.filter(|m| m.is_true()) {
        if !is_mapping(merge) {
            return Err(FunctionError::failed(format!(
                "`merge` must be a mapping, not '{}'",
                type_name(merge)
            )));
        }
        found = match found {
            None => Some(merge.clone()),
            Some(found) => Some(update(&found, &deep_copy(merge)?, UpdateMode::default())?),
        };
    }
    Ok(found.unwrap_or_else(|| Value::from(())))
}

fn choose_by_pattern(lookup: &PyDict, by: Option<&Value>) -> Result<Option<Value>, FunctionError> {
    let Some(by) = by else { return Ok(None) };
    let each = match by.downcast_object_ref::<PyList>() {
        Some(items) => items.items(),
        None => vec![by.clone()],
    };
    for value in each {
        let value = py_str(&value);
        for (key, choice) in lookup.pairs() {
            if Glob::new(&py_str(&key)).matches(&value) {
                if !choice.is_none() {
                    return Ok(Some(choice));
                }
                break;
            }
        }
    }
    Ok(None)
}
