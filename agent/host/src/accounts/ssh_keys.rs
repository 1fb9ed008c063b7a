//! Keys of SSH: lines of `authorized_keys` and `known_hosts` in, keys and hosts out.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use hmac::{Hmac, Mac};
use sha2::Digest;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use super::PasswdEntry;
use crate::{Machine, Tools};

/// Where a user's own keys are.
pub const AUTHORIZED_KEYS: &str = ".ssh/authorized_keys";

/// A key that may log in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorizedKey {
    /// What the key may do, as `no-pty`.
    pub options: Vec<String>,
    /// Type of the key, as `ssh-ed25519`.
    pub enc: String,
    /// The public key in base64.
    pub key: String,
    /// Words after the key.
    pub comment: String,
}

fn is_key_type(word: &str) -> bool {
    let bare = word.strip_prefix("sk-").unwrap_or(word);
    bare.starts_with("ssh-") || bare.starts_with("ecds")
}

impl AuthorizedKey {
    /// A line such as `from="10.*" ssh-ed25519 AAAA… me@host`; none for comments and what is no key.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.starts_with('#') {
            return None;
        }
        let (first, rest) = split_unquoted(line, char::is_whitespace);
        let (options, enc, rest) = if is_key_type(first) {
            (Vec::new(), first, rest)
        } else {
            let (enc, rest) = split_unquoted(rest.trim_start(), char::is_whitespace);
            (split_options(first), enc, rest)
        };
        let mut words = rest.split_whitespace();
        let key = words.next().filter(|_| is_key_type(enc))?.to_owned();
        let comment = words.collect::<Vec<_>>().join(" ");
        Some(Self { options, enc: enc.to_owned(), key, comment })
    }

    /// The line.
    pub fn to_line(&self) -> String {
        let options =
            if self.options.is_empty() { String::new() } else { format!("{} ", self.options.join(",")) };
        format!("{options}{} {} {}\n", self.enc, self.key, self.comment)
    }

    /// What is wrong with it, if anything.
    pub fn validation_error(&self) -> Option<String> {
        if self.key.contains(char::is_whitespace)
            || STANDARD.decode(&self.key).is_err()
            || self.key.is_empty()
        {
            return Some("Invalid public ssh key, most likely has spaces or invalid syntax".into());
        }
        let is_line = |text: &str| !text.contains(['\n', '\r']);
        let all = self.options.iter().chain([&self.comment]).all(|text| is_line(text));
        (!all).then(|| "an option or comment of a key must not break the line".into())
    }

    /// It as `ssh.auth_keys` shows it.
    pub fn to_salt_map(&self) -> Map {
        Map::from_iter([
            ("enc", Value::from(self.enc.as_str())),
            ("comment", self.comment.as_str().into()),
            ("options", self.options.iter().map(|o| Value::from(o.as_str())).collect()),
            ("fingerprint", fingerprint(&self.key).unwrap_or_default().into()),
        ])
    }
}

/// A text cut at the first such character that is not between quotes.
fn split_unquoted(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            c if !quoted && is_end(c) => return (&text[..at], &text[at + c.len_utf8()..]),
            _ => {}
        }
    }
    (text, "")
}

fn split_options(mut text: &str) -> Vec<String> {
    let mut out = Vec::new();
    while !text.is_empty() {
        let (option, rest) = split_unquoted(text, |c| c == ',');
        out.push(option.to_owned());
        text = rest;
    }
    out
}

/// The full name of a kind of keys.
pub fn full_key_type(enc: &str) -> Result<&str, FunctionError> {
    match enc {
        "r" | "rsa" => Ok("ssh-rsa"),
        "d" | "dsa" | "dss" => Ok("ssh-dss"),
        "e" | "ecdsa" => Ok("ecdsa-sha2-nistp256"),
        "ed25519" => Ok("ssh-ed25519"),
        full if is_key_type(full) || full.starts_with("rsa-sha2-") => Ok(full),
        other => Err(FunctionError::failed(format!("Incorrect encryption key type '{other}'."))),
    }
}

/// The SHA-256 of a key in hexadecimal with colons, as Salt writes it.
fn fingerprint(key: &str) -> Option<String> {
    Some(hex(&sha2::Sha256::digest(STANDARD.decode(key).ok()?)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
}

/// A user, and a path that may be below its home; `%u` and `%h` stand for them.
pub fn resolve_user_file(
    machine: &Machine,
    user: &str,
    config: &str,
) -> Result<(PasswdEntry, String), FunctionError> {
    let found = super::find_user(machine, user)?;
    let found = found.ok_or_else(|| FunctionError::failed(format!("User '{user}' does not exist")))?;
    let mut path = String::new();
    let mut chars = config.chars();
    while let Some(c) = chars.next() {
        match (c, if c == '%' { chars.next() } else { None }) {
            ('%', Some('%')) => path.push('%'),
            ('%', Some('u')) => path.push_str(user),
            ('%', Some('h')) => path.push_str(&found.home),
            ('%', other) => {
                let what = other.map_or_else(String::new, String::from);
                let words = format!("AuthorizedKeysFile path: unknown token character \"%{what}\"");
                return Err(FunctionError::failed(words));
            }
            (c, _) => path.push(c),
        }
    }
    if !path.starts_with('/') {
        path = format!("{}/{path}", found.home.trim_end_matches('/'));
    }
    Ok((found, path))
}

/// Where known hosts are: of a user, or of all.
pub fn known_hosts_file(
    machine: &Machine,
    user: Option<&str>,
    config: Option<&str>,
) -> Result<String, FunctionError> {
    match (user, config) {
        (_, Some(path)) if path.starts_with('/') => Ok(path.to_owned()),
        (Some(user), path) => Ok(resolve_user_file(machine, user, path.unwrap_or(".ssh/known_hosts"))?.1),
        (None, None) => Ok("/etc/ssh/ssh_known_hosts".into()),
        (None, Some(_)) => {
            Err(FunctionError::failed("If not specifying a \"user\", specify an absolute \"config\"."))
        }
    }
}

/// A host as `known_hosts` names it.
pub fn known_hosts_name(host: &str, port: Option<&str>) -> String {
    match port.filter(|p| *p != "22") {
        Some(port) => format!("[{host}]:{port}"),
        None => host.to_owned(),
    }
}

/// A line of `known_hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownHostsEntry {
    /// Names and addresses of the host, joined with commas, or a hash of them.
    pub hosts: String,
    /// Type of the key, as `ssh-ed25519`.
    pub enc: String,
    /// The public key in base64.
    pub key: String,
}

impl KnownHostsEntry {
    /// A line; none for comments, marked lines and what is no key.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let (hosts, enc, key) = (words.next()?, words.next()?, words.next()?);
        let is_key = !hosts.starts_with(['#', '@']) && STANDARD.decode(key).is_ok();
        is_key.then(|| Self { hosts: hosts.to_owned(), enc: enc.to_owned(), key: key.to_owned() })
    }

    /// True when it is about this host.
    pub fn matches_host(&self, host: &str) -> bool {
        let Some(hashed) = self.hosts.strip_prefix("|1|") else {
            return self.hosts.split(',').any(|name| name == host);
        };
        let decode = |text: &str| STANDARD.decode(text).ok();
        let parts = hashed.split_once('|').and_then(|(salt, sum)| Some((decode(salt)?, decode(sum)?)));
        parts.is_some_and(|(salt, sum)| hmac_sha1(&salt, host).is_some_and(|is| is == sum))
    }

    /// True for a fingerprint as Salt or OpenSSH writes it.
    pub fn has_fingerprint(&self, print: &str) -> bool {
        let Ok(raw) = STANDARD.decode(&self.key) else { return false };
        let sha = sha2::Sha256::digest(&raw);
        let md5 = hex(&md5::Md5::digest(&raw));
        let short = STANDARD_NO_PAD.encode(sha);
        let bare = print.strip_prefix("SHA256:").or_else(|| print.strip_prefix("MD5:")).unwrap_or(print);
        bare.trim_end_matches('=') == short || bare.to_lowercase() == hex(&sha) || bare.to_lowercase() == md5
    }

    /// The line.
    pub fn to_line(&self) -> String {
        format!("{} {} {}\n", self.hosts, self.enc, self.key)
    }

    /// It as `ssh.get_known_host_entries` shows it.
    pub fn to_salt_map(&self) -> Value {
        Map::from_iter([
            ("hostname", self.hosts.as_str()),
            ("key", &self.key),
            ("enc", &self.enc),
            ("fingerprint", &fingerprint(&self.key).unwrap_or_default()),
        ])
        .into()
    }
}

fn hmac_sha1(salt: &[u8], host: &str) -> Option<Vec<u8>> {
    let mac = Hmac::<sha1::Sha1>::new_from_slice(salt).ok()?;
    Some(mac.chain_update(host.as_bytes()).finalize().into_bytes().to_vec())
}

/// The name of a host that says nothing to who reads the file. The salt comes from the key, so that the same host gives the
/// same line.
pub fn hash_host_name(host: &str, key: &str) -> String {
    let salt = &sha2::Sha256::digest(format!("{host} {key}"))[..20];
    let sum = hmac_sha1(salt, host).unwrap_or_default();
    format!("|1|{}|{}", STANDARD.encode(salt), STANDARD.encode(sum))
}

/// Asks a host for its keys.
pub fn scan_host_keys(
    tools: &Tools<'_>,
    host: &str,
    port: Option<&str>,
    enc: Option<&str>,
    timeout: &str,
) -> Result<Vec<KnownHostsEntry>, FunctionError> {
    if tools.which("ssh-keyscan").is_none() {
        return Err(FunctionError::failed(
            "there is no `ssh-keyscan` program on this host to ask for the key: give `key` and `enc`",
        ));
    }
    if host.starts_with('-') {
        return Err(FunctionError::failed(format!("`{host}` is no name of a host")));
    }
    let mut args: Vec<&str> = vec!["-T", timeout];
    args.extend(port.into_iter().flat_map(|p| ["-p", p]));
    args.extend(enc.into_iter().flat_map(|e| ["-t", e]));
    args.push(host);
    let output = tools.run_query("ssh-keyscan", &args)?;
    Ok(output.stdout.lines().filter_map(KnownHostsEntry::parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAAAC3NzaC1lZDI1NTE5AAAAIBqV5mKZ2m6vHqjGcz3eX8Yp3pD0lTz2FnqX2pFvYl1m";

    #[test]
    fn keys_are_read_and_written() {
        let line = format!("from=\"10.*,::1\",command=\"ssh-x \\\" y\" ssh-ed25519 {KEY} me and you");
        let key = AuthorizedKey::parse(&line).expect("a key");
        assert_eq!(key.options, ["from=\"10.*,::1\"", "command=\"ssh-x \\\" y\""]);
        assert_eq!((&*key.enc, &*key.comment), ("ssh-ed25519", "me and you"));
        assert_eq!(key.to_line(), format!("{line}\n"));
        assert_eq!(
            AuthorizedKey::parse(&format!("ssh-rsa {KEY}")).expect("a key").to_line(),
            format!("ssh-rsa {KEY} \n")
        );
        assert_eq!((AuthorizedKey::parse("# ssh-rsa AAAA"), AuthorizedKey::parse("nothing")), (None, None));
        assert!(AuthorizedKey { key: "a b".into(), ..AuthorizedKey::default() }.validation_error().is_some());
    }

    #[test]
    fn hosts_are_known_also_by_hash() {
        let known = KnownHostsEntry::parse(&format!("a.example,10.0.0.1 ssh-ed25519 {KEY}")).expect("a line");
        assert!(known.matches_host("10.0.0.1") && !known.matches_host("example"));
        let hidden = KnownHostsEntry { hosts: hash_host_name("a.example", KEY), ..known.clone() };
        assert!(hidden.matches_host("a.example") && !hidden.matches_host("b.example"));
        assert_eq!(known_hosts_name("a", Some("22")), "a");
        assert_eq!(known_hosts_name("a", Some("2222")), "[a]:2222");
        let print = fingerprint(KEY).expect("a key");
        assert!(known.has_fingerprint(&print) && !known.has_fingerprint("aa:bb"));
        // What ssh-keygen -H made of the name `localhost`.
        let made = format!("|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg= ssh-ed25519 {KEY}");
        assert!(KnownHostsEntry::parse(&made).expect("a line").matches_host("192.168.1.61"));
    }
}
