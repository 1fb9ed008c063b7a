//! `contents` in whatever shape it was given in, the bytes of a file out.
//!
//! Law: a text that needs nothing done to it is not copied (held by `a_plain_text_is_not_copied`).

use std::sync::Arc;

use zagent_config::Value;
use zagent_config::value::{python_str, raw_bytes};

use super::sources::ContentBytes;

/// The text that Salt makes of `contents`: each line of each part with a line end, or the last one without.
pub(crate) fn join_contents(given: &Value, newline: bool) -> ContentBytes {
    if let Value::Str(text) = given {
        if let Some(bytes) = raw_bytes(text) {
            return ContentBytes::Owned(bytes);
        }
        if newline && is_plain(text) {
            return ContentBytes::Text(Arc::clone(text));
        }
        return finish_text(join_lines([text.as_ref()].into_iter()), newline);
    }
    match given {
        Value::List(items) => {
            let parts: Vec<String> = items.iter().map(value_text).collect();
            finish_text(join_lines(parts.iter().map(String::as_str)), newline)
        }
        other => finish_text(join_lines([value_text(other).as_str()].into_iter()), newline),
    }
}

fn value_text(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        other => python_str(other),
    }
}

fn finish_text(mut text: String, newline: bool) -> ContentBytes {
    if !newline {
        let kept = text.trim_end_matches('\n').trim_end_matches('\r').len();
        text.truncate(kept);
    }
    ContentBytes::Owned(text.into_bytes())
}

/// True when every line ends as it should already.
fn is_plain(text: &str) -> bool {
    if !text.is_empty() && !text.ends_with('\n') {
        return false;
    }
    is_usual(text.as_bytes()) || !text.chars().any(|c| c != '\n' && is_line_end(c))
}

/// True for ASCII without control characters but tabs and line feeds: nearly every text. Eight bytes at a time, without a
/// branch: this sees every byte of every file.
fn is_usual(bytes: &[u8]) -> bool {
    /// The top bit of each byte.
    const TOP: u64 = 0x8080_8080_8080_8080;
    // With the top bit of a byte unset, no sum reaches the next byte; otherwise the word is unusual anyway.
    let unusual = |word: u64| {
        let above_line_feed = word.wrapping_add(0x7575_7575_7575_7575);
        let printable = word.wrapping_add(0x6060_6060_6060_6060);
        (word | (above_line_feed & !printable)) & TOP
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let of_rest = rest.iter().fold(0, |all, byte| all | unusual(u64::from(*byte)));
    words.iter().fold(of_rest, |all, word| all | unusual(u64::from_le_bytes(*word))) == 0
}

/// What ends a line for Python.
const fn is_line_end(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn join_lines<'t>(parts: impl Iterator<Item = &'t str>) -> String {
    let mut text = String::new();
    for part in parts {
        let mut rest = part;
        while !rest.is_empty() {
            let at = rest.find(is_line_end).unwrap_or(rest.len());
            text.push_str(&rest[..at]);
            text.push('\n');
            let end = if rest[at..].starts_with("\r\n") {
                2
            } else {
                rest[at..].chars().next().map_or(0, char::len_utf8)
            };
            rest = &rest[at + end..];
        }
    }
    text
}

/// A text in another encoding; `errors` says what happens to a character that it does not have.
///
/// # Errors
/// Fails in Python's words when the encoding is unknown or lacks a character.
pub fn encode(text: &str, encoding: &str, errors: &str) -> Result<Vec<u8>, String> {
    let name = encoding.to_ascii_lowercase().replace(['-', '_', ' '], "");
    let (limit, codec) = match name.as_str() {
        "utf8" | "u8" => return Ok(text.as_bytes().to_vec()),
        "utf8sig" => return Ok([b"\xef\xbb\xbf", text.as_bytes()].concat()),
        "utf16" => return Ok(utf16(&format!("\u{feff}{text}"), u16::to_le_bytes)),
        "utf16le" => return Ok(utf16(text, u16::to_le_bytes)),
        "utf16be" => return Ok(utf16(text, u16::to_be_bytes)),
        "utf32" => return Ok(utf32(&format!("\u{feff}{text}"), u32::to_le_bytes)),
        "utf32le" => return Ok(utf32(text, u32::to_le_bytes)),
        "utf32be" => return Ok(utf32(text, u32::to_be_bytes)),
        "ascii" | "usascii" => (128, "ascii"),
        "latin1" | "iso88591" | "latin" | "l1" => (256, "latin-1"),
        _ => return Err(format!("unknown encoding: {encoding}")),
    };
    let mut bytes = Vec::with_capacity(text.len());
    for (at, c) in text.chars().enumerate() {
        let code = u32::from(c);
        match u8::try_from(code) {
            Ok(byte) if code < limit => bytes.push(byte),
            _ => substitute(&mut bytes, c, errors).ok_or_else(|| {
                let shown = escape_char(c);
                format!("'{codec}' codec can't encode character '{shown}' in position {at}: ordinal not in range({limit})")
            })?,
        }
    }
    Ok(bytes)
}

/// Puts something in the place of a character; nothing when that is not allowed.
fn substitute(bytes: &mut Vec<u8>, c: char, errors: &str) -> Option<()> {
    match errors {
        "ignore" => {}
        "replace" => bytes.push(b'?'),
        "xmlcharrefreplace" => bytes.extend(format!("&#{};", u32::from(c)).into_bytes()),
        "backslashreplace" => bytes.extend(escape_char(c).into_bytes()),
        _ => return None,
    }
    Some(())
}

fn escape_char(c: char) -> String {
    match u32::from(c) {
        code @ 0..=0xff => format!("\\x{code:02x}"),
        code @ 0x100..=0xffff => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    }
}

fn utf16(text: &str, bytes: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(bytes).collect()
}

fn utf32(text: &str, bytes: impl Fn(u32) -> [u8; 4]) -> Vec<u8> {
    text.chars().map(u32::from).flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(given: impl Into<Value>, newline: bool) -> String {
        String::from_utf8(join_contents(&given.into(), newline).to_vec()).expect("text")
    }

    #[test]
    fn lines_end_as_salt_ends_them() {
        for (given, with, without) in [
            ("hi", "hi\n", "hi"),
            ("hi\n", "hi\n", "hi"),
            ("hi\n\n", "hi\n\n", "hi"),
            ("", "", ""),
            ("\n", "\n", ""),
            ("a\r\nb\rc\x0bd\u{2028}e", "a\nb\nc\nd\ne\n", "a\nb\nc\nd\ne"),
        ] {
            assert_eq!(
                (text(given, true).as_str(), text(given, false).as_str()),
                (with, without),
                "{given:?}"
            );
        }
        let list = vec![Value::from("a\nb"), Value::from(""), Value::Int(3), Value::Bool(true), Value::Null];
        assert_eq!(text(list, true), "a\nb\n3\nTrue\nNone\n");
    }

    #[test]
    fn a_plain_text_is_not_copied() {
        let given: Arc<str> = "a\nb\n".into();
        match join_contents(&Value::Str(Arc::clone(&given)), true) {
            ContentBytes::Text(text) => assert!(Arc::ptr_eq(&text, &given)),
            other => panic!("copied: {other:?}"),
        }
    }

    #[test]
    fn every_unusual_byte_is_seen_at_every_place() {
        for byte in 0..=u8::MAX {
            let is_unusual = byte >= 0x80 || (0x0b..0x20).contains(&byte);
            for (length, at) in (1..20).flat_map(|length| (0..length).map(move |at| (length, at))) {
                let mut bytes = vec![b'x'; length];
                bytes[at] = byte;
                assert_eq!(is_usual(&bytes), !is_unusual, "byte {byte:#x} at {at} of {length}");
            }
        }
    }

    #[test]
    fn encodings_are_pythons() {
        type Row = (&'static str, &'static str, &'static str, Result<&'static [u8], &'static str>);
        let table: &[Row] = &[
            ("kä", "utf-8", "strict", Ok("kä".as_bytes())),
            ("kä", "latin-1", "strict", Ok(b"k\xe4")),
            ("ä", "UTF_16_LE", "strict", Ok(b"\xe4\0")),
            ("a", "utf-16", "strict", Ok(b"\xff\xfea\0")),
            ("a", "utf-32-be", "strict", Ok(b"\0\0\0a")),
            ("kä", "ascii", "ignore", Ok(b"k")),
            ("kä", "ascii", "replace", Ok(b"k?")),
            ("k\u{20ac}", "latin-1", "xmlcharrefreplace", Ok(b"k&#8364;")),
            ("k\u{20ac}", "ascii", "backslashreplace", Ok(b"k\\u20ac")),
            (
                "kä",
                "ascii",
                "strict",
                Err("'ascii' codec can't encode character '\\xe4' in position 1: ordinal not in range(128)"),
            ),
            ("x", "nosuch", "strict", Err("unknown encoding: nosuch")),
        ];
        for (given, encoding, errors, expected) in table {
            let found = encode(given, encoding, errors);
            assert_eq!(found.as_deref().map_err(String::as_str), *expected, "{encoding} {errors}");
        }
    }
}
