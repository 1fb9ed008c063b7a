//! A parser error and its line in, an error message that the user can act on out.

use libyaml_safer::{Error, ErrorKind};
use zagent_config::Pos;
use zagent_config::codes::yaml as code;

use super::YamlError;
use super::events::place;

/// Translates an error of the parser.
pub(super) fn explain(text: &str, error: &Error) -> YamlError {
    if matches!(error.kind(), ErrorKind::Reader | ErrorKind::Io) {
        return bad_character(text);
    }
    let Some(mark) = error.problem_mark() else {
        return YamlError::new(code::YAML_SYNTAX, "this is not YAML", Pos::new(1, 1));
    };
    let seen = ParserStop {
        text,
        at: place(mark),
        from: error.context_mark().map(place),
        context: error.context().unwrap_or_default(),
    };
    seen.explain(error.problem())
}

/// Where the parser stopped, and what it was doing.
struct ParserStop<'a> {
    text: &'a str,
    at: Pos,
    /// Where the construct starts that it was reading.
    from: Option<Pos>,
    context: &'a str,
}

impl<'a> ParserStop<'a> {
    fn line(&self, pos: Pos) -> &'a str {
        let line = usize::try_from(pos.line).unwrap_or(1).saturating_sub(1);
        self.text.lines().nth(line).unwrap_or_default()
    }

    /// The line of a position, split there.
    fn split(&self, pos: Pos) -> (&'a str, &'a str) {
        let line = self.line(pos);
        let column = usize::try_from(pos.column).unwrap_or(1).saturating_sub(1);
        line.split_at(line.char_indices().nth(column).map_or(line.len(), |(i, _)| i))
    }

    fn start(&self) -> Pos {
        self.from.unwrap_or(self.at)
    }

    fn explain(&self, problem: &str) -> YamlError {
        match problem {
            "found character that cannot start any token" => self.bad_start(),
            "found a tab character that violates indentation"
            | "found a tab character where an indentation space is expected" => self.tab(),
            "mapping values are not allowed in this context" => self.unexpected_colon(),
            "mapping keys are not allowed in this context" => self.reserved('?'),
            "could not find expected ':'" => self.missing_colon(),
            "did not find expected key" => self.not_a_key(),
            "did not find expected '-' indicator" => self.not_an_item(),
            "block sequence entries are not allowed in this context" => self.list_on_key_line(),
            "did not find expected ',' or ']'" => self.unclosed('[', ']'),
            "did not find expected ',' or '}'" => self.unclosed('{', '}'),
            "found unexpected end of stream" | "found unexpected document indicator" => self.unclosed_quote(),
            "found unknown escape character"
            | "did not find expected hexdecimal number"
            | "found invalid Unicode character escape code" => self.bad_escape(),
            "did not find expected alphabetic or numeric character" => self.nameless_alias(),
            "found incompatible YAML document"
            | "found duplicate %YAML directive"
            | "found duplicate %TAG directive" => self.bad_directive(self.at),
            "found undefined tag handle" => self.bad_tag(self.at),
            "found unexpected ':'" => {
                YamlError::new(code::COLON_IN_VALUE, "a colon is directly before a bracket or comma", self.at)
                    .hint("put a space after the colon, or quote the value")
            }
            "did not find expected <document start>" => self.after_the_end(),
            _ => self.explain_by_context(),
        }
    }

    /// Other errors depend on what was being read.
    fn explain_by_context(&self) -> YamlError {
        if self.context.contains("directive") {
            return self.bad_directive(self.start());
        }
        if self.context.contains(" tag") {
            return self.bad_tag(self.start());
        }
        if self.context == "while scanning a block scalar" {
            let hint =
                "put the text on the lines below, indented, or quote a value that starts with `|` or `>`";
            return YamlError::new(
                code::BLOCK_SCALAR,
                "the first line of a block scalar has more than `|` or `>`",
                self.start(),
            )
            .hint(hint);
        }
        if matches!(self.split(self.at).1.chars().next(), Some('%')) {
            return self.reserved('%');
        }
        if let Some(error) = self.open_to_the_end() {
            return error;
        }
        YamlError::new(code::YAML_SYNTAX, "expected a value here", self.at)
            .hint("write the value; if it is text, quote it")
    }

    /// The last bracket that is still open when the text ends.
    fn open_to_the_end(&self) -> Option<YamlError> {
        let last = u32::try_from(self.text.lines().count()).ok()?;
        if self.at.line <= last && !self.split(self.at).1.trim().is_empty() {
            return None;
        }
        let mut open: Vec<(char, Pos)> = Vec::new();
        for (line, text) in (1..).zip(self.text.lines()) {
            for (column, c) in (1..).zip(text.chars()) {
                match c {
                    '[' | '{' => open.push((c, Pos::new(line, column))),
                    ']' | '}' => drop(open.pop()),
                    _ => {}
                }
            }
        }
        let (bracket, at) = open.pop()?;
        let close = if bracket == '[' { ']' } else { '}' };
        Some(
            YamlError::new(code::UNCLOSED, format!("`{bracket}` is not closed by `{close}`"), at)
                .hint(format!("if `{bracket}` is part of the text, quote the value")),
        )
    }

    fn bad_directive(&self, at: Pos) -> YamlError {
        YamlError::new(
            code::DIRECTIVE,
            "a line that starts with `%` is a directive, but this one is not valid",
            at,
        )
        .hint("quote or indent the text; `%YAML 1.1` and `%TAG` are the only directives")
    }

    fn bad_start(&self) -> YamlError {
        match self.split(self.at).1.chars().next() {
            Some('\t') => self.tab(),
            Some(c) => self.reserved(c),
            None => YamlError::new(code::YAML_SYNTAX, "expected a value here", self.at),
        }
    }

    fn tab(&self) -> YamlError {
        let line = self.line(self.at);
        let column = line
            .chars()
            .position(|c| c == '\t')
            .map_or(self.at.column, |n| u32::try_from(n + 1).unwrap_or(1));
        YamlError::new(code::TAB, "tab in the indentation", Pos::new(self.at.line, column))
            .hint("indent with spaces: YAML does not allow tabs there")
    }

    fn reserved(&self, c: char) -> YamlError {
        let (before, rest) = self.split(self.at);
        if c == '%' && (before.ends_with('{') || rest.starts_with("%}")) {
            return YamlError::new(code::RESERVED_START, "a template tag was not rendered", self.at)
                .hint("check the first line of the file: `#!yaml` alone does not render Jinja");
        }
        if c == '`' {
            return YamlError::new(code::RESERVED_START, "a value cannot start with a backtick", self.at)
                .hint("quote the value");
        }
        YamlError::new(code::RESERVED_START, format!("a value cannot start with `{c}`"), self.at)
            .hint(format!("quote the value: `'{c}…'`"))
    }

    fn unexpected_colon(&self) -> YamlError {
        let (before, _) = self.split(self.at);
        let before = before.trim_start_matches([' ', '-']);
        if before.contains(": ") {
            let key = before.split(": ").next().unwrap_or_default();
            return YamlError::new(
                code::COLON_IN_VALUE,
                format!("the value of `{key}` contains a colon followed by a space"),
                self.at,
            )
            .hint("quote the value, or start the next key on its own line");
        }
        if before.len() > 1024 {
            return YamlError::new(
                code::MISSING_COLON,
                "a key is longer than 1024 characters",
                Pos::new(self.at.line, 1),
            )
            .hint("shorten it, or write it after a `? ` on its own line");
        }
        if let Some(error) = self.colon_missing_above() {
            return error;
        }
        YamlError::new(
            code::INDENTATION,
            format!("`{before}:` is indented as if it went on with the value above it"),
            self.at,
        )
        .hint("give all keys of one mapping the same indentation, or end the line above with a colon")
    }

    /// The line above starts in the same column, so it was probably meant as a key as well.
    fn colon_missing_above(&self) -> Option<YamlError> {
        let indent = |line: &str| line.len() - line.trim_start().len();
        let before = usize::try_from(self.at.line).unwrap_or(1).saturating_sub(1);
        let lines = (1u32..).zip(self.text.lines().take(before));
        let (number, above) = lines.filter(|(_, line)| !line.trim().is_empty()).last()?;
        if indent(above) != indent(self.line(self.at)) {
            return None;
        }
        let column = u32::try_from(indent(above)).ok()?;
        Some(Self::not_a_mapping_key(above.trim(), Pos::new(number, column + 1)))
    }

    fn missing_colon(&self) -> YamlError {
        let at = self.start();
        Self::not_a_mapping_key(self.split(at).1.trim_end(), at)
    }

    /// A line that should be a key.
    fn not_a_mapping_key(rest: &str, at: Pos) -> YamlError {
        let shown: String = rest.chars().take(40).collect();
        let error = YamlError::new(
            code::MISSING_COLON,
            format!("expected a key, but `{shown}` has no `: ` after it"),
            at,
        );
        if rest.starts_with(['"', '\'']) {
            return error.hint("end the quoted key on its line, with a colon after it");
        }
        match rest.split_once(':') {
            Some((key, value)) => error.hint(format!("put a space after the colon: `{key}: {value}`")),
            None if rest.starts_with('-') => error.hint("put a space after the dash of a list item"),
            None => {
                error.hint("end a key with a colon; if the line continues the value above, indent it more")
            }
        }
    }

    fn not_a_key(&self) -> YamlError {
        let (before, rest) = self.split(self.at);
        let is_inside = !before.trim_matches([' ', '-']).is_empty();
        if is_inside && before.trim_end().ends_with(['\'', '"', ']', '}']) {
            let error = YamlError::new(
                code::YAML_SYNTAX,
                "text follows the end of a quoted value or bracket",
                self.at,
            );
            return error.hint("quote the whole value; write `''` for a `'` inside single quotes, and `\\\"` for a `\"` inside double quotes");
        }
        let (words, hint) = if rest.starts_with("- ") || rest == "-" {
            (
                "expected a key of the mapping, but found a list item",
                "give all items of one list the same indentation",
            )
        } else {
            (
                "the indentation of this line does not match any mapping around it",
                "give all keys of one mapping the same indentation",
            )
        };
        let error = YamlError::new(code::INDENTATION, words, self.at).hint(hint);
        self.from.map_or(error.clone(), |from| error.note("the mapping starts here", from))
    }

    fn not_an_item(&self) -> YamlError {
        let error = YamlError::new(
            code::INDENTATION,
            "this line is in the column of a list, but is not an item",
            self.at,
        );
        let error = self.from.map_or(error.clone(), |from| error.note("the list starts here", from));
        error.hint("start an item with `- `, or indent the line more or less than the dashes")
    }

    fn list_on_key_line(&self) -> YamlError {
        let (before, _) = self.split(self.at);
        if before.trim_start_matches([' ', '-']).contains(':') {
            return YamlError::new(code::INDENTATION, "a list starts on the line of its key", self.at)
                .hint("put the first `- ` on the next line, indented");
        }
        YamlError::new(code::INDENTATION, "a list item is not allowed here", self.at)
            .hint("give all items of one list the same indentation; a line above may be indented wrongly")
    }

    fn unclosed(&self, open: char, close: char) -> YamlError {
        let at = self.start();
        let (_, rest) = self.split(at);
        let error = YamlError::new(
            code::UNCLOSED,
            format!("`{open}` is not closed by `{close}`, or a comma is missing"),
            at,
        );
        let error = error.note("unexpected here", self.at);
        if rest.starts_with("{{") || rest.starts_with("{%") {
            return error
                .hint("the text is a template that was not rendered; if it is literal text, quote it");
        }
        error.hint(format!("if `{open}` is part of the text, quote the value"))
    }

    fn unclosed_quote(&self) -> YamlError {
        let at = self.start();
        let quote = self.split(at).1.chars().next().filter(|c| matches!(c, '\'' | '"')).unwrap_or('"');
        let error = YamlError::new(
            code::UNCLOSED_QUOTE,
            format!("the text that starts with `{quote}` here has no closing quote"),
            at,
        );
        error.hint(if quote == '\'' {
            "close the quote; write `''` for a `'` inside single quotes"
        } else {
            "close the quote; write `\\\"` for a `\"` inside double quotes"
        })
    }

    fn bad_escape(&self) -> YamlError {
        // Where digits are wrong, the parser has passed the backslash and the letter.
        let (before, rest) = self.split(self.at);
        let back = if rest.starts_with('\\') || !before.ends_with(['x', 'u', 'U']) { 0 } else { 2 };
        let at = Pos::new(self.at.line, self.at.column - back.min(self.at.column - 1));
        let length = if back == 0 { 2 } else { 6 };
        let escape: String = self.split(at).1.chars().take(length).collect();
        YamlError::new(code::BAD_ESCAPE, format!("unknown escape `{escape}` in double quotes"), at)
            .hint("use single quotes, which have no escapes, or write `\\\\` for a backslash")
    }

    fn nameless_alias(&self) -> YamlError {
        let at = self.start();
        let c = self.split(at).1.chars().next().unwrap_or('*');
        let what = if c == '&' { "an anchor" } else { "an alias" };
        YamlError::new(code::RESERVED_START, format!("`{c}` starts {what}, but no valid name follows"), at)
            .hint(format!("if the value is text, quote it: `'{c}…'`"))
    }

    fn bad_tag(&self, at: Pos) -> YamlError {
        let tag: String = self.split(at).1.chars().take_while(|c| !c.is_whitespace()).take(40).collect();
        YamlError::new(code::UNKNOWN_TAG, format!("`{tag}` is read as a tag, but is not valid"), at)
            .hint("if the value is text, quote it")
    }

    fn after_the_end(&self) -> YamlError {
        YamlError::new(code::YAML_SYNTAX, "text follows the end of the document", self.at)
            .hint("quote the whole value, or give all lines the same indentation")
    }
}

/// A character that is not allowed in YAML.
fn bad_character(text: &str) -> YamlError {
    let is_fine = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    let (mut line, mut column) = (1, 1);
    for c in text.chars() {
        if !is_fine(c) {
            let message = format!("the character U+{:04X} is not allowed in YAML", u32::from(c));
            return YamlError::new(code::CONTROL_CHARACTER, message, Pos::new(line, column))
                .hint(format!("write it as an escape in double quotes: `\"\\x{:02x}\"`", u32::from(c)));
        }
        if c == '\n' {
            (line, column) = (line + 1, 1);
        } else {
            column += 1;
        }
    }
    YamlError::new(code::CONTROL_CHARACTER, "the text is not readable", Pos::new(1, 1))
}
