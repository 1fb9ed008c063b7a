//! Scalars: plain (also over several lines), quoted on one line, literal and folded blocks.

use zagent_config::Value;

use super::super::number;
use super::super::scalar::{self, ScalarKind};
use super::{QuickReader, QuickResult, QuickStop};

/// What a byte means to a plain scalar.
const STOPS: u8 = 1;
const STOPS_FLOW: u8 = 2;
const CANNOT_START: u8 = 4;

const CLASS: [u8; 256] = {
    let mut table = [0u8; 256];
    table[b'\n' as usize] = STOPS | STOPS_FLOW;
    table[b'\t' as usize] = STOPS | STOPS_FLOW;
    table[b':' as usize] = STOPS | STOPS_FLOW;
    table[b'#' as usize] = STOPS | STOPS_FLOW;
    let flow = b",[]{}";
    let mut i = 0;
    while i < flow.len() {
        table[flow[i] as usize] = STOPS_FLOW;
        i += 1;
    }
    let start = b" \n\t,[]{}#&*!|>'\"%@`?:";
    let mut i = 0;
    while i < start.len() {
        table[start[i] as usize] |= CANNOT_START;
        i += 1;
    }
    table
};

/// How a block scalar treats the line breaks at its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomp {
    Strip,
    Clip,
    Keep,
}

impl QuickReader<'_> {
    /// The value of a plain scalar.
    #[inline]
    pub(super) fn value_of(&mut self, start: usize, end: usize) -> QuickResult<Value> {
        plain_value(&mut self.strings, &self.text[start..end])
    }

    /// Reads the part of a plain scalar on this line, up to the byte that ends it; returns the end of its text.
    #[inline]
    pub(super) fn plain(&mut self) -> QuickResult<usize> {
        let first = self.byte(self.at);
        if CLASS[first as usize] & CANNOT_START != 0 || first == b'-' && self.is_gap(self.at + 1) {
            return Err(QuickStop::Unsure);
        }
        self.plain_line()
    }

    /// As `plain`, when the first character is known to belong to the scalar.
    #[inline]
    fn plain_line(&mut self) -> QuickResult<usize> {
        let start = self.at;
        let mut at = start;
        loop {
            while at < self.bytes.len() && CLASS[self.bytes[at] as usize] & STOPS == 0 {
                at += 1;
            }
            match self.byte(at) {
                b':' => match self.byte(at + 1) {
                    b' ' | b'\n' => break,
                    b'\t' => return Err(QuickStop::Unsure),
                    _ => at += 1,
                },
                b'#' => {
                    if at > start && self.bytes[at - 1] == b' ' {
                        break;
                    }
                    at += 1;
                }
                b'\n' => break,
                _ => return Err(QuickStop::Unsure),
            }
        }
        self.at = at;
        Ok(self.trimmed(start, at))
    }

    #[inline]
    fn trimmed(&self, start: usize, mut end: usize) -> usize {
        while end > start && self.bytes[end - 1] == b' ' {
            end -= 1;
        }
        end
    }

    /// Completes a plain scalar after its first line: checks whether it continues below.
    #[inline]
    pub(super) fn plain_value(&mut self, parent: i32, start: usize, end: usize) -> QuickResult<Value> {
        let commented = self.byte(self.at) == b'#';
        if commented {
            self.at = self.end_of_line(self.at);
        }
        let line = self.line;
        self.next_token()?;
        if self.column <= parent {
            return self.value_of(start, end);
        }
        if commented || self.passed_comment {
            return Err(QuickStop::Unsure);
        }
        self.folded_plain(parent, start..end, line)
    }

    /// Reads on over the lines of a plain scalar; the token is the first character of its second line.
    fn folded_plain(&mut self, parent: i32, first: std::ops::Range<usize>, line: u32) -> QuickResult<Value> {
        let mut out = std::mem::take(&mut self.buffer);
        out.clear();
        out.push_str(&self.text[first]);
        let mut last = line;
        loop {
            match self.line - last {
                1 => out.push(' '),
                n => out.extend(std::iter::repeat_n('\n', n as usize - 1)),
            }
            last = self.line;
            let start = self.at;
            let end = self.plain_line()?;
            out.push_str(&self.text[start..end]);
            let commented = match self.byte(self.at) {
                b':' => return Err(QuickStop::Unsure),
                b'#' => true,
                _ => false,
            };
            if commented {
                self.at = self.end_of_line(self.at);
            }
            self.next_token()?;
            if self.column <= parent {
                break;
            }
            if commented || self.passed_comment {
                return Err(QuickStop::Unsure);
            }
        }
        let value = plain_value(&mut self.strings, &out);
        self.buffer = out;
        value
    }

    /// Reads a plain scalar inside brackets; returns the end of its text.
    pub(super) fn flow_plain(&mut self) -> QuickResult<usize> {
        let start = self.at;
        let first = self.byte(start);
        let stops = |b: u8| CLASS[b as usize] & STOPS_FLOW != 0;
        if CLASS[first as usize] & CANNOT_START != 0
            || first == b'-' && (self.is_gap(start + 1) || stops(self.byte(start + 1)))
        {
            return Err(QuickStop::Unsure);
        }
        let mut at = start;
        loop {
            while at < self.bytes.len() && !stops(self.bytes[at]) {
                at += 1;
            }
            match self.byte(at) {
                b':' => match self.byte(at + 1) {
                    b' ' | b'\n' => break,
                    b',' | b'?' | b'[' | b']' | b'{' | b'}' | b'\t' => return Err(QuickStop::Unsure),
                    _ => at += 1,
                },
                b'#' if self.bytes[at - 1] != b' ' => at += 1,
                b'#' | b'\t' => return Err(QuickStop::Unsure),
                _ => break,
            }
        }
        self.at = at;
        Ok(self.trimmed(start, at))
    }

    /// Reads a quoted scalar that ends on its line.
    pub(super) fn quoted(&mut self) -> QuickResult<Value> {
        let quote = self.bytes[self.at];
        let start = self.at + 1;
        let mut at = start;
        while let Some(&b) = self.bytes.get(at) {
            if b == quote {
                if quote == b'\'' && self.bytes.get(at + 1) == Some(&quote) {
                    return self.quoted_with_escapes(quote, start);
                }
                self.at = at + 1;
                return Ok(self.strings.intern(&self.text[start..at]));
            }
            match b {
                b'\\' if quote == b'"' => return self.quoted_with_escapes(quote, start),
                b'\n' => break,
                _ => at += 1,
            }
        }
        Err(QuickStop::Unsure)
    }

    fn quoted_with_escapes(&mut self, quote: u8, start: usize) -> QuickResult<Value> {
        let mut out = std::mem::take(&mut self.buffer);
        out.clear();
        let mut run = start;
        let mut at = start;
        loop {
            match self.bytes.get(at) {
                None | Some(b'\n') => return Err(QuickStop::Unsure),
                Some(b) if *b == quote => {
                    out.push_str(&self.text[run..at]);
                    at += 1;
                    if quote == b'"' || self.bytes.get(at) != Some(&quote) {
                        break;
                    }
                    run = at;
                    at += 1;
                }
                Some(b'\\') if quote == b'"' => {
                    out.push_str(&self.text[run..at]);
                    let (c, length) = self.escape(at + 1)?;
                    out.push(c);
                    at += 1 + length;
                    run = at;
                }
                Some(_) => at += 1,
            }
        }
        self.at = at;
        let value = self.strings.intern(&out);
        self.buffer = out;
        Ok(value)
    }

    /// The character that an escape stands for, and how many bytes it uses after the backslash.
    fn escape(&self, at: usize) -> QuickResult<(char, usize)> {
        let simple = match self.byte(at) {
            b'0' => '\0',
            b'a' => '\x07',
            b'b' => '\x08',
            b't' => '\t',
            b'n' => '\n',
            b'v' => '\x0b',
            b'f' => '\x0c',
            b'r' => '\r',
            b'e' => '\x1b',
            c @ (b' ' | b'"' | b'/' | b'\\') => c as char,
            b'N' => '\u{85}',
            b'_' => '\u{a0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' => return self.escape_code(at, 2),
            b'u' => return self.escape_code(at, 4),
            b'U' => return self.escape_code(at, 8),
            _ => return Err(QuickStop::Unsure),
        };
        Ok((simple, 1))
    }

    fn escape_code(&self, at: usize, digits: usize) -> QuickResult<(char, usize)> {
        let hex = self.text.get(at + 1..at + 1 + digits).filter(|h| h.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = hex.and_then(|h| u32::from_str_radix(h, 16).ok()).and_then(char::from_u32);
        code.map(|c| (c, digits + 1)).ok_or(QuickStop::Unsure)
    }

    /// Reads a literal or folded block of a collection whose indentation is `parent`.
    pub(super) fn block_scalar(&mut self, parent: i32) -> QuickResult<Value> {
        let is_folded = self.bytes[self.at] == b'>';
        let (chomp, after) = match self.byte(self.at + 1) {
            b'-' => (Chomp::Strip, self.at + 2),
            b'+' => (Chomp::Keep, self.at + 2),
            _ => (Chomp::Clip, self.at + 1),
        };
        let end = self.skip_spaces(after);
        self.at = match self.byte(end) {
            b'\n' => end,
            b'#' if end > after => self.end_of_line(end),
            _ => return Err(QuickStop::Unsure),
        };
        let mut out = std::mem::take(&mut self.buffer);
        out.clear();
        self.block_lines(parent, is_folded, chomp, &mut out)?;
        let value = self.strings.intern(&out);
        self.buffer = out;
        self.next_token()?;
        Ok(value)
    }

    /// Reads the lines of a block; starts at the end of its header and ends at the end of its last line with text.
    fn block_lines(
        &mut self,
        parent: i32,
        is_folded: bool,
        chomp: Chomp,
        out: &mut String,
    ) -> QuickResult<()> {
        let Some((indent, mut breaks)) = self.block_indent(parent)? else {
            if chomp == Chomp::Keep {
                return Err(QuickStop::Unsure);
            }
            return Ok(());
        };
        let mut line = self.line + u32::try_from(breaks).unwrap_or(u32::MAX) + 1;
        let mut start = self.at + 1;
        for _ in 0..breaks {
            start = self.end_of_line(start) + 1;
        }
        let mut broken = false;
        let mut was_indented = false;
        while start < self.bytes.len() {
            let text = self.skip_indent(start, indent);
            if text - start < indent {
                match self.bytes.get(text) {
                    Some(b'\n') => {
                        breaks += 1;
                        line += 1;
                        start = text + 1;
                        continue;
                    }
                    Some(b'\t') => return Err(QuickStop::Unsure),
                    _ => break,
                }
            }
            if text == self.bytes.len() {
                break;
            }
            let end = self.end_of_line(text);
            let is_empty = end == text;
            if is_empty {
                breaks += 1;
            } else {
                let is_indented = matches!(self.bytes[text], b' ' | b'\t');
                if broken && is_folded && !was_indented && !is_indented {
                    if breaks == 0 {
                        out.push(' ');
                    }
                } else if broken {
                    out.push('\n');
                }
                out.extend(std::iter::repeat_n('\n', breaks));
                out.push_str(&self.text[text..end]);
                breaks = 0;
                broken = end < self.bytes.len();
                was_indented = is_indented;
                self.at = end;
                self.line = line;
            }
            start = end + 1;
            line += 1;
        }
        if chomp != Chomp::Strip && broken {
            out.push('\n');
        }
        if chomp == Chomp::Keep {
            out.extend(std::iter::repeat_n('\n', breaks));
        }
        Ok(())
    }

    /// Skips at most `indent` spaces.
    #[inline]
    fn skip_indent(&self, start: usize, indent: usize) -> usize {
        let mut at = start;
        while at - start < indent && self.bytes.get(at) == Some(&b' ') {
            at += 1;
        }
        at
    }

    /// The indentation of a block and how many empty lines come before its text; `None` when it has no text.
    fn block_indent(&self, parent: i32) -> QuickResult<Option<(usize, usize)>> {
        let mut start = self.at + 1;
        let (mut breaks, mut widest) = (0, 0);
        loop {
            let text = self.skip_spaces(start);
            let width = text.saturating_sub(start);
            match self.bytes.get(text) {
                None => return Ok(None),
                Some(b'\n') => {
                    breaks += 1;
                    widest = widest.max(width);
                    start = text + 1;
                }
                Some(b'\t') => return Err(QuickStop::Unsure),
                Some(_) => {
                    let least = usize::try_from(parent + 1).unwrap_or(0).max(1);
                    if width < least {
                        return Ok(None);
                    }
                    return if widest > width { Err(QuickStop::Unsure) } else { Ok(Some((width, breaks))) };
                }
            }
        }
    }
}

/// The value of a plain text.
#[inline]
fn plain_value(strings: &mut super::StringInterner, text: &str) -> QuickResult<Value> {
    Ok(match scalar::classify(text) {
        ScalarKind::Str => strings.intern(text),
        ScalarKind::Null => Value::Null,
        ScalarKind::Bool(b) => Value::Bool(b),
        ScalarKind::Int => number::parse_int(text).ok_or(QuickStop::Unsure)?,
        ScalarKind::Float => Value::Float(number::parse_float(text).ok_or(QuickStop::Unsure)?),
        ScalarKind::Merge | ScalarKind::Default => return Err(QuickStop::Unsure),
    })
}
