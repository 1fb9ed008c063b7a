//! Why a function call failed, and the diagnostic for it.

use zagent_config::Diagnostic;
use zagent_config::codes::{Code, function};

use super::Functions;
use crate::CallError;

/// Why a function call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionError {
    /// Unknown function.
    Unknown,
    /// The configuration forbids it; the text says why.
    Forbidden(String),
    /// Wrong arguments.
    Arguments {
        /// What is wrong with them.
        message: String,
        /// How to fix it.
        hint: Option<String>,
    },
    /// It ran and failed; the text says why.
    Failed(String),
}

impl FunctionError {
    /// Wrong arguments, without a hint.
    pub fn bad_arguments(message: impl Into<String>) -> Self {
        Self::Arguments { message: message.into(), hint: None }
    }

    /// A failure with a message.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// The message, for callers that do not know the function name.
    #[must_use]
    pub fn message(&self) -> String {
        match self {
            Self::Unknown => "unknown function".to_owned(),
            Self::Forbidden(words) | Self::Failed(words) | Self::Arguments { message: words, .. } => {
                words.clone()
            }
        }
    }

    /// The diagnostic for a call of `name`.
    #[must_use]
    pub fn to_diagnostic(&self, name: &str, functions: &Functions) -> Diagnostic {
        let (code, message, hint): (Code, String, Option<String>) = match self {
            Self::Unknown => return unknown_function(name, functions),
            Self::Forbidden(words) => (function::FUNCTION_FORBIDDEN, format!("`{name}`: {words}"), None),
            Self::Arguments { message, hint } => {
                (function::FUNCTION_ARGUMENTS, message.clone(), hint.clone())
            }
            Self::Failed(words) => (function::FUNCTION_FAILED, format!("`{name}` failed: {words}"), None),
        };
        let diagnostic = Diagnostic::new(code, message);
        match hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }
    }
}

/// The diagnostic for an unknown function.
pub(super) fn unknown_function(name: &str, functions: &Functions) -> Diagnostic {
    let message = format!("function `{name}` is not available in templates");
    let diagnostic = Diagnostic::new(function::UNKNOWN_FUNCTION, message);
    let module = name.split('.').next().unwrap_or_default();
    match functions.nearest_function(name) {
        Some(near) => diagnostic.hint(format!("did you mean `{near}`?")),
        None if functions.contains_module(module) => {
            let of_module = functions.names().into_iter().filter(|n| n.split('.').next() == Some(module));
            diagnostic.hint(format!("`{module}` has {}", list_names(of_module)))
        }
        None => diagnostic.hint(format!("test for it in the template: `if '{name}' in salt`")),
    }
}

/// At most six names, as a list.
fn list_names<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<String> = names.map(|n| format!("`{n}`")).collect();
    match names.len() {
        0..=6 => names.join(", "),
        n => format!("{} and {} more", names[..6].join(", "), n - 6),
    }
}

impl From<CallError> for FunctionError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Unknown => Self::Unknown,
            CallError::Forbidden(words) => Self::Forbidden(words),
            CallError::Failed(words) => Self::Failed(words),
        }
    }
}

impl From<FunctionError> for CallError {
    fn from(error: FunctionError) -> Self {
        match error {
            FunctionError::Unknown => Self::Unknown,
            FunctionError::Forbidden(words) => Self::Forbidden(words),
            FunctionError::Arguments { message, .. } => Self::Failed(message),
            FunctionError::Failed(words) => Self::Failed(words),
        }
    }
}

impl From<minijinja::Error> for FunctionError {
    fn from(error: minijinja::Error) -> Self {
        Self::Failed(error.detail().map_or_else(|| error.to_string(), str::to_owned))
    }
}
