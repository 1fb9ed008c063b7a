//! Keys of template dictionaries: any hashable value, with Python's equality.
//!
//! Law: `1`, `1.0` and `true` are the same key; lists and dictionaries cannot be keys (held by
//! `numbers_and_booleans_are_one_key`, `tuples_are_keys_when_their_items_are`).

use std::hash::{Hash, Hasher};

use indexmap::Equivalent;
use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::budget::MAX_DEPTH;
use super::type_name;

/// A hashable template value.
#[derive(Clone, Debug)]
pub struct DictKey(Value);

impl DictKey {
    /// Makes a key.
    ///
    /// # Errors
    /// Fails for lists, dictionaries and undefined values, as Python does.
    pub fn new(value: Value) -> Result<Self, Error> {
        if is_hashable(&value) {
            return Ok(Self(value));
        }
        if value.is_undefined() {
            return Err(Error::new(ErrorKind::UndefinedError, "an undefined value cannot be a key"));
        }
        let name = type_name(&value);
        Err(Error::new(ErrorKind::InvalidOperation, format!("unhashable type: '{name}' cannot be a key")))
    }

    /// The value that the key is.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.0
    }

    /// Returns the value.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.0
    }

    /// The text of a string key.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.0.as_str()
    }
}

impl From<&str> for DictKey {
    fn from(text: &str) -> Self {
        Self(Value::from(text))
    }
}

/// Maximum values per key: tuples of shared tuples would be unbounded otherwise.
const MAX_PARTS: usize = 1000;

/// True for template values that Python can hash.
#[must_use]
pub fn is_hashable(value: &Value) -> bool {
    let mut left = MAX_PARTS;
    is_hashable_within(value, MAX_DEPTH, &mut left)
}

fn is_hashable_within(value: &Value, depth: usize, left: &mut usize) -> bool {
    if *left == 0 || depth == 0 {
        return false;
    }
    *left -= 1;
    match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number | ValueKind::String | ValueKind::Bytes => true,
        ValueKind::Seq => value
            .downcast_object_ref::<Tuple>()
            .is_some_and(|t| t.iter().all(|v| is_hashable_within(v, depth - 1, left))),
        ValueKind::Plain => true,
        _ => false,
    }
}

fn hash_value<H: Hasher>(value: &Value, state: &mut H) {
    match value.kind() {
        ValueKind::String => value.as_str().unwrap_or_default().hash(state),
        ValueKind::Bool => i64::from(value.is_true()).hash(state),
        ValueKind::Number => match value.as_i64() {
            Some(i) => i.hash(state),
            None => f64::try_from(value.clone()).unwrap_or_default().to_bits().hash(state),
        },
        ValueKind::Seq => {
            for item in value.downcast_object_ref::<Tuple>().into_iter().flat_map(|t| t.iter()) {
                hash_value(item, state);
            }
        }
        ValueKind::Bytes => value.as_bytes().hash(state),
        _ => 0u8.hash(state),
    }
}

impl Hash for DictKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_value(&self.0, state);
    }
}

impl PartialEq for DictKey {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for DictKey {}

/// A borrowed string that finds the key of the same text.
#[derive(Clone, Copy)]
pub(super) struct StrKey<'a>(pub(super) &'a str);

impl Hash for StrKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<DictKey> for StrKey<'_> {
    fn equivalent(&self, key: &DictKey) -> bool {
        key.as_str() == Some(self.0)
    }
}

/// A borrowed value that finds the key it equals. Only hashable values may be looked up.
#[derive(Clone, Copy)]
pub(super) struct ValueKey<'a>(pub(super) &'a Value);

impl Hash for ValueKey<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_value(self.0, state);
    }
}

impl Equivalent<DictKey> for ValueKey<'_> {
    fn equivalent(&self, key: &DictKey) -> bool {
        *self.0 == key.0
    }
}

#[cfg(test)]
mod tests {
    use indexmap::IndexMap;

    use super::*;

    #[test]
    fn numbers_and_booleans_are_one_key() {
        let mut map = IndexMap::new();
        map.insert(DictKey::new(Value::from(1)).unwrap(), 'a');
        assert_eq!(map.get(&ValueKey(&Value::from(true))), Some(&'a'));
        assert_eq!(map.get(&ValueKey(&Value::from(1.0))), Some(&'a'));
        assert_eq!(map.get(&ValueKey(&Value::from("1"))), None);
        assert_eq!(map.get(&StrKey("1")), None);
    }

    #[test]
    fn tuples_are_keys_when_their_items_are() {
        let good = Value::from(Tuple::from(vec![Value::from(1), Value::from("x")]));
        assert!(DictKey::new(good).is_ok());
        let bad = Value::from(Tuple::from(vec![Value::from(vec![1])]));
        assert!(DictKey::new(bad).is_err());
        assert!(DictKey::new(Value::UNDEFINED).is_err());
    }
}
