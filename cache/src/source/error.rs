//! Errors of a remote, in words for an on-call engineer.
//!
//! Law: the message names the remote and the cause, and never contains a password (held by
//! `a_login_error_does_not_show_the_secret`).

use std::time::Duration;

/// The kind of error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceErrorKind {
    /// No connection, or it was interrupted.
    Unreachable,
    /// The deadline passed.
    Timeout,
    /// The remote asks for credentials, or refuses those of zagent.
    Denied,
    /// The SSH host key is unknown or different.
    HostKey,
    /// A certificate or encryption error.
    Tls,
    /// There is no repository at the address.
    NoRepository,
    /// The branch or the commit does not exist.
    NoBranch,
    /// The answer is not valid Git protocol.
    Protocol,
    /// The answer exceeds a limit.
    TooLarge,
    /// A local error: a file, a program, a setting.
    Local,
}

impl SourceErrorKind {
    /// Every kind, for metrics that start at zero.
    pub const ALL: [Self; 10] = [
        Self::Unreachable,
        Self::Timeout,
        Self::Denied,
        Self::HostKey,
        Self::Tls,
        Self::NoRepository,
        Self::NoBranch,
        Self::Protocol,
        Self::TooLarge,
        Self::Local,
    ];

    /// The kind as one word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Denied => "denied",
            Self::HostKey => "host_key",
            Self::Tls => "tls",
            Self::NoRepository => "no_repository",
            Self::NoBranch => "no_branch",
            Self::Protocol => "protocol",
            Self::TooLarge => "too_large",
            Self::Local => "local",
        }
    }
}

/// A failed request to a remote, or a refused answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// The address, without a password.
    pub remote: String,
    /// The kind of error.
    pub kind: SourceErrorKind,
    /// The earliest time for the next request, from now.
    pub retry_after: Option<Duration>,
    /// What failed, as a message.
    pub message: String,
    /// The underlying error.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A cause, recorded where it occurs; the Git library would hide it.
#[derive(Clone, Debug)]
pub(super) struct SourceFailure {
    pub(super) kind: SourceErrorKind,
    pub(super) message: String,
    pub(super) retry_after: Option<Duration>,
}

impl SourceFailure {
    pub(super) fn new(kind: SourceErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None }
    }

    pub(super) fn with_remote(self, remote: &str) -> SourceError {
        let Self { kind, message, retry_after } = self;
        SourceError { remote: remote.into(), kind, retry_after, message, source: None }
    }

    /// The cause as an error that can pass through the Git library.
    pub(super) fn into_io(self) -> std::io::Error {
        std::io::Error::other(self.message)
    }
}

/// Text from the remote, safe for a log line: one line, no control characters, limited length.
pub(super) fn sanitize_line(text: &str) -> String {
    const MOST: usize = 300;
    let mut line = String::new();
    for word in text.split_whitespace() {
        let clean: String = word.chars().filter(|c| !c.is_control()).collect();
        if line.chars().count() + clean.chars().count() > MOST {
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&clean);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_distinct_names_and_remote_text_is_sanitized() {
        let words: std::collections::BTreeSet<_> =
            SourceErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(words.len(), SourceErrorKind::ALL.len());
        assert_eq!(sanitize_line("a\x1b[2J\n  b\0\tc"), "a[2J b c");
        assert!(sanitize_line(&"long ".repeat(1000)).chars().count() < 310);
        assert_eq!(sanitize_line(&"x".repeat(1000)), "…");
    }
}
