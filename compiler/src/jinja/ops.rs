//! Python's operators where a template has them: the values' own operators, watched.
//!
//! Law: an undefined operand is named, and what a render makes is counted, also what it never prints.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, State};
use zagent_config::codes::{limit, template};

use super::object::{budget, counted_tuple, items_of, own, type_name, watched};
use super::operators::{self, OPERATORS};
use super::told::Told;

/// Adds the filters that the source pass writes for operators.
pub(crate) fn install(env: &mut Environment<'_>) {
    env.add_filter("_za_do", |_: Value| false);
    env.add_filter("_za_iter", iterable);
    env.add_filter("_za_part", part);
    env.add_filter("_za_tuple", |state: &mut State<'_, '_>, literal: Value| {
        let (made, parts) = counted_tuple(items_of(&literal)?);
        spend(state, parts.saturating_mul(size_of::<Value>()))?;
        Ok::<_, Error>(made)
    });
    env.add_filter("_za_tick", |state: &mut State<'_, '_>, bytes: usize| spend(state, bytes).map(|()| false));
    env.add_filter("_za_list", |literal: Value| operators::new_list(&literal));
    env.add_filter("_za_dict", |literal: Value| operators::new_dict(&literal));
    env.add_filter("_za_own", own);
    env.add_filter(
        "_za_method",
        |state: &mut State<'_, '_>, this: Value, name: &str, args: Rest<Value>, named: Kwargs| {
            let mut args = args.0;
            if named.args().next().is_some() {
                args.push(named.into());
            }
            operators::method(state, &this, name, &args)
        },
    );
    for (name, operator) in OPERATORS.iter().copied() {
        let is_counted = matches!(name, "_za_add" | "_za_mul" | "_za_slice");
        env.add_filter(name, move |state: &mut State<'_, '_>, values: Rest<Value>| {
            let operands = defined(state, name, values.0)?;
            look(state, &operands)?;
            let result = operator(&operands)?;
            if let Some(text) = result.as_str() {
                spend(state, text.len())?;
            } else if is_counted && result.as_object().is_some() {
                spend(state, result.len().unwrap_or(0).saturating_mul(size_of::<Value>()))?;
            }
            Ok::<_, Error>(result)
        });
    }
}

/// What a loop runs over: the engine would take nothing for an empty list, and Python does not.
fn iterable(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => {
            let text = format!("'{}' object is not iterable", type_name(&value));
            Err(Told::new(template::TYPE, text).into())
        }
        ValueKind::String => items_of(&value).map(Value::from),
        _ => Ok(watched(&value).unwrap_or(value)),
    }
}

/// An attribute of a number: every number is its own real part and numerator.
fn part(value: Value, name: &str) -> Result<Value, Error> {
    if !matches!(value.kind(), ValueKind::Bool | ValueKind::Number) {
        return value.get_attr(name);
    }
    let is_float = type_name(&value) == "float";
    match name {
        "real" | "numerator" if !is_float => operators::positive(&value),
        "real" => Ok(value),
        "imag" if is_float => Ok(Value::from(0.0)),
        "imag" => Ok(Value::from(0)),
        "denominator" if !is_float => Ok(Value::from(1)),
        _ => Ok(Value::UNDEFINED),
    }
}

/// Refuses undefined operands by their number; the missing `else` of a condition is joined as nothing.
fn defined(state: &mut State<'_, '_>, name: &str, mut operands: Vec<Value>) -> Result<Vec<Value>, Error> {
    for (index, value) in operands.iter_mut().enumerate() {
        if !value.is_undefined() {
            continue;
        }
        // Only that one is undefined and prints all the same.
        if name == "_za_concat" && state.format(value.clone()).is_ok() {
            *value = Value::from("");
            continue;
        }
        return Err(Told::new(template::UNDEFINED, "a value is undefined here").operand(index).into());
    }
    Ok(operands)
}

/// What a render made and looked at so far, in bytes.
#[derive(Default)]
struct Spent {
    made: usize,
    seen: usize,
}

/// How many halves of its output limit a render may make, what it does not print in the end included.
const MAKING_HALVES: usize = 3;

/// How often over a render may look at as much as its output limit.
const LOOKING: usize = 24;

/// The bytes of a text, and of what a container holds by itself.
fn weight(value: &Value) -> usize {
    match value.kind() {
        ValueKind::String => value.as_str().map_or(0, str::len),
        ValueKind::Bytes => value.as_bytes().map_or(0, <[u8]>::len),
        ValueKind::Seq => value.len().unwrap_or(0).saturating_mul(size_of::<Value>()),
        _ => 0,
    }
}

/// Counts what a filter, method or function was given; too much ends the render.
pub(crate) fn look(state: &mut State<'_, '_>, values: &[Value]) -> Result<(), Error> {
    let limit = budget::bytes().saturating_mul(LOOKING);
    let spent = state.get_or_insert_extension_with(Spent::default);
    spent.seen = values.iter().map(weight).fold(spent.seen, usize::saturating_add);
    if spent.seen > limit {
        return Err(Told::new(limit::OUTPUT, format!("this template goes through more than {limit} bytes"))
            .hint(Some("look for a loop that goes through a large value again and again".into()))
            .into());
    }
    Ok(())
}

/// Counts bytes that a render makes; too many end it.
pub(crate) fn spend(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let limit = (budget::bytes() / 2).saturating_mul(MAKING_HALVES);
    let spent = state.get_or_insert_extension_with(Spent::default);
    spent.made = spent.made.saturating_add(bytes);
    if spent.made > limit {
        return Err(
            Told::new(limit::OUTPUT, format!("this template makes more than {limit} bytes of text")).into()
        );
    }
    Ok(())
}
