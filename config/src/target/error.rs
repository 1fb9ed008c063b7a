//! Errors in targets, with their column.

use crate::codes::{Code, top};
use crate::diagnostic::Diagnostic;
use crate::py_regex::PyRegexError;

/// An error in the text of a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TargetError {
    /// Which kind.
    pub code: Code,
    /// What is wrong, one sentence, no full stop.
    pub message: String,
    /// The column in the target's text, from 1; zero when it is elsewhere (in a group).
    pub column: u32,
    /// How to fix it.
    pub hint: Option<String>,
}

impl TargetError {
    pub(super) fn new(code: Code, message: impl Into<String>, column: u32) -> Self {
        Self { code, message: message.into(), column, hint: None }
    }

    pub(super) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn unknown_kind(name: &str, near: Option<&str>) -> Self {
        let error = Self::new(top::UNKNOWN_MATCHER, format!("unknown matcher `{name}`"), 0);
        match near {
            Some(near) => error.with_hint(format!("did you mean `{near}`?")),
            None => error.with_hint("for a compound target, remove `match:`"),
        }
    }

    pub(super) fn too_costly(what: &str) -> Self {
        Self::new(top::TARGET_COSTLY, format!("{what} takes too many steps to match"), 0)
    }

    pub(super) fn bad_regex(error: &PyRegexError, pattern: &str, column: u32) -> Self {
        match error {
            PyRegexError::Syntax(why) => Self::new(
                top::TARGET_PATTERN,
                format!("`{pattern}` is not a regular expression: {why}"),
                column,
            ),
            PyRegexError::TooCostly => Self::too_costly(&format!("`{pattern}`")),
        }
    }

    /// As a diagnostic without a place; the caller knows the file and line.
    #[must_use]
    pub fn diagnostic(&self, target: &str) -> Diagnostic {
        let mut fault = Diagnostic::new(self.code, format!("in the target `{target}`: {}", self.message));
        fault.hint.clone_from(&self.hint);
        fault
    }
}
