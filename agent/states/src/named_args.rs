//! Arguments by name, whether a state or a function was given them.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use zagent_host::command_options::value_text;

/// Arguments by name. Null counts as not given.
#[derive(Clone, Copy)]
pub(crate) struct NamedArgs<'a>(&'a dyn Fn(&str) -> Option<&'a Value>);

impl<'a> NamedArgs<'a> {
    /// What a lookup finds.
    pub(crate) const fn new(find: &'a dyn Fn(&str) -> Option<&'a Value>) -> Self {
        Self(find)
    }

    /// The argument itself.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Value> {
        (self.0)(key).filter(|v| !v.is_null())
    }

    /// A text, when there is one that is not empty; numbers are written out.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        self.get(key)
            .filter(|v| !matches!(v, Value::List(_) | Value::Map(_)))
            .map(value_text)
            .filter(|t| !t.is_empty())
    }

    /// A text that has to be there.
    pub(crate) fn require_text(&self, key: &str) -> Result<String, FunctionError> {
        self.text(key).ok_or_else(|| FunctionError::bad_arguments(format!("`{key}` must be given, as text")))
    }

    /// A switch, when it is given.
    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        self.get(key).map(Value::is_truthy)
    }

    /// True when it is switched on.
    pub(crate) fn is_enabled(&self, key: &str) -> bool {
        self.flag(key).unwrap_or(false)
    }

    /// Texts: a list, or one text with commas between them.
    pub(crate) fn text_list(&self, key: &str) -> Option<Vec<String>> {
        self.get(key).map(|v| match v {
            Value::List(items) => items.iter().map(value_text).collect(),
            other => {
                value_text(other).split(',').map(|t| t.trim().to_owned()).filter(|t| !t.is_empty()).collect()
            }
        })
    }

    /// Pairs: a mapping, or a list of mappings.
    pub(crate) fn pairs(&self, key: &str) -> Map {
        let mut all = Map::new();
        let mut take = |v: &Value| {
            for (k, v) in v.as_map().into_iter().flat_map(Map::iter) {
                all.insert(k.clone(), v.clone());
            }
        };
        match self.get(key) {
            Some(Value::List(items)) => items.iter().for_each(take),
            Some(other) => take(other),
            None => {}
        }
        all
    }
}

/// Lets a body see the arguments of a function.
pub(crate) fn with_bound_args<T>(bound: &FunctionArgs<Value>, body: impl FnOnce(&NamedArgs<'_>) -> T) -> T {
    body(&NamedArgs::new(&|key| bound.get(key)))
}

/// Lets a body see the entries of a mapping.
pub(crate) fn with_map_args<T>(map: &Map, body: impl FnOnce(&NamedArgs<'_>) -> T) -> T {
    body(&NamedArgs::new(&|key| map.get(key)))
}
