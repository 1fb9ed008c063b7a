//! Bytes of a file into text and lines, and back, where lines end as Python says they do.
//!
//! Law: joining the lines of a text gives the text; nothing is lost that an edit did not touch (held by
//! `lines_end_where_python_says`, `encodings_go_there_and_back`).

use crate::StateError;

/// Lines with their ends, where a line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnds {
    /// At `\n` alone: a file read line by line as bytes.
    Newline,
    /// At `\n`, `\r` and `\r\n`: a file read as text.
    Universal,
    /// At everything that Unicode calls the end of a line: a text split in memory.
    Unicode,
}

/// The lines of a text, each with its end.
pub fn lines(text: &str, ends: LineEnds) -> Vec<&str> {
    let is_end = |c: char| match c {
        '\n' => true,
        '\r' => ends != LineEnds::Newline,
        '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}' => ends == LineEnds::Unicode,
        _ => false,
    };
    let (mut out, mut start) = (Vec::new(), 0);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !is_end(c) {
            continue;
        }
        let mut end = at + c.len_utf8();
        if c == '\r' && chars.next_if(|(_, next)| *next == '\n').is_some() {
            end += 1;
        }
        out.push(&text[start..end]);
        start = end;
    }
    if start < text.len() {
        out.push(&text[start..]);
    }
    out
}

/// The lines of a text without their ends.
pub(crate) fn lines_without_ends(text: &str) -> Vec<&str> {
    lines(text, LineEnds::Unicode).into_iter().map(strip_line_end).collect()
}

/// A line of [`lines`] without its end.
fn strip_line_end(line: &str) -> &str {
    if let Some(rest) = line.strip_suffix("\r\n") {
        return rest;
    }
    let is_end = |c: char| {
        matches!(c, '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}')
    };
    line.strip_suffix(is_end).unwrap_or(line)
}

/// Python's `str.isspace`.
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\x1c'..='\x1f')
}

/// How the characters of a file are written as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TextEncoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// UTF-8 that begins with a mark.
    Utf8Sig,
    /// Seven bits.
    Ascii,
    /// One byte a character, Unicode's first 256.
    Latin1,
    /// UTF-16 with a mark that tells the order of bytes.
    Utf16,
    /// UTF-16, low byte first.
    Utf16Le,
    /// UTF-16, high byte first.
    Utf16Be,
    /// UTF-32 with a mark that tells the order of bytes.
    Utf32,
    /// UTF-32, low byte first.
    Utf32Le,
    /// UTF-32, high byte first.
    Utf32Be,
}

impl TextEncoding {
    /// The encoding that Python knows by this name.
    ///
    /// # Errors
    /// Fails for one that is not known here.
    pub(crate) fn from_name(name: &str) -> Result<Self, StateError> {
        let plain: String = name.to_lowercase().replace(['-', ' '], "_");
        Ok(match &*plain {
            "utf_8" | "utf8" | "u8" => Self::Utf8,
            "utf_8_sig" => Self::Utf8Sig,
            "ascii" | "us_ascii" | "646" => Self::Ascii,
            "latin_1" | "latin1" | "iso_8859_1" | "iso8859_1" | "8859" | "l1" => Self::Latin1,
            "utf_16" | "utf16" | "u16" => Self::Utf16,
            "utf_16_le" | "utf_16le" => Self::Utf16Le,
            "utf_16_be" | "utf_16be" => Self::Utf16Be,
            "utf_32" | "utf32" | "u32" => Self::Utf32,
            "utf_32_le" | "utf_32le" => Self::Utf32Le,
            "utf_32_be" | "utf_32be" => Self::Utf32Be,
            _ => {
                return Err(StateError::new(format!(
                    "unknown encoding: {name} (known are utf-8, utf-8-sig, ascii, latin-1, utf-16, utf-32, and these \
                     two with -le or -be)"
                )));
            }
        })
    }

    /// The text of bytes; nothing when they are not written so.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<String> {
        match self {
            Self::Utf8 => String::from_utf8(bytes.to_vec()).ok(),
            Self::Utf8Sig => {
                String::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).to_vec()).ok()
            }
            Self::Ascii => bytes.is_ascii().then(|| bytes.iter().map(|b| char::from(*b)).collect()),
            Self::Latin1 => Some(bytes.iter().map(|b| char::from(*b)).collect()),
            Self::Utf16 => match bytes {
                [0xfe, 0xff, rest @ ..] => Self::Utf16Be.decode(rest),
                [0xff, 0xfe, rest @ ..] => Self::Utf16Le.decode(rest),
                rest => Self::Utf16Le.decode(rest),
            },
            Self::Utf16Le => decode_utf16(bytes, u16::from_le_bytes),
            Self::Utf16Be => decode_utf16(bytes, u16::from_be_bytes),
            Self::Utf32 => match bytes {
                [0, 0, 0xfe, 0xff, rest @ ..] => Self::Utf32Be.decode(rest),
                [0xff, 0xfe, 0, 0, rest @ ..] => Self::Utf32Le.decode(rest),
                rest => Self::Utf32Le.decode(rest),
            },
            Self::Utf32Le => decode_utf32(bytes, u32::from_le_bytes),
            Self::Utf32Be => decode_utf32(bytes, u32::from_be_bytes),
        }
    }

    /// The bytes of a text; nothing when it has characters that cannot be written so.
    pub(crate) fn encode(self, text: &str) -> Option<Vec<u8>> {
        let narrow = |limit: u32| {
            text.chars().map(|c| u8::try_from(u32::from(c)).ok().filter(|b| u32::from(*b) < limit)).collect()
        };
        Some(match self {
            Self::Utf8 => text.as_bytes().to_vec(),
            Self::Utf8Sig => [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            Self::Ascii => return narrow(0x80),
            Self::Latin1 => return narrow(0x100),
            Self::Utf16 => {
                [vec![0xff, 0xfe], text.encode_utf16().flat_map(u16::to_le_bytes).collect()].concat()
            }
            Self::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Self::Utf32 => ['\u{feff}']
                .into_iter()
                .chain(text.chars())
                .flat_map(|c| u32::from(c).to_le_bytes())
                .collect(),
            Self::Utf32Le => text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
            Self::Utf32Be => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
        })
    }
}

fn decode_utf32(bytes: &[u8], unit: fn([u8; 4]) -> u32) -> Option<String> {
    let (units, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    units.iter().map(|four| char::from_u32(unit(*four))).collect()
}

fn decode_utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = (bytes.chunks_exact(2), bytes.len() % 2);
    let units = pairs.map(|pair| unit([pair[0], pair[1]]));
    let text = char::decode_utf16(units).collect::<Result<String, _>>().ok();
    text.filter(|_| rest == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_python_says() {
        let text = "a\r\nb\rc\n\x0cd\u{2028}e";
        assert_eq!(lines(text, LineEnds::Newline), ["a\r\n", "b\rc\n", "\x0cd\u{2028}e"]);
        assert_eq!(lines(text, LineEnds::Universal), ["a\r\n", "b\r", "c\n", "\x0cd\u{2028}e"]);
        assert_eq!(lines(text, LineEnds::Unicode), ["a\r\n", "b\r", "c\n", "\x0c", "d\u{2028}", "e"]);
        assert_eq!(lines_without_ends(text), ["a", "b", "c", "", "d", "e"]);
        assert!(lines("", LineEnds::Unicode).is_empty());
    }

    #[test]
    fn encodings_go_there_and_back() {
        for name in [
            "utf-8",
            "utf-8-sig",
            "latin-1",
            "utf-16",
            "utf-16-le",
            "UTF_16_BE",
            "utf-32",
            "utf-32-le",
            "UTF_32_BE",
        ] {
            let encoding = TextEncoding::from_name(name).unwrap();
            let bytes = encoding.encode("größe\n").unwrap();
            assert_eq!(encoding.decode(&bytes).as_deref(), Some("größe\n"), "{name}");
        }
        assert_eq!(TextEncoding::Ascii.encode("ö"), None);
        assert_eq!(TextEncoding::Ascii.decode(b"\xff"), None);
        assert_eq!(TextEncoding::Utf16Le.decode(b"abc"), None);
        assert_eq!(TextEncoding::Utf16.decode(b"\xfe\xff\0a").as_deref(), Some("a"));
        assert!(TextEncoding::from_name("klingon").is_err());
    }
}
