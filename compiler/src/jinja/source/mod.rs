//! Jinja2 with Salt's extension in, minijinja's dialect out.
//!
//! Law: line numbers do not change, and every position of the result maps back to its position in the source (held
//! by `rendered_lines_have_their_source`).
//!
//! minijinja has no way to add tags, and differs from Jinja2 in small things: literals that cannot be changed, imports
//! that see everything, operators that never fail. So a template is parsed here with Jinja2's grammar and rewritten
//! in minijinja's dialect; what minijinja does not have becomes a filter whose name starts with `_za_`.

mod ast;
mod emit;
mod expr;
mod lex;
mod literal;
mod parse;
mod parse_import;
mod scan;
mod syntax;
mod target;
mod write;

use std::collections::{BTreeMap, BTreeSet};

use zagent_config::Pos;

pub(crate) use self::syntax::Syntax;

/// Starts and ends a mark: characters that do not occur in state trees.
pub(crate) const MARK_START: char = '\u{f5a1e}';
pub(crate) const MARK_END: char = '\u{f5a1f}';

/// The kind of a syntax error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyntaxErrorKind {
    Syntax,
    UnknownTag,
    /// Nested deeper than the limit.
    Depth,
}

/// A syntax error in a source and its byte position.
#[derive(Clone, Debug)]
pub(crate) struct SyntaxError {
    pub(crate) kind: SyntaxErrorKind,
    pub(crate) message: String,
    pub(crate) at: usize,
    pub(crate) hint: Option<String>,
}

impl SyntaxError {
    fn new(kind: SyntaxErrorKind, message: impl Into<String>, at: usize) -> Self {
        Self { kind, message: message.into(), at, hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Whether a name is used as a filter or as a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameUseKind {
    Filter,
    Test,
}

/// A filter or test that a template names.
#[derive(Clone, Debug)]
pub(crate) struct NameUse {
    pub(crate) kind: NameUseKind,
    pub(crate) name: String,
    pub(crate) at: usize,
    /// Inside a condition: unknown names fail only when reached.
    pub(crate) soft: bool,
}

/// A template in minijinja's dialect, with a map to the source.
#[derive(Debug)]
pub(crate) struct Translation {
    /// What minijinja parses.
    pub(crate) text: String,
    /// The source with line feeds only, without the last one: the text that positions refer to.
    pub(crate) source: String,
    /// Byte positions in `text` and their byte positions in `source`, ascending.
    anchors: Vec<(u32, u32)>,
    /// The filters and tests it names.
    pub(crate) uses: Vec<NameUse>,
    /// Every name it assigns to, for suggestions.
    pub(crate) assigned: BTreeSet<String>,
    /// Names at its top level that it imported: they are not exported.
    pub(crate) hidden: BTreeSet<String>,
    /// The operands of an operator at a byte of `source`, as far as they are plain paths.
    pub(crate) operands: BTreeMap<u32, Vec<Option<String>>>,
}

impl Translation {
    /// The byte of the source that a byte of the text came from; none for text added at the front.
    pub(crate) fn origin_of(&self, offset: usize) -> Option<usize> {
        let offset = u32::try_from(offset).unwrap_or(u32::MAX);
        let index = self.anchors.partition_point(|(out, _)| *out <= offset);
        index.checked_sub(1).map(|i| self.anchors[i].1 as usize)
    }

    /// Line and column of a byte of the source.
    pub(crate) fn pos(&self, at: usize) -> Pos {
        pos(&self.source, at)
    }

    /// The text of a line of the source, counted from 1.
    pub(crate) fn line(&self, line: u32) -> &str {
        self.source.split('\n').nth((line as usize).saturating_sub(1)).unwrap_or_default()
    }
}

/// Line and column of a byte of a text.
pub(crate) fn pos(source: &str, at: usize) -> Pos {
    let at = (0..=at.min(source.len())).rev().find(|i| source.is_char_boundary(*i)).unwrap_or(0);
    let before = &source[..at];
    let line = before.matches('\n').count() + 1;
    let column = before[before.rfind('\n').map_or(0, |p| p + 1)..].chars().count() + 1;
    Pos::new(u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}

/// A text whose lines end with a line feed alone.
pub(crate) fn with_line_feeds(text: &str) -> String {
    if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text.to_owned() }
}

/// Line ends as Jinja2 sees them: line feeds only, and not the last one unless it is kept.
pub(crate) fn normalize_newlines(source: &str, keep_trailing_newline: bool) -> String {
    let mut text = with_line_feeds(source);
    if !keep_trailing_newline && text.ends_with('\n') {
        text.pop();
    }
    text
}

/// Translates a template. With a number, lines of its text have marks with the template and line number (see `lines`).
///
/// # Errors
/// Fails with the first error that Jinja2 would report too, and the source that its position refers to.
pub(crate) fn translate(
    source: &str,
    syntax: &Syntax,
    marks: Option<u32>,
) -> Result<Translation, (SyntaxError, String)> {
    let source = normalize_newlines(source, syntax.keep_trailing_newline);
    match translate_source(&source, syntax, marks) {
        Ok(mut translation) => {
            translation.source = source;
            Ok(translation)
        }
        Err(problem) => Err((problem, source)),
    }
}

/// The mark before a line of template text in a marked rendering.
fn line_mark(template: u32, line: usize) -> String {
    format!("{MARK_START}{template}:{line}{MARK_END}")
}

fn translate_source(source: &str, syntax: &Syntax, marks: Option<u32>) -> Result<Translation, SyntaxError> {
    let tokens = lex::tokenize(source, syntax)?;
    let mut parser = parse::TemplateParser::new(source, tokens);
    let body = parser.template()?;
    let mut writer = write::TemplateWriter::new(source, marks);
    writer.template(&body);
    Ok(Translation {
        text: writer.text,
        source: String::new(),
        anchors: writer.anchors,
        uses: parser.uses,
        assigned: parser.assigned,
        hidden: writer.hidden,
        operands: writer.operands,
    })
}
