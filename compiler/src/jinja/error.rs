//! A template error with its code, passed from zagent's filters through minijinja to the diagnostic.

use std::fmt;

use minijinja::{Error, ErrorKind};
use zagent_config::Pos;
use zagent_config::codes::Code;

/// The source of a template error raised by zagent.
#[derive(Clone, Debug)]
pub(crate) struct TemplateError {
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Which operand of an operator was undefined.
    pub(crate) operand: Option<usize>,
    /// The position in the loaded text.
    pub(crate) inside: Option<Pos>,
}

impl TemplateError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, operand: None, inside: None }
    }

    pub(crate) fn hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint;
        self
    }

    pub(crate) fn inside(mut self, pos: Pos) -> Self {
        self.inside = Some(pos);
        self
    }

    pub(crate) fn operand(mut self, index: usize) -> Self {
        self.operand = Some(index);
        self
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TemplateError {}

impl From<TemplateError> for Error {
    fn from(template_error: TemplateError) -> Self {
        Self::new(ErrorKind::InvalidOperation, template_error.message.clone()).with_source(template_error)
    }
}
