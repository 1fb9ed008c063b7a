//! The mutable list, and tuples.

use std::cmp::Ordering;
use std::sync::Arc;

use minijinja::value::{ObjectRepr, Tuple, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};
use zagent_config::value::List;

use super::budget::{self, MAX_DEPTH};
use super::container::{ContainerKind, PyContainer};
use super::convert::{compare_sequences, to_template};
use crate::jinja::methods;

/// A Python list.
pub type PyList = PyContainer<Vec<Value>>;

/// Makes a new mutable list.
#[must_use]
pub fn list(items: Vec<Value>) -> Value {
    Value::from_object(PyList::new(items))
}

/// Makes a tuple; one that is nested too deep becomes an invalid value, which fails where it is used.
///
/// Why: minijinja drops, compares and hashes nested tuples by recursion.
#[must_use]
pub fn tuple(items: Vec<Value>) -> Value {
    counted_tuple(items).0
}

/// Makes a tuple and returns how many tuples it contains, which is its cost.
pub(in crate::jinja) fn counted_tuple(items: Vec<Value>) -> (Value, usize) {
    let mut left = MAX_TUPLE_PARTS;
    let is_small = items.iter().all(|item| is_shallow(item, MAX_DEPTH, &mut left));
    let made = if is_small {
        Value::from(Tuple::from(items))
    } else {
        Value::from(Error::new(ErrorKind::InvalidOperation, "the tuple is nested too deep or too large"))
    };
    (made, MAX_TUPLE_PARTS - left)
}

/// Maximum tuples inside one tuple, at all levels.
const MAX_TUPLE_PARTS: usize = 100_000;

fn is_shallow(value: &Value, depth: usize, left: &mut usize) -> bool {
    let Some(tuple) = value.downcast_object_ref::<Tuple>() else { return true };
    if depth == 0 || *left == 0 {
        return false;
    }
    *left -= 1;
    tuple.iter().all(|item| is_shallow(item, depth - 1, left))
}

/// Turns a Python index (negative counts from the end) into a position within `len`.
#[must_use]
pub fn resolve_index(index: i64, len: usize) -> Option<usize> {
    let len_signed = i64::try_from(len).ok()?;
    let index = if index < 0 { index.checked_add(len_signed)? } else { index };
    usize::try_from(index).ok().filter(|i| *i < len)
}

impl PyList {
    /// The items as they are now.
    #[must_use]
    pub fn items(&self) -> Vec<Value> {
        self.entries()
    }

    /// Appends items, within the limit.
    ///
    /// # Errors
    /// Fails when the list would grow beyond the limit.
    pub fn extend(&self, what: &str, more: Vec<Value>) -> Result<(), Error> {
        self.with(|items| {
            budget::check_items(what, items.len().saturating_add(more.len()))?;
            items.extend(more);
            Ok(())
        })
    }
}

impl ContainerKind for Vec<Value> {
    type Data = List;
    const NAME: &'static str = "list";
    const REPR: ObjectRepr = ObjectRepr::Seq;
    const METHODS: &'static [&'static str] = methods::list::NAMES;

    fn convert(data: &List) -> Self {
        data.iter().map(to_template).collect()
    }

    fn data_len(data: &List) -> usize {
        data.len()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn entries(&self) -> Self {
        self.clone()
    }

    fn into_values(self) -> Self {
        self
    }

    fn lookup(container: &PyList, key: &Value) -> Option<Value> {
        let index = if key.is_true() && key.kind() == ValueKind::Bool { 1 } else { key.as_i64()? };
        container.with(|items| resolve_index(index, items.len()).map(|i| items[i].clone()))
    }

    fn attribute(_: &PyList, _: &str) -> Option<Value> {
        None
    }

    fn compare(a: &PyList, b: &PyList) -> Ordering {
        compare_sequences(&a.items(), &b.items())
    }

    fn call(
        container: &Arc<PyList>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        methods::list::call(container, state, method, args)
    }
}
