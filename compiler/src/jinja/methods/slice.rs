//! Slices and attribute paths as in Python and Jinja2.

use minijinja::Error;
use minijinja::value::{Value, ValueKind};

use super::args::{CallArgs, not_none, undefined_error};
use crate::jinja::object::{items_of, list, tuple};

/// The positions that `start:stop:lookup_step` picks from `len` items, in order.
#[must_use]
pub fn positions(start: Option<i64>, stop: Option<i64>, step: i64, len: usize) -> Vec<usize> {
    let len = i128::try_from(len).unwrap_or(i128::MAX);
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let resolve = |at: Option<i64>, otherwise: i128| {
        at.map_or(otherwise, |at| {
            let at = i128::from(at);
            (if at < 0 { at + len } else { at }).clamp(low, high)
        })
    };
    let (from, to) = if step > 0 { (low, high) } else { (high, low) };
    let (mut at, stop, step) = (resolve(start, from), resolve(stop, to), i128::from(step));
    let mut out = Vec::new();
    while step != 0 && (if step > 0 { at < stop } else { at > stop }) {
        out.extend(usize::try_from(at));
        at += step;
    }
    out
}

/// `value[start:stop:step]`.
///
/// # Errors
/// Fails when the value cannot be sliced or a bound is not an integer.
pub fn call(value: &Value, args: &CallArgs) -> Result<Value, Error> {
    let [start, stop, step] = args.bind(["start", "stop", "step"], 0)?;
    let bound = |name: &str, v: Option<Value>| not_none(v).map(|v| args.int(name, &v)).transpose();
    let (start, stop) = (bound("start", start)?, bound("stop", stop)?);
    let step = bound("step", step)?.unwrap_or(1);
    if step == 0 {
        return Err(args.error("the step cannot be zero"));
    }
    if let Some(text) = value.as_str() {
        let chars: Vec<char> = text.chars().collect();
        let picked: String =
            positions(start, stop, step, chars.len()).into_iter().map(|i| chars[i]).collect();
        return Ok(Value::from(picked));
    }
    if let Some(bytes) = value.as_bytes() {
        let picked = positions(start, stop, step, bytes.len()).into_iter().map(|i| bytes[i]).collect();
        return Ok(Value::from_bytes(picked));
    }
    if !matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) || value.len().is_none() {
        return Err(args.type_error("the value", "a string, list or tuple", value));
    }
    let items = items_of(value)?;
    let picked = positions(start, stop, step, items.len()).into_iter().map(|i| items[i].clone()).collect();
    Ok(if value.is_tuple() { tuple(picked) } else { list(picked) })
}

/// Looks a dotted path up as Jinja's attribute arguments do: integers index, names are items or attributes.
///
/// # Errors
/// Fails when a step uses an undefined value.
pub fn lookup_path(value: &Value, path: &Value) -> Result<Value, Error> {
    lookup_path_or(value, path, None)
}

/// The same, with `default` for every missing step.
///
/// # Errors
/// Fails when a step uses an undefined value.
pub fn lookup_path_or(value: &Value, path: &Value, default: Option<&Value>) -> Result<Value, Error> {
    let or_default = |found: Value| match default {
        Some(default) if found.is_undefined() => default.clone(),
        _ => found,
    };
    let Some(text) = path.as_str() else {
        return value.get_item(path).map(or_default);
    };
    let mut at = value.clone();
    for part in text.split('.') {
        if at.is_undefined() {
            return Err(undefined_error(&at));
        }
        at = or_default(lookup_step(&at, part)?);
    }
    Ok(at)
}

fn lookup_step(value: &Value, part: &str) -> Result<Value, Error> {
    if !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) {
        return part.parse::<i64>().map_or(Ok(Value::UNDEFINED), |i| value.get_item(&Value::from(i)));
    }
    let item = value.get_item(&Value::from(part))?;
    if item.is_undefined() { value.get_attr(part) } else { Ok(item) }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (Option<i64>, Option<i64>, i64, &'static [usize]);

    #[test]
    fn slices_are_those_of_python() {
        let cases: [Case; 9] = [
            (None, None, 1, &[0, 1, 2, 3]),
            (None, None, -1, &[3, 2, 1, 0]),
            (Some(1), Some(-1), 1, &[1, 2]),
            (Some(-2), None, 1, &[2, 3]),
            (Some(0), Some(2), -1, &[]),
            (Some(10), Some(0), -2, &[3, 1]),
            (Some(-100), Some(100), 3, &[0, 3]),
            (Some(i64::MIN), Some(i64::MAX), i64::MAX, &[0]),
            (None, None, i64::MIN, &[3]),
        ];
        for (start, stop, step, want) in cases {
            assert_eq!(positions(start, stop, step, 4), want, "{start:?}:{stop:?}:{step}");
        }
    }
}
