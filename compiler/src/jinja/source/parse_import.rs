//! The tags that name other templates.

use super::ast::{AstExpr, LoadFormat, StmtKind};
use super::lex::TokenKind;
use super::parse::{StmtResult, TemplateParser, boxed_stmt};
use super::{SyntaxError, SyntaxErrorKind};

impl TemplateParser<'_> {
    /// `with context` or `without context`.
    fn context_words(&mut self) -> Option<bool> {
        let with = self.at_word("with");
        if (with || self.at_word("without")) && self.second_is_word("context") {
            self.next += 2;
            return Some(with);
        }
        None
    }

    pub(super) fn include(&mut self) -> StmtResult {
        let name = self.expr()?;
        let ignore_missing = self.at_word("ignore") && self.second_is_word("missing");
        if ignore_missing {
            self.next += 2;
        }
        let context = self.context_words().unwrap_or(true);
        boxed_stmt(StmtKind::Include { name, ignore_missing, context })
    }

    fn import(&mut self) -> Result<(AstExpr, String, bool), SyntaxError> {
        let name = self.expr()?;
        self.expect_word("as")?;
        let target = self.target_name()?;
        let context = self.context_words().unwrap_or(false);
        Ok((name, target, context))
    }

    pub(super) fn import_data(&mut self, format: LoadFormat) -> StmtResult {
        let (name, target, context) = self.import()?;
        boxed_stmt(StmtKind::ImportData { format, name, target, context })
    }

    pub(super) fn from(&mut self) -> StmtResult {
        let name = self.expr()?;
        self.expect_word("import")?;
        let mut names = Vec::new();
        let context = loop {
            if !names.is_empty() {
                self.expect_op(",")?;
            }
            if self.peek().tok != TokenKind::Name {
                return Err(self.unexpected("a name"));
            }
            if let Some(context) = self.context_words() {
                break context;
            }
            let at = self.peek().start;
            let word = self.target_name()?;
            if word.starts_with('_') {
                return Err(SyntaxError::new(
                    SyntaxErrorKind::Syntax,
                    format!("`{word}` cannot be imported: names that start with `_` are private"),
                    at,
                ));
            }
            let alias = if self.skip_word("as") { self.target_name()? } else { word.clone() };
            names.push((word, alias));
            if let Some(context) = self.context_words() {
                break context;
            }
            if !self.at_op(",") {
                break false;
            }
        };
        boxed_stmt(StmtKind::From { name, names, context })
    }

    pub(super) fn import_module(&mut self) -> StmtResult {
        let (name, target, context) = self.import()?;
        boxed_stmt(StmtKind::Import { name, target, context })
    }
}
