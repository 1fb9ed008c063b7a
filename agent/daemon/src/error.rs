//! What went wrong at the edge in, words, a JSON shape and an exit code out.

use zagent_cache::CacheError;
use zagent_config::{Diagnostic, Diagnostics};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Fine.
    Success = 0,
    /// A state failed, or a check found something.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// Detailed: failures.
    Failures = 4,
    /// Detailed: changes and failures.
    ChangesAndFailures = 6,
    /// The states do not compile.
    NotCompiled = 65,
    /// A remote cannot be reached.
    Unreachable = 69,
    /// Another run is under way.
    Locked = 75,
    /// A revision was not what it claims to be.
    Refused = 76,
    /// The system does not let us.
    Permission = 77,
}

impl ExitStatus {
    /// Detailed: changes. The same number as [`ExitStatus::Usage`], as Puppet's users expect it.
    #[expect(non_upper_case_globals, reason = "it reads as one of the variants")]
    pub const Changes: Self = Self::Usage;
}

/// Why a command gave no data.
#[derive(Debug)]
pub enum CliError {
    /// The command line, the configuration or a file that it names.
    Usage {
        /// What is wrong.
        message: String,
        /// A way out.
        hint: Option<String>,
    },
    /// The world is not as it must be for this.
    Refusal {
        /// How the program ends.
        exit: ExitStatus,
        /// What is in the way.
        message: String,
        /// A way out.
        hint: Option<String>,
    },
    /// The states do not compile.
    CompileErrors(Diagnostics),
    /// The configuration has faults.
    Configuration(Diagnostics),
}

impl CliError {
    /// A mistake in how the program was called.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: None }
    }

    /// The same, with a way out.
    pub fn usage_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    /// Another run is under way.
    pub fn locked(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refusal { exit: ExitStatus::Locked, message: message.into(), hint: Some(hint.into()) }
    }

    /// The system does not let us.
    pub fn permission(message: impl Into<String>) -> Self {
        let hint = Some("run it as root, or set `root` to a directory of yours".into());
        Self::Refusal { exit: ExitStatus::Permission, message: message.into(), hint }
    }

    /// Something was tried and failed.
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

    /// What is wrong, in one line.
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

    /// The exit code.
    #[must_use]
    pub const fn exit(&self) -> ExitStatus {
        match self {
            Self::Usage { .. } | Self::Configuration(_) => ExitStatus::Usage,
            Self::CompileErrors(_) => ExitStatus::NotCompiled,
            Self::Refusal { exit, .. } => *exit,
        }
    }

    /// The shape of every refusal: `{"success": false, "errors": […]}`.
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

impl From<Diagnostics> for CliError {
    fn from(faults: Diagnostics) -> Self {
        Self::CompileErrors(faults)
    }
}
