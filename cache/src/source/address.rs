//! The URL of a remote in, the way to reach it out.
//!
//! Law: only https, http, ssh, file and absolute paths; nothing in an address can become an option or a command
//! (held by `what_could_run_a_command_or_is_unknown_is_refused`).

use std::path::PathBuf;

use gix::bstr::ByteSlice;
use gix::url::Scheme;

use super::error::{SourceErrorKind, SourceFailure};
use zagent_config::mask::bare_url;

/// How a remote is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RemoteAddress {
    /// Smart HTTP.
    Http(HttpAddress),
    /// A program on another host.
    Ssh(SshAddress),
    /// A repository on this host.
    File(PathBuf),
}

/// The address of smart HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpAddress {
    /// The URL without user, password and last slash.
    pub(super) base: String,
    /// The user in the URL.
    pub(super) user: Option<String>,
    /// The password in the URL.
    pub(super) password: Option<String>,
}

/// The address of a repository behind SSH.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SshAddress {
    pub(super) user: Option<String>,
    pub(super) host: String,
    pub(super) port: Option<u16>,
    pub(super) path: String,
}

impl RemoteAddress {
    /// Reads a URL.
    pub(super) fn parse(text: &str) -> Result<Self, SourceFailure> {
        let shown = bare_url(text);
        let refuse = |why: &str| {
            SourceFailure::new(
                SourceErrorKind::Local,
                format!("`{shown}` is not a usable repository address: {why}"),
            )
        };
        if text.chars().any(|c| c.is_control() || c == ' ' && !text.starts_with('/')) {
            return Err(refuse("it contains a space or a control character"));
        }
        if text.starts_with('/') {
            return Ok(Self::File(text.into()));
        }
        if text.contains("::") && !text.contains("://") {
            return Err(refuse("remote helpers such as `ext::` run commands and are never allowed"));
        }
        let lower = lower_scheme(text);
        let text = lower.as_str();
        let url =
            gix::url::parse(text.as_bytes().as_bstr()).map_err(|_| refuse("it cannot be read as a URL"))?;
        let path = url.path.to_str().map_err(|_| refuse("its path is not UTF-8"))?.to_owned();
        match url.scheme {
            Scheme::Https | Scheme::Http => {
                Self::from_http_url(&url, text).ok_or_else(|| refuse("it has no host"))
            }
            Scheme::Ssh => Self::from_ssh_url(&url, path).map_err(refuse),
            Scheme::File if path.starts_with('/') => Ok(Self::File(path.into())),
            Scheme::File => Err(refuse("the path must be absolute")),
            Scheme::Git => Err(refuse("git:// is neither encrypted nor authenticated; use https or ssh")),
            _ => Err(refuse("use https, http, ssh, file or an absolute path")),
        }
    }

    fn from_http_url(url: &gix::Url, text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let path = path.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
        let base = format!("{scheme}://{host}{path}");
        let user = url.user().filter(|user| !user.is_empty()).map(str::to_owned);
        let password = url.password().map(str::to_owned);
        (!host.is_empty() && url.host().is_some()).then_some(Self::Http(HttpAddress { base, user, password }))
    }

    fn from_ssh_url(url: &gix::Url, path: String) -> Result<Self, &'static str> {
        let host = url.host().filter(|host| !host.is_empty()).ok_or("it has no host")?.to_owned();
        let user = url.user().filter(|user| !user.is_empty()).map(str::to_owned);
        let odd = |part: &str| part.starts_with('-') || part.chars().any(char::is_whitespace);
        if odd(&host) || user.as_deref().is_some_and(odd) {
            return Err("its host or user starts like a command option");
        }
        // `/~user/x` is written `~user/x` on the other side.
        let path = path.strip_prefix("/~").map_or(path.clone(), |rest| format!("~{rest}"));
        if path.is_empty() || path.starts_with('-') {
            return Err("its path is empty or starts like a command option");
        }
        Ok(Self::Ssh(SshAddress { user, host, port: url.port, path }))
    }
}

/// An address with its scheme in lower case.
fn lower_scheme(text: &str) -> String {
    match text.split_once("://") {
        Some((scheme, rest)) => format!("{}://{rest}", scheme.to_ascii_lowercase()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssh(text: &str) -> SshAddress {
        match RemoteAddress::parse(text) {
            Ok(RemoteAddress::Ssh(ssh)) => ssh,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn every_form_of_an_address_is_read() {
        assert_eq!(RemoteAddress::parse("/srv/a b.git").unwrap(), RemoteAddress::File("/srv/a b.git".into()));
        assert_eq!(
            RemoteAddress::parse("file:///srv/x.git").unwrap(),
            RemoteAddress::File("/srv/x.git".into())
        );
        let scp = ssh("git@example.org:states/x.git");
        assert_eq!(
            (scp.user.as_deref(), scp.host.as_str(), scp.path.as_str()),
            (Some("git"), "example.org", "states/x.git")
        );
        let full = ssh("ssh://git@example.org:2222/srv/x.git");
        assert_eq!((full.port, full.path.as_str()), (Some(2222), "/srv/x.git"));
        assert_eq!(ssh("ssh://example.org/~me/x.git").path, "~me/x.git");
        for (text, base, user, password) in [
            ("https://h/x.git", "https://h/x.git", None, None),
            ("HTTPS://u:p%40w@h:8443/x/", "https://h:8443/x", Some("u"), Some("p@w")),
            ("http://[::1]:80/x?y#z", "http://[::1]:80/x", None, None),
        ] {
            let want = HttpAddress {
                base: base.into(),
                user: user.map(Into::into),
                password: password.map(Into::into),
            };
            assert_eq!(RemoteAddress::parse(text).unwrap(), RemoteAddress::Http(want));
        }
    }

    #[test]
    fn what_could_run_a_command_or_is_unknown_is_refused() {
        for (text, why) in [
            ("ext::sh -c x", "space"),
            ("ext::sh", "never allowed"),
            ("fd::17/foo", "never allowed"),
            ("git://example.org/x", "encrypted"),
            ("ftp://example.org/x", "use https"),
            ("ssh://-oProxyCommand=x/y", "option"),
            ("ssh://-oProxyCommand@h/y", "option"),
            ("-oProxyCommand=x:y", ""),
            ("git@host:-x", "option"),
            ("relative/path", ""),
            ("../x", ""),
            ("", ""),
            ("https://", ""),
            ("https://h/\nx", "control"),
        ] {
            let failure = RemoteAddress::parse(text).unwrap_err();
            assert_eq!(failure.kind, SourceErrorKind::Local, "{text}");
            assert!(failure.message.contains(why), "{text}: {}", failure.message);
        }
    }
}
