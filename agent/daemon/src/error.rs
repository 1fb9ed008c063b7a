//! Error of a turn or a command in, message, JSON form and exit status out. The numbers are in `exit_code.rs` of the
//! program.

use zagent_cache::CacheError;
use zagent_config::{Diagnostic, Diagnostics};

/// How a command ended, as the exit code of the program says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Success.
    Success,
    /// A state failed, or a check found something.
    Failed,
    /// The command line or the configuration is invalid.
    Usage,
    /// Detailed: changes.
    Changes,
    /// Detailed: failures.
    Failures,
    /// Detailed: changes and failures.
    ChangesAndFailures,
    /// The states do not compile.
    NotCompiled,
    /// A remote cannot be reached.
    Unreachable,
    /// Another run is active.
    Locked,
    /// A revision failed verification.
    Refused,
    /// Permission denied.
    Permission,
}

/// Why a command has no result.
#[derive(Debug)]
pub enum AgentError {
    /// The command line, the configuration or a file named there.
    Usage {
        /// What is wrong.
        message: String,
        /// What to do next.
        hint: Option<String>,
    },
    /// The operation is not possible now.
    Refusal {
        /// Exit status.
        exit: ExitStatus,
        /// The reason.
        message: String,
        /// What to do next.
        hint: Option<String>,
    },
    /// The states do not compile.
    CompileErrors(Diagnostics),
    /// The configuration has errors.
    Configuration(Diagnostics),
}

impl AgentError {
    /// A usage error.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: None }
    }

    /// A usage error with a hint.
    pub fn usage_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    /// Another run is active.
    pub fn locked(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refusal { exit: ExitStatus::Locked, message: message.into(), hint: Some(hint.into()) }
    }

    /// Permission denied.
    pub fn permission(message: impl Into<String>) -> Self {
        let hint = Some("run it as root, or set `root` to a directory that you own".into());
        Self::Refusal { exit: ExitStatus::Permission, message: message.into(), hint }
    }

    /// An operation failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Refusal { exit: ExitStatus::Failed, message: message.into(), hint: None }
    }

    /// The cache cannot be used.
    #[must_use]
    pub fn from_cache(error: &CacheError) -> Self {
        let words = zagent_config::error_chain(error);
        if error.is_permission() {
            return Self::permission(words);
        }
        if error.is_refusal() {
            return Self::Refusal { exit: ExitStatus::Refused, message: words, hint: None };
        }
        Self::failed(words)
    }

    /// The error on one line.
    #[must_use]
    pub fn summary(&self) -> String {
        match self {
            Self::Usage { message, .. } | Self::Refusal { message, .. } => message.clone(),
            Self::CompileErrors(faults) | Self::Configuration(faults) => {
                let first = faults.0.first().map(ToString::to_string).unwrap_or_default();
                match faults.0.len() {
                    0 | 1 => first,
                    n => format!("{first} (and {} more)", n - 1),
                }
            }
        }
    }

    /// The error and what to do about it, on one line.
    #[must_use]
    pub fn explanation(&self) -> String {
        match self {
            Self::Usage { hint: Some(hint), .. } | Self::Refusal { hint: Some(hint), .. } => {
                format!("{}; {hint}", self.summary())
            }
            _ => self.summary(),
        }
    }

    /// Exit code.
    #[must_use]
    pub const fn exit(&self) -> ExitStatus {
        match self {
            Self::Usage { .. } | Self::Configuration(_) => ExitStatus::Usage,
            Self::CompileErrors(_) => ExitStatus::NotCompiled,
            Self::Refusal { exit, .. } => *exit,
        }
    }

    /// JSON form of every error: `{"success": false, "errors": […]}`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let errors: Vec<serde_json::Value> = match self {
            Self::Usage { message, hint } | Self::Refusal { message, hint, .. } => vec![serde_json::json!({
                "code": null, "message": message, "file": null, "line": null, "column": null, "hint": hint,
            })],
            Self::CompileErrors(faults) | Self::Configuration(faults) => {
                faults.0.iter().map(Diagnostic::to_json).collect()
            }
        };
        serde_json::json!({"success": false, "errors": errors})
    }
}

impl From<Diagnostics> for AgentError {
    fn from(faults: Diagnostics) -> Self {
        Self::CompileErrors(faults)
    }
}
