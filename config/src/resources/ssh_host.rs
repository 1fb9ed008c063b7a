//! The declaration of one ssh host in, its checked options out: Salt's roster keys, and `jump`.

use std::path::PathBuf;
use std::time::Duration;

use crate::mask::Secret;
use crate::suggest::nearest;
use crate::value::{Map, Value, python_str};

/// The user that logs in, when the declaration does not say.
const DEFAULT_USER: &str = "root";
/// The port, when the declaration does not say.
const DEFAULT_PORT: u16 = 22;
/// How long connecting and one command may take, when the declaration does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Seconds between two keepalive messages.
const DEFAULT_KEEPALIVE_INTERVAL: u64 = 60;
/// Keepalive messages without an answer that end a connection.
const DEFAULT_KEEPALIVE_COUNT: u64 = 3;

/// Every key of a host.
const KEYS: [&str; 20] = [
    "host",
    "user",
    "port",
    "priv",
    "passwd",
    "priv_passwd",
    "sudo",
    "sudo_user",
    "tty",
    "timeout",
    "identities_only",
    "no_host_keys",
    "ignore_host_keys",
    "known_hosts_file",
    "ssh_options",
    "keepalive",
    "keepalive_interval",
    "keepalive_count_max",
    "thin_dir",
    "jump",
];

/// A host that is reached over ssh.
#[derive(Clone, Debug, PartialEq)]
pub struct SshHost {
    /// Its address or name.
    pub host: String,
    /// The user that logs in.
    pub user: String,
    /// The port.
    pub port: u16,
    /// A private key file.
    pub key: Option<PathBuf>,
    /// The password of the user.
    pub password: Option<Secret>,
    /// The passphrase of the private key.
    pub key_passphrase: Option<Secret>,
    /// True when commands run through sudo.
    pub sudo: bool,
    /// The user that sudo changes to.
    pub sudo_user: Option<String>,
    /// True when commands get a terminal.
    pub tty: bool,
    /// How long connecting and one command may take.
    pub timeout: Duration,
    /// True when only the private key of the declaration is offered.
    pub identities_only: bool,
    /// True when the key of the host is not checked at all.
    pub no_host_keys: bool,
    /// True when an unknown key of the host is accepted; a changed one is not.
    pub ignore_host_keys: bool,
    /// The known_hosts file.
    pub known_hosts: Option<PathBuf>,
    /// More `-o` options.
    pub options: Vec<String>,
    /// Seconds between two keepalive messages, and how many may stay without an answer; `None` without keepalive.
    pub keepalive: Option<(u64, u64)>,
    /// The directory on the host for the agent's files; chosen when unset.
    pub remote_dir: Option<String>,
    /// The host to jump over.
    pub jump: Option<String>,
}

/// One error in the declaration of a host.
#[derive(Debug)]
pub(super) struct HostFault {
    /// The key of the host, when it is about one.
    pub(super) key: Option<String>,
    /// What is wrong.
    pub(super) message: String,
    /// How to fix it.
    pub(super) hint: Option<String>,
}

impl SshHost {
    /// Reads one host.
    pub(super) fn read(body: &Value) -> Result<Self, Vec<HostFault>> {
        let Some(map) = body.as_map() else {
            let message = format!("it is {}, expected a mapping with `host`", body.kind());
            return Err(vec![HostFault { key: None, message, hint: None }]);
        };
        let mut keys = HostKeys { map, faults: Vec::new() };
        keys.refuse_unknown();
        let host = Self {
            host: keys.required_word("host"),
            user: keys.word("user").unwrap_or_else(|| DEFAULT_USER.into()),
            port: keys.number("port", 1, 65_535).and_then(|n| u16::try_from(n).ok()).unwrap_or(DEFAULT_PORT),
            key: keys.word("priv").map(PathBuf::from),
            password: keys.text("passwd").map(Secret::from),
            key_passphrase: keys.text("priv_passwd").map(Secret::from),
            sudo: keys.flag("sudo"),
            sudo_user: keys.word("sudo_user"),
            tty: keys.flag("tty"),
            timeout: keys.number("timeout", 1, 86_400).map_or(DEFAULT_TIMEOUT, Duration::from_secs),
            identities_only: keys.flag("identities_only"),
            no_host_keys: keys.flag("no_host_keys"),
            ignore_host_keys: keys.flag("ignore_host_keys"),
            known_hosts: keys.word("known_hosts_file").map(PathBuf::from),
            options: keys.options(),
            keepalive: keys.keepalive(),
            remote_dir: keys.word("thin_dir"),
            jump: keys.word("jump"),
        };
        if keys.faults.is_empty() { Ok(host) } else { Err(keys.faults) }
    }
}

struct HostKeys<'m> {
    map: &'m Map,
    faults: Vec<HostFault>,
}

impl HostKeys<'_> {
    fn report(&mut self, key: &str, message: String, hint: Option<String>) {
        self.faults.push(HostFault { key: Some(key.to_owned()), message, hint });
    }

    fn refuse_unknown(&mut self) {
        let unknown: Vec<String> =
            self.map.keys().map(python_str).filter(|key| !KEYS.contains(&key.as_str())).collect();
        for key in unknown {
            let hint = nearest(&key, KEYS).map_or_else(
                || format!("known keys: {}", KEYS.join(", ")),
                |near| format!("did you mean `{near}`?"),
            );
            self.report(&key, format!("unknown key `{key}`"), Some(hint));
        }
    }

    fn get(&self, key: &str) -> Option<Value> {
        self.map.get(key).filter(|value| !value.is_null()).cloned()
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.get(key)? {
            Value::Map(_) | Value::List(_) => {
                self.report(key, "it is no text".into(), None);
                None
            }
            value => Some(python_str(&value)),
        }
    }

    /// A text that ends up as an argument of `ssh`: it is one word and no option.
    fn word(&mut self, key: &str) -> Option<String> {
        let text = self.text(key)?;
        let is_bad = text.is_empty()
            || text.starts_with('-')
            || text.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '%' | '\'' | '"'));
        if is_bad {
            let hint = "it must be one word without quotes and `%`, and must not start with `-`";
            self.report(key, format!("`{text}` cannot be used with ssh"), Some(hint.into()));
            return None;
        }
        Some(text)
    }

    fn required_word(&mut self, key: &str) -> String {
        if self.get(key).is_none() {
            let message = format!("`{key}` is missing");
            self.faults.push(HostFault { key: None, message, hint: Some(format!("add `{key}: ADDRESS`")) });
        }
        self.word(key).unwrap_or_default()
    }

    fn number(&mut self, key: &str, min: u64, max: u64) -> Option<u64> {
        let value = self.get(key)?;
        let number = match &value {
            Value::Int(n) => u64::try_from(*n).ok(),
            Value::Str(text) => text.trim().parse().ok(),
            _ => None,
        };
        let fits = number.filter(|n| (min..=max).contains(n));
        if fits.is_none() {
            let message = format!("it is {}, expected a number from {min} to {max}", python_str(&value));
            self.report(key, message, None);
        }
        fits
    }

    fn flag(&mut self, key: &str) -> bool {
        match self.get(key) {
            None => false,
            Some(Value::Bool(on)) => on,
            Some(other) => {
                self.report(key, format!("it is {}, expected `true` or `false`", other.kind()), None);
                false
            }
        }
    }

    fn options(&mut self) -> Vec<String> {
        let list = match self.get("ssh_options") {
            None => return Vec::new(),
            Some(Value::List(list)) => list.iter().map(python_str).collect(),
            Some(Value::Str(text)) => vec![text.to_string()],
            Some(other) => {
                let message = format!("it is {}, expected a list such as [Compression=yes]", other.kind());
                self.report("ssh_options", message, None);
                return Vec::new();
            }
        };
        for option in &list {
            let is_option = option
                .split_once('=')
                .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric()));
            if !is_option || option.chars().any(char::is_control) {
                let message = format!("`{option}` is not an option of ssh");
                self.report("ssh_options", message, Some("write NAME=VALUE, such as Compression=yes".into()));
            }
        }
        list
    }

    fn keepalive(&mut self) -> Option<(u64, u64)> {
        let on = self.get("keepalive").is_none() || self.flag("keepalive");
        let every = self.number("keepalive_interval", 1, 3600).unwrap_or(DEFAULT_KEEPALIVE_INTERVAL);
        let count = self.number("keepalive_count_max", 1, 100).unwrap_or(DEFAULT_KEEPALIVE_COUNT);
        on.then_some((every, count))
    }
}
