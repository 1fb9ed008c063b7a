//! Jinja2's and Salt's tests (`x is …`), with Python's types.

use std::cmp::Ordering;

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, State};

use super::filters::regex_compile;
use super::methods::args::{CallArgs, undefined_error};
use super::methods::sort::compare;
use super::methods::string::is_cased;
use super::object::{items_of, object_address, type_name};
use super::operators;
use crate::functions::is_functions;

type TestFn = fn(&mut State<'_, '_>, &CallArgs) -> Result<bool, Error>;

static TESTS: &[(&str, TestFn)] = &[
    ("defined", |_, a| Ok(!a.expect_one("value")?.is_undefined())),
    ("undefined", |_, a| Ok(a.expect_one("value")?.is_undefined())),
    ("none", |_, a| Ok(a.expect_one("value")?.is_none())),
    ("boolean", |_, a| Ok(a.expect_one("value")?.kind() == ValueKind::Bool)),
    ("true", |_, a| Ok(is_bool(&a.expect_one("value")?, true))),
    ("false", |_, a| Ok(is_bool(&a.expect_one("value")?, false))),
    ("integer", |_, a| Ok(is_int(&a.expect_one("value")?))),
    ("float", |_, a| Ok(type_name(&a.expect_one("value")?) == "float")),
    ("number", |_, a| Ok(matches!(a.expect_one("value")?.kind(), ValueKind::Number | ValueKind::Bool))),
    ("string", |_, a| Ok(a.expect_one("value")?.kind() == ValueKind::String)),
    ("mapping", |_, a| Ok(is_mapping(&a.expect_one("value")?))),
    ("sequence", |_, a| Ok(is_sequence(&a.expect_one("value")?))),
    ("iterable", |_, a| is_iterable(&a.expect_one("value")?)),
    ("list", |_, a| Ok(type_name(&a.expect_one("value")?) == "list")),
    ("callable", |_, a| Ok(is_callable(&a.expect_one("object")?))),
    ("sameas", sameas),
    ("escaped", |_, a| Ok(a.expect_one("value")?.is_safe())),
    ("lower", |_, a| has_case(a, char::is_lowercase, char::is_uppercase)),
    ("upper", |_, a| has_case(a, char::is_uppercase, char::is_lowercase)),
    ("odd", |_, a| remainder(a, &Value::from(2)).map(|r| r == Value::from(1))),
    ("even", |_, a| remainder(a, &Value::from(2)).map(|r| r == Value::from(0))),
    ("divisibleby", |_, a| {
        let [value, by] = a.bind(["value", "num"], 2)?;
        let rest = operators::modulo(&value.unwrap_or_default(), &by.unwrap_or_default())?;
        Ok(rest == Value::from(0))
    }),
    ("in", |_, a| is_contained(a)),
    ("filter", |_, a| Ok(super::filters::names().contains(&a.text(&a.expect_one("value")?)?.as_str()))),
    ("test", |_, a| {
        let name = a.text(&a.expect_one("value")?)?;
        Ok(names().contains(&name.as_str()))
    }),
    ("match", regex_match),
    ("eq", |_, a| equal(a)),
    ("equalto", |_, a| equal(a)),
    ("==", |_, a| equal(a)),
    ("ne", |_, a| equal(a).map(|same| !same)),
    ("!=", |_, a| equal(a).map(|same| !same)),
    ("lt", |_, a| compare_with(a, Ordering::is_lt)),
    ("lessthan", |_, a| compare_with(a, Ordering::is_lt)),
    ("<", |_, a| compare_with(a, Ordering::is_lt)),
    ("le", |_, a| compare_with(a, Ordering::is_le)),
    ("<=", |_, a| compare_with(a, Ordering::is_le)),
    ("gt", |_, a| compare_with(a, Ordering::is_gt)),
    ("greaterthan", |_, a| compare_with(a, Ordering::is_gt)),
    (">", |_, a| compare_with(a, Ordering::is_gt)),
    ("ge", |_, a| compare_with(a, Ordering::is_ge)),
    (">=", |_, a| compare_with(a, Ordering::is_ge)),
];

/// Adds all tests.
pub fn install(env: &mut Environment<'_>) {
    for (name, test) in TESTS.iter().copied() {
        env.add_test(name, move |state: &mut State<'_, '_>, values: Rest<Value>, kwargs: Kwargs| {
            test(state, &CallArgs::from_parts(&format!("test {name}"), values.0, &kwargs))
        });
    }
}

/// The names of all tests, for suggestions.
#[must_use]
pub fn names() -> Vec<&'static str> {
    TESTS.iter().map(|(name, _)| *name).collect()
}

fn is_bool(value: &Value, wanted: bool) -> bool {
    value.kind() == ValueKind::Bool && value.is_true() == wanted
}

/// Dictionaries; the `salt` object is looked up by name like one, but is not one in Python.
fn is_mapping(value: &Value) -> bool {
    value.kind() == ValueKind::Map && !is_functions(value)
}

fn is_int(value: &Value) -> bool {
    type_name(value) == "int"
}

/// Jinja2 requires a length and subscription; strings and dictionaries have both.
fn is_sequence(value: &Value) -> bool {
    matches!(type_name(value), "str" | "list" | "tuple" | "dict" | "range" | "bytes")
}

fn is_iterable(value: &Value) -> Result<bool, Error> {
    if value.is_undefined() {
        return Err(undefined_error(value));
    }
    Ok(matches!(
        value.kind(),
        ValueKind::String | ValueKind::Bytes | ValueKind::Seq | ValueKind::Map | ValueKind::Iterable
    ))
}

fn is_callable(value: &Value) -> bool {
    // Jinja2's undefined values are callable, and fail when they are called.
    value.is_undefined() || value.kind() == ValueKind::Plain
}

fn sameas(_: &mut State<'_, '_>, args: &CallArgs) -> Result<bool, Error> {
    let [a, b] = args.bind(["value", "other"], 2)?;
    let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
    if a.kind() != b.kind() {
        return Ok(false);
    }
    match (a.as_object(), b.as_object()) {
        (Some(_), Some(_)) if object_address(&a) != 0 || object_address(&b) != 0 => {
            Ok(object_address(&a) == object_address(&b))
        }
        (Some(x), Some(y)) => Ok(std::ptr::eq(x, y) || a == b),
        // Small integers, booleans, None and interned strings are one object in Python.
        (None, None) => Ok(type_name(&a) == type_name(&b) && a == b),
        _ => Ok(false),
    }
}

fn has_case(args: &CallArgs, wanted: fn(char) -> bool, other: fn(char) -> bool) -> Result<bool, Error> {
    let value = args.expect_one("value")?;
    Ok(is_cased(&args.text(&value)?, wanted, other))
}

fn remainder(args: &CallArgs, by: &Value) -> Result<Value, Error> {
    operators::modulo(&args.expect_one("value")?, by)
}

fn is_contained(args: &CallArgs) -> Result<bool, Error> {
    let [value, container] = args.bind(["value", "seq"], 2)?;
    let (value, container) = (value.unwrap_or_default(), container.unwrap_or_default());
    if let Some(text) = container.as_str() {
        return Ok(text.contains(args.str("the value", &value)?));
    }
    if container.kind() == ValueKind::Map && !value.is_undefined() {
        return Ok(container.get_item(&value).is_ok_and(|found| !found.is_undefined()));
    }
    if container.is_undefined() {
        return Err(undefined_error(&container));
    }
    if value.is_undefined() && container.len() != Some(0) {
        return Err(undefined_error(&value));
    }
    Ok(items_of(&container)?.contains(&value))
}

fn regex_match(_: &mut State<'_, '_>, args: &CallArgs) -> Result<bool, Error> {
    let [text, pattern, ignore_case, multi_line] = args.bind(["txt", "rgx", "ignorecase", "multiline"], 2)?;
    let (text, pattern) = (text.unwrap_or_default(), pattern.unwrap_or_default());
    let is_true = |v: Option<Value>| v.is_some_and(|v| v.is_true());
    let regex = regex_compile(args, args.str("rgx", &pattern)?, is_true(ignore_case), is_true(multi_line))?;
    let found = regex.find(args.str("the value", &text)?);
    let found = found.map_err(|_| args.error("the regular expression takes too many steps"))?;
    Ok(found.is_some_and(|m| m.start() == 0))
}

fn equal(args: &CallArgs) -> Result<bool, Error> {
    let [a, b] = args.bind(["a", "b"], 2)?;
    let (a, b) = (a.unwrap_or_default(), b.unwrap_or_default());
    for value in [&a, &b] {
        if value.is_undefined() {
            return Err(undefined_error(value));
        }
    }
    Ok(a == b)
}

fn compare_with(args: &CallArgs, holds: fn(Ordering) -> bool) -> Result<bool, Error> {
    let [a, b] = args.bind(["a", "b"], 2)?;
    compare(&a.unwrap_or_default(), &b.unwrap_or_default()).map(holds)
}
