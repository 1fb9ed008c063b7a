//! An HTTP result in, the cause in words out.
//!
//! Law: text from the remote is sanitized before it is shown (held by
//! `kinds_have_distinct_names_and_remote_text_is_sanitized`).

use std::time::Duration;

use jiff::Timestamp;
use ureq::http::Response;

use super::error::{SourceErrorKind, SourceFailure, sanitize_line};
use super::http_remote::HttpRemote;

/// The longest wait that a remote can request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

impl HttpRemote {
    /// The meaning of a status other than 200.
    pub(super) fn status_failure(&self, response: &Response<ureq::Body>) -> SourceFailure {
        let status = response.status();
        let code = status.as_u16();
        let mut failure = match code {
            401 | 403 | 407 => {
                self.new_failure(SourceErrorKind::Denied, format!("denies access (HTTP {code})"))
            }
            404 | 410 => {
                let why = format!(
                    "has no repository there (HTTP {code}), or the credentials do not allow reading it"
                );
                self.new_failure(SourceErrorKind::NoRepository, why)
            }
            429 => self.new_failure(
                SourceErrorKind::Unreachable,
                "limits the request rate, try again later (HTTP 429)",
            ),
            500..=599 => {
                self.new_failure(SourceErrorKind::Unreachable, format!("has a server error (HTTP {code})"))
            }
            _ => self.new_failure(SourceErrorKind::Protocol, format!("answers with HTTP {code}")),
        };
        failure.retry_after = response
            .headers()
            .get("retry-after")
            .and_then(|value| parse_retry_after(value.to_str().ok()?, Timestamp::now()));
        failure
    }

    pub(super) fn new_failure(&self, kind: SourceErrorKind, what: impl AsRef<str>) -> SourceFailure {
        SourceFailure::new(kind, format!("{} {}", self.remote(), what.as_ref()))
    }

    pub(super) fn timeout_failure(&self) -> SourceFailure {
        self.new_failure(SourceErrorKind::Timeout, "did not answer within the time limit")
    }

    /// The meaning of an error from the client library.
    pub(super) fn explain_error(&self, error: &ureq::Error) -> SourceFailure {
        let remote = self.remote();
        let unreachable = |why: &str| {
            SourceFailure::new(SourceErrorKind::Unreachable, format!("cannot reach {remote}: {why}"))
        };
        match error {
            ureq::Error::Timeout(_) => self.timeout_failure(),
            ureq::Error::HostNotFound => unreachable("the host name is unknown (DNS)"),
            ureq::Error::ConnectionFailed => unreachable("no connection"),
            ureq::Error::ConnectProxyFailed(why) => {
                unreachable(&format!("the proxy refuses: {}", sanitize_line(why)))
            }
            ureq::Error::Tls(why) => self.tls_failure(why),
            ureq::Error::Rustls(why) => self.tls_failure(&why.to_string()),
            ureq::Error::Io(why) => self.io_failure(why),
            ureq::Error::Protocol(why) => self.new_failure(
                SourceErrorKind::Protocol,
                format!("does not answer with valid HTTP: {}", sanitize_line(&why.to_string())),
            ),
            other => self.new_failure(
                SourceErrorKind::Protocol,
                format!("cannot be queried: {}", sanitize_line(&other.to_string())),
            ),
        }
    }

    pub(super) fn io_failure(&self, error: &std::io::Error) -> SourceFailure {
        if let Some(inner) = error.get_ref() {
            if let Some(inner) = inner.downcast_ref::<ureq::Error>() {
                return self.explain_error(inner);
            }
            let text = inner.to_string();
            if text.contains("certificate") || text.contains("tls") || text.contains("TLS") {
                return self.tls_failure(&text);
            }
        }
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => return self.timeout_failure(),
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => {
                "the connection was interrupted".to_owned()
            }
            _ => sanitize_line(&error.to_string()),
        };
        SourceFailure::new(SourceErrorKind::Unreachable, format!("cannot reach {}: {why}", self.remote()))
    }

    fn tls_failure(&self, why: &str) -> SourceFailure {
        let way = "check the clock, or set `ca` if your own certificate authority signed the certificate";
        self.new_failure(SourceErrorKind::Tls, format!("cannot be trusted: {} ({way})", sanitize_line(why)))
    }
}

/// The time in a `Retry-After` header, in seconds or as a date, limited.
fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let until = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
            Duration::try_from(until.duration_since(now)).ok()?
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_bounded() {
        let now = "2015-10-21T07:27:00Z".parse().unwrap();
        let wait = |value| parse_retry_after(value, now);
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("99999999999"), Some(MAX_RETRY_AFTER));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(wait("Wed, 21 Oct 2065 07:28:00 GMT"), Some(MAX_RETRY_AFTER));
        for bad in ["", "-1", "Wed, 21 Oct 2005 07:28:00 GMT", "1e9"] {
            assert_eq!(wait(bad), None, "{bad}");
        }
    }
}
