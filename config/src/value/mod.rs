//! The one data value that all crates share: what YAML, JSON, grains, pillar and low chunks are made of.
//!
//! Cloning is cheap (everything large is behind an `Arc`), order is insertion order, and a value read from a file
//! keeps the positions of its keys and items.

pub mod binary;
mod json;
mod map;
mod merge;
mod order;
mod pprint;
mod python;
mod raw_bytes;
mod traverse;

pub use self::map::{List, Map, MapEntry};
pub use self::merge::{MergeStrategy, merge, merge_recurse};
pub use self::pprint::python_pprint;
pub use self::python::{is_space, python_float, python_repr, python_str};
pub use self::raw_bytes::{raw_bytes, value_from_bytes};
pub use self::traverse::{DEFAULT_DELIMITER, traverse};

use std::sync::Arc;

/// A position in a text: line and column, counted from 1; zero means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pos {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl Pos {
    /// An unknown position.
    pub const NONE: Self = Self { line: 0, column: 0 };

    /// Makes a position from a line and a column, both from 1.
    #[must_use]
    pub const fn new(line: u32, column: u32) -> Self {
        Self { line, column }
    }

    /// True when the position is known.
    #[must_use]
    pub const fn is_known(self) -> bool {
        self.line > 0
    }
}

/// A value of the Salt world: Python's `None`, `bool`, `int`, `float`, `str`, `list` and `dict`.
///
/// Equality is structural and by type (`1`, `1.0` and `true` differ); *keys* of a map follow Python,
/// where these three are the same key.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Python's `None`.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer that fits.
    Int(i64),
    /// An integer that does not fit: its decimal digits, with a sign when negative.
    Big(Arc<str>),
    /// A float.
    Float(f64),
    /// A string.
    Str(Arc<str>),
    /// A list.
    List(Arc<List>),
    /// A mapping, in insertion order.
    Map(Arc<Map>),
}

impl Value {
    /// An empty mapping.
    #[must_use]
    pub fn empty_map() -> Self {
        Self::Map(Arc::default())
    }

    /// An empty list.
    #[must_use]
    pub fn empty_list() -> Self {
        Self::List(Arc::default())
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(s) => Some(s),
            _ => None,
        }
    }

    /// The mapping, when it is one.
    #[must_use]
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(m) => Some(m),
            _ => None,
        }
    }

    /// The list, when it is one.
    #[must_use]
    pub fn as_list(&self) -> Option<&List> {
        match self {
            Self::List(l) => Some(l),
            _ => None,
        }
    }

    /// The integer, when it is one that fits.
    #[must_use]
    pub const fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(i) => Some(*i),
            _ => None,
        }
    }

    /// The boolean, when it is one.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// True for `None`.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Python's truth: false for `None`, `False`, zero and everything empty.
    #[must_use]
    pub fn is_truthy(&self) -> bool {
        match self {
            Self::Null => false,
            Self::Bool(b) => *b,
            Self::Int(i) => *i != 0,
            Self::Big(_) => true,
            Self::Float(f) => *f != 0.0,
            Self::Str(s) => !s.is_empty(),
            Self::List(l) => !l.is_empty(),
            Self::Map(m) => !m.is_empty(),
        }
    }

    /// Looks a string key up in a mapping; `None` also when this is not a mapping.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_map().and_then(|m| m.get(key))
    }

    /// Python's name of the type, as error messages print it.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "NoneType",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Big(_) => "int",
            Self::Float(_) => "float",
            Self::Str(_) => "str",
            Self::List(_) => "list",
            Self::Map(_) => "dict",
        }
    }

    /// The type, in words for users.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Big(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Str(_) => "a string",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Self::Big(a), Self::Big(b)) | (Self::Str(a), Self::Str(b)) => a == b,
            (Self::List(a), Self::List(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Map(a), Self::Map(b)) => Arc::ptr_eq(a, b) || a == b,
            _ => false,
        }
    }
}

impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Self::Bool(v)
    }
}

impl From<i64> for Value {
    fn from(v: i64) -> Self {
        Self::Int(v)
    }
}

impl From<f64> for Value {
    fn from(v: f64) -> Self {
        Self::Float(v)
    }
}

impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Self::Str(v.into())
    }
}

impl From<String> for Value {
    fn from(v: String) -> Self {
        Self::Str(v.into())
    }
}

impl From<Arc<str>> for Value {
    fn from(v: Arc<str>) -> Self {
        Self::Str(v)
    }
}

impl From<Vec<Self>> for Value {
    fn from(v: Vec<Self>) -> Self {
        Self::List(Arc::new(v.into()))
    }
}

impl From<List> for Value {
    fn from(v: List) -> Self {
        Self::List(Arc::new(v))
    }
}

impl From<Map> for Value {
    fn from(v: Map) -> Self {
        Self::Map(Arc::new(v))
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(v: Option<T>) -> Self {
        v.map_or(Self::Null, Into::into)
    }
}

impl FromIterator<Self> for Value {
    fn from_iter<I: IntoIterator<Item = Self>>(iter: I) -> Self {
        iter.into_iter().collect::<Vec<_>>().into()
    }
}
