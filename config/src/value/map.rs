//! Lists and ordered mappings whose entries keep their source positions.
//!
//! A mapping keeps its entries in a plain vector and builds a hash index only once it is large: most
//! mappings in a state tree have one key, and a vector is enough for those.

use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{Pos, Value};

/// From this many entries on, a mapping is looked up by hash.
const INDEX_FROM: usize = 12;

/// A list; dereferences to a slice of its values.
#[derive(Clone, Debug, Default)]
pub struct List {
    items: Vec<Value>,
    marks: Vec<Pos>,
}

impl List {
    /// Makes a list whose items keep their source position (one position per item).
    #[must_use]
    pub fn with_positions(items: Vec<Value>, marks: Vec<Pos>) -> Self {
        debug_assert_eq!(items.len(), marks.len(), "one place an item");
        Self { items, marks }
    }

    /// The position of the item in its source text.
    #[must_use]
    pub fn pos(&self, index: usize) -> Pos {
        self.marks.get(index).copied().unwrap_or(Pos::NONE)
    }

    /// Appends a value that was not read from a file.
    pub fn push(&mut self, value: Value) {
        self.push_at(value, Pos::NONE);
    }

    /// Appends a value and its source position.
    pub fn push_at(&mut self, value: Value, at: Pos) {
        if at.is_known() || !self.marks.is_empty() {
            self.marks.resize(self.items.len(), Pos::NONE);
            self.marks.push(at);
        }
        self.items.push(value);
    }

    /// The values alone.
    #[must_use]
    pub fn into_vec(self) -> Vec<Value> {
        self.items
    }

    /// The values, each with its place.
    #[must_use]
    pub fn into_positioned(self) -> Vec<(Value, Pos)> {
        let marks = self.marks.into_iter().chain(std::iter::repeat(Pos::NONE));
        self.items.into_iter().zip(marks).collect()
    }
}

impl FromIterator<(Value, Pos)> for List {
    fn from_iter<I: IntoIterator<Item = (Value, Pos)>>(iter: I) -> Self {
        let mut list = Self::default();
        for (value, at) in iter {
            list.push_at(value, at);
        }
        list
    }
}

impl Deref for List {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.items
    }
}

impl From<Vec<Value>> for List {
    fn from(items: Vec<Value>) -> Self {
        Self { items, marks: Vec::new() }
    }
}

impl PartialEq for List {
    fn eq(&self, other: &Self) -> bool {
        self.items == other.items
    }
}

/// One key of a mapping, its value, and the position of the key.
#[derive(Clone, Debug)]
pub struct MapEntry {
    /// The key.
    pub key: Value,
    /// The value.
    pub value: Value,
    /// The position of the key.
    pub at: Pos,
}

/// A mapping in insertion order, with Python's equality of keys (`1`, `1.0` and `true` are the same key).
#[derive(Clone, Default)]
pub struct Map {
    entries: Vec<MapEntry>,
    index: Option<Box<HashTable<u32>>>,
    hasher: DefaultHashBuilder,
}

impl Map {
    /// An empty mapping.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty mapping with room for `n` entries.
    #[must_use]
    pub fn with_capacity(n: usize) -> Self {
        Self { entries: Vec::with_capacity(n), ..Self::default() }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries in order.
    #[must_use]
    pub fn entries(&self) -> &[MapEntry] {
        &self.entries
    }

    /// The pairs in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Value, &Value)> {
        self.entries.iter().map(|e| (&e.key, &e.value))
    }

    /// The keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.entries.iter().map(|e| &e.key)
    }

    /// The values in order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> {
        self.entries.iter().map(|e| &e.value)
    }

    /// Looks a string key up.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entry(key).map(|e| &e.value)
    }

    /// Looks a string key up, with its place.
    #[must_use]
    pub fn entry(&self, key: &str) -> Option<&MapEntry> {
        let found = match &self.index {
            None => self.entries.iter().position(|e| e.key.as_str() == Some(key)),
            Some(index) => index
                .find(hash_str(&self.hasher, key), |&i| self.entries[i as usize].key.as_str() == Some(key))
                .map(|&i| i as usize),
        };
        found.map(|i| &self.entries[i])
    }

    /// Looks any key up.
    #[must_use]
    pub fn get_value(&self, key: &Value) -> Option<&Value> {
        self.find(key).map(|i| &self.entries[i].value)
    }

    /// True when the string is a key.
    #[must_use]
    pub fn contains(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// A mutable value by string key.
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let found = self.find(&Value::from(key));
        found.map(|i| &mut self.entries[i].value)
    }

    /// Sets a key that was not read from a file; an existing key keeps its place in the order.
    pub fn insert(&mut self, key: impl Into<Value>, value: impl Into<Value>) -> Option<Value> {
        self.insert_at(key.into(), value.into(), Pos::NONE)
    }

    /// Sets a key and its source position; returns the previous value.
    pub fn insert_at(&mut self, key: Value, value: Value, at: Pos) -> Option<Value> {
        if let Some(i) = self.find(&key) {
            let entry = &mut self.entries[i];
            if at.is_known() {
                entry.at = at;
            }
            return Some(std::mem::replace(&mut entry.value, value));
        }
        self.push_new(MapEntry { key, value, at });
        None
    }

    /// Appends an entry whose key is known to be new.
    pub fn push_new(&mut self, entry: MapEntry) {
        let at = u32::try_from(self.entries.len()).expect("a mapping has fewer than 2^32 entries");
        if let Some(index) = &mut self.index {
            let (entries, hasher) = (&self.entries, &self.hasher);
            index.insert_unique(hash_value(hasher, &entry.key), at, |&i| {
                hash_value(hasher, &entries[i as usize].key)
            });
        }
        self.entries.push(entry);
        if self.index.is_none() && self.entries.len() >= INDEX_FROM {
            self.build_index();
        }
    }

    /// Removes a string key; the order of the others does not change.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.remove_value(&Value::from(key))
    }

    /// Removes any key; the order of the others does not change.
    pub fn remove_value(&mut self, key: &Value) -> Option<Value> {
        let found = self.find(key)?;
        let entry = self.entries.remove(found);
        self.reindex();
        Some(entry.value)
    }

    /// Keeps the entries for which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&MapEntry) -> bool) {
        self.entries.retain(keep);
        self.reindex();
    }

    /// Removes all entries and returns them in order.
    pub fn take_entries(&mut self) -> Vec<MapEntry> {
        self.index = None;
        std::mem::take(&mut self.entries)
    }

    fn reindex(&mut self) {
        self.index = None;
        if self.entries.len() >= INDEX_FROM {
            self.build_index();
        }
    }

    fn build_index(&mut self) {
        let mut index = HashTable::with_capacity(self.entries.len() * 2);
        for (i, entry) in self.entries.iter().enumerate() {
            let i = u32::try_from(i).expect("a mapping has fewer than 2^32 entries");
            index.insert_unique(hash_value(&self.hasher, &entry.key), i, |&i| {
                hash_value(&self.hasher, &self.entries[i as usize].key)
            });
        }
        self.index = Some(Box::new(index));
    }

    fn find(&self, key: &Value) -> Option<usize> {
        match &self.index {
            None => self.entries.iter().position(|e| same_key(&e.key, key)),
            Some(index) => index
                .find(hash_value(&self.hasher, key), |&i| same_key(&self.entries[i as usize].key, key))
                .map(|&i| i as usize),
        }
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl PartialEq for Map {
    /// Two mappings are equal when they hold the same pairs, in any order.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(k, v)| other.get_value(k) == Some(v))
    }
}

impl<K: Into<Value>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(iter: I) -> Self {
        let mut map = Self::new();
        for (k, v) in iter {
            map.insert(k, v);
        }
        map
    }
}

/// Python's equality of dictionary keys.
pub(crate) fn same_key(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Str(_), _) | (_, Value::Str(_)) => false,
        _ => match (number(a), number(b)) {
            (Some(a), Some(b)) => a == b,
            (None, None) => a == b,
            _ => false,
        },
    }
}

fn number(v: &Value) -> Option<f64> {
    match v {
        Value::Bool(b) => Some(f64::from(u8::from(*b))),
        #[expect(clippy::cast_precision_loss, reason = "keys beyond 2^53 are compared by their digits below")]
        Value::Int(i) if i.unsigned_abs() < 1 << 53 => Some(*i as f64),
        Value::Float(f) => Some(*f),
        _ => None,
    }
}

fn hash_str(hasher: &DefaultHashBuilder, key: &str) -> u64 {
    hasher.hash_one(key)
}

fn hash_value(hasher: &DefaultHashBuilder, key: &Value) -> u64 {
    if let Value::Str(s) = key {
        return hash_str(hasher, s);
    }
    let mut h = hasher.build_hasher();
    match (number(key), key) {
        (Some(n), _) => (n + 0.0).to_bits().hash(&mut h),
        (None, Value::Int(i)) => i.hash(&mut h),
        (None, Value::Big(b)) => b.hash(&mut h),
        (None, other) => std::mem::discriminant(other).hash(&mut h),
    }
    h.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_equal_as_in_python() {
        let mut m = Map::new();
        m.insert(Value::Int(1), "int");
        assert_eq!(m.get_value(&Value::Bool(true)), Some(&Value::from("int")));
        assert_eq!(m.get_value(&Value::Float(1.0)), Some(&Value::from("int")));
        assert_eq!(m.get_value(&Value::from("1")), None);
    }

    #[test]
    fn large_and_small_maps_find_the_same_keys() {
        let mut m = Map::new();
        for i in 0..100 {
            m.insert(format!("k{i}"), Value::Int(i));
        }
        m.remove("k50");
        assert_eq!(m.get("k50"), None);
        for i in (0..100).filter(|i| *i != 50) {
            assert_eq!(m.get(&format!("k{i}")), Some(&Value::Int(i)));
        }
        assert_eq!(m.keys().next_back(), Some(&Value::from("k99")));
    }

    #[test]
    fn an_overwritten_key_keeps_its_place() {
        let mut m: Map = [("a", "1"), ("b", "2")].into_iter().collect();
        assert_eq!(m.insert("a", "3"), Some(Value::from("1")));
        assert_eq!(m.keys().next(), Some(&Value::from("a")));
    }
}
