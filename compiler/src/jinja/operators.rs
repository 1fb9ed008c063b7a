//! Python's operators on template values, for a source pass that writes operators as filters.
//!
//! Law: what Python rejects is an error that names both types; results are eager, mutable and within the limits
//! (held by `values_behave_as_in_python`, `messages_name_the_filter_or_method_and_the_types`).

use std::cmp::Ordering;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use super::methods::args::{CallArgs, undefined_error};
use super::methods::{percent, sort};
use super::object::{
    Dict, DictKey, budget, dict, items_of, list, py_str_checked, to_storable, tuple, type_name,
};

fn unsupported(op: &str, a: &Value, b: &Value) -> Error {
    for value in [a, b] {
        if value.is_undefined() {
            return undefined_error(value);
        }
    }
    let (a, b) = (type_name(a), type_name(b));
    Error::new(ErrorKind::InvalidOperation, format!("unsupported operand types for {op}: '{a}' and '{b}'"))
}

fn overflow(op: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("the result of {op} is too large"))
}

/// A number as an operand.
#[derive(Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    fn from_value(value: &Value) -> Option<Self> {
        match value.kind() {
            ValueKind::Bool => Some(Self::Int(i128::from(value.is_true()))),
            ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Self::Int),
            ValueKind::Number => f64::try_from(value.clone()).ok().map(Self::Float),
            _ => None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "Python rounds the same way")]
    const fn float(self) -> f64 {
        match self {
            Self::Int(i) => i as f64,
            Self::Float(f) => f,
        }
    }
}

fn int_value(int: i128) -> Value {
    i64::try_from(int).map_or_else(|_| Value::from(int), Value::from)
}

fn arithmetic(
    op: &str,
    a: &Value,
    b: &Value,
    ints: fn(i128, i128) -> Option<i128>,
    floats: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    match (Number::from_value(a), Number::from_value(b)) {
        (Some(Number::Int(x)), Some(Number::Int(y))) => ints(x, y).map(int_value).ok_or_else(|| overflow(op)),
        (Some(x), Some(y)) => Ok(Value::from(floats(x.float(), y.float()))),
        _ => Err(unsupported(op, a, b)),
    }
}

fn is_sequence(value: &Value) -> bool {
    matches!(type_name(value), "list")
}

/// `a + b`.
///
/// # Errors
/// Fails when Python would, and when the result is too large.
pub fn add(a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(x), Some(y)) = (a.as_str(), b.as_str()) {
        budget::check_bytes("+", x.len() + y.len())?;
        return Ok(Value::from([x, y].concat()));
    }
    if a.is_tuple() && b.is_tuple() || is_sequence(a) && is_sequence(b) {
        let (mut items, more) = (items_of(a)?, items_of(b)?);
        budget::check_items("+", items.len() + more.len())?;
        items.extend(more);
        return Ok(if a.is_tuple() { tuple(items) } else { list(items) });
    }
    arithmetic("+", a, b, i128::checked_add, |x, y| x + y)
}

/// `a - b`.
///
/// # Errors
/// Fails when Python would.
pub fn sub(a: &Value, b: &Value) -> Result<Value, Error> {
    arithmetic("-", a, b, i128::checked_sub, |x, y| x - y)
}

/// `a * b`: numbers, and repeated strings, lists and tuples.
///
/// # Errors
/// Fails when Python would, and when the result is too large.
pub fn mul(a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(repeated) = repeat(a, b)? {
        return Ok(repeated);
    }
    if let Some(repeated) = repeat(b, a)? {
        return Ok(repeated);
    }
    arithmetic("*", a, b, i128::checked_mul, |x, y| x * y)
}

fn repeat(what: &Value, times: &Value) -> Result<Option<Value>, Error> {
    let Some(Number::Int(times)) = Number::from_value(times) else {
        return Ok(None);
    };
    let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
    if let Some(text) = what.as_str() {
        budget::check_bytes("*", text.len().saturating_mul(times))?;
        return Ok(Some(Value::from(text.repeat(times))));
    }
    if !what.is_tuple() && !is_sequence(what) {
        return Ok(None);
    }
    let items = items_of(what)?;
    budget::check_items("*", items.len().saturating_mul(times))?;
    let repeated: Vec<Value> = std::iter::repeat_n(items, times).flatten().collect();
    Ok(Some(if what.is_tuple() { tuple(repeated) } else { list(repeated) }))
}

fn division_by_zero(op: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("division by zero in {op}"))
}

/// `a / b`, always a float.
///
/// # Errors
/// Fails when Python would.
pub fn div(a: &Value, b: &Value) -> Result<Value, Error> {
    match (Number::from_value(a), Number::from_value(b)) {
        (Some(_), Some(y)) if y.float() == 0.0 => Err(division_by_zero("/")),
        (Some(x), Some(y)) => Ok(Value::from(x.float() / y.float())),
        _ => Err(unsupported("/", a, b)),
    }
}

/// Quotient and remainder of a division that rounds down.
fn floor_int(a: i128, b: i128) -> Option<(i128, i128)> {
    let (q, r) = (a.checked_div(b)?, a.checked_rem(b)?);
    if r != 0 && (r < 0) != (b < 0) { Some((q - 1, r + b)) } else { Some((q, r)) }
}

/// `a // b`.
///
/// # Errors
/// Fails when Python would.
pub fn floordiv(a: &Value, b: &Value) -> Result<Value, Error> {
    match (Number::from_value(a), Number::from_value(b)) {
        (Some(_), Some(y)) if y.float() == 0.0 => Err(division_by_zero("//")),
        (Some(Number::Int(x)), Some(Number::Int(y))) => {
            floor_int(x, y).map(|(q, _)| int_value(q)).ok_or_else(|| overflow("//"))
        }
        (Some(x), Some(y)) => Ok(Value::from((x.float() / y.float()).floor())),
        _ => Err(unsupported("//", a, b)),
    }
}

/// `a % b`: the remainder of a division, or `%` formatting when `a` is a string.
///
/// # Errors
/// Fails when Python would.
pub fn modulo(a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(template) = a.as_str() {
        return percent::format(&CallArgs::new("%", &[]), template, b).map(Value::from);
    }
    match (Number::from_value(a), Number::from_value(b)) {
        (Some(_), Some(y)) if y.float() == 0.0 => Err(division_by_zero("%")),
        (Some(Number::Int(x)), Some(Number::Int(y))) => Ok(int_value(floor_int(x, y).map_or(0, |(_, r)| r))),
        (Some(x), Some(y)) => {
            let (x, y) = (x.float(), y.float());
            let rest = x % y;
            Ok(Value::from(if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }))
        }
        _ => Err(unsupported("%", a, b)),
    }
}

/// `a ** b`.
///
/// # Errors
/// Fails when Python would, and when the result has more than 127 bits.
pub fn pow(a: &Value, b: &Value) -> Result<Value, Error> {
    match (Number::from_value(a), Number::from_value(b)) {
        (Some(Number::Int(x)), Some(Number::Int(y))) if y >= 0 => {
            let y = u32::try_from(y).map_err(|_| overflow("**"))?;
            x.checked_pow(y).map(int_value).ok_or_else(|| overflow("**"))
        }
        (Some(x), Some(y)) if x.float() == 0.0 && y.float() < 0.0 => Err(division_by_zero("**")),
        (Some(x), Some(y)) => Ok(Value::from(x.float().powf(y.float()))),
        _ => Err(unsupported("**", a, b)),
    }
}

/// `+a`.
///
/// # Errors
/// Fails when it is not a number.
pub fn positive(a: &Value) -> Result<Value, Error> {
    match Number::from_value(a) {
        Some(Number::Int(i)) => Ok(int_value(i)),
        Some(Number::Float(f)) => Ok(Value::from(f)),
        None => Err(unsupported("+", a, a)),
    }
}

/// `-a`.
///
/// # Errors
/// Fails when it is not a number.
pub fn negative(a: &Value) -> Result<Value, Error> {
    match Number::from_value(a) {
        Some(Number::Int(i)) => i.checked_neg().map(int_value).ok_or_else(|| overflow("-")),
        Some(Number::Float(f)) => Ok(Value::from(-f)),
        None => Err(unsupported("-", a, a)),
    }
}

/// `a ~ b ~ …`.
///
/// # Errors
/// Fails for undefined values, and when the result is too large.
pub fn concat(parts: &[Value]) -> Result<Value, Error> {
    let mut out = String::new();
    for part in parts {
        if part.is_undefined() {
            return Err(undefined_error(part));
        }
        match part.as_str().filter(|_| part.kind() == ValueKind::String) {
            Some(s) => out.push_str(s),
            None => out.push_str(&py_str_checked("~", part)?),
        }
        budget::check_bytes("~", out.len())?;
    }
    Ok(Value::from(out))
}

/// A new list of the items of a literal.
///
/// # Errors
/// Fails when an item is a lazy result beyond the limit.
pub fn new_list(literal: &Value) -> Result<Value, Error> {
    let items = items_of(literal)?.into_iter().map(to_storable).collect::<Result<Vec<_>, _>>()?;
    Ok(list(items))
}

/// A new dictionary of the alternating keys and values of a literal.
///
/// # Errors
/// Fails when a key is not hashable.
pub fn new_dict(literal: &Value) -> Result<Value, Error> {
    let items = items_of(literal)?;
    let mut out = Dict::with_capacity(items.len() / 2);
    let mut items = items.into_iter();
    while let (Some(key), Some(value)) = (items.next(), items.next()) {
        out.insert(DictKey::new(key)?, to_storable(value)?);
    }
    Ok(dict(out))
}

/// An operator: its operands in, a value out.
pub type Operator = fn(&[Value]) -> Result<Value, Error>;

fn binary(values: &[Value], f: fn(&Value, &Value) -> Result<Value, Error>) -> Result<Value, Error> {
    match values {
        [a, b] => f(a, b),
        _ => Err(Error::from(ErrorKind::MissingArgument)),
    }
}

fn unary(values: &[Value], f: fn(&Value) -> Result<Value, Error>) -> Result<Value, Error> {
    match values {
        [a] => f(a),
        _ => Err(Error::from(ErrorKind::MissingArgument)),
    }
}

fn ordered(values: &[Value], holds: fn(Ordering) -> bool) -> Result<Value, Error> {
    match values {
        [a, b] => Ok(Value::from(!is_nan(a) && !is_nan(b) && holds(sort::compare(a, b)?))),
        _ => Err(Error::from(ErrorKind::MissingArgument)),
    }
}

fn is_nan(value: &Value) -> bool {
    matches!(Number::from_value(value), Some(Number::Float(f)) if f.is_nan())
}

/// Calls a method that was found by subscript, or the item of that name.
///
/// # Errors
/// Fails when neither exists, or when the method fails.
pub fn call_method(
    state: &mut State<'_, '_>,
    this: &Value,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let item = this.get_item(&Value::from(name))?;
    if !item.is_undefined() {
        return item.call(state, args);
    }
    this.call_method(state, name, args)
}

/// The operators under the names of the filters that the source pass writes.
pub const OPERATORS: &[(&str, Operator)] = &[
    ("_za_add", |v| binary(v, add)),
    ("_za_sub", |v| binary(v, sub)),
    ("_za_mul", |v| binary(v, mul)),
    ("_za_div", |v| binary(v, div)),
    ("_za_floordiv", |v| binary(v, floordiv)),
    ("_za_mod", |v| binary(v, modulo)),
    ("_za_pow", |v| binary(v, pow)),
    ("_za_positive", |v| unary(v, positive)),
    ("_za_concat", concat),
    ("_za_lt", |v| ordered(v, Ordering::is_lt)),
    ("_za_le", |v| ordered(v, Ordering::is_le)),
    ("_za_gt", |v| ordered(v, Ordering::is_gt)),
    ("_za_ge", |v| ordered(v, Ordering::is_ge)),
    ("_za_slice", |v| match v {
        [of, bounds @ ..] => super::methods::slice::call(of, &CallArgs::new("slice", bounds)),
        [] => Err(Error::from(ErrorKind::MissingArgument)),
    }),
];
