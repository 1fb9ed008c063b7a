//! Values as Python prints them: `str` and `repr`.

use std::fmt::Write as _;

use super::Value;

/// What Python's `repr` gives.
#[must_use]
pub fn python_repr(value: &Value) -> String {
    let mut out = String::new();
    repr(value, &mut out);
    out
}

/// What Python's `str` gives: strings as they are, all else as `repr`.
#[must_use]
pub fn python_str(value: &Value) -> String {
    match value {
        Value::Str(text) => text.as_ref().to_owned(),
        other => python_repr(other),
    }
}

fn repr(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(i) => {
            let _ = write!(out, "{i}");
        }
        Value::Big(digits) => out.push_str(digits),
        Value::Float(f) => out.push_str(&python_float(*f)),
        Value::Str(text) => repr_str(text, out),
        Value::List(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(item, out);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (i, (key, value)) in map.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                repr(key, out);
                out.push_str(": ");
                repr(value, out);
            }
            out.push('}');
        }
    }
}

/// Single quotes, unless only double quotes avoid an escape.
fn repr_str(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            c if is_printable(c) => out.push(c),
            c => {
                let _ = match u32::from(c) {
                    n @ 0..=0xff => write!(out, "\\x{n:02x}"),
                    n @ 0..=0xffff => write!(out, "\\u{n:04x}"),
                    n => write!(out, "\\U{n:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

/// Python's definition of a printable character; Rust's debug output uses the same after the first character.
fn is_printable(c: char) -> bool {
    let mut buffer = [b'a'; 5];
    let length = c.encode_utf8(&mut buffer[1..]).len();
    std::str::from_utf8(&buffer[..=length]).is_ok_and(|s| s.escape_debug().nth(1) == Some(c))
}

/// White space as Python's `str.strip` sees it.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\x1c'..='\x1f')
}

/// A float as Python prints it: the shortest text that reads back, with an exponent from 1e16 on and below 1e-4.
pub fn python_float(f: f64) -> String {
    if f.is_nan() {
        return "nan".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = shortest(f);
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return scientific };
    let power: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&power) {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", power.unsigned_abs());
    }
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |m| ("-", m));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    match usize::try_from(power) {
        Err(_) => format!("{sign}0.{}{digits}", "0".repeat(power.unsigned_abs() as usize - 1)),
        Ok(power) if power + 1 < digits.len() => {
            format!("{sign}{}.{}", &digits[..=power], &digits[power + 1..])
        }
        Ok(power) => format!("{sign}{digits:0<width$}.0", width = power + 1),
    }
}

/// The fewest digits that read back, `1.25e0`; of two that are equally near, the even one.
fn shortest(f: f64) -> String {
    let found = format!("{f:e}");
    let mantissa = found.split('e').next().unwrap_or_default();
    let places = mantissa.bytes().filter(u8::is_ascii_digit).count() - 1;
    let even = format!("{f:.places$e}");
    if even.parse() == Ok(f) { even } else { found }
}
