//! Python's ordering of values, for `sort`, `dictsort`, `min` and `max`.

use std::cmp::Ordering;

use super::Value;

impl Value {
    /// Compares as Python's `<` does; `None` when Python raises `TypeError`.
    #[must_use]
    pub fn py_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Str(a), Self::Str(b)) => Some(a.cmp(b)),
            (Self::List(a), Self::List(b)) => {
                for (x, y) in a.iter().zip(b.iter()) {
                    match x.py_cmp(y)? {
                        Ordering::Equal => {}
                        unequal => return Some(unequal),
                    }
                }
                Some(a.len().cmp(&b.len()))
            }
            (Self::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            _ => self.as_number()?.partial_cmp(&other.as_number()?),
        }
    }

    /// The numeric value of a bool, int or float.
    #[must_use]
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Bool(b) => Some(f64::from(u8::from(*b))),
            #[expect(clippy::cast_precision_loss, reason = "an approximate value is enough here")]
            Self::Int(i) => Some(*i as f64),
            Self::Float(f) => Some(*f),
            Self::Big(digits) => digits.parse().ok(),
            _ => None,
        }
    }
}
