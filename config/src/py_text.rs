//! A value as Python's `str()` and `repr()` print it, as far as matchers compare texts.

use std::borrow::Cow;

use crate::value::Value;

/// What `str(value)` gives.
pub(crate) fn python_str(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Str(text) => Cow::Borrowed(text),
        other => {
            let mut out = String::new();
            write_repr(other, &mut out);
            Cow::Owned(out)
        }
    }
}

fn write_repr(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("None"),
        Value::Bool(true) => out.push_str("True"),
        Value::Bool(false) => out.push_str("False"),
        Value::Int(i) => out.push_str(&i.to_string()),
        Value::Big(digits) => out.push_str(digits),
        Value::Float(f) => out.push_str(&float_repr(*f)),
        Value::Str(text) => write_quoted(text, out),
        Value::List(list) => {
            out.push('[');
            for (i, item) in list.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_repr(item, out);
            }
            out.push(']');
        }
        Value::Map(map) => {
            out.push('{');
            for (i, (key, item)) in map.iter().enumerate() {
                out.push_str(if i > 0 { ", " } else { "" });
                write_repr(key, out);
                out.push_str(": ");
                write_repr(item, out);
            }
            out.push('}');
        }
    }
}

/// Python switches to an exponent of at least two digits at 1e16 and below 1e-4.
fn float_repr(f: f64) -> String {
    if f.is_nan() {
        return "nan".into();
    }
    if f.is_infinite() {
        return if f > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if f != 0.0 && !(1e-4..1e16).contains(&f.abs()) {
        let text = format!("{f:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    let text = f.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

fn write_quoted(text: &str, out: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_python() {
        let value = Value::from_json_str(
            r#"[null, true, 1, 1.0, 1e16, 1e-5, 2.5e-7, 0.1, "it's", "say \"it's\"", "a\nb\\", {"k": []}]"#,
        )
        .unwrap();
        assert_eq!(
            python_str(&value),
            r#"[None, True, 1, 1.0, 1e+16, 1e-05, 2.5e-07, 0.1, "it's", 'say "it\'s"', 'a\nb\\', {'k': []}]"#
        );
        assert_eq!(python_str(&Value::from("plain")), "plain");
    }
}
