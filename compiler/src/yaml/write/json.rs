//! Values in, JSON out, as Python's `json.dumps` prints it.

use std::fmt::Write as _;

use zagent_config::{List, Map, Value};

use super::{WriteError, sorted};

/// How to write JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonStyle<'s> {
    /// Spaces per level, each item on its own line; none for one line.
    pub indent: Option<usize>,
    /// Keys are sorted.
    pub sort_keys: bool,
    /// Characters beyond ASCII are written as escapes.
    pub ensure_ascii: bool,
    /// Between items and after keys; by default `, ` (`,` when indented) and `: `.
    pub separators: Option<(&'s str, &'s str)>,
}

impl Default for JsonStyle<'_> {
    /// What `json.dumps` does when Salt calls it without options.
    fn default() -> Self {
        Self { indent: None, sort_keys: false, ensure_ascii: false, separators: None }
    }
}

/// Writes JSON; `NaN` and `Infinity` are written as Python writes them.
///
/// # Errors
/// Fails where Python raises: keys that cannot be sorted, or that are lists or mappings.
pub fn json(value: &Value, style: &JsonStyle<'_>) -> Result<String, WriteError> {
    let default = if style.indent.is_some() { (",", ": ") } else { (", ", ": ") };
    let (comma, colon) = style.separators.unwrap_or(default);
    let mut writer = JsonWriter { out: String::new(), style, comma, colon };
    writer.value(value, 0)?;
    Ok(writer.out)
}

struct JsonWriter<'s> {
    out: String,
    style: &'s JsonStyle<'s>,
    comma: &'s str,
    colon: &'s str,
}

impl JsonWriter<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), WriteError> {
        match value {
            Value::Str(text) => self.string(text),
            Value::List(list) => self.list(list, depth)?,
            Value::Map(map) => self.map(map, depth)?,
            scalar => self.out.push_str(&scalar_text(scalar)),
        }
        Ok(())
    }

    fn list(&mut self, list: &List, depth: usize) -> Result<(), WriteError> {
        if list.is_empty() {
            self.out.push_str("[]");
            return Ok(());
        }
        self.out.push('[');
        for (i, item) in list.iter().enumerate() {
            self.separate(i, depth + 1);
            self.value(item, depth + 1)?;
        }
        self.break_line(depth);
        self.out.push(']');
        Ok(())
    }

    fn map(&mut self, map: &Map, depth: usize) -> Result<(), WriteError> {
        if map.is_empty() {
            self.out.push_str("{}");
            return Ok(());
        }
        let pairs = if self.style.sort_keys { sorted(map)? } else { map.iter().collect() };
        self.out.push('{');
        for (i, (key, value)) in pairs.into_iter().enumerate() {
            self.separate(i, depth + 1);
            match key {
                Value::Str(text) => self.string(text),
                Value::List(_) | Value::Map(_) => return Err(WriteError::Key(key.kind())),
                scalar => self.string(&scalar_text(scalar)),
            }
            self.out.push_str(self.colon);
            self.value(value, depth + 1)?;
        }
        self.break_line(depth);
        self.out.push('}');
        Ok(())
    }

    fn separate(&mut self, index: usize, depth: usize) {
        if index > 0 {
            self.out.push_str(self.comma);
        }
        self.break_line(depth);
    }

    fn break_line(&mut self, depth: usize) {
        if let Some(indent) = self.style.indent {
            self.out.push('\n');
            self.out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\x08' => self.out.push_str("\\b"),
                '\x0c' => self.out.push_str("\\f"),
                '\0'..' ' => self.escape(c),
                '\x7f'.. if self.style.ensure_ascii => self.escape(c),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn escape(&mut self, c: char) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(self.out, "\\u{unit:04x}");
        }
    }
}

/// A scalar that is not a string.
fn scalar_text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Float(f) if f.is_nan() => "NaN".to_owned(),
        Value::Float(f) if f.is_infinite() => if *f > 0.0 { "Infinity" } else { "-Infinity" }.to_owned(),
        other => zagent_config::value::python_str(other),
    }
}
