//! A dictionary whose values are fetched on demand: grains.
//!
//! A value is fetched once; changes by a template are visible to all templates that share the object.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use minijinja::value::{Enumerator, Object, ObjectRepr, Value};
use minijinja::{Error, State};
use zagent_config::Value as Data;

use super::dict::{Dict, PyDict};
use super::key::DictKey;
use super::to_template;
use super::view::bound_method;
use crate::jinja::methods;

/// Where the values of a [`LazyDict`] come from.
pub trait LazySource: Send + Sync {
    /// One value.
    fn get(&self, key: &str) -> Option<Data>;
    /// All values, a mapping.
    fn all(&self) -> Data;
}

/// A dictionary that fetches one value at a time, and all of them only when it is enumerated or changed.
pub struct LazyDict {
    source: Arc<dyn LazySource>,
    state: Mutex<LazyState>,
}

struct LazyState {
    /// Values fetched so far; `None` for keys that do not exist.
    seen: indexmap::IndexMap<String, Option<Value>>,
    /// The whole dictionary, once it was needed.
    full: Option<Arc<PyDict>>,
}

impl LazyDict {
    /// Makes a dictionary over a source.
    #[must_use]
    pub fn new(source: Arc<dyn LazySource>) -> Self {
        Self { source, state: Mutex::new(LazyState { seen: indexmap::IndexMap::new(), full: None }) }
    }

    /// The whole dictionary; from here on it is an ordinary one.
    #[must_use]
    pub fn load_all(&self) -> Arc<PyDict> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full) = &state.full {
            return Arc::clone(full);
        }
        let mut pairs = Dict::new();
        if let Data::Map(all) = self.source.all() {
            for (key, value) in all.iter() {
                // A value that a template already holds (and may have changed) stays the same object.
                let known = key.as_str().and_then(|k| state.seen.get(k).cloned().flatten());
                let key = super::convert::key_to_template(key);
                pairs.insert(key, known.unwrap_or_else(|| to_template(value)));
            }
        }
        for (key, value) in std::mem::take(&mut state.seen) {
            if let Some(value) = value {
                pairs.entry(DictKey::from(key.as_str())).or_insert(value);
            }
        }
        let full = Arc::new(PyDict::new(pairs));
        state.full = Some(Arc::clone(&full));
        full
    }

    /// One value.
    #[must_use]
    pub fn get_str(&self, key: &str) -> Option<Value> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(full) = &state.full {
            return full.get_str(key);
        }
        if let Some(seen) = state.seen.get(key) {
            return seen.clone();
        }
        let value = self.source.get(key).map(|v| to_template(&v));
        state.seen.insert(key.to_owned(), value.clone());
        value
    }

    /// True when no template has changed what was fetched.
    #[must_use]
    pub fn is_as_fetched(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |value: &Value, data: &Data| super::to_value(value).is_ok_and(|value| value == *data);
        match &state.full {
            Some(full) => is_same(&Value::from_dyn_object(Arc::clone(full)), &self.source.all()),
            None => state.seen.iter().all(|(key, value)| match (value, self.source.get(key)) {
                (Some(value), Some(data)) => is_same(value, &data),
                (value, data) => value.is_none() && data.is_none(),
            }),
        }
    }

    /// All pairs.
    #[must_use]
    pub fn pairs(&self) -> Vec<(Value, Value)> {
        self.load_all().pairs()
    }
}

impl fmt::Debug for LazyDict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dict")
    }
}

impl Object for LazyDict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str() {
            Some(key) => self.get_str(key),
            None => self.load_all().get(key),
        }
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        bound_method(Value::from_dyn_object(Arc::clone(self)), methods::dict::NAMES, key)
            .or_else(|| self.get_str(key))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.load_all().keys())
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.load_all().len())
    }

    fn is_true(self: &Arc<Self>) -> bool {
        true
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        if method == "get"
            && matches!(args.len(), 1 | 2)
            && !args.iter().any(Value::is_kwargs)
            && let Some(key) = args[0].as_str()
        {
            let default = || args.get(1).cloned().unwrap_or_else(|| Value::from(()));
            return Ok(self.get_str(key).unwrap_or_else(default));
        }
        methods::dict::call(&self.load_all(), state, method, args)
    }

    fn render(self: &Arc<Self>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::repr(&Value::from_dyn_object(self.load_all())))
    }
}
