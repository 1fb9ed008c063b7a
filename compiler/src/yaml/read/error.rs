//! Why a text cannot be read: a code, a message, a position and a hint.

use zagent_config::Pos;
use zagent_config::codes::Code;

/// An error in a YAML text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct YamlError {
    /// Which kind.
    pub code: Code,
    /// What is wrong, one sentence, no full stop.
    pub message: String,
    /// Where, in the text that was given.
    pub pos: Pos,
    /// Related positions, each with a text: "first used here".
    pub notes: Box<[(&'static str, Pos)]>,
    /// How to fix it.
    pub hint: Option<String>,
}

impl YamlError {
    pub(crate) fn new(code: Code, message: impl Into<String>, pos: Pos) -> Self {
        Self { code, message: message.into(), pos, notes: Box::default(), hint: None }
    }

    pub(crate) fn note(mut self, words: &'static str, pos: Pos) -> Self {
        self.notes = Box::new([(words, pos)]);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
