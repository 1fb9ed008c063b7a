//! What can be wrong with a target, with its column.

use crate::codes::{Code, top};
use crate::diagnostic::Diagnostic;
use crate::py_regex::PyRegexError;

/// A fault in a target's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct TargetError {
    /// Which kind.
    pub code: Code,
    /// What is wrong, one sentence, no full stop.
    pub message: String,
    /// The column in the target's text, from 1; zero when it stands elsewhere (in a group).
    pub column: u32,
    /// A way out.
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
        let error = Self::new(top::UNKNOWN_MATCHER, format!("there is no matcher `{name}`"), 0);
        match near {
            Some(near) => error.with_hint(format!("did you mean `{near}`?")),
            None => error.with_hint("leave `match:` away for a compound target"),
        }
    }

    pub(super) fn too_costly(what: &str) -> Self {
        Self::new(top::TARGET_COSTLY, format!("{what} takes too many steps to compare"), 0)
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

    /// As a fault without a place; the caller knows the file and line.
    #[must_use]
    pub fn diagnostic(&self, target: &str) -> Diagnostic {
        let mut fault = Diagnostic::new(self.code, format!("in the target `{target}`: {}", self.message));
        fault.hint.clone_from(&self.hint);
        fault
    }
}
