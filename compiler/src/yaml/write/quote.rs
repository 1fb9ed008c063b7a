//! Single values as YAML text on one line: the filters `yaml_encode`, `yaml_dquote` and `yaml_squote`.

use zagent_config::Value;

use super::WriteError;
use super::dump::scalar_text;
use super::emit::escape;

/// A text in double quotes, everything but printable ASCII as escapes.
#[must_use]
pub fn yaml_dquote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => escape(c, &mut out),
            ' '..='~' => out.push(c),
            _ => escape(c, &mut out),
        }
    }
    out.push('"');
    out
}

/// A text in single quotes. A line break inside is doubled, as YAML folds one away.
#[must_use]
pub fn yaml_squote(text: &str) -> String {
    let is_break = |c: char| matches!(c, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    let mut was_break = false;
    for c in text.chars() {
        if c == '\n' && !was_break {
            out.push('\n');
        }
        was_break = is_break(c);
        if c == '\'' {
            out.push('\'');
        }
        out.push(c);
    }
    out.push('\'');
    out
}

/// A scalar as YAML: strings in double quotes.
///
/// # Errors
/// Fails for a list or mapping.
pub fn yaml_encode(value: &Value) -> Result<String, WriteError> {
    match value {
        Value::Str(text) => Ok(yaml_dquote(text)),
        Value::List(_) | Value::Map(_) => Err(WriteError::NoScalar(value.kind())),
        scalar => Ok(scalar_text(scalar)),
    }
}
