//! Values as bytes and back, for what one program writes for itself: small, quick, and without places.
//!
//! Law: what was written is read as the same value; anything else is `None`, never a panic and never a wrong value taken for
//! a right one by its length alone.

use std::sync::Arc;

use super::{Entry, List, Map, Pos, Value};

/// Nesting that is read at most.
const DEPTH: usize = 256;

/// Writes a number, small ones in one byte.
pub fn put_number(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(0x80 | (n & 0x7f) as u8);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Writes a text with its length.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads what was written, from the front.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
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
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// So many bytes.
    pub fn bytes(&mut self, n: usize) -> Option<&'b [u8]> {
        let (first, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(first)
    }

    /// A number.
    pub fn number(&mut self) -> Option<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(n);
            }
        }
        None
    }

    /// A number that counts things of at least one byte each, so it cannot exceed what is left.
    pub fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|n| *n <= self.0.len())
    }

    /// A text.
    pub fn text(&mut self) -> Option<&'b str> {
        let n = self.count()?;
        std::str::from_utf8(self.bytes(n)?).ok()
    }

    /// A value.
    pub fn value(&mut self) -> Option<Value> {
        self.nested(DEPTH)
    }

    /// A mapping.
    pub fn map(&mut self) -> Option<Map> {
        self.entries(DEPTH)
    }

    fn nested(&mut self, depth: usize) -> Option<Value> {
        let depth = depth.checked_sub(1)?;
        Some(match self.byte()? {
            0 => Value::Null,
            1 => Value::Bool(false),
            2 => Value::Bool(true),
            3 => Value::Int(self.number()?.cast_signed()),
            4 => Value::Big(self.text()?.into()),
            5 => Value::Float(f64::from_le_bytes(self.bytes(8)?.try_into().ok()?)),
            6 => Value::Str(self.text()?.into()),
            7 => {
                let n = self.count()?;
                let mut items = Vec::with_capacity(n);
                for _ in 0..n {
                    items.push(self.nested(depth)?);
                }
                Value::List(Arc::new(List::from(items)))
            }
            8 => Value::Map(Arc::new(self.entries(depth)?)),
            _ => return None,
        })
    }

    fn entries(&mut self, depth: usize) -> Option<Map> {
        let n = self.count()?;
        let mut map = Map::with_capacity(n);
        for _ in 0..n {
            let (key, value) = (self.nested(depth)?, self.nested(depth)?);
            map.push_new(Entry { key, value, at: Pos::NONE });
        }
        Some(map)
    }
}

impl Value {
    /// Writes it; [`Reader::value`] reads it.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.push(0),
            Self::Bool(b) => out.push(1 + u8::from(*b)),
            Self::Int(n) => {
                out.push(3);
                put_number(out, n.cast_unsigned());
            }
            Self::Big(digits) => {
                out.push(4);
                put_text(out, digits);
            }
            Self::Float(n) => {
                out.push(5);
                out.extend_from_slice(&n.to_le_bytes());
            }
            Self::Str(text) => {
                out.push(6);
                put_text(out, text);
            }
            Self::List(items) => {
                out.push(7);
                put_number(out, items.len() as u64);
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
    /// Writes it; [`Reader::map`] reads it.
    pub fn to_bytes(&self, out: &mut Vec<u8>) {
        put_number(out, self.len() as u64);
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
    fn what_was_written_is_read() {
        let mut out = Vec::new();
        sample().to_bytes(&mut out);
        let mut reader = Reader::new(&out);
        assert_eq!(reader.value(), Some(sample()));
        assert!(reader.is_empty());
        for n in [0, 1, 127, 128, 300, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, n);
            assert_eq!(Reader::new(&out).number(), Some(n));
        }
    }

    #[test]
    fn what_is_cut_or_damaged_is_nothing_or_another_value_but_no_panic() {
        let mut out = Vec::new();
        sample().to_bytes(&mut out);
        for n in 0..out.len() {
            assert_eq!(Reader::new(&out[..n]).value(), None, "cut at {n}");
            for bit in 0..8 {
                let mut damaged = out.clone();
                damaged[n] ^= 1 << bit;
                let _ = Reader::new(&damaged).value();
            }
        }
        let deep = [7, 1].repeat(10_000);
        assert_eq!(Reader::new(&deep).value(), None);
    }
}
