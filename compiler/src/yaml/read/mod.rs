//! A YAML text in, a value out, as Salt's own loader reads it.

mod build;
mod diagnostics;
mod error;
mod events;
mod explain;
mod limits;
mod node;
mod number;
mod quick;
mod scalar;
mod tag_comma;
#[cfg(test)]
mod tests;
mod timestamp;

pub use self::error::YamlError;

use zagent_config::Value;

use crate::TreeLimits;

/// Reads the one document of a text; an empty text is `null`.
///
/// # Errors
/// Fails when the text is not YAML, when Salt would reject it (duplicate keys, unknown tags, a second document), or when
/// it exceeds the limits on nodes or depth.
pub fn load(text: &str, limits: &TreeLimits) -> Result<Value, YamlError> {
    match quick::read(text, limits) {
        Ok(value) => Ok(value),
        Err(quick::QuickStop::Limit(error)) => Err(*error),
        Err(quick::QuickStop::Unsure) => load_full(text, limits),
    }
}

/// True when a text may be written without quotes and reads back as the same string.
pub(super) fn is_plain_str(text: &str) -> bool {
    scalar::is_plain_str(text)
}

/// Reads with the full parser alone.
fn load_full(text: &str, limits: &TreeLimits) -> Result<Value, YamlError> {
    node::build(events::read(text, limits)?, limits)
}
