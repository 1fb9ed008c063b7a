//! The tags that name other templates.

use super::ast::{Expr, Format, StmtKind};
use super::lex::Tok;
use super::parse::{Made, Parser, made};
use super::{Problem, ProblemKind};

impl Parser<'_> {
    /// `with context` or `without context`.
    fn context_words(&mut self) -> Option<bool> {
        let with = self.at_word("with");
        if (with || self.at_word("without")) && self.second_is_word("context") {
            self.next += 2;
            return Some(with);
        }
        None
    }

    pub(super) fn include(&mut self) -> Made {
        let name = self.expr()?;
        let ignore_missing = self.at_word("ignore") && self.second_is_word("missing");
        if ignore_missing {
            self.next += 2;
        }
        let context = self.context_words().unwrap_or(true);
        made(StmtKind::Include { name, ignore_missing, context })
    }

    fn import(&mut self) -> Result<(Expr, String, bool), Problem> {
        let name = self.expr()?;
        self.expect_word("as")?;
        let target = self.target_name()?;
        let context = self.context_words().unwrap_or(false);
        Ok((name, target, context))
    }

    pub(super) fn import_data(&mut self, format: Format) -> Made {
        let (name, target, context) = self.import()?;
        made(StmtKind::ImportData { format, name, target, context })
    }

    pub(super) fn from(&mut self) -> Made {
        let name = self.expr()?;
        self.expect_word("import")?;
        let mut names = Vec::new();
        let context = loop {
            if !names.is_empty() {
                self.expect_op(",")?;
            }
            if self.peek().tok != Tok::Name {
                return Err(self.unexpected("a name"));
            }
            if let Some(context) = self.context_words() {
                break context;
            }
            let at = self.peek().start;
            let word = self.target_name()?;
            if word.starts_with('_') {
                return Err(Problem::new(
                    ProblemKind::Syntax,
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
        made(StmtKind::From { name, names, context })
    }

    pub(super) fn import_module(&mut self) -> Made {
        let (name, target, context) = self.import()?;
        made(StmtKind::Import { name, target, context })
    }
}
