//! Texts and values serialised as JSON with secrets masked.

use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use zagent_config::{Map, Value};

use zagent_config::SecretMask;

/// A text with secrets masked.
pub(super) struct MaskedText<'a>(pub(super) &'a SecretMask, pub(super) &'a str);

impl Serialize for MaskedText<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0.mask_str(self.1))
    }
}

/// A value with secrets masked.
struct MaskedValue<'a>(&'a SecretMask, &'a Value);

impl Serialize for MaskedValue<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.1 {
            Value::Str(text) => MaskedText(self.0, text).serialize(s),
            Value::List(list) => {
                let mut seq = s.serialize_seq(Some(list.len()))?;
                for item in list.iter() {
                    seq.serialize_element(&MaskedValue(self.0, item))?;
                }
                seq.end()
            }
            Value::Map(map) => MaskedMap(self.0, map).serialize(s),
            other => other.serialize(s),
        }
    }
}

/// A mapping with secrets masked.
pub(super) struct MaskedMap<'a>(pub(super) &'a SecretMask, pub(super) &'a Map);

impl Serialize for MaskedMap<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(Some(self.1.len()))?;
        for (key, value) in self.1.iter() {
            match key {
                Value::Str(key) => {
                    map.serialize_entry(&MaskedText(self.0, key), &MaskedValue(self.0, value))?;
                }
                other => map.serialize_entry(&other.json_key(), &MaskedValue(self.0, value))?,
            }
        }
        map.end()
    }
}
