//! Values to bytes and back, for internal files: small, fast, and without source positions.
//!
//! Law: a written value is read back unchanged; anything else gives `None`, never a panic, and never a wrong value
//! accepted because of its length alone (held by `written_values_are_read_back`, `damaged_bytes_never_panic`).

use std::sync::Arc;

use super::{List, Map, MapEntry, Pos, Value};

/// Maximum nesting when reading.
const MAX_DEPTH: usize = 256;

/// Writes a number; small numbers take one byte.
pub fn write_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(0x80 | (n & 0x7f) as u8);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Writes a text with its length.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    write_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads what was written, from the front.
#[derive(Clone, Copy, Debug)]
pub struct ValueReader<'b>(&'b [u8]);

impl<'b> ValueReader<'b> {
    /// Reads from these bytes.
    #[must_use]
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// True when everything is read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One byte.
    pub fn read_byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// The given number of bytes.
    pub fn read_bytes(&mut self, n: usize) -> Option<&'b [u8]> {
        let (first, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(first)
    }

    /// A number.
    pub fn read_varint(&mut self) -> Option<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.read_byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    /// A number that counts things of at least one byte each, so it cannot exceed what is left.
    pub fn read_count(&mut self) -> Option<usize> {
        usize::try_from(self.read_varint()?).ok().filter(|n| *n <= self.0.len())
    }

    /// A text.
    pub fn read_text(&mut self) -> Option<&'b str> {
        let n = self.read_count()?;
        std::str::from_utf8(self.read_bytes(n)?).ok()
    }

    /// A value.
    pub fn read_value(&mut self) -> Option<Value> {
        self.read_nested(MAX_DEPTH)
    }

    /// A mapping.
    pub fn read_map(&mut self) -> Option<Map> {
        self.read_entries(MAX_DEPTH)
    }

    fn read_nested(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        Some(match self.read_byte()? {
            0 => Value::Null,
            1 => Value::Bool(false),
            2 => Value::Bool(true),
            3 => Value::Int(self.read_varint()?.cast_signed()),
            4 => Value::Big(self.read_text()?.into()),
            5 => Value::Float(f64::from_le_bytes(self.read_bytes(8)?.try_into().ok()?)),
            6 => Value::Str(self.read_text()?.into()),
            7 => {
                let n = self.read_count()?;
                let mut items = Vec::with_capacity(n);
                for _ in 0..n {
                    items.push(self.read_nested(depth)?);
                }
                Value::List(Arc::new(List::from(items)))
            }
            8 => Value::Map(Arc::new(self.read_entries(depth)?)),
            _ => return None,
        })
    }

    fn read_entries(&mut self, depth: usize) -> Option<Map> {
        let n = self.read_count()?;
        let mut map = Map::with_capacity(n);
        for _ in 0..n {
            let (key, value) = (self.read_nested(depth)?, self.read_nested(depth)?);
            map.push_new(MapEntry { key, value, at: Pos::NONE });
        }
        Some(map)
    }
}

impl Value {
    /// Writes it; [`ValueReader::read_value`] reads it.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(0),
            Self::Bool(b) => out.push(1 + u8::from(*b)),
            Self::Int(n) => {
                out.push(3);
                write_varint(out, n.cast_unsigned());
            }
            Self::Big(digits) => {
                out.push(4);
                write_text(out, digits);
            }
            Self::Float(n) => {
                out.push(5);
                out.extend_from_slice(&n.to_le_bytes());
            }
            Self::Str(text) => {
                out.push(6);
                write_text(out, text);
            }
            Self::List(items) => {
                out.push(7);
                write_varint(out, items.len() as u64);
                for item in items.iter() {
                    item.to_bytes(out);
                }
            }
            Self::Map(map) => {
                out.push(8);
                map.to_bytes(out);
            }
        }
    }
}

impl Map {
    /// Writes it; [`ValueReader::read_map`] reads it.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        write_varint(out, self.len() as u64);
        for (key, value) in self.iter() {
            key.to_bytes(out);
            value.to_bytes(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Value {
        let json =
            r#"{"a": [1, -5, 2.5, true, false, null, "ü", {}], "b": {"c": 123456789012345678901234567890}}"#;
        Value::from_json_str(json).unwrap()
    }

    #[test]
    fn written_values_are_read_back() {
        let mut out = Vec::new();
        sample().to_bytes(&mut out);
        let mut reader = ValueReader::new(&out);
        assert_eq!(reader.read_value(), Some(sample()));
        assert!(reader.is_empty());
        for n in [0, 1, 127, 128, 300, u64::MAX] {
            let mut out = Vec::new();
            write_varint(&mut out, n);
            assert_eq!(ValueReader::new(&out).read_varint(), Some(n));
        }
    }

    #[test]
    fn damaged_bytes_never_panic() {
        let mut out = Vec::new();
        sample().to_bytes(&mut out);
        for n in 0..out.len() {
            assert_eq!(ValueReader::new(&out[..n]).read_value(), None, "cut at {n}");
            for bit in 0..8 {
                let mut damaged = out.clone();
                damaged[n] ^= 1 << bit;
                let _ = ValueReader::new(&damaged).read_value();
            }
        }
        let deep = [7, 1].repeat(10_000);
        assert_eq!(ValueReader::new(&deep).read_value(), None);
    }
}
