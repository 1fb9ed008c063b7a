//! Filters for HTML and URLs.

use std::fmt::Write as _;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::FilterFn;
use super::urlize::urlize;
use crate::jinja::methods::args::CallArgs;
use crate::jinja::object::pairs_of;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("escape", |_, a| escape_filter(a)),
    ("e", |_, a| escape_filter(a)),
    ("forceescape", |_, a| Ok(Value::from_safe_string(escape(&a.text(&a.expect_one("value")?)?)))),
    ("safe", |_, a| Ok(Value::from_safe_string(a.text(&a.expect_one("value")?)?))),
    ("striptags", |_, a| Ok(Value::from(strip_tags(&a.text(&a.expect_one("value")?)?)))),
    ("xmlattr", xmlattr),
    ("urlencode", urlencode),
    ("urlize", urlize),
];

/// Escapes the five special characters of HTML.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            c => out.push(c),
        }
    }
    out
}

fn escape_filter(args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("s")?;
    if value.is_safe() {
        return Ok(value);
    }
    Ok(Value::from_safe_string(escape(&args.text(&value)?)))
}

fn strip_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        out.push_str(&rest[..at]);
        let end = if rest[at..].starts_with("<!--") {
            rest[at..].find("-->").map(|e| e + 3)
        } else {
            rest[at..].find('>').map(|e| e + 1)
        };
        match end {
            Some(end) => rest = &rest[at + end..],
            None => {
                out.push_str(&rest[at..]);
                rest = "";
            }
        }
    }
    out.push_str(rest);
    let spaced: Vec<&str> = out.split_whitespace().collect();
    unescape(&spaced.join(" "))
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let entity = rest.find(';').filter(|e| *e <= 10).map(|e| (&rest[1..e], e + 1));
        let decoded = entity.and_then(|(name, len)| Some((entity_char(name)?, len)));
        match decoded {
            Some((c, len)) => {
                out.push(c);
                rest = &rest[len..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

fn entity_char(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some('\u{a0}'),
        "copy" => Some('©'),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

fn xmlattr(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [value, space] = args.bind(["d", "autospace"], 1)?;
    let value = value.unwrap_or_default();
    let Some(pairs) = pairs_of(&value) else {
        return Err(args.type_error("the value", "a mapping", &value));
    };
    let mut out: Vec<String> = Vec::new();
    for (key, item) in pairs {
        if item.is_none() || item.is_undefined() {
            continue;
        }
        let key = args.text(&key)?;
        if key.contains([' ', '\t', '\n', '\r', '\u{c}', '/', '>', '=']) {
            return Err(args.error(format_args!("invalid character in attribute name '{key}'")));
        }
        out.push(format!("{}=\"{}\"", escape(&key), escape(&args.text(&item)?)));
    }
    let joined = out.join(" ");
    let is_spaced = space.is_none_or(|v| v.is_true()) && !joined.is_empty();
    Ok(Value::from_safe_string(if is_spaced { format!(" {joined}") } else { joined }))
}

/// Percent-encodes; in a query also `/`, and blanks as `+`.
fn quote(text: &str, in_query: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(char::from(b)),
            b'/' if !in_query => out.push('/'),
            b' ' if in_query => out.push('+'),
            b => {
                let _ = write!(out, "%{b:02X}");
            }
        }
    }
    out
}

fn urlencode(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let value = args.expect_one("value")?;
    let pairs = match value.kind() {
        ValueKind::Map => pairs_of(&value).unwrap_or_default(),
        ValueKind::Seq | ValueKind::Iterable => crate::jinja::methods::dict::pairs(args, &value)?,
        _ => return Ok(Value::from(quote(&args.text(&value)?, false))),
    };
    let mut out = Vec::new();
    for (key, item) in pairs {
        out.push(format!("{}={}", quote(&args.text(&key)?, true), quote(&args.text(&item)?, true)));
    }
    Ok(Value::from(out.join("&")))
}
