//! Settings and files with login data in, the login out.
//!
//! Law: looked up when a server asks, never before; a secret leaves this file only inside a header (held by
//! `a_login_does_not_show_its_secret`, `a_redirect_to_another_host_gets_no_login`).

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zagent_config::redirect::UrlOrigin;
use zagent_config::settings::RemoteSettings;

use super::Deadline;
use super::address::HttpAddress;
use super::error::{SourceErrorKind, SourceFailure};
use super::git_process;

/// The user beside a token; servers that accept tokens ignore the user.
const TOKEN_USER: &str = "git";
/// Maximum bytes of a file with a secret.
const MAX_SECRET: u64 = 64 << 10;

/// How a login is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AuthScheme {
    Basic,
    Bearer,
}

impl AuthScheme {
    /// The scheme that a server requests; basic, unless it offers only bearer.
    pub(super) fn from_challenges<'a>(mut offers: impl Iterator<Item = &'a str>) -> Self {
        let mut bearer = false;
        let basic = offers.any(|offer| {
            let offer = offer.trim_start().to_ascii_lowercase();
            bearer |= offer.starts_with("bearer");
            offer.starts_with("basic")
        });
        if bearer && !basic { Self::Bearer } else { Self::Basic }
    }
}

/// A user and a secret.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RemoteLogin {
    user: String,
    secret: String,
    origin: String,
}

impl fmt::Debug for RemoteLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({}, from {})", self.user, self.origin)
    }
}

impl RemoteLogin {
    /// Where it comes from, for messages.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// The value of the `Authorization` header.
    pub(super) fn header(&self, scheme: AuthScheme) -> String {
        match scheme {
            AuthScheme::Basic => {
                format!("Basic {}", STANDARD.encode(format!("{}:{}", self.user, self.secret)))
            }
            AuthScheme::Bearer => format!("Bearer {}", self.secret),
        }
    }
}

/// The places where the login for one remote is looked up, in order.
pub(super) struct Credentials {
    user: Option<String>,
    password: Option<String>,
    token_file: Option<PathBuf>,
    helper: Option<String>,
    base: String,
}

impl Credentials {
    pub(super) fn new(remote: &RemoteSettings, address: &HttpAddress) -> Self {
        Self {
            user: remote.user.clone().or_else(|| address.user.clone()),
            password: address.password.clone(),
            token_file: remote.token_file.clone(),
            helper: remote.credential_helper.clone(),
            base: address.base.clone(),
        }
    }

    /// The login from the token file, the URL, the helper, or the netrc file.
    pub(super) fn find(&self, deadline: Deadline) -> Result<Option<RemoteLogin>, SourceFailure> {
        let login = |secret: String, origin: String| {
            let user = self.user.clone().unwrap_or_else(|| TOKEN_USER.into());
            RemoteLogin { user, secret, origin }
        };
        if let Some(path) = &self.token_file {
            return Ok(Some(login(read_token(path)?, format!("`{}`", path.display()))));
        }
        if let Some(password) = &self.password {
            return Ok(Some(login(password.clone(), "the URL".into())));
        }
        if let Some(helper) = &self.helper {
            return self.ask_helper(helper, deadline);
        }
        Ok(self.netrc_login())
    }

    /// Queries a Git credential helper.
    fn ask_helper(&self, helper: &str, deadline: Deadline) -> Result<Option<RemoteLogin>, SourceFailure> {
        let (scheme, host, path) = split_url(&self.base);
        let mut question = format!("protocol={scheme}\nhost={host}\n");
        if !path.is_empty() {
            question.push_str(&format!("path={path}\n"));
        }
        if let Some(user) = &self.user {
            question.push_str(&format!("username={user}\n"));
        }
        question.push('\n');
        let line = match helper.strip_prefix('!') {
            Some(command) => format!("{command} get"),
            None if helper.starts_with('/') => format!("{helper} get"),
            None => format!("git credential-{helper} get"),
        };
        let answer = git_process::run_helper(&line, question.as_bytes(), deadline)?;
        let value = |key: &str| {
            let found = answer.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            found.map(str::to_owned)
        };
        let Some(secret) = value("password") else {
            return Ok(None);
        };
        let user = value("username").or_else(|| self.user.clone()).unwrap_or_else(|| TOKEN_USER.into());
        Ok(Some(RemoteLogin { user, secret, origin: "`credential_helper`".into() }))
    }

    /// The entry of the netrc file for the host.
    fn netrc_login(&self) -> Option<RemoteLogin> {
        let path = match std::env::var_os("NETRC") {
            Some(path) => PathBuf::from(path),
            None => PathBuf::from(std::env::var_os("HOME")?).join(".netrc"),
        };
        let text = read_limited(&path).ok()?;
        let host = UrlOrigin::parse(&self.base)?.host;
        let (user, secret) = netrc_entry(&text, &host, self.user.as_deref())?;
        Some(RemoteLogin { user, secret, origin: format!("`{}`", path.display()) })
    }
}

fn split_url(base: &str) -> (&str, &str, &str) {
    let (scheme, rest) = base.split_once("://").unwrap_or(("https", base));
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    (scheme, host, path)
}

fn read_limited(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_SECRET).read_to_string(&mut text)?;
    Ok(text)
}

fn read_token(path: &Path) -> Result<String, SourceFailure> {
    let shown = path.display();
    let text = read_limited(path).map_err(|error| {
        SourceFailure::new(SourceErrorKind::Local, format!("cannot read the token in `{shown}`: {error}"))
    })?;
    let token = text.trim();
    if token.is_empty() || token.chars().any(char::is_control) {
        return Err(SourceFailure::new(
            SourceErrorKind::Local,
            format!("`{shown}` must hold a token on one line"),
        ));
    }
    Ok(token.to_owned())
}

/// User and password of the entry for a host, or of the default entry.
fn netrc_entry(netrc: &str, host: &str, user: Option<&str>) -> Option<(String, String)> {
    let mut words = netrc_tokens(netrc).into_iter();
    let mut here = false;
    let (mut login, mut password) = (None::<String>, None::<String>);
    while let Some(word) = words.next() {
        match word.as_str() {
            "machine" | "default" => {
                if let Some(found) = complete_login(&mut login, &mut password, user) {
                    return Some(found);
                }
                here = word == "default" || words.next().is_some_and(|name| name.eq_ignore_ascii_case(host));
            }
            "login" => login = words.next().filter(|_| here),
            "password" => password = words.next().filter(|_| here),
            "account" => drop(words.next()),
            _ => {}
        }
    }
    complete_login(&mut login, &mut password, user)
}

fn complete_login(
    login: &mut Option<String>,
    password: &mut Option<String>,
    user: Option<&str>,
) -> Option<(String, String)> {
    let found = (login.take(), password.take());
    match found {
        (Some(login), Some(password)) if user.is_none_or(|user| user == login) => Some((login, password)),
        (None, Some(password)) => Some((user.unwrap_or(TOKEN_USER).to_owned(), password)),
        _ => None,
    }
}

/// The words of a netrc file, without comments and macros; a word may be quoted.
fn netrc_tokens(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_macro = false;
    for line in text.lines() {
        if in_macro {
            in_macro = !line.trim().is_empty();
            continue;
        }
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let (word, after) = match rest.strip_prefix('"').and_then(|quoted| quoted.split_once('"')) {
                Some((word, after)) => (word, after),
                None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
            };
            if word == "macdef" {
                in_macro = true;
                break;
            }
            found.push(word.to_owned());
            rest = after.trim_start();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETRC: &str = "# hosts\nmachine git.example.org login me password one\nmachine other\n  login \"you\"\n  \
         password \"two words\"\nmacdef init\nmachine git.example.org password no\n\nmachine two login a password 1\n\
         machine two login b password 2\ndefault login any password last\n";

    #[test]
    fn netrc_is_read_like_other_tools_do() {
        for (host, user, want) in [
            ("git.example.org", None, ("me", "one")),
            ("GIT.example.org", Some("me"), ("me", "one")),
            ("other", None, ("you", "two words")),
            ("two", Some("b"), ("b", "2")),
            ("unknown", None, ("any", "last")),
        ] {
            assert_eq!(netrc_entry(NETRC, host, user), Some((want.0.into(), want.1.into())), "{host}");
        }
        assert_eq!(netrc_entry("machine a login b", "a", None), None);
        assert_eq!(netrc_entry("machine a password", "a", None), None);
        assert_eq!(netrc_entry("", "a", None), None);
    }

    #[test]
    fn the_scheme_is_what_the_server_offers() {
        for (offers, want) in [
            (vec![], AuthScheme::Basic),
            (vec!["Basic realm=\"x\""], AuthScheme::Basic),
            (vec!["Bearer"], AuthScheme::Bearer),
            (vec!["Bearer", "Basic"], AuthScheme::Basic),
        ] {
            assert_eq!(AuthScheme::from_challenges(offers.into_iter()), want);
        }
    }

    #[test]
    fn a_login_does_not_show_its_secret() {
        let login = RemoteLogin { user: "me".into(), secret: "hidden".into(), origin: "here".into() };
        assert!(!format!("{login:?}").contains("hidden"));
        assert_eq!(login.header(AuthScheme::Basic), "Basic bWU6aGlkZGVu");
        assert_eq!(login.header(AuthScheme::Bearer), "Bearer hidden");
    }
}
