//! Python's ordering of template values, and its stable sort.
//!
//! Law: what Python cannot order (`1 < 'a'`) is an error, never an arbitrary order (held by
//! `values_behave_as_in_python`).

use std::cmp::Ordering;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use super::args::{CallArgs, undefined_error};
use crate::jinja::object::budget::MAX_DEPTH;
use crate::jinja::object::{items_of, type_name};

/// Compares two values as Python's `<` does.
///
/// # Errors
/// Fails where Python raises `TypeError`.
pub fn compare(a: &Value, b: &Value) -> Result<Ordering, Error> {
    compare_at(a, b, 0, &mut { MAX_COMPARED })
}

/// Most pairs of items that one comparison looks at.
const MAX_COMPARED: usize = 1_000_000;

fn not_comparable(a: &Value, b: &Value) -> Error {
    let (x, y) = (type_name(a), type_name(b));
    Error::new(ErrorKind::InvalidOperation, format!("'<' is not supported between '{x}' and '{y}'"))
}

fn compare_at(a: &Value, b: &Value, depth: usize, left: &mut usize) -> Result<Ordering, Error> {
    for value in [a, b] {
        if value.is_undefined() {
            return Err(undefined_error(value));
        }
    }
    let numeric = |k| matches!(k, ValueKind::Bool | ValueKind::Number);
    match (a.kind(), b.kind()) {
        (ValueKind::String, ValueKind::String) => Ok(a.as_str().cmp(&b.as_str())),
        (x, y) if numeric(x) && numeric(y) => Ok(normalize_number(a).cmp(&normalize_number(b))),
        (ValueKind::Seq, ValueKind::Seq) if a.is_tuple() == b.is_tuple() && depth < MAX_DEPTH => {
            let (xs, ys) = (items_of(a)?, items_of(b)?);
            for (x, y) in xs.iter().zip(&ys) {
                *left = left.checked_sub(1).ok_or_else(|| not_comparable(a, b))?;
                // Python tests equality first: equal items need no order. Sequences are read only once, and
                // undefined values never compare.
                let is_nested = x.kind() == ValueKind::Seq && y.kind() == ValueKind::Seq;
                if !is_nested && !x.is_undefined() && x == y {
                    continue;
                }
                let order = compare_at(x, y, depth + 1, left)?;
                if order.is_ne() {
                    return Ok(order);
                }
            }
            Ok(xs.len().cmp(&ys.len()))
        }
        (ValueKind::Bytes, ValueKind::Bytes) => Ok(a.as_bytes().cmp(&b.as_bytes())),
        _ => Err(not_comparable(a, b)),
    }
}

fn normalize_number(value: &Value) -> Value {
    if value.kind() == ValueKind::Bool { Value::from(i64::from(value.is_true())) } else { value.clone() }
}

/// Sorts items by keys that were made beforehand, stably.
///
/// Why not `sort_by`: it may panic on an order that is not total, and it cannot stop at an error.
///
/// # Errors
/// Fails where Python would raise while comparing.
pub fn sorted(keyed: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<Value>, Error> {
    let mut from: Vec<(Value, Value)> = keyed;
    let mut width = 1;
    while width < from.len() {
        let mut into = Vec::with_capacity(from.len());
        for run in from.chunks(width * 2) {
            let (left, right) = run.split_at(width.min(run.len()));
            merge(left, right, reverse, &mut into)?;
        }
        from = into;
        width *= 2;
    }
    Ok(from.into_iter().map(|(_, v)| v).collect())
}

/// A sort error with the name of the calling function; an error about an undefined value stays unchanged.
#[must_use]
pub fn name_error(args: &CallArgs, error: Error) -> Error {
    match error.kind() {
        ErrorKind::UndefinedError => error,
        _ => args.error(error.detail().unwrap_or("cannot be sorted")),
    }
}

fn merge(
    left: &[(Value, Value)],
    right: &[(Value, Value)],
    reverse: bool,
    into: &mut Vec<(Value, Value)>,
) -> Result<(), Error> {
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        let order = compare(&right[j].0, &left[i].0)?;
        let takes_right = order == if reverse { Ordering::Greater } else { Ordering::Less };
        if takes_right {
            into.push(right[j].clone());
            j += 1;
        } else {
            into.push(left[i].clone());
            i += 1;
        }
    }
    into.extend_from_slice(&left[i..]);
    into.extend_from_slice(&right[j..]);
    Ok(())
}

/// Sorts items by the result of calling `key` on each, or by themselves.
///
/// # Errors
/// Fails when a call fails or Python would raise while comparing.
pub fn sorted_by_call(
    state: &mut State<'_, '_>,
    args: &CallArgs,
    items: Vec<Value>,
    key: Option<Value>,
    reverse: bool,
) -> Result<Vec<Value>, Error> {
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        let by = match &key {
            Some(key) => key.call(state, std::slice::from_ref(&item))?,
            None => item.clone(),
        };
        keyed.push((by, item));
    }
    sorted(keyed, reverse).map_err(|e| name_error(args, e))
}
