//! Filters on numbers, and the ones that fold a list into a number.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::FilterFn;
use crate::jinja::methods::args::{CallArgs, not_none};
use crate::jinja::methods::{slice, sort};
use crate::jinja::object::{float_text, type_name};
use crate::jinja::operators;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("abs", abs),
    ("int", int),
    ("float", float),
    ("round", round),
    ("sum", sum),
    ("min", |_, a| extreme(a, std::cmp::Ordering::Less)),
    ("max", |_, a| extreme(a, std::cmp::Ordering::Greater)),
    ("avg", avg),
    ("filesizeformat", filesizeformat),
    ("to_num", |_, a| to_num(a)),
    ("str_to_num", |_, a| to_num(a)),
    ("human_to_bytes", human_to_bytes),
    ("is_hex", is_hex),
];

fn is_float(value: &Value) -> bool {
    type_name(value) == "float"
}

/// Python's `int(text, base)`.
fn parse_int(text: &str, base: u32) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (text.starts_with('-'), digits),
        None => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (base, digits) = match (base, lower.get(..2)) {
        (0 | 16, Some("0x")) => (16, &lower[2..]),
        (0 | 8, Some("0o")) => (8, &lower[2..]),
        (0 | 2, Some("0b")) => (2, &lower[2..]),
        (0, _) if lower.len() > 1 && lower.starts_with('0') && !lower.trim_matches('0').is_empty() => {
            return None;
        }
        (0, _) => (10, lower.as_str()),
        (base, _) => (base, lower.as_str()),
    };
    let is_grouped = digits.starts_with('_') || digits.ends_with('_') || digits.contains("__");
    if is_grouped || digits.starts_with(['+', '-']) || !(2..=36).contains(&base) {
        return None;
    }
    let value = i128::from_str_radix(&digits.replace('_', ""), base).ok()?;
    Some(if negative { -value } else { value })
}

/// Python's `float(text)`.
fn parse_float(text: &str) -> Option<f64> {
    let text = text.trim();
    let bare = text.trim_start_matches(['+', '-']).to_ascii_lowercase();
    match bare.as_str() {
        "inf" | "infinity" | "nan" => return text.to_ascii_lowercase().parse().ok(),
        _ => {}
    }
    if !bare.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        || text.ends_with('_')
        || text.contains("__")
    {
        return None;
    }
    text.replace('_', "").parse().ok()
}

fn truncated(float: f64) -> Option<Value> {
    if !float.is_finite() || float.abs() >= 1e38 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "checked above, and Python truncates")]
    let int = float.trunc() as i128;
    Some(i64::try_from(int).map_or_else(|_| Value::from(int), Value::from))
}

fn int(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, default, base] = args.bind(["value", "default", "base"], 1)?;
    let value = value.unwrap_or_default();
    let base = base.map_or(Ok(10), |v| args.int("base", &v))?;
    let default = || default.clone().unwrap_or_else(|| Value::from(0));
    Ok(match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        ValueKind::Number if !is_float(&value) => value,
        ValueKind::Number => truncated(f64::try_from(value)?).unwrap_or_else(default),
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            let parsed = parse_int(text, u32::try_from(base).unwrap_or(10));
            parsed
                .map(|i| i64::try_from(i).map_or_else(|_| Value::from(i), Value::from))
                .or_else(|| parse_float(text).and_then(truncated))
                .unwrap_or_else(default)
        }
        _ => default(),
    })
}

fn float(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, default] = args.bind(["value", "default"], 1)?;
    let value = value.unwrap_or_default();
    let parsed = match value.kind() {
        ValueKind::Bool => Some(f64::from(u8::from(value.is_true()))),
        ValueKind::Number => f64::try_from(value).ok(),
        ValueKind::String => parse_float(value.as_str().unwrap_or_default()),
        _ => None,
    };
    Ok(parsed.map(Value::from).unwrap_or_else(|| default.unwrap_or_else(|| Value::from(0.0))))
}

fn abs(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("x")?;
    match value.kind() {
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        ValueKind::Number if is_float(&value) => Ok(Value::from(f64::try_from(value)?.abs())),
        ValueKind::Number => {
            let is_negative = value < Value::from(0);
            if is_negative { operators::negative(&value) } else { Ok(value) }
        }
        _ => Err(args.type_error("the value", "a number", &value)),
    }
}

fn round(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, precision, method] = args.bind(["value", "precision", "method"], 1)?;
    let value = value.unwrap_or_default();
    let precision = precision.map_or(Ok(0), |v| args.int("precision", &v))?;
    let method = method.map_or_else(|| Ok("common".to_owned()), |v| args.text(&v))?;
    if !matches!(value.kind(), ValueKind::Number | ValueKind::Bool) {
        return Err(args.type_error("the value", "a number", &value));
    }
    let number =
        if value.kind() == ValueKind::Bool { Value::from(i64::from(value.is_true())) } else { value };
    let precision = i32::try_from(precision.clamp(-400, 400)).unwrap_or(0);
    let scale = 10f64.powi(precision);
    match method.as_str() {
        "common" if !is_float(&number) && precision >= 0 => Ok(number),
        "common" => {
            let is_int = !is_float(&number);
            let rounded = round_half_even(f64::try_from(number)?, precision);
            Ok(if is_int {
                truncated(rounded).unwrap_or_else(|| Value::from(rounded))
            } else {
                Value::from(rounded)
            })
        }
        "ceil" => Ok(Value::from((f64::try_from(number)? * scale).ceil() / scale)),
        "floor" => Ok(Value::from((f64::try_from(number)? * scale).floor() / scale)),
        _ => Err(args.error("method must be common, ceil or floor")),
    }
}

/// Rounds the exact decimal value, halves to even, as Python's `round` does.
fn round_half_even(value: f64, precision: i32) -> f64 {
    if !value.is_finite() {
        return value;
    }
    match usize::try_from(precision) {
        Ok(digits) => format!("{value:.digits$}").parse().unwrap_or(value),
        Err(_) => {
            let scale = 10f64.powi(-precision);
            (value / scale).round_ties_even() * scale
        }
    }
}

fn sum(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [items, attribute, start] = args.bind(["iterable", "attribute", "start"], 1)?;
    let attribute = not_none(attribute);
    let mut total = start.unwrap_or_else(|| Value::from(0));
    for item in args.items(&items.unwrap_or_default())? {
        let item = match &attribute {
            Some(path) => slice::lookup_path(&item, path)?,
            None => item,
        };
        total = operators::add(&total, &item)?;
    }
    Ok(total)
}

fn extreme(args: &CallArgs, wanted: std::cmp::Ordering) -> Result<Value, Error> {
    let items = args.items(&args.expect_one("obj")?)?;
    let mut best: Option<Value> = None;
    for item in items {
        let is_better = match &best {
            Some(best) => sort::compare(&item, best)? == wanted,
            None => true,
        };
        if is_better {
            best = Some(item);
        }
    }
    best.ok_or_else(|| args.error("the sequence is empty"))
}

fn avg(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("lst")?;
    if matches!(type_name(&value), "list" | "dict") {
        let items = args.items(&value)?;
        let mut total = Value::from(0);
        for item in &items {
            total = operators::add(&total, item)?;
        }
        return operators::div(&total, &Value::from(items.len()));
    }
    let text = args.text(&value)?;
    parse_float(&text)
        .map(Value::from)
        .ok_or_else(|| args.type_error("the value", "a list or a number", &value))
}

fn filesizeformat(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, binary] = args.bind(["value", "binary"], 1)?;
    let value = value.unwrap_or_default();
    let is_binary = binary.is_some_and(|v| v.is_true());
    let text = args.text(&value)?;
    let bytes = parse_float(&text).ok_or_else(|| args.type_error("the value", "a number", &value))?;
    let base: f64 = if is_binary { 1024.0 } else { 1000.0 };
    if bytes.to_bits() == 1f64.to_bits() {
        return Ok(Value::from("1 Byte"));
    }
    if bytes < base {
        return Ok(Value::from(format!("{} Bytes", float_text(bytes.trunc()).trim_end_matches(".0"))));
    }
    let prefixes = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
    let mut unit = base;
    for (i, prefix) in prefixes.iter().enumerate() {
        if bytes < unit * base || i == prefixes.len() - 1 {
            let prefix = if is_binary { format!("{}i", prefix.to_uppercase()) } else { (*prefix).to_owned() };
            return Ok(Value::from(format!("{:.1} {prefix}B", bytes / unit)));
        }
        unit *= base;
    }
    Err(args.error("the number is too large"))
}

fn to_num(args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("text")?;
    match value.kind() {
        ValueKind::String => {
            let text = value.as_str().unwrap_or_default();
            Ok(parse_int(text, 10)
                .map(|i| i64::try_from(i).map_or_else(|_| Value::from(i), Value::from))
                .or_else(|| parse_float(text).map(Value::from))
                .unwrap_or(value))
        }
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        ValueKind::Number if is_float(&value) => {
            truncated(f64::try_from(value)?).ok_or_else(|| args.error("the number is too large"))
        }
        ValueKind::Number => Ok(value),
        _ => Err(args.type_error("the value", "a string or a number", &value)),
    }
}

/// The number in a text, as [`to_num`] finds it.
pub(super) fn number_of(text: &str) -> Value {
    parse_int(text, 10)
        .map(|i| i64::try_from(i).map_or_else(|_| Value::from(i), Value::from))
        .or_else(|| parse_float(text).map(Value::from))
        .unwrap_or_else(|| Value::from(text))
}

fn human_to_bytes(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [size, unit, metric] = args.bind(["size", "default_unit", "handle_metric"], 1)?;
    let size = args.text(&size.unwrap_or_default())?;
    let size = size.trim();
    let end = size.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(size.len());
    let (number, given_unit) = size.split_at(end);
    let default_unit = unit.map_or_else(|| Ok("B".to_owned()), |v| args.text(&v))?;
    let given_unit = given_unit.trim_start();
    let unit = if given_unit.is_empty() { default_unit } else { given_unit.to_owned() }.to_lowercase();
    let Some(power) = unit.chars().next().and_then(|c| "bkmgtpezy".find(c)) else {
        return Ok(Value::from(0));
    };
    let power = u32::try_from(power).unwrap_or(0);
    let is_metric = match (unit.get(1..).unwrap_or_default(), power) {
        ("", _) | ("ib", 1..) => false,
        ("b", 1..) => metric.is_some_and(|v| v.is_true()),
        _ => return Ok(Value::from(0)),
    };
    let factor: i128 = if is_metric { 10i128.pow(power * 3) } else { 2i128.pow(power * 10) };
    if let Ok(whole) = number.parse::<i128>() {
        let bytes = whole.checked_mul(factor).ok_or_else(|| args.error("the number is too large"))?;
        return Ok(i64::try_from(bytes).map_or_else(|_| Value::from(bytes), Value::from));
    }
    #[expect(clippy::cast_precision_loss, reason = "Python multiplies floats here")]
    let bytes = number.parse::<f64>().map(|n| n * factor as f64);
    Ok(bytes.ok().and_then(truncated).unwrap_or_else(|| Value::from(0)))
}

fn is_hex(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("value")?;
    Ok(Value::from(value.as_str().is_some_and(|text| parse_int(text, 16).is_some())))
}
