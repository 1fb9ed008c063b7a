//! The address that answered and where it points to in, the address to ask next out: the one rule for redirects.
//!
//! Law: a redirect stays within http and https, and never goes from https to http. What the caller sends with a request
//! (headers, login, body) goes only to the origin that the caller named. Schemes and hosts compare without regard to case
//! (held by `what_is_not_followed`, `locations_become_whole_addresses`).

/// How many redirects are followed.
pub const MAX_REDIRECTS: usize = 5;

/// Who receives what is sent: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlOrigin {
    /// `https`, in lower case.
    pub scheme: String,
    /// In lower case; an IPv6 address has its brackets.
    pub host: String,
    /// The port, also when the address does not say it.
    pub port: u16,
}

impl UrlOrigin {
    /// The origin of an address; `None` when it has no host or an invalid port.
    #[must_use]
    pub fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let authority = rest.split(['/', '?', '#', '\\']).next()?;
        let host_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let default = if scheme == "https" { 443 } else { 80 };
        let (host, port) = match host_port.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
            _ => (host_port, default),
        };
        (!host.is_empty()).then(|| Self { scheme, host: host.to_ascii_lowercase(), port })
    }

    /// True when traffic to that host stays on this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// True for https.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.scheme == "https"
    }
}

/// Where a redirect leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectTarget {
    /// The address to ask next.
    pub url: String,
    /// True when it has another scheme, host or port: then nothing that the caller sent goes there.
    pub is_foreign: bool,
}

/// Why a redirect is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedirectError {
    /// It names no address.
    #[error("that is not a URL")]
    NoUrl,
    /// It leads to something else than the web.
    #[error("only https and http are followed")]
    Scheme,
    /// It leads from https to http.
    #[error("that would drop encryption")]
    Unencrypted,
    /// It brings a login of its own.
    #[error("it contains a user or a password")]
    Login,
}

/// Where the answer of `from` leads to.
///
/// # Errors
/// Fails when that must not be followed.
pub fn resolve_redirect(from: &str, location: &str) -> Result<RedirectTarget, RedirectError> {
    if location.is_empty() || location.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err(RedirectError::NoUrl);
    }
    let here = UrlOrigin::parse(from).ok_or(RedirectError::NoUrl)?;
    let url =
        absolute_url(from, location.split('#').next().unwrap_or(location)).ok_or(RedirectError::NoUrl)?;
    let (scheme, rest) = url.split_once("://").ok_or(RedirectError::NoUrl)?;
    if !["https", "http"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err(RedirectError::Scheme);
    }
    let there = UrlOrigin::parse(&url).ok_or(RedirectError::NoUrl)?;
    if here.is_encrypted() && !there.is_encrypted() {
        return Err(RedirectError::Unencrypted);
    }
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    // A relative address keeps the login of the caller's own address.
    if authority.contains('@') && names_host(location) {
        return Err(RedirectError::Login);
    }
    let url = format!("{}://{rest}", there.scheme);
    Ok(RedirectTarget { url, is_foreign: here != there })
}

/// True when a location says which host it means.
fn names_host(location: &str) -> bool {
    let path_start = location.find(['/', '?']).unwrap_or(location.len());
    location.starts_with("//") || location.find("://").is_some_and(|at| at < path_start)
}

/// The location as a whole address.
fn absolute_url(from: &str, location: &str) -> Option<String> {
    let path_start = location.find(['/', '?']).unwrap_or(location.len());
    if names_host(location) && !location.starts_with("//") {
        return Some(location.to_owned());
    }
    // `mailto:x`, `javascript:x`.
    if location[..path_start].contains(':') {
        return Some(format!("{}://", location.split(':').next()?));
    }
    let (scheme, rest) = from.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = if path.is_empty() { "/" } else { path };
    Some(match location {
        host if host.starts_with("//") => format!("{scheme}:{host}"),
        root if root.starts_with('/') => format!("{scheme}://{authority}{root}"),
        query if query.starts_with('?') => format!("{scheme}://{authority}{path}{query}"),
        beside => {
            let dir = &path[..=path.rfind('/').unwrap_or(0)];
            format!("{scheme}://{authority}{dir}{beside}")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_become_whole_addresses() {
        let from = "https://u:p@h.example:8443/a/b?q=1";
        for (location, want, foreign) in [
            ("/c?x", "https://u:p@h.example:8443/c?x", false),
            ("c", "https://u:p@h.example:8443/a/c", false),
            ("?y", "https://u:p@h.example:8443/a/b?y", false),
            ("https://H.EXAMPLE:8443/z#frag", "https://H.EXAMPLE:8443/z", false),
            ("HTTPS://h.example:8443/z", "https://h.example:8443/z", false),
            ("//cdn.example/z", "https://cdn.example/z", true),
            ("https://h.example/z", "https://h.example/z", true),
            ("/r?to=http://x", "https://u:p@h.example:8443/r?to=http://x", false),
        ] {
            let want = RedirectTarget { url: want.into(), is_foreign: foreign };
            assert_eq!(resolve_redirect(from, location), Ok(want), "{location}");
        }
        assert!(resolve_redirect("http://h/x", "https://h/x").unwrap().is_foreign, "another scheme");
        assert!(!resolve_redirect("HTTP://h:80/x", "http://H/y").unwrap().is_foreign);
    }

    #[test]
    fn what_is_not_followed() {
        use RedirectError::{Login, NoUrl, Scheme, Unencrypted};
        for (location, why) in [
            ("http://h/x", Unencrypted),
            ("HtTp://h/x", Unencrypted),
            ("http://127.0.0.1/x", Unencrypted),
            ("file:///etc/passwd", Scheme),
            ("ftp://h/x", Scheme),
            ("javascript:alert(1)", Scheme),
            ("https://u:p@h/x", Login),
            ("//u@evil/x", Login),
            ("https://h@evil/x", Login),
            ("https://", NoUrl),
            ("https://h:99999/x", NoUrl),
            ("", NoUrl),
            ("https://h/\r\nX: y", NoUrl),
            ("https://h /x", NoUrl),
        ] {
            assert_eq!(resolve_redirect("HTTPS://h/x", location), Err(why), "{location}");
        }
    }

    #[test]
    fn origins_tell_hosts_apart() {
        let origin = |url: &str| UrlOrigin::parse(url).unwrap();
        assert_eq!(origin("https://H/x"), origin("HTTPS://u:p@h:443/y"));
        for (one, other) in
            [("https://h/x", "http://h/x"), ("https://h/x", "https://h:8443/x"), ("https://h", "https://g")]
        {
            assert_ne!(origin(one), origin(other));
        }
        assert_eq!(origin("http://[::1]:8080/x").port, 8080);
        assert_eq!(origin("http://[::1]/x").port, 80);
        assert_eq!(origin(r"https://good\@evil/").host, "good");
        for (host, want) in [
            ("localhost", true),
            ("127.9.9.9", true),
            ("[::1]", true),
            ("10.0.0.1", false),
            ("localhost.evil", false),
        ] {
            assert_eq!(origin(&format!("http://{host}/")).is_loopback(), want, "{host}");
        }
    }
}
