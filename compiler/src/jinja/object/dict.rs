//! The mutable dictionary.

use std::cmp::Ordering;
use std::sync::Arc;

use indexmap::IndexMap;
use minijinja::value::{ObjectRepr, Value};
use minijinja::{Error, State};
use zagent_config::Map;

use super::budget;
use super::container::{ContainerKind, PyContainer};
use super::convert::{compare_pairs, key_to_template, to_template};
use super::key::{DictKey, StrKey, ValueKey, is_hashable};
use crate::jinja::methods;

/// The content of a dictionary: keys equal as in Python, in insertion order.
pub type Dict = IndexMap<DictKey, Value>;

/// A Python dictionary.
pub type PyDict = PyContainer<Dict>;

/// Makes a new mutable dictionary.
#[must_use]
pub fn dict(pairs: Dict) -> Value {
    Value::from_object(PyDict::new(pairs))
}

impl PyDict {
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
        self.entries()
    }
}

impl ContainerKind for Dict {
    type Data = Map;
    const NAME: &'static str = "dict";
    const REPR: ObjectRepr = ObjectRepr::Map;
    const METHODS: &'static [&'static str] = methods::dict::NAMES;

    fn convert(data: &Map) -> Self {
        data.iter().map(|(k, v)| (key_to_template(k), to_template(v))).collect()
    }

    fn data_len(data: &Map) -> usize {
        data.len()
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn entries(&self) -> Vec<Value> {
        self.keys().map(|k| k.value().clone()).collect()
    }

    fn into_values(self) -> Vec<Value> {
        Self::into_values(self).collect()
    }

    fn lookup(container: &PyDict, key: &Value) -> Option<Value> {
        container.get(key)
    }

    fn attribute(container: &PyDict, name: &str) -> Option<Value> {
        container.get_str(name)
    }

    fn compare(a: &PyDict, b: &PyDict) -> Ordering {
        compare_pairs(&a.pairs(), b)
    }

    fn call(
        container: &Arc<PyDict>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        methods::dict::call(container, state, method, args)
    }
}
