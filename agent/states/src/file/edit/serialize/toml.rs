//! A value into TOML as Python's `toml` prints it, and back.
//!
//! What is printed is TOML, also where that library would print a text that nobody can read (control characters and
//! backslashes in strings).

use std::fmt::Write as _;

use toml_edit::{DocumentMut, Item, Table};
use zagent_config::{Map, Value};

use crate::StateError;

/// The text of a mapping.
///
/// # Errors
/// Fails for what TOML cannot hold.
pub fn write(value: &Value) -> Result<String, StateError> {
    let Value::Map(map) = value else {
        return Err(StateError::new(format!("toml can only serialize dictionaries, not {}", value.kind())));
    };
    let (mut out, mut open) = write_table(map, "")?;
    // Tables of one depth stand before the tables inside them.
    while !open.is_empty() {
        let mut deeper = Vec::new();
        for (name, map) in open {
            let (text, inner) = write_table(map, &name)?;
            if !text.is_empty() || inner.is_empty() {
                if !out.is_empty() && !out.ends_with("\n\n") {
                    out.push('\n');
                }
                let _ = writeln!(out, "[{name}]");
                out.push_str(&text);
            }
            deeper.extend(inner);
        }
        open = deeper;
    }
    Ok(out)
}

/// A table inside another: its whole name, and what it holds.
type InnerTable<'v> = (String, &'v Map);

/// The lines of a table, arrays of tables last, and the tables inside it.
fn write_table<'v>(map: &'v Map, name: &str) -> Result<(String, Vec<InnerTable<'v>>), StateError> {
    let (mut lines, mut arrays, mut inner) = (String::new(), String::new(), Vec::new());
    for (key, value) in map.iter() {
        let key = key_text(&zagent_config::value::python_str(key));
        let whole = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
        match value {
            Value::Null => {}
            Value::Map(map) => inner.push((whole, &**map)),
            Value::List(items) if items.iter().any(|i| matches!(i, Value::Map(_))) => {
                for item in items.iter() {
                    arrays.push_str(&write_array_table(item, &whole)?);
                }
            }
            other => {
                let _ = writeln!(lines, "{key} = {}", value_text(other));
            }
        }
    }
    Ok((lines + &arrays, inner))
}

/// One table of an array, with all tables inside it.
fn write_array_table(item: &Value, name: &str) -> Result<String, StateError> {
    let Value::Map(map) = item else {
        return Err(StateError::new(format!("toml cannot hold {} beside tables in a list", item.kind())));
    };
    let (text, mut open) = write_table(map, name)?;
    let mut out = format!("[[{name}]]\n");
    let mut below = "\n".to_owned();
    if text.starts_with('[') {
        below.push_str(&text);
    } else {
        out.push_str(&text);
    }
    while !open.is_empty() {
        let mut deeper = Vec::new();
        for (name, map) in open {
            let (text, inner) = write_table(map, &name)?;
            if !text.is_empty() {
                let _ = write!(below, "[{name}]\n{text}");
            }
            deeper.extend(inner);
        }
        open = deeper;
    }
    Ok(out + &below)
}

fn key_text(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { quote_text(key) }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Null => quote_text("None"),
        Value::Bool(b) => b.to_string(),
        Value::Str(text) => quote_text(text),
        Value::Float(f) if f.is_nan() => "nan".into(),
        Value::Float(f) if f.is_infinite() => if *f > 0.0 { "inf" } else { "-inf" }.into(),
        Value::Float(_) => float_text(&zagent_config::value::python_str(value)),
        Value::List(items) if items.is_empty() => "[]".into(),
        Value::List(items) => {
            let parts: String = items.iter().map(|item| format!(" {},", value_text(item))).collect();
            format!("[{parts}]")
        }
        Value::Map(map) => {
            let parts: Vec<String> = map
                .iter()
                .map(|(k, v)| {
                    format!("{} = {}", key_text(&zagent_config::value::python_str(k)), value_text(v))
                })
                .collect();
            format!("{{ {} }}", parts.join(", "))
        }
        other => zagent_config::value::python_str(other),
    }
}

/// An exponent without a leading zero: `1e-07` is `1e-7`.
fn float_text(text: &str) -> String {
    let Some((digits, exponent)) = text.split_once('e') else { return text.to_owned() };
    let (sign, power) = match exponent.strip_prefix(['+', '-']) {
        Some(power) => (&exponent[..1], power),
        None => ("", exponent),
    };
    format!("{digits}e{sign}{}", power.trim_start_matches('0'))
}

fn quote_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..' ' | '\x7f'..='\u{a0}' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Reads TOML; dates become the text they are written as.
///
/// # Errors
/// Fails with the parser's words.
pub fn read(text: &str) -> Result<Value, String> {
    let document: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| e.message().to_owned())?;
    Ok(from_table(document.as_table()).into())
}

fn from_table(table: &Table) -> Map {
    let mut map = Map::new();
    for (key, item) in table {
        map.insert(key, from_item(item));
    }
    map
}

fn from_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => from_value(value),
        Item::Table(table) => from_table(table).into(),
        Item::ArrayOfTables(tables) => {
            tables.iter().map(|t| Value::from(from_table(t))).collect::<Vec<_>>().into()
        }
    }
}

fn from_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => text.value().as_str().into(),
        toml_edit::Value::Integer(n) => Value::Int(*n.value()),
        toml_edit::Value::Float(n) => Value::Float(*n.value()),
        toml_edit::Value::Boolean(b) => Value::Bool(*b.value()),
        toml_edit::Value::Datetime(when) => when.value().to_string().into(),
        toml_edit::Value::Array(items) => items.iter().map(from_value).collect::<Vec<_>>().into(),
        toml_edit::Value::InlineTable(table) => {
            let mut map = Map::new();
            for (key, value) in table {
                map.insert(key, from_value(value));
            }
            map.into()
        }
    }
}
