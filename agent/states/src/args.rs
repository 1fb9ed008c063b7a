//! The arguments of a chunk, as a state function reads them.
//!
//! Law: a value of the wrong kind is a failure that names the argument; it is never taken for something else (held
//! by `what_cannot_be_asked_for_is_refused`, `arguments_that_cannot_be`).

#![expect(clippy::disallowed_methods, reason = "`~` in an argument is the home of the agent's user")]

use std::path::PathBuf;

use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

use super::StateError;

/// Arguments by name; `name` is one of them.
#[derive(Clone, Copy, Debug)]
pub struct ChunkArgs<'c> {
    /// The chunk they stand in.
    pub chunk: &'c Chunk,
}

impl<'c> ChunkArgs<'c> {
    /// Reads from a chunk.
    #[must_use]
    pub const fn new(chunk: &'c Chunk) -> Self {
        Self { chunk }
    }

    /// An argument that is given and is not null.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'c Value> {
        let value = if key == "name" { Some(&self.chunk.name) } else { self.chunk.args.get(key) };
        value.filter(|v| !matches!(v, Value::Null))
    }

    /// The name as text; numbers count as text.
    #[must_use]
    pub fn name(&self) -> String {
        zagent_compiler::name_text(&self.chunk.name)
    }

    /// A text; numbers and booleans are written out as Python would.
    ///
    /// # Errors
    /// Fails for lists and mappings.
    pub fn text(&self, key: &str) -> Result<Option<String>, StateError> {
        self.get(key).map(|v| scalar_text(v).ok_or_else(|| type_error(key, "text", v))).transpose()
    }

    /// A switch, by Python's truth.
    #[must_use]
    pub fn flag(&self, key: &str, default: bool) -> bool {
        self.get(key).map_or(default, Value::is_truthy)
    }

    /// A whole number, also written as text.
    ///
    /// # Errors
    /// Fails when it is none.
    pub fn int(&self, key: &str) -> Result<Option<i64>, StateError> {
        let parse = |v: &Value| match v {
            Value::Int(n) => Some(*n),
            Value::Str(s) => s.trim().parse().ok(),
            _ => None,
        };
        self.get(key).map(|v| parse(v).ok_or_else(|| type_error(key, "a whole number", v))).transpose()
    }

    /// A number of seconds or such, also written as text.
    ///
    /// # Errors
    /// Fails when it is none.
    pub fn number(&self, key: &str) -> Result<Option<f64>, StateError> {
        #[expect(clippy::cast_precision_loss, reason = "seconds and counts are small")]
        let parse = |v: &Value| match v {
            Value::Int(n) => Some(*n as f64),
            Value::Float(n) => Some(*n),
            Value::Str(s) => s.trim().parse().ok(),
            _ => None,
        };
        self.get(key).map(|v| parse(v).ok_or_else(|| type_error(key, "a number", v))).transpose()
    }

    /// A list of texts; one text is a list of one.
    ///
    /// # Errors
    /// Fails when it is neither.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>, StateError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let texts = match value {
            Value::List(items) => items.iter().map(scalar_text).collect::<Option<Vec<_>>>(),
            other => scalar_text(other).map(|text| vec![text]),
        };
        texts.map(Some).ok_or_else(|| type_error(key, "a list of texts", value))
    }

    /// A mapping; a list of mappings of one key each counts as one.
    ///
    /// # Errors
    /// Fails when it is neither.
    pub fn map(&self, key: &str) -> Result<Option<Map>, StateError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let mut all = Map::new();
        let parts: Vec<&Value> = match value {
            Value::List(items) => items.iter().collect(),
            other => vec![other],
        };
        for part in parts {
            let Value::Map(map) = part else { return Err(type_error(key, "a mapping", value)) };
            for (k, v) in map.iter() {
                all.insert(k.clone(), v.clone());
            }
        }
        Ok(Some(all))
    }

    /// An absolute path; `~` stands for the home directory of who runs this.
    ///
    /// # Errors
    /// Fails when it is no absolute path.
    pub fn path(&self, key: &str) -> Result<Option<PathBuf>, StateError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let path = expand_home(&text);
        if path.is_absolute() {
            return Ok(Some(path));
        }
        Err(StateError::new(format!("Specified file {text} is not an absolute path")))
    }

    /// Permission bits as Salt reads them: `644`, `'0644'` and `'644'` are the same; `keep` is none.
    ///
    /// # Errors
    /// Fails when it is no mode.
    pub fn mode(&self, key: &str) -> Result<Option<u32>, StateError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let text = scalar_text(value).ok_or_else(|| type_error(key, "a mode such as '0644'", value))?;
        if text == "keep" {
            return Ok(None);
        }
        let digits = text.strip_prefix("0o").unwrap_or(&text);
        match u32::from_str_radix(digits, 8) {
            Ok(mode) if mode <= 0o7777 => Ok(Some(mode)),
            _ => Err(type_error(key, "a mode such as '0644'", value)),
        }
    }

    /// Refuses a name, and values of these arguments, that a program would take for an option.
    ///
    /// # Errors
    /// Fails when one begins with a dash, and when an argument is no text or list of texts.
    pub(crate) fn reject_options(&self, keys: &[&str]) -> Result<(), StateError> {
        let mut names = vec![self.name()];
        for key in keys {
            names.extend(self.texts(key)?.unwrap_or_default());
        }
        match names.iter().find(|name| name.starts_with('-')) {
            Some(name) => {
                Err(StateError::new(format!("`{name}` begins with a dash: it would be taken for an option")))
            }
            None => Ok(()),
        }
    }
}

/// A text, or a number or boolean written as Python would.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::Str(s) => Some(s.to_string()),
        Value::List(_) | Value::Map(_) | Value::Null => None,
        other => Some(zagent_config::value::python_str(other)),
    }
}

fn type_error(key: &str, wanted: &str, got: &Value) -> StateError {
    StateError::new(format!("`{key}` must be {wanted}, not {}", got.kind()))
}

/// A path with `~` and `~/…` as the home directory.
fn expand_home(text: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").map(PathBuf::from);
    match text.strip_prefix('~') {
        Some("") => home().unwrap_or_else(|| text.into()),
        Some(rest) if rest.starts_with('/') => {
            home().map_or_else(|| text.into(), |h| h.join(rest.trim_start_matches('/')))
        }
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests;
