//! The lines of a YAML text: indentation, indicators and folding.
//!
//! Law: a line is folded only at a single space, and only once it has passed the width (held by
//! `values_are_written_as_salt_writes_them`).

use std::fmt::Write as _;

use super::scalar::{self, RawChars, is_break};

/// The context of a node, as far as it affects how it is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EmitContext {
    /// The whole document.
    Root,
    /// An item of a list.
    Item,
    /// A key on one line.
    SimpleKey,
    /// A value of a mapping, or a key with a `?`.
    Pair,
}

/// A text that grows by tokens.
pub(super) struct Emitter {
    pub out: String,
    /// The indentation of the collection that is open; -1 outside of all.
    indent: i32,
    /// Spaces per level.
    step: i32,
    width: i32,
    raw: RawChars,
    column: i32,
    /// The last character was a space, or there was none.
    after_space: bool,
    /// The line has only spaces and indicators so far.
    in_indentation: bool,
    /// How many brackets are open.
    brackets: u32,
}

impl Emitter {
    pub(super) fn new(indent: u8, width: u16, raw: RawChars) -> Self {
        let step = if (2..10).contains(&indent) { i32::from(indent) } else { 2 };
        let width = i32::from(width);
        Self {
            out: String::new(),
            indent: -1,
            step,
            width: if width <= step * 2 { 80 } else { width },
            raw,
            column: 0,
            after_space: true,
            in_indentation: true,
            brackets: 0,
        }
    }

    pub(super) fn is_in_brackets(&self) -> bool {
        self.brackets > 0
    }

    fn put_char(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn put_break(&mut self, c: char) {
        self.out.push(c);
        self.column = 0;
    }

    /// Starts a line at the indentation, unless the line has just started there.
    pub(super) fn new_line(&mut self) {
        let indent = self.indent.max(0);
        if !self.in_indentation || self.column > indent || self.column == indent && !self.after_space {
            self.put_break('\n');
        }
        while self.column < indent {
            self.put_char(' ');
        }
        self.after_space = true;
        self.in_indentation = true;
    }

    fn indicator(&mut self, text: &str, needs_space: bool, is_space: bool, is_indentation: bool) {
        if needs_space && !self.after_space {
            self.put_char(' ');
        }
        text.chars().for_each(|c| self.put_char(c));
        self.after_space = is_space;
        self.in_indentation &= is_indentation;
    }

    /// Goes one level deeper; returns the level to go back to.
    fn indent_deeper(&mut self, is_flow: bool, stays: bool) -> i32 {
        let back = self.indent;
        if self.indent < 0 {
            self.indent = if is_flow { self.step } else { 0 };
        } else if !stays {
            self.indent += self.step;
        }
        back
    }

    /// Opens a list in a block; returns the level to go back to. Below a key its dashes stay in the column of the key.
    pub(super) fn open_list(&mut self, context: EmitContext) -> i32 {
        let is_value = matches!(context, EmitContext::Pair | EmitContext::SimpleKey);
        self.indent_deeper(false, is_value && !self.in_indentation)
    }

    /// Opens a mapping in a block; returns the level to go back to.
    pub(super) fn open_map(&mut self) -> i32 {
        self.indent_deeper(false, false)
    }

    /// Ends a block.
    pub(super) fn close(&mut self, back: i32) {
        self.indent = back;
    }

    pub(super) fn dash(&mut self) {
        self.new_line();
        self.indicator("-", true, false, true);
    }

    /// The `?` of a key that is too long for one line.
    pub(super) fn question(&mut self) {
        self.indicator("?", true, false, !self.is_in_brackets());
    }

    pub(super) fn colon(&mut self) {
        self.indicator(":", false, false, false);
    }

    /// The colon after a key with a `?`.
    pub(super) fn colon_below(&mut self) {
        if !self.is_in_brackets() {
            self.new_line();
            self.indicator(":", true, false, true);
            return;
        }
        self.fold_line();
        self.indicator(":", true, false, false);
    }

    /// Opens a bracket; returns the level to go back to.
    pub(super) fn open_bracket(&mut self, bracket: &str) -> i32 {
        self.indicator(bracket, true, true, false);
        let back = self.indent_deeper(true, false);
        self.brackets += 1;
        back
    }

    pub(super) fn close_bracket(&mut self, bracket: &str, back: i32) {
        self.brackets -= 1;
        self.indent = back;
        self.indicator(bracket, false, false, false);
    }

    /// Goes to the next part inside brackets.
    pub(super) fn next_part(&mut self, index: usize) {
        if index > 0 {
            self.indicator(",", false, false, false);
        }
        self.fold_line();
    }

    fn fold_line(&mut self) {
        if self.column > self.width {
            self.new_line();
        }
    }

    /// Writes a scalar; `is_plain` when its text alone determines its type.
    pub(super) fn scalar(&mut self, text: &str, is_plain: bool, context: EmitContext) {
        let allowed = scalar::analyze(text, self.raw);
        let is_simple_key = context == EmitContext::SimpleKey;
        let fits_plain = if self.is_in_brackets() { allowed.flow_plain } else { allowed.block_plain };
        let is_hidden = text.is_empty() && (self.is_in_brackets() || is_simple_key);
        // Continuation lines are one level deeper.
        let back = self.indent_deeper(true, false);
        if is_plain && fits_plain && !is_hidden {
            self.write_plain(text, !is_simple_key);
        } else if allowed.single && !(is_simple_key && allowed.is_multiline) {
            self.write_single_quoted(text, !is_simple_key);
        } else {
            self.write_double_quoted(text, !is_simple_key);
        }
        self.indent = back;
        self.after_space = false;
        self.in_indentation = false;
    }

    fn write_plain(&mut self, text: &str, may_fold: bool) {
        if !self.after_space && (!text.is_empty() || self.is_in_brackets()) {
            self.put_char(' ');
        }
        let mut after_space = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == ' ' && may_fold && !after_space && self.column > self.width && chars.peek() != Some(&' ')
            {
                self.new_line();
            } else {
                self.put_char(c);
            }
            after_space = c == ' ';
            self.in_indentation &= c == ' ';
        }
    }

    fn write_single_quoted(&mut self, text: &str, may_fold: bool) {
        self.indicator("'", true, false, false);
        let (mut after_space, mut after_break) = (false, false);
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, c)| *c);
            if c == ' ' {
                let is_inside = at > 0 && next.is_some_and(|n| n != ' ');
                if may_fold && !after_space && self.column > self.width && is_inside {
                    self.new_line();
                } else {
                    self.put_char(c);
                }
                after_space = true;
            } else if is_break(c) {
                if !after_break && c == '\n' {
                    self.put_break('\n');
                }
                self.put_break(c);
                self.in_indentation = true;
                after_break = true;
            } else {
                if after_break {
                    self.new_line();
                }
                if c == '\'' {
                    self.put_char(c);
                }
                self.put_char(c);
                self.in_indentation = false;
                (after_space, after_break) = (false, false);
            }
        }
        if after_break {
            self.new_line();
        }
        self.indicator("'", false, false, false);
    }

    fn write_double_quoted(&mut self, text: &str, may_fold: bool) {
        self.indicator("\"", true, false, false);
        let mut after_space = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let next = chars.peek().map(|(_, c)| *c);
            if c == ' ' {
                if may_fold && !after_space && self.column > self.width && at > 0 && next.is_some() {
                    self.new_line();
                    if next == Some(' ') {
                        self.put_char('\\');
                    }
                } else {
                    self.put_char(c);
                }
                after_space = true;
                continue;
            }
            after_space = false;
            let is_raw = self.raw.include(c) && !is_break(c);
            if is_raw && c != '"' && c != '\\' {
                self.put_char(c);
            } else {
                self.write_escape(c);
            }
        }
        self.indicator("\"", false, false, false);
    }

    fn write_escape(&mut self, c: char) {
        let before = self.out.len();
        escape(c, &mut self.out);
        let written = self.out.len() - before;
        self.column += i32::try_from(written).unwrap_or(0);
    }
}

/// Writes a character as YAML escapes it in double quotes.
pub(super) fn escape(c: char, out: &mut String) {
    let letter = match c {
        '"' => '"',
        '\\' => '\\',
        '\0' => '0',
        '\x07' => 'a',
        '\x08' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\x0b' => 'v',
        '\x0c' => 'f',
        '\r' => 'r',
        '\x1b' => 'e',
        '\u{85}' => 'N',
        '\u{a0}' => '_',
        '\u{2028}' => 'L',
        '\u{2029}' => 'P',
        _ => {
            let _ = match u32::from(c) {
                n @ 0..=0xff => write!(out, "\\x{n:02X}"),
                n @ 0..=0xffff => write!(out, "\\u{n:04X}"),
                n => write!(out, "\\U{n:08X}"),
            };
            return;
        }
    };
    out.push('\\');
    out.push(letter);
}
