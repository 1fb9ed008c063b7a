//! `board.url` of a NATS board in, servers without secrets and the login out.
//!
//! Law: an address that is shown or passed on never contains a user, a password or a token (held by
//! `an_address_is_separated_from_its_secret`, `a_password_is_used_and_never_shown`).

/// The servers and the login.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NatsAddress {
    /// `nats://host:port` or `tls://host:port`, each.
    pub(super) servers: Vec<String>,
    /// The login in the URL.
    pub(super) login: Option<NatsLogin>,
}

/// A login.
#[derive(PartialEq, Eq)]
pub(super) enum NatsLogin {
    /// `user:password@`.
    User(String, String),
    /// `token@`.
    Token(String),
}

impl std::fmt::Debug for NatsLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Login")
    }
}

const DEFAULT_PORT: u16 = 4222;
const URL_HINT: &str = "write nats://host:4222 or tls://host:4222, and separate several with commas";

impl NatsAddress {
    /// Reads one URL, or several separated by commas.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut address = Self { servers: Vec::new(), login: None };
        for (i, url) in text.split(',').map(str::trim).enumerate() {
            let (server, login) =
                parse_server(url).map_err(|why| format!("address {} {why}; {URL_HINT}", i + 1))?;
            address.servers.push(server);
            address.login = address.login.or(login);
        }
        Ok(address)
    }

    /// All servers, for messages.
    pub(super) fn display_servers(&self) -> String {
        self.servers.join(",")
    }
}

fn parse_server(url: &str) -> Result<(String, Option<NatsLogin>), &'static str> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("nats", url));
    if !matches!(scheme, "nats" | "tls") {
        return Err("is neither nats:// nor tls://");
    }
    // A password may contain any character except a slash.
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    };
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => {
            (name, port.parse().map_err(|_| "has a port that is not a number")?)
        }
        _ => (host, DEFAULT_PORT),
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    if bare.is_empty() || !bare.chars().all(|c| c.is_ascii_alphanumeric() || "-._:".contains(c)) {
        return Err("has no host");
    }
    let login = login.map(|login| match login.split_once(':') {
        Some((user, password)) => Some(NatsLogin::User(percent_decode(user)?, percent_decode(password)?)),
        None => Some(NatsLogin::Token(percent_decode(login)?)),
    });
    let login = login.map(|login| login.ok_or("has a user or password that is not text")).transpose()?;
    Ok((format!("{scheme}://{name}:{port}"), login))
}

/// Decodes `%XX`.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = tail.get(..2).filter(|_| *first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match hex.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_separated_from_its_secret() {
        let user = |user: &str, password: &str| Some(NatsLogin::User(user.into(), password.into()));
        let cases = [
            ("nats.example.org", "nats://nats.example.org:4222", None),
            ("tls://[::1]:4333/", "tls://[::1]:4333", None),
            ("tls://[::1]", "tls://[::1]:4222", None),
            ("nats://me:se%40cret@h:1", "nats://h:1", user("me", "se@cret")),
            ("nats://me:a:b@c@h", "nats://h:4222", user("me", "a:b@c")),
            ("nats://tok%C3%BC@h", "nats://h:4222", Some(NatsLogin::Token("tokü".into()))),
            ("tls://u:p@a, tls://b:5", "tls://a:4222,tls://b:5", user("u", "p")),
        ];
        for (text, shown, login) in cases {
            let address = NatsAddress::parse(text).unwrap();
            assert_eq!(address.display_servers(), shown);
            assert!(address.login == login, "{text}");
        }
    }

    #[test]
    fn a_bad_address_is_named_without_its_secret() {
        for text in
            ["https://u:hunter2@h", "nats://u:hunter2@", "nats://u:hunter2@h:port", "tls://u:hunter2@a b"]
        {
            let error = NatsAddress::parse(text).unwrap_err();
            assert!(error.contains("nats://host:4222") && !error.contains("hunter2"), "{error}");
        }
    }
}
