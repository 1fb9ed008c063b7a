//! Converts between compiler values and template values, and between minijinja's containers and zagent's.
//!
//! Law: data that no template has read is returned unchanged, including positions (held by
//! `data_is_returned_unchanged`).

use std::cell::Cell;
use std::cmp::Ordering;

use indexmap::IndexMap;
use minijinja::value::{Enumerator, Tuple, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use zagent_config::{Map, Value as Data};

use super::budget::{self, MAX_DEPTH};
use super::{BoundMethod, Dict, DictKey, DictView, Generator, LazyDict, PyDict, PyList, PyRange, dict, list};

/// Turns data into a template value; lists and dictionaries are new and mutable.
#[must_use]
pub fn to_template(value: &Data) -> Value {
    match value {
        Data::Null => Value::from(()),
        Data::Bool(b) => Value::from(*b),
        Data::Int(i) => Value::from(*i),
        Data::Big(digits) => big_to_template(digits),
        Data::Float(f) => Value::from(*f),
        Data::Str(s) => Value::from(std::sync::Arc::clone(s)),
        Data::List(l) => Value::from_object(PyList::from_data(std::sync::Arc::clone(l))),
        Data::Map(m) => Value::from_object(PyDict::from_data(std::sync::Arc::clone(m))),
    }
}

/// An integer beyond 64 bits; beyond 128 bits only its digits are kept.
fn big_to_template(digits: &str) -> Value {
    if let Ok(i) = digits.parse::<i128>() {
        return Value::from(i);
    }
    digits.parse::<u128>().map_or_else(|_| Value::from(digits), Value::from)
}

/// Keys of data are scalars; a list as a key, which YAML tuples may give, becomes a tuple.
pub(super) fn key_to_template(key: &Data) -> DictKey {
    let value = match key {
        Data::List(l) => super::tuple(l.iter().map(|v| key_to_template(v).into_value()).collect()),
        other => to_template(other),
    };
    DictKey::new(value).unwrap_or_else(|_| DictKey::from(""))
}

/// Turns a template value into data; tuples, views and generators become lists.
///
/// # Errors
/// Fails for undefined values, functions and other objects, for values that contain themselves, are nested too deep or
/// too large.
pub fn to_value(value: &Value) -> Result<Data, Error> {
    DataConverter { depth: 0, left: budget::bytes(), is_strict: false }.convert(value)
}

/// Turns a template value into data; views, generators, ranges and bytes are rejected, as Python's writers of JSON
/// and YAML reject them.
///
/// # Errors
/// As [`to_value`], and for values that JSON and YAML cannot represent.
pub fn to_document(value: &Value) -> Result<Data, Error> {
    DataConverter { depth: 0, left: budget::bytes(), is_strict: true }.convert(value)
}

/// The cost of a value besides its text.
const VALUE_COST: usize = 8;
/// The cost of a new list or dictionary.
const CONTAINER_COST: usize = 64;

struct DataConverter {
    depth: usize,
    left: usize,
    is_strict: bool,
}

impl DataConverter {
    /// Adds the cost of one more value: its slot and its text.
    fn charge(&mut self, text: usize) -> Result<(), Error> {
        match self.left.checked_sub(text.saturating_add(VALUE_COST)) {
            Some(left) => self.left = left,
            None => return Err(budget::too_large("conversion")),
        }
        Ok(())
    }

    /// Adds the cost of data that is passed on unchanged.
    fn charge_data(&mut self, data: &Data) -> Result<(), Error> {
        match data {
            Data::Str(text) => self.charge(text.len()),
            Data::List(items) => {
                self.charge(0)?;
                items.iter().try_for_each(|item| self.charge_data(item))
            }
            Data::Map(map) => {
                self.charge(0)?;
                map.iter().try_for_each(|(key, item)| {
                    self.charge_data(key)?;
                    self.charge_data(item)
                })
            }
            _ => self.charge(0),
        }
    }

    fn convert(&mut self, value: &Value) -> Result<Data, Error> {
        self.charge(value.as_str().map_or(0, str::len))?;
        let is_odd = || !matches!(type_name(value), "list" | "tuple");
        match value.kind() {
            ValueKind::Undefined => {
                Err(Error::new(ErrorKind::UndefinedError, "expected a value, but it is undefined"))
            }
            ValueKind::Invalid => Err(Error::new(ErrorKind::InvalidOperation, value.to_string())),
            ValueKind::Bytes if self.is_strict => Err(not_data(value)),
            ValueKind::Seq | ValueKind::Iterable if self.is_strict && is_odd() => Err(not_data(value)),
            ValueKind::Map => self.map(value),
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value),
            _ => scalar(value),
        }
    }

    fn enter(&mut self) -> Result<(), Error> {
        self.charge(CONTAINER_COST)?;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::new(
                ErrorKind::InvalidOperation,
                format!("the value contains itself or is nested deeper than {MAX_DEPTH} levels"),
            ));
        }
        Ok(())
    }

    fn map(&mut self, value: &Value) -> Result<Data, Error> {
        if let Some(raw) = value.downcast_object_ref::<PyDict>().and_then(PyDict::original_data) {
            let data = Data::Map(raw);
            self.charge_data(&data)?;
            return Ok(data);
        }
        let Some(pairs) = pairs_of(value) else {
            return Err(not_data(value));
        };
        self.enter()?;
        let mut map = Map::with_capacity(pairs.len());
        for (key, item) in &pairs {
            let key = self.convert(key)?;
            map.insert(key, self.convert(item)?);
        }
        self.depth -= 1;
        Ok(map.into())
    }

    fn sequence(&mut self, value: &Value) -> Result<Data, Error> {
        if let Some(raw) = value.downcast_object_ref::<PyList>().and_then(PyList::original_data) {
            let data = Data::List(raw);
            self.charge_data(&data)?;
            return Ok(data);
        }
        self.enter()?;
        let mut items = Vec::new();
        for item in items_of(value)? {
            items.push(self.convert(&item)?);
        }
        self.depth -= 1;
        Ok(items.into())
    }
}

fn scalar(value: &Value) -> Result<Data, Error> {
    Ok(match value.kind() {
        ValueKind::None => Data::Null,
        ValueKind::Bool => Data::Bool(value.is_true()),
        ValueKind::String => Data::from(value.as_str().unwrap_or_default()),
        ValueKind::Bytes => {
            Data::from(String::from_utf8_lossy(value.as_bytes().unwrap_or_default()).into_owned())
        }
        ValueKind::Number if value.is_integer() => match value.as_i64() {
            Some(i) => Data::Int(i),
            None => Data::Big(value.to_string().into()),
        },
        ValueKind::Number => Data::Float(f64::try_from(value.clone())?),
        _ => return Err(not_data(value)),
    })
}

fn not_data(value: &Value) -> Error {
    let name = type_name(value);
    Error::new(ErrorKind::InvalidOperation, format!("a value of type '{name}' is not data"))
}

/// Makes a value storable: minijinja's own containers and lazy results become zagent's; zagent's keep their identity.
///
/// # Errors
/// Fails when a lazy result is larger than the limit or fails while it is collected.
pub fn to_storable(value: Value) -> Result<Value, Error> {
    if is_native_map(&value) {
        return Ok(dict(to_dict(pairs_of(&value).unwrap_or_default())?));
    }
    if is_native_sequence(&value) {
        return Ok(list(items_of(&value)?));
    }
    Ok(value)
}

/// Makes a dictionary's content of pairs; values are made storable.
///
/// # Errors
/// Fails when a key is not hashable.
pub(super) fn to_dict(pairs: Vec<(Value, Value)>) -> Result<Dict, Error> {
    let mut out = Dict::with_capacity(pairs.len());
    for (k, v) in pairs {
        out.insert(DictKey::new(k)?, to_storable(v)?);
    }
    Ok(out)
}

/// True for a constant map or keyword arguments as minijinja makes them.
#[must_use]
pub fn is_native_map(value: &Value) -> bool {
    value.is_kwargs() || value.downcast_object_ref::<IndexMap<Value, Value>>().is_some()
}

/// True for sequences and lazy results as minijinja makes them, which are lists in Python.
#[must_use]
pub fn is_native_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Seq => value.downcast_object_ref::<Vec<Value>>().is_some(),
        ValueKind::Iterable => {
            value.downcast_object_ref::<DictView>().is_none()
                && value.downcast_object_ref::<Generator>().is_none()
        }
        _ => false,
    }
}

/// The pairs of anything that maps; `None` for everything else.
#[must_use]
pub fn pairs_of(value: &Value) -> Option<Vec<(Value, Value)>> {
    if let Some(dict) = value.downcast_object_ref::<PyDict>() {
        return Some(dict.pairs());
    }
    if let Some(lazy) = value.downcast_object_ref::<LazyDict>() {
        return Some(lazy.pairs());
    }
    if value.kind() != ValueKind::Map {
        return None;
    }
    let object = value.as_object()?;
    if matches!(object.enumerate(), Enumerator::NonEnumerable) {
        return None;
    }
    Some(object.try_iter_pairs()?.collect())
}

/// The items of anything that can be iterated: strings give their characters, mappings their keys.
///
/// # Errors
/// Fails when the value cannot be iterated, or has more items than the limit.
pub fn items_of(value: &Value) -> Result<Vec<Value>, Error> {
    if let Some(list) = value.downcast_object_ref::<PyList>() {
        return Ok(list.items());
    }
    if let Some(tuple) = value.downcast_object_ref::<Tuple>() {
        return Ok(tuple.to_vec());
    }
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            budget::check_items("iteration", text.len())?;
            return Ok(text.chars().map(Value::from).collect());
        }
        ValueKind::Undefined => {
            return Err(Error::new(ErrorKind::UndefinedError, "an undefined value cannot be iterated"));
        }
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {}
        _ => {
            let name = type_name(value);
            return Err(Error::new(ErrorKind::InvalidOperation, format!("'{name}' object is not iterable")));
        }
    }
    let limit = budget::items();
    let mut out = Vec::new();
    for item in value.try_iter()?.checked() {
        if out.len() >= limit {
            return Err(budget::too_large("iteration"));
        }
        out.push(item?);
    }
    Ok(out)
}

/// Python's name of a value's type.
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value.kind() {
        ValueKind::Undefined => "Undefined",
        ValueKind::None => "NoneType",
        ValueKind::Bool => "bool",
        ValueKind::Number if value.is_integer() => "int",
        ValueKind::Number => "float",
        ValueKind::String => "str",
        ValueKind::Bytes => "bytes",
        ValueKind::Map => "dict",
        ValueKind::Seq | ValueKind::Iterable => sequence_name(value),
        ValueKind::Plain if value.downcast_object_ref::<BoundMethod>().is_some() => {
            "builtin_function_or_method"
        }
        _ => "object",
    }
}

fn sequence_name(value: &Value) -> &'static str {
    if let Some(view) = value.downcast_object_ref::<DictView>() {
        return view.name();
    }
    if value.downcast_object_ref::<Generator>().is_some() {
        return "generator";
    }
    if value.downcast_object_ref::<PyRange>().is_some() {
        return "range";
    }
    if value.downcast_object_ref::<PyList>().is_some() || is_native_sequence(value) {
        "list"
    } else {
        "tuple"
    }
}

thread_local! {
    static COMPARING: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Maximum pairs of items per comparison.
const MAX_COMPARED: usize = 250_000;

/// Runs one level of a comparison; too deep or too long counts as different.
fn guard_comparison(f: impl FnOnce() -> Ordering) -> Ordering {
    let (depth, seen) = COMPARING.get();
    if depth >= MAX_DEPTH || seen >= MAX_COMPARED {
        return Ordering::Less;
    }
    COMPARING.set((depth + 1, seen + 1));
    let result = f();
    let (_, seen) = COMPARING.get();
    COMPARING.set((depth, if depth == 0 { 0 } else { seen }));
    result
}

pub(super) fn compare_sequences(a: &[Value], b: &[Value]) -> Ordering {
    guard_comparison(|| {
        for (x, y) in a.iter().zip(b) {
            let order = x.cmp(y);
            // Values of two kinds are never equal in minijinja's order, but `1 == true` must be true.
            if order.is_ne() && (x.kind() == y.kind() || x != y) {
                return order;
            }
        }
        a.len().cmp(&b.len())
    })
}

pub(super) fn compare_pairs(a: &[(Value, Value)], b: &PyDict) -> Ordering {
    guard_comparison(|| {
        if a.len() != b.len() {
            return a.len().cmp(&b.len());
        }
        let is_same = a.iter().all(|(k, v)| b.get(k).is_some_and(|other| other == *v));
        if is_same { Ordering::Equal } else { Ordering::Less }
    })
}
