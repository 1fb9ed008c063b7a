//! A URL in, its bytes into a sink.
//!
//! Law: https, also after a redirect. Only this machine may be used without encryption, and only without a redirect
//! (held by `only_https_or_this_machine_is_used`, `a_redirect_never_leaves_https`).

use std::io::Read;
use std::time::Duration;

use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};
use zagent_cache::source::Deadline;
use zagent_config::mask::bare_url;
use zagent_config::redirect::{MAX_REDIRECTS, UrlOrigin, resolve_redirect};

use super::{ArtifactError, ArtifactSink};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a server may send nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes per read.
const CHUNK_BYTES: usize = 64 << 10;

/// Fetches a file.
pub(super) fn download(
    url: &str,
    sink: &mut ArtifactSink<'_>,
    deadline: Deadline,
) -> Result<(), ArtifactError> {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = ureq::Agent::config_builder()
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_per_read(Some(READ_TIMEOUT))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .tls_config(tls)
        .user_agent(concat!("zagent/", env!("CARGO_PKG_VERSION")))
        .build();
    let agent = ureq::Agent::new_with_config(config);
    let mut at = check_url(url)?;
    for _ in 0..=MAX_REDIRECTS {
        let left = deadline.remaining().ok_or_else(|| transient_error(&at, "it took too long"))?;
        // An error may contain the address.
        let told =
            |error: ureq::Error| transient_error(&at, error.to_string().replace(&at.to_string(), "it"));
        let asked = agent.get(&at).config().timeout_global(Some(left)).build();
        let mut answer = asked.call().map_err(told)?;
        let status = answer.status();
        if status.is_redirection() {
            let to = answer.headers().get("location").and_then(|to| to.to_str().ok()).unwrap_or_default();
            at = next_address(&at, to)?;
            continue;
        }
        if status != ureq::http::StatusCode::OK {
            let passing = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
            return Err(http_error(
                &at,
                format!("the server answers with HTTP {}", status.as_u16()),
                passing,
            ));
        }
        let mut body = answer.body_mut().with_config().limit(u64::MAX).reader();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            match body.read(&mut chunk).map_err(|error| transient_error(&at, error.to_string()))? {
                0 => return Ok(()),
                n => sink.write_chunk(&chunk[..n])?,
            }
        }
    }
    Err(permanent_error(&at, format!("the server redirects more than {MAX_REDIRECTS} times")))
}

/// A permanent error: a retry will not help.
fn permanent_error(at: &Uri, why: impl Into<String>) -> ArtifactError {
    http_error(at, why, false)
}

/// A temporary error: the connection failed or was too short.
fn transient_error(at: &Uri, why: impl Into<String>) -> ArtifactError {
    http_error(at, why, true)
}

fn http_error(at: &Uri, why: impl Into<String>, passing: bool) -> ArtifactError {
    ArtifactError::Http { url: bare_url(&at.to_string()), why: why.into(), passing }
}

/// The URL of the record: https, or http on this machine.
fn check_url(url: &str) -> Result<Uri, ArtifactError> {
    let odd = |why: &str| ArtifactError::Malformed { why: why.into() };
    let at: Uri = url.parse().map_err(|_| odd("`url` is not a URL"))?;
    if at.authority().is_none_or(|authority| authority.as_str().contains('@')) {
        return Err(odd("`url` needs a host, and no user or password"));
    }
    match at.scheme_str() {
        Some("https") => Ok(at),
        Some("http") if UrlOrigin::parse(url).is_some_and(|origin| origin.is_loopback()) => Ok(at),
        _ => Err(odd("`url` is not https")),
    }
}

/// The target of a redirect: encrypted, or the origin that redirects.
fn next_address(from: &Uri, to: &str) -> Result<Uri, ArtifactError> {
    let refused = |why: &dyn std::fmt::Display| permanent_error(from, format!("the server redirects: {why}"));
    let target = resolve_redirect(&from.to_string(), to).map_err(|error| refused(&error))?;
    let encrypted = UrlOrigin::parse(&target.url).is_some_and(|origin| origin.is_encrypted());
    if target.is_foreign && !encrypted {
        return Err(refused(&"the other address is not https"));
    }
    target.url.parse().map_err(|_| refused(&"that is not a URL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_or_this_machine_is_used() {
        for fine in ["https://e.org/z", "http://127.0.0.1:8/z", "http://[::1]/z", "http://localhost/z"] {
            assert!(check_url(fine).is_ok(), "{fine}");
        }
        for bad in ["http://e.org/z", "ftp://e.org/z", "file:///etc/passwd", "https://u:p@e.org/z", "z", ""] {
            assert!(matches!(check_url(bad), Err(ArtifactError::Malformed { .. })), "{bad}");
        }
    }

    #[test]
    fn a_redirect_never_leaves_https() {
        let from: Uri = "https://e.org/a?key=secret".parse().unwrap();
        assert_eq!(next_address(&from, "https://cdn.e.org/b").unwrap(), "https://cdn.e.org/b");
        assert_eq!(next_address(&from, "/c").unwrap(), "https://e.org/c");
        for bad in
            ["http://e.org/a", "HTTP://127.0.0.1/a", "//u@e.org/a", "file:///a", "", "https://u@e.org/"]
        {
            let error = next_address(&from, bad).unwrap_err().to_string();
            assert!(error.contains("https://e.org/a") && !error.contains("secret"), "{error}");
        }
        let here: Uri = "http://127.0.0.1:1/a".parse().unwrap();
        assert!(next_address(&here, "/b").is_ok() && next_address(&here, "http://127.0.0.1:2/b").is_err());
    }
}
