//! Python's operators in templates: the operators of the values, with checks.
//!
//! Law: an undefined operand is named, and all output of a render is counted, even if it is never printed (held by
//! `values_behave_as_in_python`, `hostile_templates_hit_a_limit`).

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, State};
use zagent_config::codes::{limit, template};

use super::error::TemplateError;
use super::object::{budget, counted_tuple, items_of, to_storable, type_name, watch_dict};
use super::operators::{self, OPERATORS};

/// Adds the filters that the source pass writes for operators.
pub(crate) fn install(env: &mut Environment<'_>) {
    env.add_filter("_za_do", |_: Value| false);
    env.add_filter("_za_iter", iterable);
    env.add_filter("_za_part", number_attribute);
    env.add_filter("_za_tuple", |state: &mut State<'_, '_>, literal: Value| {
        let (made, parts) = counted_tuple(items_of(&literal)?);
        count_output(state, parts.saturating_mul(size_of::<Value>()))?;
        Ok::<_, Error>(made)
    });
    env.add_filter("_za_tick", |state: &mut State<'_, '_>, bytes: usize| {
        count_output(state, bytes).map(|()| false)
    });
    env.add_filter("_za_list", |literal: Value| operators::new_list(&literal));
    env.add_filter("_za_dict", |literal: Value| operators::new_dict(&literal));
    env.add_filter("_za_own", to_storable);
    env.add_filter(
        "_za_method",
        |state: &mut State<'_, '_>, this: Value, name: &str, args: Rest<Value>, named: Kwargs| {
            let mut args = args.0;
            if named.args().next().is_some() {
                args.push(named.into());
            }
            operators::call_method(state, &this, name, &args)
        },
    );
    for (name, operator) in OPERATORS.iter().copied() {
        let is_counted = matches!(name, "_za_add" | "_za_mul" | "_za_slice");
        env.add_filter(name, move |state: &mut State<'_, '_>, values: Rest<Value>| {
            let operands = require_defined(state, name, values.0)?;
            count_input(state, &operands)?;
            let result = operator(&operands)?;
            if let Some(text) = result.as_str() {
                count_output(state, text.len())?;
            } else if is_counted && result.as_object().is_some() {
                count_output(state, result.len().unwrap_or(0).saturating_mul(size_of::<Value>()))?;
            }
            Ok::<_, Error>(result)
        });
    }
}

/// The iterable of a loop: the engine would treat `none` as an empty list, Python does not.
fn iterable(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => {
            let text = format!("'{}' object is not iterable", type_name(&value));
            Err(TemplateError::new(template::TYPE, text).into())
        }
        ValueKind::String => items_of(&value).map(Value::from),
        _ => Ok(watch_dict(&value).unwrap_or(value)),
    }
}

/// An attribute of a number: every number is its own real part and numerator.
fn number_attribute(value: Value, name: &str) -> Result<Value, Error> {
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

/// Rejects undefined operands by their number; a missing `else` of a condition is joined as an empty text.
fn require_defined(
    state: &mut State<'_, '_>,
    name: &str,
    mut operands: Vec<Value>,
) -> Result<Vec<Value>, Error> {
    for (index, value) in operands.iter_mut().enumerate() {
        if !value.is_undefined() {
            continue;
        }
        // Only that one is undefined and still prints.
        if name == "_za_concat" && state.format(value.clone()).is_ok() {
            *value = Value::from("");
            continue;
        }
        return Err(TemplateError::new(template::UNDEFINED, "a value is undefined here")
            .operand(index)
            .into());
    }
    Ok(operands)
}

/// What a render has produced and read so far, in bytes.
#[derive(Default)]
struct RenderSpent {
    output_bytes: usize,
    input_bytes: usize,
}

/// How many halves of its output limit a render may produce, including text that it does not print.
const OUTPUT_HALVES: usize = 3;

/// How many times its output limit a render may read.
const INPUT_FACTOR: usize = 24;

/// The bytes of a text, or of a container itself.
fn value_bytes(value: &Value) -> usize {
    match value.kind() {
        ValueKind::String => value.as_str().map_or(0, str::len),
        ValueKind::Bytes => value.as_bytes().map_or(0, <[u8]>::len),
        ValueKind::Seq => value.len().unwrap_or(0).saturating_mul(size_of::<Value>()),
        _ => 0,
    }
}

/// Counts the input of a filter, method or function; too much ends the render.
pub(crate) fn count_input(state: &mut State<'_, '_>, values: &[Value]) -> Result<(), Error> {
    let limit = budget::bytes().saturating_mul(INPUT_FACTOR);
    let spent = state.get_or_insert_extension_with(RenderSpent::default);
    spent.input_bytes = values.iter().map(value_bytes).fold(spent.input_bytes, usize::saturating_add);
    if spent.input_bytes > limit {
        return Err(TemplateError::new(
            limit::OUTPUT,
            format!("this template reads more than {limit} bytes"),
        )
        .hint(Some("look for a loop that reads a large value repeatedly".into()))
        .into());
    }
    Ok(())
}

/// Counts bytes that a render produces; too many end it.
pub(crate) fn count_output(state: &mut State<'_, '_>, bytes: usize) -> Result<(), Error> {
    let limit = (budget::bytes() / 2).saturating_mul(OUTPUT_HALVES);
    let spent = state.get_or_insert_extension_with(RenderSpent::default);
    spent.output_bytes = spent.output_bytes.saturating_add(bytes);
    if spent.output_bytes > limit {
        return Err(TemplateError::new(
            limit::OUTPUT,
            format!("this template produces more than {limit} bytes of text"),
        )
        .into());
    }
    Ok(())
}
