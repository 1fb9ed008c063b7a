//! Scalars, lists and mappings in, values out: shared by both readers.
//!
//! A value is built once, with exactly the memory it needs; equal short strings of one document are one allocation.

use std::sync::Arc;

use zagent_config::value::MapEntry;
use zagent_config::{List, Map, Pos, Value};

/// Up to this many keys a mapping is searched for duplicates pair by pair.
const SMALL_MAP_LEN: usize = 11;

/// How many strings of a document are cached, a power of two.
const INTERN_SLOTS: usize = 256;

/// Longer strings are rarely repeated.
const MAX_INTERNED_LEN: usize = 32;

/// Makes strings, and reuses equal ones where possible.
pub(super) struct StringInterner {
    slots: Vec<Option<Arc<str>>>,
}

impl StringInterner {
    pub(super) fn new() -> Self {
        Self { slots: vec![None; INTERN_SLOTS] }
    }

    /// A string value with this text.
    #[inline]
    pub(super) fn intern(&mut self, text: &str) -> Value {
        if text.len() > MAX_INTERNED_LEN {
            return Value::Str(text.into());
        }
        let slot = &mut self.slots[slot_of(text.as_bytes())];
        if let Some(known) = slot
            && **known == *text
        {
            return Value::Str(Arc::clone(known));
        }
        let made: Arc<str> = text.into();
        *slot = Some(Arc::clone(&made));
        Value::Str(made)
    }
}

/// Mixes the length and both ends: enough to distinguish the words of a state.
#[inline]
fn slot_of(text: &[u8]) -> usize {
    let n = text.len();
    let (a, b) = match n {
        0 => (0, 0),
        1..4 => (u32::from(text[0]) << 16 | u32::from(text[n / 2]) << 8 | u32::from(text[n - 1]), 0),
        _ => (hash_word(&text[..4]), hash_word(&text[n - 4..])),
    };
    let mixed = (a ^ b.rotate_left(15) ^ u32::try_from(n).unwrap_or(0)).wrapping_mul(0x9E37_79B1);
    (mixed >> (32 - INTERN_SLOTS.trailing_zeros())) as usize
}

#[inline]
fn hash_word(four: &[u8]) -> u32 {
    four.try_into().map_or(0, u32::from_le_bytes)
}

/// Two entries of a mapping with the same key.
pub(super) struct DuplicateKey {
    /// The second key.
    pub key: Value,
    /// Its position.
    pub at: Pos,
    /// The position of the first one.
    pub first: Pos,
}

/// Makes a mapping of the entries; fails on a duplicate key.
pub(super) fn build_map(entries: impl ExactSizeIterator<Item = MapEntry>) -> Result<Value, DuplicateKey> {
    let few = entries.len() <= SMALL_MAP_LEN;
    let mut map = Map::with_capacity(entries.len());
    for entry in entries {
        match &entry.key {
            Value::Str(key) if few => {
                let known = map.entries().iter().find(|e| matches!(&e.key, Value::Str(k) if k == key));
                if let Some(first) = known {
                    return Err(DuplicateKey { first: first.at, at: entry.at, key: entry.key });
                }
                map.push_new(entry);
            }
            _ => {
                if map.get_value(&entry.key).is_some() {
                    return Err(duplicate_key(&map, entry));
                }
                map.push_new(entry);
            }
        }
    }
    Ok(Value::Map(Arc::new(map)))
}

fn duplicate_key(map: &Map, entry: MapEntry) -> DuplicateKey {
    let known = |e: &&MapEntry| {
        std::iter::once((e.key.clone(), Value::Null)).collect::<Map>().get_value(&entry.key).is_some()
    };
    let first = map.entries().iter().find(known).map_or(Pos::NONE, |e| e.at);
    DuplicateKey { first, at: entry.at, key: entry.key }
}

/// Makes a list of items, each with its place.
pub(super) fn build_list(items: impl ExactSizeIterator<Item = (Value, Pos)>) -> Value {
    let mut values = Vec::with_capacity(items.len());
    let mut marks = Vec::with_capacity(items.len());
    for (value, at) in items {
        values.push(value);
        marks.push(at);
    }
    Value::List(Arc::new(List::with_positions(values, marks)))
}
