//! A value in, text out: YAML, JSON and Python literals, exactly as Salt's filters and serializers print them.
//!
//! What templates print ends up in files on hosts, so a different space is a different file.

mod dump;
mod emit;
mod json;
mod quote;
mod scalar;
#[cfg(test)]
mod tests;

pub use self::dump::{DumpStyle, FlowStyle, dump, dump_block, dump_flow};
pub use self::json::{JsonStyle, json};
pub use self::quote::{yaml_dquote, yaml_encode, yaml_squote};

use zagent_config::Value;

/// Why a value cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Two keys cannot be compared in Python.
    #[error("keys cannot be sorted: `<` is not defined between {0} and {1}")]
    Unsortable(&'static str, &'static str),
    /// JSON does not support such a key.
    #[error("{0} cannot be a key in JSON")]
    Key(&'static str),
    /// Only a scalar can be written this way.
    #[error("{0} is not a scalar")]
    NoScalar(&'static str),
}

/// The pairs of a mapping, sorted by key as Python sorts them.
///
/// # Errors
/// Fails when Python cannot compare two of the keys.
fn sorted(map: &zagent_config::Map) -> Result<Vec<(&Value, &Value)>, WriteError> {
    let mut pairs: Vec<(&Value, &Value)> = map.iter().collect();
    let mut clash = None;
    pairs.sort_by(|(a, _), (b, _)| {
        a.py_cmp(b).unwrap_or_else(|| {
            clash = Some(WriteError::Unsortable(a.type_name(), b.type_name()));
            std::cmp::Ordering::Equal
        })
    });
    clash.map_or(Ok(pairs), Err)
}
