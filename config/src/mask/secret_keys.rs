//! Which key names mark their value as a secret, and which values of a pillar are secrets by that.

use super::{Secret, is_maskable};
use crate::{Map, Value};

/// Parts of a key name that mark its value as a secret.
const SECRET_MARKERS: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "private_key",
    "privkey",
    "apikey",
    "api_key",
    "credential",
    "client_key",
    "auth_key",
];

/// Ends of such a name that say something about the secret and not the secret itself: `password_file`, `token_ttl`.
const DESCRIBING_SUFFIXES: [&str; 14] = [
    "_file",
    "_path",
    "_dir",
    "_name",
    "_type",
    "_length",
    "_ttl",
    "_policy",
    "_algorithm",
    "_method",
    "_mode",
    "_user",
    "_url",
    "_header",
];

/// Keys below a secret key whose values say where or for whom, and are needed to read a report.
const NAMING_KEYS: [&str; 21] = [
    "user",
    "username",
    "login",
    "host",
    "hostname",
    "port",
    "database",
    "db",
    "name",
    "url",
    "path",
    "file",
    "mode",
    "owner",
    "group",
    "email",
    "type",
    "source",
    "comment",
    "description",
    "env",
];

/// Shorter values under a secret key are not looked for in reports.
pub const MIN_MARKED_CHARS: usize = 6;

/// Directories of a host: a value that begins with one of them is the place of a secret, not a secret.
const ROOTS: [&str; 17] = [
    "/bin/", "/boot/", "/data/", "/dev/", "/etc/", "/home/", "/lib/", "/media/", "/mnt/", "/opt/", "/proc/",
    "/root/", "/run/", "/srv/", "/tmp/", "/usr/", "/var/",
];

/// True for a key such as `root-password`.
#[must_use]
pub fn is_secret_key(key: &str) -> bool {
    // The shortest marker has five letters; most keys are out here.
    if key.len() < 5 {
        return false;
    }
    let fits = |at: &[u8], marker: &str| {
        at.len() >= marker.len()
            && at
                .iter()
                .zip(marker.bytes())
                .all(|(b, m)| b.to_ascii_lowercase() == m || (*b == b'-' && m == b'_'))
    };
    let bytes = key.as_bytes();
    (0..=bytes.len() - 5).any(|i| SECRET_MARKERS.iter().any(|marker| fits(&bytes[i..], marker)))
}

/// The values among the arguments of a state that are secrets by the names of their parameters: what [`marked_secrets`] says, and
/// also `pass` and names such as `connection_pass`.
#[must_use]
pub fn argument_secrets(args: &Map) -> Vec<Secret> {
    let mut found = Vec::new();
    for (key, value) in args.iter() {
        let name = key.as_str().unwrap_or_default();
        let is_secret = is_secret_key(name) || name == "pass" || name.ends_with("_pass");
        collect_marked(value, is_secret && !is_describing(name), &mut found);
    }
    found
}

/// The values of a pillar that its keys mark as secrets, as far as they can be masked: no places of files, no addresses, no
/// names of users or hosts beside them, no words that stand everywhere.
#[must_use]
pub fn marked_secrets(value: &Value) -> Vec<Secret> {
    let mut found = Vec::new();
    collect_marked(value, false, &mut found);
    found
}

/// All values of a document that was encrypted as a whole, by the same rule.
#[must_use]
pub fn document_secrets(value: &Value) -> Vec<Secret> {
    let mut found = Vec::new();
    collect_marked(value, true, &mut found);
    found
}

fn collect_marked(value: &Value, is_secret: bool, found: &mut Vec<Secret>) {
    match value {
        Value::Str(text) if is_secret && is_marked_secret(text) => found.push((**text).into()),
        Value::Int(number) if is_secret && is_marked_secret(&number.to_string()) => {
            found.push(number.to_string().into());
        }
        Value::List(list) => list.iter().for_each(|v| collect_marked(v, is_secret, found)),
        Value::Map(map) => {
            for (key, value) in map.iter() {
                let key = key.as_str().unwrap_or_default();
                let is_leaf = !matches!(value, Value::Map(_) | Value::List(_));
                let is_named = is_leaf && NAMING_KEYS.iter().any(|naming| key.eq_ignore_ascii_case(naming));
                collect_marked(
                    value,
                    (is_secret && !is_named) || is_secret_key(key) && !is_describing(key),
                    found,
                );
            }
        }
        _ => {}
    }
}

fn is_describing(key: &str) -> bool {
    let key = key.to_ascii_lowercase().replace('-', "_");
    DESCRIBING_SUFFIXES.iter().any(|suffix| key.ends_with(suffix))
}

fn is_marked_secret(text: &str) -> bool {
    let text = text.trim();
    let is_place = ROOTS.iter().any(|root| text.starts_with(root)) && !text.contains(char::is_whitespace);
    let is_address =
        text.split_once("://").is_some_and(|(_, rest)| !rest.contains(['@', '?']) && !rest.contains('\n'));
    text.chars().count() >= MIN_MARKED_CHARS && is_maskable(text) && !is_place && !is_address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_mark_secrets() {
        for key in ["password", "root-password", "DB_PASSWD", "tokens", "client-key", "my.secret.x", "APIKEY"]
        {
            assert!(is_secret_key(key), "{key}");
        }
        for key in ["", "pass", "user", "private", "key", "tokem", "client_kez", "name"] {
            assert!(!is_secret_key(key), "{key}");
        }
    }

    #[test]
    fn marked_values_are_secrets_unless_they_are_needed_to_read_a_report() {
        let pillar = r#"{
            "db": {"user": "appuser", "password": "hunter2", "password_file": "no-secret-1", "port": 543210},
            "credentials": {"username": "no-secret-2", "pin": 123456, "more": ["Tr0ub4dor", {"host": "no-secret-3"}]},
            "private_key": "/etc/ssl/private/web.key", "token": "true", "api_key": "abc", "auth_token": "https://h/x",
            "secret_url": "x", "client_secret": "https://u:p-w@h/", "note": "hunter3"}"#;
        let found = marked_secrets(&Value::from_json_str(pillar).unwrap());
        let found: Vec<&str> = found.iter().map(Secret::expose).collect();
        assert_eq!(found, ["hunter2", "123456", "Tr0ub4dor", "https://u:p-w@h/"]);
    }

    #[test]
    fn arguments_that_are_secrets() {
        let args = r#"{"name": "no-secret-1", "password": "hunter2", "connection_pass": "hunter3", "pass": "hunter4",
            "passes": "no-secret-2", "hash_password": true, "env": [{"DB_TOKEN": "hunter5", "LANG": "C.UTF-8"}],
            "sections": {"db": {"passwd": "hunter6", "port": 543210}}, "password_file": "no-secret-3",
            "private_key": "salt://web.key"}"#;
        let Value::Map(args) = Value::from_json_str(args).unwrap() else { panic!("no mapping") };
        let found = argument_secrets(&args);
        let found: Vec<&str> = found.iter().map(Secret::expose).collect();
        assert_eq!(found, ["hunter2", "hunter3", "hunter4", "hunter5", "hunter6"]);
    }

    #[test]
    fn every_value_of_an_encrypted_document_is_a_secret() {
        let found = document_secrets(
            &Value::from_json_str(r#"{"a": {"b": ["value-1"]}, "host": "web-01", "x": "on"}"#).unwrap(),
        );
        assert_eq!(found, [Secret::from("value-1")]);
    }
}
