//! Why an execution function gave no value: shared by the compiler, which calls them, and the host, which answers.

/// Why a function call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionError {
    /// No such function here.
    Unknown,
    /// The configuration forbids it, in words.
    Forbidden(String),
    /// Nobody may answer it here, whatever the configuration says.
    Unavailable {
        /// Why.
        message: String,
        /// What to do.
        hint: String,
    },
    /// The arguments do not fit.
    Arguments {
        /// What is wrong with them.
        message: String,
        /// How to fix it.
        hint: Option<String>,
    },
    /// It was tried and failed, in words.
    Failed(String),
}

impl FunctionError {
    /// Arguments that do not fit, without a hint.
    pub fn bad_arguments(message: impl Into<String>) -> Self {
        Self::Arguments { message: message.into(), hint: None }
    }

    /// A failure in words.
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
            Self::Unavailable { message, hint } => format!("{message}; {hint}"),
        }
    }
}
