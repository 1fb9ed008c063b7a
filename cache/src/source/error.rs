//! What went wrong with a remote, in words for whoever is called at night.
//!
//! Law: the message names the remote and the cause, and holds no password.

use std::time::Duration;

/// What kind of thing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SourceErrorKind {
    /// No connection, or it broke off.
    Unreachable,
    /// The deadline passed.
    Timeout,
    /// The remote asks for credentials, or refuses ours.
    Denied,
    /// The SSH key of the host is unknown or another one.
    HostKey,
    /// The certificate or the encryption.
    Tls,
    /// There is no repository at the address.
    NoRepository,
    /// The branch or the commit is not there.
    NoBranch,
    /// The answer is not what Git would say.
    Protocol,
    /// The answer is larger than allowed.
    TooLarge,
    /// The fault is on this side: a file, a program, a setting.
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

/// A remote that could not be asked, or whose answer was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// The address, without a password.
    pub remote: String,
    /// What kind of thing went wrong.
    pub kind: SourceErrorKind,
    /// When the remote wants to be asked again at the earliest, counted from now.
    pub retry_after: Option<Duration>,
    /// What went wrong, in words.
    pub message: String,
    /// What lies below it.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// A cause, noted where it is seen; the Git library in between would bury it.
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

/// Text from the other side, fit for a log line: one line, no control characters, not too long.
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
    fn words_are_apart_and_foreign_text_is_tame() {
        let words: std::collections::BTreeSet<_> =
            SourceErrorKind::ALL.iter().map(|kind| kind.as_str()).collect();
        assert_eq!(words.len(), SourceErrorKind::ALL.len());
        assert_eq!(sanitize_line("a\x1b[2J\n  b\0\tc"), "a[2J b c");
        assert!(sanitize_line(&"long ".repeat(1000)).chars().count() < 310);
        assert_eq!(sanitize_line(&"x".repeat(1000)), "…");
    }
}
