//! Jinja2's and Salt's filters.
//!
//! Law: the output is Jinja2's and Salt's, not minijinja's; nothing here uses the host, the clock or random numbers
//! except through the [`FilterHost`] (held by `values_behave_as_in_python`,
//! `pure_modules_do_not_touch_the_machine`).

mod collect;
mod combine;
mod date;
mod entries;
mod hash;
mod host;
mod markup;
mod network;
mod network_filters;
mod numbers;
mod pretty;
mod query;
mod regex;
mod select;
mod sequences;
mod serialize;
mod sets;
mod strings;
mod text;
mod time;
mod urlize;
mod wrap;
mod xml;

use std::sync::Arc;

use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Environment, Error, State};

pub use self::host::FilterHost;
pub(super) use self::regex::compile as regex_compile;
use super::methods::args::{CallArgs, undefined_error};
use super::object::PyList;
use super::operator_filters;

/// A filter: its arguments, the filtered value first, in; a value out.
type FilterFn = fn(&mut State<'_, '_>, &CallArgs) -> Result<Value, Error>;

/// A filter that uses the host.
type HostFilterFn = fn(&dyn FilterHost, &mut State<'_, '_>, &CallArgs) -> Result<Value, Error>;

const TABLES: &[&[(&str, FilterFn)]] = &[
    text::FILTERS,
    strings::FILTERS,
    markup::FILTERS,
    numbers::FILTERS,
    sequences::FILTERS,
    select::FILTERS,
    collect::FILTERS,
    sets::FILTERS,
    combine::FILTERS,
    entries::FILTERS,
    serialize::FILTERS,
    regex::FILTERS,
    network_filters::FILTERS,
    hash::FILTERS,
    query::FILTERS,
];

const HOST_TABLES: &[&[(&str, HostFilterFn)]] = &[host::FILTERS, time::FILTERS];

/// Filters that accept an undefined value.
const TAKES_UNDEFINED: &[&str] = &["default", "d", "items", "skip"];

/// Adds all filters; some use the host.
pub fn install(env: &mut Environment<'_>, host: &Arc<dyn FilterHost>) {
    for (name, filter) in TABLES.iter().copied().flatten().copied() {
        env.add_filter(name, move |state: &mut State<'_, '_>, values: Rest<Value>, kwargs: Kwargs| {
            operator_filters::count_input(state, &values)?;
            let args = checked(name, values, &kwargs)?;
            filter(state, &args).and_then(|made| counted(state, made))
        });
    }
    for (name, filter) in HOST_TABLES.iter().copied().flatten().copied() {
        let host = Arc::clone(host);
        env.add_filter(name, move |state: &mut State<'_, '_>, values: Rest<Value>, kwargs: Kwargs| {
            operator_filters::count_input(state, &values)?;
            let args = checked(name, values, &kwargs)?;
            filter(&*host, state, &args).and_then(|made| counted(state, made))
        });
    }
    env.add_filter("__pct", |values: Rest<Value>| match values.0.as_slice() {
        [template, args] => super::operators::modulo(template, args),
        _ => Err(Error::from(minijinja::ErrorKind::MissingArgument)),
    });
}

/// The names of all filters, for suggestions.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let plain = TABLES.iter().copied().flatten().map(|(name, _)| *name);
    plain.chain(HOST_TABLES.iter().copied().flatten().map(|(name, _)| *name)).collect()
}

/// Output below this size is not counted: the step limit of a template bounds it.
const UNCOUNTED_BYTES: usize = 128;

/// Counts the output against the limit of one render.
pub(in crate::jinja) fn counted(state: &mut State<'_, '_>, made: Value) -> Result<Value, Error> {
    let size = match (made.as_str(), made.downcast_object_ref::<PyList>()) {
        (Some(text), _) => text.len(),
        (None, Some(list)) => list.len() * size_of::<Value>(),
        (None, None) => 0,
    };
    if size > UNCOUNTED_BYTES {
        super::operator_filters::count_output(state, size - UNCOUNTED_BYTES)?;
    }
    Ok(made)
}

fn checked(name: &str, values: Rest<Value>, kwargs: &Kwargs) -> Result<CallArgs, Error> {
    if !TAKES_UNDEFINED.contains(&name)
        && let Some(value) = values.0.first().filter(|v| v.is_undefined())
    {
        return Err(undefined_error(value));
    }
    Ok(CallArgs::from_parts(&format!("filter {name}"), values.0, kwargs))
}
