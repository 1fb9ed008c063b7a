//! Flow collections: `[a, b]` and `{a: 1}`, also over several lines.

use zagent_config::value::MapEntry;
use zagent_config::{Pos, Value};

use super::super::build;
use super::{MAX_KEY_LEN, QuickReader, QuickResult, QuickStop};

impl QuickReader<'_> {
    /// Reads a flow collection and leaves its last line.
    pub(super) fn flow_value(&mut self) -> QuickResult<Value> {
        let value = self.flow_collection()?;
        self.finish_line()?;
        Ok(value)
    }

    fn flow_collection(&mut self) -> QuickResult<Value> {
        self.enter_collection()?;
        let value = if self.bytes[self.at] == b'[' { self.flow_list() } else { self.flow_map() }?;
        self.depth += 1;
        Ok(value)
    }

    /// The position of the current byte.
    fn flow_place(&self) -> Pos {
        let column = if self.is_ascii {
            self.at - self.line_start
        } else {
            self.text[self.line_start..self.at].chars().count()
        };
        Pos::new(self.line, u32::try_from(column).unwrap_or(u32::MAX - 1) + 1)
    }

    /// Skips spaces, line breaks and comments; true when a line break was among them.
    fn flow_space(&mut self) -> QuickResult<bool> {
        let line = self.line;
        loop {
            match self.bytes.get(self.at) {
                None | Some(b'\t') => return Err(QuickStop::Unsure),
                Some(b' ') => self.at += 1,
                Some(b'\n') => {
                    self.next_line();
                    if matches!(self.byte(self.at), b'-' | b'.') {
                        return Err(QuickStop::Unsure);
                    }
                }
                Some(b'#') if matches!(self.bytes[self.at - 1], b' ' | b'\n') => {
                    self.at = self.end_of_line(self.at);
                }
                Some(_) => return Ok(self.line != line),
            }
        }
    }

    fn flow_list(&mut self) -> QuickResult<Value> {
        let base = self.items.len();
        self.at += 1;
        loop {
            self.flow_space()?;
            if self.bytes[self.at] == b']' {
                break;
            }
            self.count_nodes(1)?;
            let at = self.flow_place();
            let value = self.flow_node()?;
            self.items.push((value, at));
            self.flow_space()?;
            match self.bytes[self.at] {
                b',' => self.at += 1,
                b']' => break,
                _ => return Err(QuickStop::Unsure),
            }
        }
        self.at += 1;
        Ok(build::build_list(self.items.drain(base..)))
    }

    fn flow_map(&mut self) -> QuickResult<Value> {
        let base = self.entries.len();
        self.at += 1;
        loop {
            self.flow_space()?;
            if self.bytes[self.at] == b'}' {
                break;
            }
            self.count_nodes(2)?;
            let entry = self.flow_entry()?;
            self.entries.push(entry);
            self.flow_space()?;
            match self.bytes[self.at] {
                b',' => self.at += 1,
                b'}' => break,
                _ => return Err(QuickStop::Unsure),
            }
        }
        self.at += 1;
        self.close_map(base)
    }

    fn flow_entry(&mut self) -> QuickResult<MapEntry> {
        let at = self.flow_place();
        let start = self.at;
        if matches!(self.byte(start), b'[' | b'{') {
            return Err(QuickStop::Unsure);
        }
        let key = self.flow_node()?;
        let crossed = self.flow_space()?;
        let value = match self.bytes[self.at] {
            b',' | b'}' => Value::Null,
            b':' if !crossed && self.at - start <= MAX_KEY_LEN => {
                self.at += 1;
                self.flow_space()?;
                if matches!(self.bytes[self.at], b',' | b'}') { Value::Null } else { self.flow_node()? }
            }
            _ => return Err(QuickStop::Unsure),
        };
        Ok(MapEntry { key, value, at })
    }

    /// Reads a scalar or collection inside brackets.
    fn flow_node(&mut self) -> QuickResult<Value> {
        match self.byte(self.at) {
            b'[' | b'{' => self.flow_collection(),
            b'\'' | b'"' => self.quoted(),
            _ => {
                let start = self.at;
                let end = self.flow_plain()?;
                self.value_of(start, end)
            }
        }
    }
}
