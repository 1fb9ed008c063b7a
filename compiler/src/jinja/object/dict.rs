//! The mutable dictionary.

use std::cmp::Ordering;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, State};
use zagent_config::Map;

use super::budget;
use super::convert::{compare_pairs, key_to_template, to_template};
use super::key::{DictKey, StrKey, ValueKey, is_hashable};
use super::list::discard;
use super::view::bound_method;
use crate::jinja::methods;

/// The content of a dictionary: keys equal as in Python, in insertion order.
pub type Dict = IndexMap<DictKey, Value>;

/// A Python dictionary: shared by reference, changed in place.
///
/// One that came from data is converted one level at a time, when it is first read.
pub struct PyDict {
    content: Mutex<DictContent>,
}

enum DictContent {
    Raw(Arc<Map>),
    Own(Dict),
}

/// Makes a new mutable dictionary.
#[must_use]
pub fn dict(pairs: Dict) -> Value {
    Value::from_object(PyDict::new(pairs))
}

impl PyDict {
    /// Makes a dictionary of these pairs.
    #[must_use]
    pub const fn new(pairs: Dict) -> Self {
        Self { content: Mutex::new(DictContent::Own(pairs)) }
    }

    /// Makes a dictionary that converts its values when it is read.
    #[must_use]
    pub const fn from_data(map: Arc<Map>) -> Self {
        Self { content: Mutex::new(DictContent::Raw(map)) }
    }

    fn lock(&self) -> MutexGuard<'_, DictContent> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data it was made from, when it has not been read yet.
    #[must_use]
    pub fn original_data(&self) -> Option<Arc<Map>> {
        match &*self.lock() {
            DictContent::Raw(raw) => Some(Arc::clone(raw)),
            DictContent::Own(_) => None,
        }
    }

    /// Works on the pairs. `f` must not touch other template values: the dictionary is locked.
    pub fn with<R>(&self, f: impl FnOnce(&mut Dict) -> R) -> R {
        let mut content = self.lock();
        if let DictContent::Raw(raw) = &*content {
            *content =
                DictContent::Own(raw.iter().map(|(k, v)| (key_to_template(k), to_template(v))).collect());
        }
        match &mut *content {
            DictContent::Own(pairs) => f(pairs),
            DictContent::Raw(_) => f(&mut Dict::new()),
        }
    }

    /// The value of a key; `None` also for values that cannot be keys.
    #[must_use]
    pub fn get(&self, key: &Value) -> Option<Value> {
        if let Some(text) = key.as_str() {
            return self.get_str(text);
        }
        if !is_hashable(key) {
            return None;
        }
        self.with(|pairs| pairs.get(&ValueKey(key)).cloned())
    }

    /// The value of a string key.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<Value> {
        self.with(|pairs| pairs.get(&StrKey(key)).cloned())
    }

    /// Removes a key; the order of the others does not change.
    #[must_use]
    pub fn remove(&self, key: &Value) -> Option<Value> {
        if !is_hashable(key) {
            return None;
        }
        self.with(|pairs| pairs.shift_remove(&ValueKey(key)))
    }

    /// Sets a key, within the limit.
    ///
    /// # Errors
    /// Fails when the dictionary would grow beyond the limit.
    pub fn insert(&self, what: &str, key: DictKey, value: Value) -> Result<Option<Value>, Error> {
        self.with(|pairs| {
            budget::check_items(what, pairs.len() + 1)?;
            Ok(pairs.insert(key, value))
        })
    }

    /// The pairs as they are now.
    #[must_use]
    pub fn pairs(&self) -> Vec<(Value, Value)> {
        self.with(|pairs| pairs.iter().map(|(k, v)| (k.value().clone(), v.clone())).collect())
    }

    /// The keys as they are now.
    #[must_use]
    pub fn keys(&self) -> Vec<Value> {
        self.with(|pairs| pairs.keys().map(|k| k.value().clone()).collect())
    }

    /// How many pairs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match &*self.lock() {
            DictContent::Raw(raw) => raw.len(),
            DictContent::Own(pairs) => pairs.len(),
        }
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for PyDict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dict")
    }
}

impl Object for PyDict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get(key)
    }

    /// An attribute: in Python the dictionary's methods win over its keys.
    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        bound_method(Value::from_dyn_object(Arc::clone(self)), methods::dict::NAMES, key)
            .or_else(|| self.get_str(key))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.keys())
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
        methods::dict::call(self, state, method, args)
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        let other = other.downcast_ref::<Self>()?;
        Some(compare_pairs(&self.pairs(), other))
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::repr(&Value::from_dyn_object(Arc::clone(self))))
    }
}

impl Drop for PyDict {
    fn drop(&mut self) {
        let content = self.content.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let DictContent::Own(pairs) = content {
            discard(std::mem::take(pairs).into_values().collect());
        }
    }
}
