//! Python's methods on template values: strings, numbers, lists, tuples and dictionaries.
//!
//! Law: what Python changes in place is changed in place; a method that does not exist is an error that names the
//! type; names that start with `_` are rejected, as in Salt's sandbox (held by `values_behave_as_in_python`,
//! `messages_name_the_filter_or_method_and_the_types`).

pub mod args;
mod bytes;
pub mod dict;
pub mod format;
pub mod list;
mod number;
pub mod percent;
pub mod slice;
pub mod sort;
pub mod spec;
pub mod string;
mod string_search;
mod string_split;

use minijinja::value::{Object, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

use self::args::{CallArgs, undefined_error};
use crate::jinja::filters::counted;
use crate::jinja::object::{PyDict, PyList, is_native_map, items_of, to_storable, type_name};
use crate::jinja::operator_filters;

/// Calls a method that minijinja does not know: the hook for `set_unknown_method_callback`.
///
/// # Errors
/// Fails when the method is unknown, the arguments are wrong, or Python would raise.
pub fn unknown_method(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    values: &[Value],
) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(undefined_error(value));
    }
    match method {
        "__slice" => return slice::call(value, &CallArgs::new("slice", values)),
        _ if method.starts_with('_') => return Err(refused_error(value, method)),
        _ => {}
    }
    let args = || CallArgs::new(format!("{}.{method}()", type_name(value)), values);
    match value.kind() {
        ValueKind::String => {
            operator_filters::count_input(state, std::slice::from_ref(value))?;
            operator_filters::count_input(state, values)?;
            let made = string::call(state, value.as_str().unwrap_or_default(), method, &args())?;
            counted(state, made)
        }
        ValueKind::Bytes => bytes::call(value.as_bytes().unwrap_or_default(), method, &args()),
        ValueKind::Number | ValueKind::Bool => number::call(value, method, &args()),
        ValueKind::Seq if value.is_tuple() => match method {
            "index" => list::index(&items_of(value)?, &args()),
            "count" => list::count(&items_of(value)?, &args()),
            _ => Err(unknown_method_error(value, method)),
        },
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => call_on_copy(state, value, method, values),
        _ => Err(unknown_method_error(value, method)),
    }
}

/// Calls a method of a constant minijinja container, on a copy.
fn call_on_copy(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    values: &[Value],
) -> Result<Value, Error> {
    let is_ours = |v: &Value| {
        v.downcast_object_ref::<PyDict>().is_some() || v.downcast_object_ref::<PyList>().is_some()
    };
    if is_ours(value) || (value.kind() == ValueKind::Map && !is_native_map(value)) {
        return Err(unknown_method_error(value, method));
    }
    let owned = to_storable(value.clone())?;
    let result = if let Some(list) = owned.downcast_object::<PyList>() {
        list.call_method(state, method, values)
    } else if let Some(dict) = owned.downcast_object::<PyDict>() {
        dict.call_method(state, method, values)
    } else {
        Err(unknown_method_error(value, method))
    };
    result.map_err(
        |e| if e.kind() == ErrorKind::UnknownMethod { unknown_method_error(value, method) } else { e },
    )
}

/// The methods of a type by its Python name, for suggestions.
pub(crate) fn method_names(of: &str) -> &'static [&'static str] {
    match of {
        "str" => string::NAMES,
        "list" => list::NAMES,
        "dict" => dict::NAMES,
        _ => &[],
    }
}

/// The error of a method that a type does not have.
#[must_use]
pub fn unknown_method_error(value: &Value, method: &str) -> Error {
    let name = type_name(value);
    Error::new(ErrorKind::UnknownMethod, format!("'{name}' object has no method '{method}'"))
}

fn refused_error(value: &Value, name: &str) -> Error {
    let of = type_name(value);
    Error::new(
        ErrorKind::InvalidOperation,
        format!("access to attribute '{name}' of '{of}' object is unsafe"),
    )
}
