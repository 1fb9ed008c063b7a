//! What came back over HTTP in, the cause in words out.
//!
//! Law: text of the other side is made tame before it is shown.

use std::time::Duration;

use jiff::Timestamp;
use ureq::http::Response;

use super::error::{Failure, Kind, tame};
use super::wire::Wire;

/// How long a remote may ask us to wait.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

impl Wire {
    /// What a status other than 200 means.
    pub(super) fn status(&self, response: &Response<ureq::Body>) -> Failure {
        let status = response.status();
        let code = status.as_u16();
        let mut failure = match code {
            401 | 403 | 407 => self.fail(Kind::Denied, format!("denies access (HTTP {code})")),
            404 | 410 => {
                let why =
                    format!("has no repository there (HTTP {code}), or hides it from who may not read it");
                self.fail(Kind::NoRepository, why)
            }
            429 => self.fail(Kind::Unreachable, "asks us to come back later (HTTP 429)"),
            500..=599 => self.fail(Kind::Unreachable, format!("is in trouble (HTTP {code})")),
            _ => self.fail(Kind::Protocol, format!("answers with HTTP {code}")),
        };
        failure.retry_after = response
            .headers()
            .get("retry-after")
            .and_then(|value| retry_after(value.to_str().ok()?, Timestamp::now()));
        failure
    }

    pub(super) fn fail(&self, kind: Kind, what: impl AsRef<str>) -> Failure {
        Failure::new(kind, format!("{} {}", self.remote(), what.as_ref()))
    }

    pub(super) fn timeout(&self) -> Failure {
        self.fail(Kind::Timeout, "did not answer in time")
    }

    /// What the client library's error means.
    pub(super) fn explain(&self, error: &ureq::Error) -> Failure {
        let remote = self.remote();
        let unreachable =
            |why: &str| Failure::new(Kind::Unreachable, format!("cannot reach {remote}: {why}"));
        match error {
            ureq::Error::Timeout(_) => self.timeout(),
            ureq::Error::HostNotFound => unreachable("the name of the host is unknown (DNS)"),
            ureq::Error::ConnectionFailed => unreachable("no connection"),
            ureq::Error::ConnectProxyFailed(why) => unreachable(&format!("the proxy refuses: {}", tame(why))),
            ureq::Error::Tls(why) => self.tls(why),
            ureq::Error::Rustls(why) => self.tls(&why.to_string()),
            ureq::Error::Io(why) => self.io(why),
            ureq::Error::Protocol(why) => {
                self.fail(Kind::Protocol, format!("does not speak HTTP: {}", tame(&why.to_string())))
            }
            other => self.fail(Kind::Protocol, format!("cannot be asked: {}", tame(&other.to_string()))),
        }
    }

    pub(super) fn io(&self, error: &std::io::Error) -> Failure {
        if let Some(inner) = error.get_ref() {
            if let Some(inner) = inner.downcast_ref::<ureq::Error>() {
                return self.explain(inner);
            }
            let text = inner.to_string();
            if text.contains("certificate") || text.contains("tls") || text.contains("TLS") {
                return self.tls(&text);
            }
        }
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => return self.timeout(),
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::ConnectionReset => {
                "the connection broke off".to_owned()
            }
            _ => tame(&error.to_string()),
        };
        Failure::new(Kind::Unreachable, format!("cannot reach {}: {why}", self.remote()))
    }

    fn tls(&self, why: &str) -> Failure {
        let way = "check the clock, or set `ca` when the certificate is signed by your own authority";
        self.fail(Kind::Tls, format!("cannot be trusted: {} ({way})", tame(why)))
    }
}

/// The time that a `Retry-After` header names, in seconds or as a date, bounded.
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
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
        let wait = |value| retry_after(value, now);
        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("99999999999"), Some(MAX_RETRY_AFTER));
        assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::from_secs(60)));
        assert_eq!(wait("Wed, 21 Oct 2065 07:28:00 GMT"), Some(MAX_RETRY_AFTER));
        for bad in ["", "-1", "Wed, 21 Oct 2005 07:28:00 GMT", "1e9"] {
            assert_eq!(wait(bad), None, "{bad}");
        }
    }
}
