//! The mutable list.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Tuple, Value};
use minijinja::{Error, ErrorKind, State};
use zagent_config::value::List;

use super::budget::{self, MAX_DEPTH};
use super::convert::{compare_sequences, to_template};
use super::view::bound_method;
use crate::jinja::methods;

/// A Python list: shared by reference, changed in place.
///
/// A list that came from data is converted one level at a time, when it is first read.
pub struct PyList {
    content: Mutex<ListContent>,
}

enum ListContent {
    Raw(Arc<List>),
    Own(Vec<Value>),
}

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
    /// Makes a list of these items.
    #[must_use]
    pub const fn new(items: Vec<Value>) -> Self {
        Self { content: Mutex::new(ListContent::Own(items)) }
    }

    /// Makes a list that converts its items when it is read.
    #[must_use]
    pub const fn from_data(items: Arc<List>) -> Self {
        Self { content: Mutex::new(ListContent::Raw(items)) }
    }

    fn lock(&self) -> MutexGuard<'_, ListContent> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data it was made from, when it has not been read yet.
    #[must_use]
    pub fn original_data(&self) -> Option<Arc<List>> {
        match &*self.lock() {
            ListContent::Raw(raw) => Some(Arc::clone(raw)),
            ListContent::Own(_) => None,
        }
    }

    /// Works on the items. `f` must not touch other template values: the list is locked.
    pub fn with<R>(&self, f: impl FnOnce(&mut Vec<Value>) -> R) -> R {
        let mut content = self.lock();
        if let ListContent::Raw(raw) = &*content {
            *content = ListContent::Own(raw.iter().map(to_template).collect());
        }
        match &mut *content {
            ListContent::Own(items) => f(items),
            ListContent::Raw(_) => f(&mut Vec::new()),
        }
    }

    /// The items as they are now.
    #[must_use]
    pub fn items(&self) -> Vec<Value> {
        self.with(|items| items.clone())
    }

    /// How many items there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &*self.lock() {
            ListContent::Raw(raw) => raw.len(),
            ListContent::Own(items) => items.len(),
        }
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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

impl fmt::Debug for PyList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("list")
    }
}

impl Object for PyList {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let index =
            if key.is_true() && key.kind() == minijinja::value::ValueKind::Bool { 1 } else { key.as_i64()? };
        self.with(|items| resolve_index(index, items.len()).map(|i| items[i].clone()))
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        bound_method(Value::from_dyn_object(Arc::clone(self)), methods::list::NAMES, key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.len())
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        methods::list::call(self, state, method, args)
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        let other = other.downcast_ref::<Self>()?;
        Some(compare_sequences(&self.items(), &other.items()))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::repr(&Value::from_dyn_object(Arc::clone(self))))
    }
}

impl Drop for PyList {
    fn drop(&mut self) {
        let content = self.content.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let ListContent::Own(items) = content {
            discard(std::mem::take(items));
        }
    }
}

thread_local! {
    static DISCARDED: RefCell<Option<Vec<Vec<Value>>>> = const { RefCell::new(None) };
}

/// Drops items without recursion, at any nesting depth.
pub(super) fn discard(items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    let mut first = Some(items);
    // When the thread ends, its local storage is gone: then the items are dropped directly.
    let is_outermost = DISCARDED
        .try_with(|queue| {
            let mut queue = queue.borrow_mut();
            match &mut *queue {
                Some(waiting) => {
                    waiting.extend(first.take());
                    false
                }
                None => {
                    *queue = Some(first.take().into_iter().collect());
                    true
                }
            }
        })
        .unwrap_or(false);
    if !is_outermost {
        return;
    }
    while let Some(items) = DISCARDED.with(|queue| queue.borrow_mut().as_mut().and_then(Vec::pop)) {
        drop(items);
    }
    DISCARDED.with(|queue| *queue.borrow_mut() = None);
}
