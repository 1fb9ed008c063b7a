//! Views of a dictionary (`keys()`, `values()`, `items()`) and methods taken from a value without calling them.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, State};

use super::{pairs_of, tuple};

/// Which part of a dictionary a view shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViewKind {
    /// `keys()`.
    Keys,
    /// `values()`.
    Values,
    /// `items()`.
    Items,
}

/// A live view of a dictionary.
pub struct DictView {
    of: Value,
    kind: ViewKind,
}

impl DictView {
    /// Makes a view of a dictionary.
    #[must_use]
    pub fn new_value(of: Value, kind: ViewKind) -> Value {
        Value::from_object(Self { of, kind })
    }

    /// Python's name of the type.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self.kind {
            ViewKind::Keys => "dict_keys",
            ViewKind::Values => "dict_values",
            ViewKind::Items => "dict_items",
        }
    }

    /// The dictionary that it shows.
    #[must_use]
    pub const fn dict(&self) -> &Value {
        &self.of
    }

    /// What the view shows now.
    #[must_use]
    pub fn items(&self) -> Vec<Value> {
        let pairs = pairs_of(&self.of).unwrap_or_default().into_iter();
        match self.kind {
            ViewKind::Keys => pairs.map(|(k, _)| k).collect(),
            ViewKind::Values => pairs.map(|(_, v)| v).collect(),
            ViewKind::Items => pairs.map(|(k, v)| tuple(vec![k, v])).collect(),
        }
    }
}

impl fmt::Debug for DictView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Object for DictView {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    /// A view cannot be indexed.
    fn get_value(self: &Arc<Self>, _: &Value) -> Option<Value> {
        Some(Value::UNDEFINED)
    }

    fn get_value_by_str(self: &Arc<Self>, _: &str) -> Option<Value> {
        None
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.items())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        self.of.len()
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::repr(&Value::from_dyn_object(Arc::clone(self))))
    }
}

/// A method that was taken from a value and not called yet: `d.get` without parentheses.
pub struct BoundMethod {
    of: Value,
    name: &'static str,
}

/// The method `name` of a value when it is one of `names`.
pub(super) fn bound_method(of: Value, names: &[&'static str], name: &str) -> Option<Value> {
    let name = names.iter().find(|n| **n == name)?;
    Some(Value::from_object(BoundMethod { of, name }))
}

impl fmt::Debug for BoundMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<built-in method {} of {} object>", self.name, super::type_name(&self.of))
    }
}

impl Object for BoundMethod {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.of.call_method(state, self.name, args)
    }
}
