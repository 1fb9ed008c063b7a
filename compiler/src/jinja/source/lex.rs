//! The text of a template in, tokens out, with Jinja2's rules for tags, raw blocks, comments and whitespace control.
//!
//! Every token has its byte range in the text; text between tags is a token that is already trimmed.

use super::literal::{integer, number, unescape};
use super::syntax::Syntax;
use super::{SyntaxError, SyntaxErrorKind};

/// What a token is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TokenKind {
    Data,
    BlockBegin,
    BlockEnd,
    VariableBegin,
    VariableEnd,
    Name,
    Str(String),
    Int,
    Float,
    Op(&'static str),
    End,
}

/// A token and its position.
#[derive(Clone, Debug)]
pub(super) struct LexToken {
    pub(super) tok: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
}

const OPERATORS: [&str; 27] = [
    "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<",
    "=", ".", ":", "|", ",", ";", "!",
];

/// The kind of a tag that starts in plain text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpeningKind {
    Block,
    Variable,
    Comment,
    LineStatement,
    LineComment,
}

/// Where in the text a tag starts and what follows.
struct OpenedTag {
    /// End of the text before it.
    data_end: usize,
    /// Start of the delimiter.
    start: usize,
    /// First byte after the delimiter.
    inside: usize,
    kind: OpeningKind,
}

pub(super) struct TemplateLexer<'s> {
    src: &'s str,
    syntax: &'s Syntax,
    pos: usize,
    tokens: Vec<LexToken>,
    line_starting: bool,
}

/// Maximum tokens per template.
const MAX_TOKENS: usize = 250_000;

/// Splits a text, whose line ends are line feeds, into tokens; the last one is [`TokenKind::End`].
pub(super) fn tokenize(src: &str, syntax: &Syntax) -> Result<Vec<LexToken>, SyntaxError> {
    let mut lexer = TemplateLexer {
        src,
        syntax,
        pos: 0,
        tokens: Vec::with_capacity((src.len() / 8 + 8).min(MAX_TOKENS)),
        line_starting: true,
    };
    lexer.run()?;
    Ok(lexer.tokens)
}

fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl<'s> TemplateLexer<'s> {
    fn run(&mut self) -> Result<(), SyntaxError> {
        while let Some(tag) = self.next_tag() {
            self.check_tokens()?;
            match tag.kind {
                OpeningKind::LineComment => {
                    self.push_data(self.pos, tag.data_end);
                    let rest = &self.src[tag.inside..];
                    self.advance(tag.inside + rest.find('\n').unwrap_or(rest.len()));
                }
                OpeningKind::LineStatement => {
                    self.push_data(self.pos, tag.data_end);
                    self.push(TokenKind::BlockBegin, tag.start, tag.inside);
                    self.advance(tag.inside);
                    self.tag(OpeningKind::LineStatement, tag.start)?;
                }
                kind => self.delimited(kind, &tag)?,
            }
        }
        self.push_data(self.pos, self.src.len());
        self.push(TokenKind::End, self.src.len(), self.src.len());
        Ok(())
    }

    fn delimited(&mut self, kind: OpeningKind, tag: &OpenedTag) -> Result<(), SyntaxError> {
        let sign = self.src[tag.inside..].chars().next().filter(|c| matches!(c, '-' | '+'));
        let inside = tag.inside + sign.map_or(0, char::len_utf8);
        let end = self.trimmed_end(self.pos, tag.data_end, sign, kind == OpeningKind::Variable);
        self.push_data(self.pos, end);
        match kind {
            OpeningKind::Comment => self.comment(tag.start, inside),
            OpeningKind::Variable => {
                self.push(TokenKind::VariableBegin, tag.start, inside);
                self.advance(inside);
                self.tag(OpeningKind::Variable, tag.start)
            }
            _ => {
                if let Some(after) = self.raw_begin(inside) {
                    return self.raw(tag.start, after);
                }
                self.push(TokenKind::BlockBegin, tag.start, inside);
                self.advance(inside);
                self.tag(OpeningKind::Block, tag.start)
            }
        }
    }

    /// Where the text before a tag ends, after whitespace control.
    fn trimmed_end(&self, from: usize, to: usize, sign: Option<char>, variable: bool) -> usize {
        let text = &self.src[from..to];
        if sign == Some('-') {
            return from + text.trim_end_matches(is_space).len();
        }
        if sign != Some('+') && self.syntax.lstrip_blocks && !variable {
            let line = text.rfind('\n').map_or(0, |p| p + 1);
            if (line > 0 || self.line_starting) && text[line..].chars().all(is_space) {
                return from + line;
            }
        }
        to
    }

    fn push(&mut self, tok: TokenKind, start: usize, end: usize) {
        self.tokens.push(LexToken { tok, start, end });
    }

    /// A template costs far more memory than its text.
    fn check_tokens(&self) -> Result<(), SyntaxError> {
        if self.tokens.len() > MAX_TOKENS {
            let text = "this template has too many tags and words in tags";
            return Err(SyntaxError::new(SyntaxErrorKind::Depth, text, self.pos).hint("split the file"));
        }
        Ok(())
    }

    fn push_data(&mut self, start: usize, end: usize) {
        if start < end {
            self.push(TokenKind::Data, start, end);
        }
    }

    fn advance(&mut self, to: usize) {
        self.line_starting = self.src[..to].ends_with('\n') || to == 0;
        self.pos = to;
    }

    fn next_tag(&self) -> Option<OpenedTag> {
        let delimited = self.next_delimited();
        let line = self.next_line_prefix();
        match (delimited, line) {
            (Some(d), Some(l)) => Some(if l.data_end <= d.start { l } else { d }),
            (d, l) => d.or(l),
        }
    }

    fn next_delimited(&self) -> Option<OpenedTag> {
        let mut starts = [
            (self.syntax.comment.0.as_str(), OpeningKind::Comment),
            (self.syntax.block.0.as_str(), OpeningKind::Block),
            (self.syntax.variable.0.as_str(), OpeningKind::Variable),
        ];
        starts.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        let bytes = self.src.as_bytes();
        let firsts = starts.map(|(text, _)| text.as_bytes()[0]);
        let mut at = self.pos;
        loop {
            at += bytes[at..].iter().position(|b| firsts.contains(b))?;
            for (text, kind) in starts {
                if bytes[at..].starts_with(text.as_bytes()) {
                    return Some(OpenedTag { data_end: at, start: at, inside: at + text.len(), kind });
                }
            }
            at += 1;
        }
    }

    fn next_line_prefix(&self) -> Option<OpenedTag> {
        let statement = self.syntax.line_statement.as_deref();
        let comment = self.syntax.line_comment.as_deref();
        if statement.is_none() && comment.is_none() {
            return None;
        }
        let mut line = self.pos;
        if !self.line_starting {
            if let Some(found) = self.line_comment_within(line, comment) {
                return Some(found);
            }
            line += self.src[line..].find('\n')? + 1;
        }
        loop {
            let text = &self.src[line..];
            let body = text.trim_start_matches([' ', '\t', '\u{b}']);
            let start = line + text.len() - body.len();
            // The longer prefix is tried first, as with the delimiters.
            let mut prefixes = [(comment, OpeningKind::LineComment), (statement, OpeningKind::LineStatement)];
            prefixes.sort_by_key(|(p, _)| std::cmp::Reverse(p.map_or(0, str::len)));
            for (prefix, kind) in prefixes {
                if let Some(prefix) = prefix
                    && body.starts_with(prefix)
                {
                    return Some(OpenedTag { data_end: line, start, inside: start + prefix.len(), kind });
                }
            }
            if let Some(found) = self.line_comment_within(line, comment) {
                return Some(found);
            }
            line += text.find('\n')? + 1;
        }
    }

    /// A comment that follows something on the same line.
    fn line_comment_within(&self, from: usize, prefix: Option<&str>) -> Option<OpenedTag> {
        let prefix = prefix?;
        let end = self.src[from..].find('\n').map_or(self.src.len(), |p| from + p);
        let start = from + self.src[from..end].find(prefix)?;
        let data_end = from + self.src[from..start].trim_end_matches(|c| c != '\n' && is_space(c)).len();
        Some(OpenedTag { data_end, start, inside: start + prefix.len(), kind: OpeningKind::LineComment })
    }

    fn comment(&mut self, start: usize, inside: usize) -> Result<(), SyntaxError> {
        let close = self.syntax.comment.1.as_str();
        let Some(at) = self.src[inside..].find(close).map(|p| inside + p) else {
            return Err(SyntaxError::new(SyntaxErrorKind::Syntax, "this comment is never closed", start)
                .hint(format!("close it with `{close}`")));
        };
        let after = self.after_close(at, at + close.len(), inside, true);
        self.advance(after);
        Ok(())
    }

    /// Where the text continues after a closing delimiter at `at..end`, given the sign before it.
    fn after_close(&self, at: usize, end: usize, inside: usize, trims: bool) -> usize {
        let sign = if at > inside { self.src.as_bytes()[at - 1] } else { b' ' };
        self.skip_after(sign, end, trims)
    }

    fn skip_after(&self, sign: u8, end: usize, trims: bool) -> usize {
        let rest = &self.src[end..];
        match sign {
            b'-' => end + (rest.len() - rest.trim_start_matches(is_space).len()),
            b'+' => end,
            _ if trims && self.syntax.trim_blocks && rest.starts_with('\n') => end + 1,
            _ => end,
        }
    }

    /// The end of `raw %}`, when it is at this position.
    fn raw_begin(&self, inside: usize) -> Option<usize> {
        let rest =
            self.src[inside..].trim_start_matches(is_space).strip_prefix("raw")?.trim_start_matches(is_space);
        let (sign, rest) = rest.strip_prefix('-').map_or((b' ', rest), |r| (b'-', r));
        let rest = rest.strip_prefix(self.syntax.block.1.as_str())?;
        Some(self.skip_after(sign, self.src.len() - rest.len(), false))
    }

    fn raw(&mut self, start: usize, from: usize) -> Result<(), SyntaxError> {
        let open = self.syntax.block.0.as_str();
        let mut at = from;
        while let Some(tag) = self.src[at..].find(open).map(|p| at + p) {
            let inside = &self.src[tag + open.len()..];
            let sign = inside.chars().next().filter(|c| matches!(c, '-' | '+'));
            let word = inside[sign.map_or(0, char::len_utf8)..].trim_start_matches(is_space);
            if let Some(rest) = word.strip_prefix("endraw") {
                let rest = rest.trim_start_matches(is_space);
                let closing = rest.chars().next().filter(|c| matches!(c, '-' | '+'));
                let close = &rest[closing.map_or(0, char::len_utf8)..];
                if let Some(after) = close.strip_prefix(self.syntax.block.1.as_str()) {
                    self.line_starting = self.src[..from].ends_with('\n');
                    let end = self.trimmed_end(from, tag, sign, false);
                    self.push_data(from, end);
                    let sign = closing.map_or(b' ', |c| c as u8);
                    let next = self.skip_after(sign, self.src.len() - after.len(), true);
                    self.advance(next);
                    return Ok(());
                }
            }
            at = tag + open.len();
        }
        Err(SyntaxError::new(SyntaxErrorKind::Syntax, "this `raw` block is never closed", start)
            .hint("close it with `{% endraw %}`"))
    }

    /// The tokens of one tag, its end included.
    fn tag(&mut self, kind: OpeningKind, opened: usize) -> Result<(), SyntaxError> {
        let mut open: Vec<(char, usize)> = Vec::new();
        loop {
            self.check_tokens()?;
            if open.is_empty()
                && let Some((at, after)) = self.tag_end(kind)
            {
                let tok =
                    if kind == OpeningKind::Variable { TokenKind::VariableEnd } else { TokenKind::BlockEnd };
                self.push(tok, at, after.min(self.src.len()));
                self.advance(after);
                return Ok(());
            }
            let rest = &self.src[self.pos..];
            let Some(c) = rest.chars().next() else { return Err(self.unclosed(kind, opened, &open)) };
            if is_space(c) {
                self.pos += rest.len() - rest.trim_start_matches(is_space).len();
            } else if c.is_ascii_digit() {
                self.number();
            } else if is_word(c) {
                let len = rest.len() - rest.trim_start_matches(is_word).len();
                self.push(TokenKind::Name, self.pos, self.pos + len);
                self.pos += len;
            } else if matches!(c, '\'' | '"') {
                self.string(c)?;
            } else {
                self.operator(c, &mut open)?;
            }
        }
    }

    fn unclosed(&self, kind: OpeningKind, opened: usize, open: &[(char, usize)]) -> SyntaxError {
        if let Some((c, at)) = open.last() {
            return SyntaxError::new(
                SyntaxErrorKind::Syntax,
                format!("this bracket is never closed with `{c}`"),
                *at,
            );
        }
        let close =
            if kind == OpeningKind::Variable { &self.syntax.variable.1 } else { &self.syntax.block.1 };
        SyntaxError::new(SyntaxErrorKind::Syntax, format!("this tag is never closed with `{close}`"), opened)
    }

    /// The end of the tag when it is at the current position: where it starts, and where the text continues.
    fn tag_end(&self, kind: OpeningKind) -> Option<(usize, usize)> {
        let rest = &self.src[self.pos..];
        match kind {
            OpeningKind::LineStatement => {
                let body = rest.trim_start_matches(|c| c != '\n' && is_space(c));
                let at = self.src.len() - body.len();
                if body.is_empty() {
                    return Some((at, at));
                }
                body.starts_with('\n').then_some((at, at + 1))
            }
            OpeningKind::Variable => {
                let close = self.syntax.variable.1.as_str();
                if let Some(after) = rest.strip_prefix('-').and_then(|r| r.strip_prefix(close)) {
                    return Some((self.pos, self.skip_after(b'-', self.src.len() - after.len(), false)));
                }
                let after = rest.strip_prefix(close)?;
                Some((self.pos, self.src.len() - after.len()))
            }
            _ => {
                let close = self.syntax.block.1.as_str();
                for (prefix, sign) in [("+", b'+'), ("-", b'-'), ("", b' ')] {
                    if let Some(after) = rest.strip_prefix(prefix).and_then(|r| r.strip_prefix(close)) {
                        return Some((self.pos, self.skip_after(sign, self.src.len() - after.len(), true)));
                    }
                }
                None
            }
        }
    }

    fn number(&mut self) {
        let rest = &self.src.as_bytes()[self.pos..];
        let after_dot = self.pos > 0 && self.src.as_bytes()[self.pos - 1] == b'.';
        let (len, float) = if after_dot { (integer(rest), false) } else { number(rest) };
        self.push(if float { TokenKind::Float } else { TokenKind::Int }, self.pos, self.pos + len);
        self.pos += len;
    }

    fn string(&mut self, quote: char) -> Result<(), SyntaxError> {
        let start = self.pos;
        let bytes = self.src.as_bytes();
        let mut at = start + 1;
        while at < bytes.len() && bytes[at] != quote as u8 {
            at += if bytes[at] == b'\\' { 2 } else { 1 };
        }
        if at >= bytes.len() {
            return Err(SyntaxError::new(SyntaxErrorKind::Syntax, "this string is never closed", start));
        }
        let text = unescape(&self.src[start + 1..at])
            .map_err(|m| SyntaxError::new(SyntaxErrorKind::Syntax, m, start))?;
        self.push(TokenKind::Str(text), start, at + 1);
        self.pos = at + 1;
        Ok(())
    }

    fn operator(&mut self, c: char, open: &mut Vec<(char, usize)>) -> Result<(), SyntaxError> {
        let rest = &self.src[self.pos..];
        let Some(op) = OPERATORS.into_iter().find(|op| *op != "!" && rest.starts_with(op)) else {
            return Err(SyntaxError::new(
                SyntaxErrorKind::Syntax,
                format!("unexpected character `{c}`"),
                self.pos,
            ));
        };
        match op {
            "(" => open.push((')', self.pos)),
            "[" => open.push((']', self.pos)),
            "{" => open.push(('}', self.pos)),
            ")" | "]" | "}" => match open.pop() {
                Some((expected, _)) if op.starts_with(expected) => {}
                Some((expected, _)) => {
                    return Err(SyntaxError::new(
                        SyntaxErrorKind::Syntax,
                        format!("unexpected `{op}`, expected `{expected}`"),
                        self.pos,
                    ));
                }
                None => {
                    let problem =
                        SyntaxError::new(SyntaxErrorKind::Syntax, format!("unexpected `{op}`"), self.pos);
                    let is_end = op == "}" && rest[1..].trim_start_matches(' ').starts_with(['\n', '}']);
                    let hint = "close `{{` with `}}`, and `{%` with `%}`";
                    return Err(if is_end { problem.hint(hint) } else { problem });
                }
            },
            _ => {}
        }
        self.push(TokenKind::Op(op), self.pos, self.pos + op.len());
        self.pos += op.len();
        Ok(())
    }
}
