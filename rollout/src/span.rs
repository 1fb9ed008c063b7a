//! A duration as people write it: `60s` in a record, a `Duration` in the code.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zagent_config::settings::{format_duration, parse_duration};

/// A duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

impl Span {
    /// This many seconds.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }
}

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a duration: write `90s`, `5m` or `1h`")]
pub struct SpanError(String);

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        parse_duration(text).map(Self).ok_or_else(|| SpanError(text.to_owned()))
    }
}

impl TryFrom<String> for Span {
    type Error = SpanError;

    fn try_from(text: String) -> Result<Self, SpanError> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        format_duration(span.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format_duration(self.0))
    }
}
