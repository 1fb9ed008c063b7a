//! Plain YAML, as most states use it, in, values out, in one pass and without events.
//!
//! Law: it reads a strict part of the language (block lists and mappings, scalars of all five styles, flow
//! collections; no tags, anchors, merges, directives, tabs between tokens or second documents), and leaves
//! everything that it is not sure of to the full reader. So it never reports an error, and when it returns a value,
//! the full reader returns the same value with the same positions (held by
//! `the_quick_reader_is_never_wrong_on_pieces`, `the_quick_reader_is_never_wrong_on_blocks`).
//!
//! Every function that reads a node starts at its first character and ends at the first character of the next token on
//! a later line, whose column is in `column`.

mod flow;
mod scalars;

use zagent_config::value::MapEntry;
use zagent_config::{Pos, Value};

use super::build::{self, StringInterner};
use super::{YamlError, limits};
use crate::TreeLimits;

/// Why the reader stopped.
pub(super) enum QuickStop {
    /// The full reader must read the text.
    Unsure,
    /// The text exceeds a limit.
    Limit(Box<YamlError>),
}

type QuickResult<T> = Result<T, QuickStop>;

/// The column of the token after the last one: left of everything.
const END_COLUMN: i32 = -1;

/// A simple key that is longer than this is left to the full reader, which knows YAML's limit.
const MAX_KEY_LEN: usize = 1000;

/// Reads a text; `QuickStop::Unsure` when it is not plain enough.
pub(super) fn read(text: &str, limits: &TreeLimits) -> QuickResult<Value> {
    let is_ascii = text.is_ascii();
    if !(if is_ascii { is_plain_ascii(text.as_bytes()) } else { is_plain_text(text) }) {
        return Err(QuickStop::Unsure);
    }
    let mut reader = QuickReader {
        text,
        bytes: text.as_bytes(),
        is_ascii,
        at: 0,
        line: 1,
        line_start: 0,
        column: 0,
        passed_comment: false,
        may_start: true,
        entries: Vec::with_capacity(32),
        items: Vec::with_capacity(32),
        strings: StringInterner::new(),
        buffer: String::new(),
        depth: limits::depth(limits),
        nodes: limits.yaml_nodes,
    };
    reader.seek()?;
    if reader.column == END_COLUMN {
        return Ok(Value::Null);
    }
    let value = reader.node(END_COLUMN)?;
    if reader.column == END_COLUMN { Ok(value) } else { Err(QuickStop::Unsure) }
}

/// No control characters but tabs and line feeds.
fn is_plain_ascii(bytes: &[u8]) -> bool {
    bytes.iter().fold(true, |fine, b| fine & ((*b >= b' ' && *b != 0x7f) | (*b == b'\n') | (*b == b'\t')))
}

/// As above, and no characters that YAML treats specially: other line breaks, byte order marks, non-characters.
fn is_plain_text(text: &str) -> bool {
    text.chars().all(|c| match c {
        '\n' | '\t' | ' '..='~' => true,
        '\0'..'\u{a0}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        _ => true,
    })
}

struct QuickReader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    is_ascii: bool,
    at: usize,
    line: u32,
    line_start: usize,
    /// Column of the token at `at`, from 0; `END_COLUMN` when there is none.
    column: i32,
    /// A comment line was passed on the way to this token.
    passed_comment: bool,
    /// A `---` may still open the document.
    may_start: bool,
    /// Entries of the mappings that are open, innermost last.
    entries: Vec<MapEntry>,
    /// Items of the lists that are open, innermost last.
    items: Vec<(Value, Pos)>,
    strings: StringInterner,
    /// A buffer for scalars that are not a slice of the text.
    buffer: String,
    depth: usize,
    nodes: usize,
}

impl QuickReader<'_> {
    /// The byte there; the end of the text looks like the end of a line.
    #[inline]
    fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(b'\n')
    }

    /// True for a space or the end of a line. A tab is neither: it makes the reader unsure.
    #[inline]
    fn is_gap(&self, at: usize) -> bool {
        matches!(self.byte(at), b' ' | b'\n')
    }

    #[inline]
    fn is_dash(&self) -> bool {
        self.byte(self.at) == b'-' && self.is_gap(self.at + 1)
    }

    #[inline]
    fn skip_spaces(&self, mut at: usize) -> usize {
        while self.bytes.get(at) == Some(&b' ') {
            at += 1;
        }
        at
    }

    fn end_of_line(&self, at: usize) -> usize {
        self.text[at..].find('\n').map_or(self.text.len(), |n| at + n)
    }

    /// The position of the token at `column`; block tokens have only ASCII before them.
    #[inline]
    fn place(&self) -> Pos {
        Pos::new(self.line, self.column.unsigned_abs() + 1)
    }

    fn column_of(&self, at: usize) -> i32 {
        i32::try_from(at - self.line_start).unwrap_or(i32::MAX)
    }

    /// Goes from the end of a line to the next token.
    #[inline]
    fn next_token(&mut self) -> QuickResult<()> {
        self.passed_comment = false;
        if self.at >= self.bytes.len() {
            self.column = END_COLUMN;
            return Ok(());
        }
        self.next_line();
        self.seek()
    }

    #[inline]
    fn next_line(&mut self) {
        self.at += 1;
        self.line += 1;
        self.line_start = self.at;
    }

    /// Goes from the start of a line to the next token.
    fn seek(&mut self) -> QuickResult<()> {
        loop {
            self.at = self.skip_spaces(self.at);
            match self.bytes.get(self.at) {
                None => {
                    self.column = END_COLUMN;
                    return Ok(());
                }
                Some(b'\n') => self.next_line(),
                Some(b'#') => {
                    self.passed_comment = true;
                    self.at = self.end_of_line(self.at);
                    if self.at < self.bytes.len() {
                        self.next_line();
                    }
                }
                Some(b'\t') => return Err(QuickStop::Unsure),
                Some(b'-' | b'.') if self.at == self.line_start && self.is_marker() => self.pass_marker()?,
                Some(_) => {
                    self.may_start = false;
                    self.column = self.column_of(self.at);
                    return Ok(());
                }
            }
        }
    }

    /// True at `---` and `...`.
    fn is_marker(&self) -> bool {
        let rest = &self.bytes[self.at..];
        (rest.starts_with(b"---") || rest.starts_with(b"..."))
            && matches!(self.byte(self.at + 3), b' ' | b'\n' | b'\t')
    }

    /// Passes the `---` that opens the document, or the `...` that ends it when nothing follows.
    fn pass_marker(&mut self) -> QuickResult<()> {
        let opens = self.bytes[self.at] == b'-';
        let end = self.skip_spaces(self.at + 3);
        if std::mem::take(&mut self.may_start) != opens || self.byte(end) != b'\n' {
            return Err(QuickStop::Unsure);
        }
        if !opens && !self.text[end..].trim_matches(['\n', ' ']).is_empty() {
            return Err(QuickStop::Unsure);
        }
        self.at = end;
        if end < self.bytes.len() {
            self.next_line();
        }
        Ok(())
    }

    /// Leaves the line after a node that is complete.
    fn finish_line(&mut self) -> QuickResult<()> {
        let end = self.skip_spaces(self.at);
        self.at = match self.byte(end) {
            b'\n' => end,
            b'#' if end > self.at => self.end_of_line(end),
            _ => return Err(QuickStop::Unsure),
        };
        self.next_token()
    }

    fn enter_collection(&mut self) -> QuickResult<()> {
        match self.depth.checked_sub(1) {
            Some(left) => self.depth = left,
            None => return Err(QuickStop::Limit(Box::new(limits::too_deep(self.place())))),
        }
        Ok(())
    }

    #[inline]
    fn count_nodes(&mut self, nodes: usize) -> QuickResult<()> {
        match self.nodes.checked_sub(nodes) {
            Some(left) => self.nodes = left,
            None => return Err(QuickStop::Limit(Box::new(limits::too_many(self.place())))),
        }
        Ok(())
    }

    /// Reads the node at the token, of a collection whose indentation is `parent`.
    fn node(&mut self, parent: i32) -> QuickResult<Value> {
        match self.byte(self.at) {
            b'-' if self.is_gap(self.at + 1) => self.list(self.column, false),
            b'[' | b'{' => self.flow_value(),
            b'|' | b'>' => self.block_scalar(parent),
            b'\'' | b'"' => {
                let start = self.at;
                let text = self.quoted()?;
                if self.is_colon(start)? {
                    return self.map(self.column, text);
                }
                self.finish_line()?;
                Ok(text)
            }
            _ => {
                let start = self.at;
                let end = self.plain()?;
                if self.byte(self.at) == b':' {
                    let key = self.key_of(start, end)?;
                    return self.map(self.column, key);
                }
                self.plain_value(parent, start, end)
            }
        }
    }

    /// After a quoted scalar: goes to the colon that makes it a key, if there is one.
    fn is_colon(&mut self, start: usize) -> QuickResult<bool> {
        let end = self.skip_spaces(self.at);
        if self.byte(end) != b':' {
            return Ok(false);
        }
        if !self.is_gap(end + 1) || end - start > MAX_KEY_LEN {
            return Err(QuickStop::Unsure);
        }
        self.at = end;
        Ok(true)
    }

    fn key_of(&mut self, start: usize, end: usize) -> QuickResult<Value> {
        if self.at - start > MAX_KEY_LEN && self.text[start..self.at].chars().count() > MAX_KEY_LEN {
            return Err(QuickStop::Unsure);
        }
        self.value_of(start, end)
    }

    /// Reads a key and goes to its colon.
    fn key(&mut self) -> QuickResult<Value> {
        let start = self.at;
        match self.byte(start) {
            b'\'' | b'"' => {
                let key = self.quoted()?;
                if self.is_colon(start)? { Ok(key) } else { Err(QuickStop::Unsure) }
            }
            b'-' if self.is_gap(start + 1) => Err(QuickStop::Unsure),
            _ => {
                let end = self.plain()?;
                if self.byte(self.at) == b':' { self.key_of(start, end) } else { Err(QuickStop::Unsure) }
            }
        }
    }

    /// Reads a mapping at its first colon.
    fn map(&mut self, indent: i32, first: Value) -> QuickResult<Value> {
        self.enter_collection()?;
        let base = self.entries.len();
        let mut key = first;
        let mut at = self.place();
        loop {
            self.count_nodes(2)?;
            let value = self.entry_value(indent)?;
            self.entries.push(MapEntry { key, value, at });
            if self.column != indent {
                break;
            }
            at = self.place();
            key = self.key()?;
        }
        if self.column > indent {
            return Err(QuickStop::Unsure);
        }
        self.depth += 1;
        self.close_map(base)
    }

    fn close_map(&mut self, base: usize) -> QuickResult<Value> {
        build::build_map(self.entries.drain(base..)).map_err(|_| QuickStop::Unsure)
    }

    /// Reads what follows a colon.
    fn entry_value(&mut self, indent: i32) -> QuickResult<Value> {
        let colon = self.at;
        self.at = self.skip_spaces(colon + 1);
        match self.byte(self.at) {
            b'\n' => self.value_below(indent),
            b'#' if self.at > colon + 1 => {
                self.at = self.end_of_line(self.at);
                self.value_below(indent)
            }
            b'|' | b'>' => self.block_scalar(indent),
            b'[' | b'{' => self.flow_value(),
            b'\'' | b'"' => {
                let text = self.quoted()?;
                self.finish_line()?;
                Ok(text)
            }
            b'-' if self.is_gap(self.at + 1) => Err(QuickStop::Unsure),
            _ => {
                let start = self.at;
                let end = self.plain()?;
                if self.byte(self.at) == b':' {
                    return Err(QuickStop::Unsure);
                }
                self.plain_value(indent, start, end)
            }
        }
    }

    /// Reads a value that starts on a later line than its key, or nothing.
    fn value_below(&mut self, indent: i32) -> QuickResult<Value> {
        self.next_token()?;
        if self.column > indent {
            self.node(indent)
        } else if self.column == indent && self.is_dash() {
            self.list(indent, true)
        } else {
            Ok(Value::Null)
        }
    }

    /// Reads a list at its first dash; `under_key` when it is in the column of its key.
    fn list(&mut self, indent: i32, under_key: bool) -> QuickResult<Value> {
        self.enter_collection()?;
        let base = self.items.len();
        loop {
            self.count_nodes(1)?;
            let item = self.item(indent)?;
            self.items.push(item);
            if self.column != indent {
                break;
            }
            if !self.is_dash() {
                if under_key {
                    break;
                }
                return Err(QuickStop::Unsure);
            }
        }
        if self.column > indent {
            return Err(QuickStop::Unsure);
        }
        self.depth += 1;
        Ok(build::build_list(self.items.drain(base..)))
    }

    /// Reads what follows a dash.
    fn item(&mut self, indent: i32) -> QuickResult<(Value, Pos)> {
        let dash = self.at;
        let after_dash = Pos::new(self.line, indent.unsigned_abs() + 2);
        self.at = self.skip_spaces(dash + 1);
        match self.byte(self.at) {
            b'\n' => {}
            b'#' if self.at > dash + 1 => self.at = self.end_of_line(self.at),
            _ => {
                self.column = self.column_of(self.at);
                let at = self.place();
                return Ok((self.node(indent)?, at));
            }
        }
        self.next_token()?;
        if self.column > indent {
            let at = self.place();
            Ok((self.node(indent)?, at))
        } else {
            Ok((Value::Null, after_dash))
        }
    }
}
