//! A failed call in, the diagnostic for it out.

use zagent_config::codes::{Code, function};
use zagent_config::{Diagnostic, FunctionError};

use super::Functions;
use crate::CallError;

/// The diagnostic for a call of `name`.
#[must_use]
pub(crate) fn to_diagnostic(error: &FunctionError, name: &str, functions: &Functions) -> Diagnostic {
    let (code, message, hint): (Code, String, Option<String>) = match error {
        FunctionError::Unknown => return unknown_function(name, functions),
        FunctionError::Forbidden(words) => (function::FUNCTION_FORBIDDEN, format!("`{name}`: {words}"), None),
        FunctionError::Unavailable { message, hint } => {
            (function::FUNCTION_FORBIDDEN, format!("`{name}`: {message}"), Some(hint.clone()))
        }
        FunctionError::Arguments { message, hint } => {
            (function::FUNCTION_ARGUMENTS, message.clone(), hint.clone())
        }
        FunctionError::Failed(words) => {
            (function::FUNCTION_FAILED, format!("`{name}` failed: {words}"), None)
        }
    };
    let diagnostic = Diagnostic::new(code, message);
    match hint {
        Some(hint) => diagnostic.hint(hint),
        None => diagnostic,
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
            CallError::Unavailable { message, hint } => Self::Unavailable { message, hint },
            CallError::Failed(words) => Self::Failed(words),
        }
    }
}

impl From<FunctionError> for CallError {
    fn from(error: FunctionError) -> Self {
        match error {
            FunctionError::Unknown => Self::Unknown,
            FunctionError::Forbidden(words) => Self::Forbidden(words),
            FunctionError::Unavailable { message, hint } => Self::Unavailable { message, hint },
            FunctionError::Arguments { message, .. } => Self::Failed(message),
            FunctionError::Failed(words) => Self::Failed(words),
        }
    }
}

/// What a template engine's error says, as the failure of a call.
pub(crate) fn from_jinja(error: minijinja::Error) -> FunctionError {
    FunctionError::Failed(error.detail().map_or_else(|| error.to_string(), str::to_owned))
}
