//! A dictionary during a loop over it: if it grows or shrinks, the loop ends with an error, as in Python.

use std::fmt;
use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, ErrorKind};

use super::{DictView, PyDict};

/// The iterator for a loop over a dictionary or a view of one; `None` for everything else.
pub(in crate::jinja) fn watch_dict(value: &Value) -> Option<Value> {
    if let Some(dict) = value.downcast_object::<PyDict>() {
        return Some(Value::from_object(WatchedDict { items: dict.keys(), size: dict.len(), dict }));
    }
    let view = value.downcast_object_ref::<DictView>()?;
    let dict = view.dict().downcast_object::<PyDict>()?;
    Some(Value::from_object(WatchedDict { items: view.items(), size: dict.len(), dict }))
}

struct WatchedDict {
    dict: Arc<PyDict>,
    size: usize,
    items: Vec<Value>,
}

impl fmt::Debug for WatchedDict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dict")
    }
}

impl Object for WatchedDict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Iterable
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Iter(Box::new(WatchedIter { of: Arc::clone(self), at: 0 }))
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
}

struct WatchedIter {
    of: Arc<WatchedDict>,
    at: usize,
}

impl Iterator for WatchedIter {
    type Item = Value;

    fn next(&mut self) -> Option<Value> {
        if self.at > 0 && self.at <= self.of.items.len() && self.of.dict.len() != self.of.size {
            self.at = usize::MAX;
            let message = "the dictionary changed size during a loop over it";
            return Some(Value::from(Error::new(ErrorKind::InvalidOperation, message)));
        }
        let item = self.of.items.get(self.at).cloned();
        self.at = self.at.saturating_add(1);
        item
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.of.items.len().saturating_sub(self.at);
        (left, Some(left))
    }
}
