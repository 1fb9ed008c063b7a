//! Methods of lists, and the ones that tuples share with them.

use std::sync::Arc;

use minijinja::value::Value;
use minijinja::{Error, ErrorKind, State};

use super::args::{CallArgs, not_none};
use crate::jinja::filters::counted;
use crate::jinja::object::{PyList, list, resolve_index, to_storable};
use crate::jinja::operator_filters::count_output;

/// The names of all methods.
pub const NAMES: &[&str] =
    &["append", "clear", "copy", "count", "extend", "index", "insert", "pop", "remove", "reverse", "sort"];

/// Calls a method of a list.
///
/// # Errors
/// Fails when the method is unknown, the arguments are wrong, or Python would raise.
pub fn call(
    this: &Arc<PyList>,
    state: &mut State<'_, '_>,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let args = CallArgs::new(format!("list.{method}()"), args);
    if method != "sort" {
        args.only_positional()?;
    }
    match method {
        "append" => {
            let item = to_storable(args.expect_one("object")?)?;
            this.extend(args.function_name(), vec![item])?;
        }
        "extend" => {
            let more = args.items(&args.expect_one("iterable")?)?;
            let more = more.into_iter().map(to_storable).collect::<Result<Vec<_>, _>>()?;
            if more.len() > 8 {
                count_output(state, more.len() * size_of::<Value>())?;
            }
            this.extend(args.function_name(), more)?;
        }
        "insert" => {
            let [index, item] = args.bind(["index", "object"], 2)?;
            let index = args.int("index", &index.unwrap_or_default())?;
            let item = to_storable(item.unwrap_or_default())?;
            crate::jinja::object::budget::check_items(args.function_name(), this.len() + 1)?;
            this.with(|items| {
                let at = clamp(index, items.len());
                items.insert(at, item);
            });
        }
        "pop" => return pop(this, &args),
        "remove" => {
            let wanted = args.expect_one("value")?;
            // Search a copy: comparing may read this same list.
            let Some(at) = this.items().iter().position(|v| *v == wanted) else {
                return Err(args.error("the value is not in the list"));
            };
            this.with(|items| (at < items.len()).then(|| items.remove(at)));
        }
        "index" => return index(&this.items(), &args),
        "count" => return count(&this.items(), &args),
        "reverse" => {
            args.expect_none()?;
            this.with(|items| items.reverse());
        }
        "sort" => {
            let [key, reverse] = args.bind(["key", "reverse"], 0)?;
            let reverse = reverse.is_some_and(|r| r.is_true());
            let sorted = super::sort::sorted_by_call(state, &args, this.items(), not_none(key), reverse)?;
            this.with(|items| *items = sorted);
        }
        "clear" => {
            args.expect_none()?;
            let old = this.with(std::mem::take);
            drop(old);
        }
        "copy" => {
            args.expect_none()?;
            return counted(state, list(this.items()));
        }
        _ => return Err(Error::from(ErrorKind::UnknownMethod)),
    }
    Ok(Value::from(()))
}

fn clamp(index: i64, len: usize) -> usize {
    let len_signed = i64::try_from(len).unwrap_or(i64::MAX);
    let at = if index < 0 { index.saturating_add(len_signed).max(0) } else { index.min(len_signed) };
    usize::try_from(at).unwrap_or(0)
}

fn pop(this: &PyList, args: &CallArgs) -> Result<Value, Error> {
    let [index] = args.bind(["index"], 0)?;
    let index = index.map_or(Ok(-1), |v| args.int("index", &v))?;
    this.with(|items| resolve_index(index, items.len()).map(|i| items.remove(i)))
        .ok_or_else(|| args.error("the index is out of range"))
}

/// `index(value[, start[, stop]])` of lists and tuples.
pub(super) fn index(items: &[Value], args: &CallArgs) -> Result<Value, Error> {
    let [wanted, start, stop] = args.bind(["value", "start", "stop"], 1)?;
    let wanted = wanted.unwrap_or_default();
    let start = start.map_or(Ok(0), |v| args.int("start", &v))?;
    let stop = stop.map_or(Ok(i64::MAX), |v| args.int("stop", &v))?;
    let (start, stop) = (clamp(start, items.len()), clamp(stop, items.len()));
    items
        .iter()
        .enumerate()
        .take(stop)
        .skip(start)
        .find(|(_, v)| **v == wanted)
        .map(|(i, _)| Value::from(i))
        .ok_or_else(|| args.error("the value is not in the list"))
}

/// `count(value)` of lists and tuples.
pub(super) fn count(items: &[Value], args: &CallArgs) -> Result<Value, Error> {
    let wanted = args.expect_one("value")?;
    Ok(Value::from(items.iter().filter(|v| **v == wanted).count()))
}
