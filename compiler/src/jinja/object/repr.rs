//! Template values to text, as Python's `str()` and `repr()` write them.
//!
//! Law: never fails, never overflows the stack: a value that contains itself or is nested too deep prints as `...`,
//! and one larger than the limit is cut just beyond it, so that the next check rejects it (held by
//! `unusual_values_neither_panic_nor_overflow`).

use std::fmt::Write as _;

use minijinja::value::{Tuple, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use super::budget::{self, MAX_DEPTH};
use super::{DictView, PyDict, PyList, is_native_sequence, items_of, pairs_of};
use crate::jinja::methods::args::undefined_error;
use crate::yaml::yaml_dquote;

/// Python's `str()`.
#[must_use]
pub fn py_str(value: &Value) -> String {
    if value.kind() == ValueKind::String {
        return value.as_str().unwrap_or_default().to_owned();
    }
    let mut out = String::new();
    write_repr(value, &mut out);
    out
}

/// Python's `str()` for printing: an error when it is too large or endless.
///
/// # Errors
/// Fails when the text is longer than the limit, or the value contains itself or is nested too deep.
pub fn py_str_checked(what: &str, value: &Value) -> Result<String, Error> {
    check_written(what, value, ReprWriter::new())
}

/// What `{{ value }}` prints: Python's `str()`, but texts of several lines that are values of a dictionary are written so
/// that YAML reads them back.
///
/// # Errors
/// As [`py_str_checked`], and for an undefined value inside that is refused.
pub fn py_str_printed(value: &Value, refused: RefusedUndefined) -> Result<String, Error> {
    check_written("print", value, ReprWriter { printed: Some(refused), ..ReprWriter::new() })
}

/// Where an undefined value inside a printed one is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedUndefined {
    /// As a value of a dictionary that is printed, or of one in it. Salt prints `Undefined` for one in a list.
    InDicts,
    /// Everywhere.
    Everywhere,
}

fn check_written(what: &str, value: &Value, mut writer: ReprWriter) -> Result<String, Error> {
    if value.kind() == ValueKind::String {
        budget::check_bytes(what, value.as_str().map_or(0, str::len))?;
        return Ok(py_str(value));
    }
    let mut out = String::new();
    writer.value(value, &mut out);
    if let Some(undefined) = writer.undefined {
        return Err(undefined_error(&undefined));
    }
    if writer.left == 0 {
        return Err(budget::too_large(what));
    }
    if writer.is_cut {
        let message =
            format!("{what}: the value contains itself or is nested deeper than {MAX_DEPTH} levels");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    budget::check_bytes(what, out.len())?;
    Ok(out)
}

/// Python's `repr()`.
#[must_use]
pub fn repr(value: &Value) -> String {
    let mut out = String::new();
    write_repr(value, &mut out);
    out
}

/// Appends Python's `repr()`.
pub fn write_repr(value: &Value, out: &mut String) {
    ReprWriter::new().value(value, out);
}

struct ReprWriter {
    limit: usize,
    /// Addresses of the containers that are being written, outermost first.
    open: Vec<usize>,
    /// Something was written as `...`.
    is_cut: bool,
    /// Containers that may still be written.
    left: usize,
    /// Dictionary values are written so that YAML can read them, and undefined values are refused.
    printed: Option<RefusedUndefined>,
    /// Lists that are being written.
    lists: usize,
    /// The first undefined value that is refused.
    undefined: Option<Value>,
}

/// Bytes of the limit that each container uses, however short it prints.
const CONTAINER_COST: usize = 64;

impl ReprWriter {
    fn new() -> Self {
        let limit = budget::bytes().saturating_add(1);
        Self {
            limit,
            open: Vec::new(),
            is_cut: false,
            left: limit / CONTAINER_COST,
            printed: None,
            lists: 0,
            undefined: None,
        }
    }

    fn value(&mut self, value: &Value, out: &mut String) {
        if out.len() > self.limit {
            return;
        }
        match value.kind() {
            ValueKind::String => write_str(value.as_str().unwrap_or_default(), out),
            ValueKind::Number => write_number(value, out),
            ValueKind::Bytes => write_bytes(value.as_bytes().unwrap_or_default(), out),
            ValueKind::Map => self.map(value, out),
            ValueKind::Seq | ValueKind::Iterable => self.sequence(value, out),
            ValueKind::Undefined => {
                let is_refused = match self.printed {
                    Some(RefusedUndefined::Everywhere) => true,
                    Some(RefusedUndefined::InDicts) => self.lists == 0,
                    None => false,
                };
                if is_refused {
                    self.undefined.get_or_insert_with(|| value.clone());
                }
                out.push_str("Undefined");
            }
            _ => {
                let _ = write!(out, "{value}");
            }
        }
    }

    fn map(&mut self, value: &Value, out: &mut String) {
        let pairs = pairs_of(value).unwrap_or_default();
        if !self.enter(value) {
            out.push_str("{...}");
            return;
        }
        out.push('{');
        for (i, (k, v)) in pairs.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            self.value(k, out);
            out.push_str(": ");
            match v.as_str().filter(|_| self.printed.is_some() && v.kind() == ValueKind::String) {
                Some(text) if text.contains(['\n', '\r', '\t']) => out.push_str(&yaml_dquote(text)),
                _ => self.value(v, out),
            }
        }
        out.push('}');
        self.open.pop();
    }

    fn sequence(&mut self, value: &Value, out: &mut String) {
        if let Some(view) = value.downcast_object_ref::<DictView>() {
            out.push_str(view.name());
            out.push('(');
            self.sequence(&super::list(view.items()), out);
            out.push(')');
            return;
        }
        let is_tuple = value.downcast_object_ref::<Tuple>().is_some();
        if !is_tuple && value.downcast_object_ref::<PyList>().is_none() && !is_native_sequence(value) {
            let _ = write!(out, "{value}");
            return;
        }
        let (open, close) = if is_tuple { ('(', ')') } else { ('[', ']') };
        if !self.enter(value) {
            out.push(open);
            out.push_str("...");
            out.push(close);
            return;
        }
        out.push(open);
        self.lists += 1;
        let items = items_of(value).unwrap_or_default();
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                out.push_str(", ");
            }
            self.value(item, out);
            if out.len() > self.limit {
                break;
            }
        }
        if is_tuple && items.len() == 1 {
            out.push(',');
        }
        out.push(close);
        self.lists -= 1;
        self.open.pop();
    }

    /// Records that a container is being written; false when it already is, or the nesting is too deep.
    fn enter(&mut self, value: &Value) -> bool {
        let at = object_address(value);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 || self.open.len() >= MAX_DEPTH || (at != 0 && self.open.contains(&at)) {
            self.is_cut = true;
            return false;
        }
        self.open.push(at);
        true
    }
}

/// The address of a zagent dictionary or list; zero for everything else.
#[must_use]
pub fn object_address(value: &Value) -> usize {
    if let Some(list) = value.downcast_object_ref::<PyList>() {
        return std::ptr::from_ref(list).addr();
    }
    value.downcast_object_ref::<PyDict>().map_or(0, |dict| std::ptr::from_ref(dict).addr())
}

fn write_number(value: &Value, out: &mut String) {
    if value.is_integer() {
        let _ = write!(out, "{value}");
        return;
    }
    match f64::try_from(value.clone()) {
        Ok(float) => out.push_str(&float_text(float)),
        Err(_) => {
            let _ = write!(out, "{value}");
        }
    }
}

/// A float as Python writes it: shortest digits, exponent below 1e-4 and from 1e16 on.
#[must_use]
pub fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.unsigned_abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

/// Appends a string in quotes, as Python's `repr()` chooses and escapes them.
pub fn write_str(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.reserve(text.len() + 2);
    out.push(quote);
    let mut rest = text;
    while let Some(at) = rest.find(|c| c == quote || c == '\\' || !is_printable(c)) {
        out.push_str(&rest[..at]);
        let c = rest[at..].chars().next().unwrap_or(quote);
        escape(c, out);
        rest = &rest[at + c.len_utf8()..];
    }
    out.push_str(rest);
    out.push(quote);
}

fn escape(c: char, out: &mut String) {
    let code = u32::from(c);
    let _ = match c {
        '\n' => out.write_str("\\n"),
        '\t' => out.write_str("\\t"),
        '\r' => out.write_str("\\r"),
        '\\' | '\'' | '"' => write!(out, "\\{c}"),
        '\0'..='\u{ff}' => write!(out, "\\x{code:02x}"),
        '\u{100}'..='\u{ffff}' => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    };
}

fn write_bytes(bytes: &[u8], out: &mut String) {
    let quote = if bytes.contains(&b'\'') && !bytes.contains(&b'"') { b'"' } else { b'\'' };
    out.push('b');
    out.push(char::from(quote));
    for &b in bytes {
        match b {
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            b'\r' => out.push_str("\\r"),
            b'\\' => out.push_str("\\\\"),
            b if b == quote => {
                out.push('\\');
                out.push(char::from(b));
            }
            b' '..=b'~' => out.push(char::from(b)),
            b => {
                let _ = write!(out, "\\x{b:02x}");
            }
        }
    }
    out.push(char::from(quote));
}

/// Python's `str.isprintable` for one character, as far as separators, format and private characters go.
#[must_use]
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return (' '..='~').contains(&c);
    }
    if c.is_control() || c.is_whitespace() {
        return false;
    }
    !matches!(u32::from(c),
        0xad | 0x600..=0x605 | 0x61c | 0x6dd | 0x70f | 0x180e | 0x200b..=0x200f | 0x2028..=0x202e
        | 0x2060..=0x206f | 0xd800..=0xf8ff | 0xfeff | 0xfff0..=0xfffb | 0xfffe | 0xffff
        | 0xe0000..=0x10_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_in_python() {
        for (value, want) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (123_456_789.125, "123456789.125"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(float_text(value), want);
        }
    }

    #[test]
    fn strings_choose_their_quotes() {
        for (value, want) in [
            ("a", "'a'"),
            ("it's", "\"it's\""),
            ("'\"", "'\\'\"'"),
            ("a\nb\\\t\u{1}\u{a0}é", "'a\\nb\\\\\\t\\x01\\xa0é'"),
        ] {
            assert_eq!(repr(&Value::from(value)), want);
        }
    }
}
