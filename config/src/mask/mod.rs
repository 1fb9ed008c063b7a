//! Texts, values and diagnostics in, the same without secrets out.
//!
//! Law: a secret is masked wherever it appears, also inside a longer text and in every form of `forms.rs`, and so is each
//! of its lines of at least [`MIN_LINE_CHARS`] characters (held by `one_rule`, `every_form_is_found`). What
//! [`is_maskable`] rejects is not masked: it occurs everywhere, and a report would become unreadable (held by
//! `ordinary_texts_stay_readable`). A text that only its key marks as a secret is readable where it is the whole name of
//! something (held by `a_name_that_equals_a_marked_secret_stays_readable`).

mod common_words;
mod diagnostic;
mod forms;
mod messages;
mod patterns;
mod secret;
pub mod secret_keys;
mod url;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::{Map, Value};

use self::patterns::Patterns;

pub use self::diagnostic::mask_pillar_excerpts;
pub use self::messages::{hide_in_messages, mask_message};
pub use self::secret::Secret;
pub use self::url::{REDACTED_LOGIN, bare_url, has_login, redact_logins};

/// Replacement for a secret.
pub const MASKED_TEXT: &str = "********";

/// Replacement for everything that a state with `no_log` reports, as in Salt.
pub const NO_LOG_TEXT: &str = "**********";

/// Replacement for the diff of a file that holds or held a secret.
pub const HIDDEN_DIFF: &str = "<not shown: the file holds or held a secret>";

/// Shorter secrets are not masked.
pub const MIN_SECRET_CHARS: usize = 4;

/// Shorter secrets of digits alone are not masked: ports, modes and counts look like them.
pub const MIN_DIGITS: usize = 6;

/// Shorter lines of a secret are not masked on their own.
pub const MIN_LINE_CHARS: usize = 6;

/// A longer line of a secret is looked for piece by piece.
const MAX_PIECE_BYTES: usize = 1024;

/// Masks secrets. A copy costs nothing.
#[derive(Clone, Default)]
pub struct SecretMask {
    patterns: Option<Arc<Patterns>>,
    /// Texts that are secrets only because of the key above them.
    marked: Arc<BTreeSet<String>>,
}

impl fmt::Debug for SecretMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "SecretMask(empty)" } else { "SecretMask(********)" })
    }
}

impl SecretMask {
    /// Masks these texts, as far as they [can be masked](is_maskable).
    #[must_use]
    pub fn new(secrets: &[Secret]) -> Self {
        let mut all = Vec::new();
        for secret in secrets.iter().map(Secret::expose).filter(|text| is_maskable(text)) {
            let text = secret.trim();
            if text.contains('\n') {
                all.extend(long_lines(text).flat_map(pieces).map(|line| (line, patterns::FormKind::Plain)));
            }
            if text.len() <= MAX_PIECE_BYTES {
                all.extend(forms::secret_forms(text));
            } else {
                all.extend(pieces(text).map(|piece| (piece, patterns::FormKind::Plain)));
                // What is encoded is found by its beginning.
                let start = pieces(text).next().unwrap_or_default();
                all.extend(forms::secret_forms(&start));
            }
        }
        Self { patterns: Patterns::new(all).map(Arc::new), marked: Arc::default() }
    }

    /// Masks texts that were decrypted, and texts that only a key such as `password` marks as secrets.
    #[must_use]
    pub fn with_marked(decrypted: &[Secret], marked: &[Secret]) -> Self {
        let all: Vec<Secret> = decrypted.iter().chain(marked).cloned().collect();
        let trimmed = |secret: &Secret| secret.expose().trim().to_owned();
        let is_decrypted: BTreeSet<String> = decrypted.iter().map(trimmed).collect();
        let marked = marked.iter().map(trimmed).filter(|text| !is_decrypted.contains(text)).collect();
        Self { marked: Arc::new(marked), ..Self::new(&all) }
    }

    /// A text about something with these names: a name that as a whole happens to equal a marked secret stays readable, because
    /// its author wrote it as a name. Decrypted texts are masked all the same.
    #[must_use]
    pub fn mask_named<'t>(&self, text: &'t str, names: &[&str]) -> Cow<'t, str> {
        self.replace(text, |secret| {
            let is_name = names.iter().any(|name| name.trim() == secret) && self.marked.contains(secret);
            if is_name { secret.into() } else { MASKED_TEXT.into() }
        })
    }

    /// The tag of a state (`state_|-id_|-name_|-fun`) with secrets masked; id and name are its names.
    #[must_use]
    pub fn mask_tag<'t>(&self, tag: &'t str) -> Cow<'t, str> {
        self.mask_named(tag, &tag.split("_|-").collect::<Vec<_>>())
    }

    /// A text with secrets masked.
    #[must_use]
    pub fn mask_string(&self, text: &str) -> String {
        self.mask_str(text).into_owned()
    }

    /// Same, without a copy when there is nothing to mask.
    #[must_use]
    pub fn mask_str<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.replace(text, |_| MASKED_TEXT.into())
    }

    /// A text with stars for every character of a secret but spaces, so that columns stay.
    #[must_use]
    pub fn mask_columns<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.replace(text, |secret| secret.chars().map(|c| if c.is_whitespace() { c } else { '*' }).collect())
    }

    /// True when there is nothing to mask.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.patterns.is_none()
    }

    /// True when there is a secret in these bytes.
    #[must_use]
    pub fn finds(&self, bytes: &[u8]) -> bool {
        self.patterns.as_ref().is_some_and(|patterns| patterns.is_match(bytes))
    }

    /// True when there is a secret in a value, or in one of its keys.
    #[must_use]
    pub fn finds_in(&self, value: &Value) -> bool {
        match value {
            _ if self.is_empty() => false,
            Value::Str(text) => self.finds(text.as_bytes()),
            Value::List(list) => list.iter().any(|v| self.finds_in(v)),
            Value::Map(map) => map.iter().any(|(key, value)| self.finds_in(key) || self.finds_in(value)),
            Value::Int(number) => self.finds(number.to_string().as_bytes()),
            _ => false,
        }
    }

    /// A value with secrets masked.
    #[must_use]
    pub fn mask_value(&self, value: &Value) -> Value {
        if self.is_empty() { value.clone() } else { self.mask_tree(value) }
    }

    /// A pillar with secrets masked, by content and by key names.
    #[must_use]
    pub fn mask_pillar(&self, value: &Value) -> Value {
        match value {
            Value::Map(map) => {
                let mut out = Map::with_capacity(map.len());
                for (key, value) in map.iter() {
                    let is_secret = key.as_str().is_some_and(secret_keys::is_secret_key);
                    let shown = if is_secret { mask_leaves(value) } else { self.mask_pillar(value) };
                    out.insert(key.clone(), shown);
                }
                out.into()
            }
            Value::List(list) => list.iter().map(|v| self.mask_pillar(v)).collect(),
            other => self.mask_tree(other),
        }
    }

    fn mask_tree(&self, value: &Value) -> Value {
        match value {
            Value::Str(text) => match self.mask_str(text) {
                Cow::Borrowed(_) => value.clone(),
                Cow::Owned(masked) => masked.into(),
            },
            Value::List(list) => list.iter().map(|v| self.mask_tree(v)).collect(),
            Value::Map(map) => map
                .iter()
                .fold(Map::with_capacity(map.len()), |mut out, (key, value)| {
                    out.insert(self.mask_tree(key), self.mask_tree(value));
                    out
                })
                .into(),
            Value::Int(number) if self.finds(number.to_string().as_bytes()) => MASKED_TEXT.into(),
            other => other.clone(),
        }
    }

    fn replace<'t>(&self, text: &'t str, mask: impl Fn(&str) -> String) -> Cow<'t, str> {
        let Some(patterns) = &self.patterns else { return Cow::Borrowed(text) };
        let ranges = patterns.ranges(text);
        if ranges.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut out, mut at) = (String::with_capacity(text.len()), 0);
        for range in ranges {
            out += &text[at..range.start];
            out += &mask(&text[range.clone()]);
            at = range.end;
        }
        out += &text[at..];
        Cow::Owned(out)
    }
}

/// True for a text that can be masked: long enough, and not a word that stands everywhere, such as `true` or `root`.
#[must_use]
pub fn is_maskable(text: &str) -> bool {
    let text = text.trim();
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    let min = if is_number { MIN_DIGITS } else { MIN_SECRET_CHARS };
    text.chars().count() >= min && !text.bytes().all(|b| b == b'*') && !common_words::is_common(text)
}

/// The lines of a text that are masked on their own; the first and last line of a PEM block are public.
fn long_lines(text: &str) -> impl Iterator<Item = &str> {
    let is_long = |line: &&str| line.chars().count() >= MIN_LINE_CHARS && is_maskable(line);
    text.lines().map(str::trim).filter(is_long).filter(|line| !line.starts_with("-----"))
}

/// A text in pieces of limited size; what is left of it at the end goes with the piece before.
fn pieces(text: &str) -> impl Iterator<Item = String> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_last = rest.len() < MAX_PIECE_BYTES + MIN_LINE_CHARS;
        let end =
            (0..=MAX_PIECE_BYTES.min(rest.len())).rev().find(|i| rest.is_char_boundary(*i)).unwrap_or(0);
        let (piece, more) = rest.split_at(if is_last { rest.len() } else { end });
        rest = more;
        (!piece.is_empty()).then(|| piece.to_owned())
    })
}

/// A value under a secret key: its keys stay, and `null` and booleans, which hold no secret; a list is masked as a whole.
fn mask_leaves(value: &Value) -> Value {
    match value {
        Value::Map(map) => map_values(map, mask_leaves),
        Value::Null | Value::Bool(_) => value.clone(),
        _ => MASKED_TEXT.into(),
    }
}

/// What a state with `no_log` may report of a value: its keys, and how many items lists have.
#[must_use]
pub fn hide_content(value: &Value) -> Value {
    match value {
        Value::Map(map) => map_values(map, hide_content),
        Value::List(items) => items.iter().map(hide_content).collect(),
        _ => NO_LOG_TEXT.into(),
    }
}

fn map_values(map: &Map, change: impl Fn(&Value) -> Value) -> Value {
    let mut out = Map::with_capacity(map.len());
    for (key, value) in map.iter() {
        out.insert(key.clone(), change(value));
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Value {
        Value::from_json_str(text).unwrap()
    }

    #[test]
    fn one_rule() {
        for (secrets, text, masked, columns) in [
            // A secret is masked with and without the space around it.
            (&["hunter2"][..], "+pass=hunter2 x", "+pass=******** x", "+pass=******* x"),
            (&["abcd\n"], "xabcd", "x********", "x****"),
            (&["p w?"], "=p w?=", "=********=", "=* **="),
            (&["p-w$"], "p-w$", "********", "****"),
            // Lines are masked from six characters on.
            (
                &["-----BEGIN\n  abcdef\nxyz\n"],
                "-----BEGIN abcdef xyz",
                "-----BEGIN ******** xyz",
                "-----BEGIN ****** xyz",
            ),
            // The longer secret first; secrets that overlap leave nothing visible.
            (&["passwd", "passwd-x"], "passwd-x passwd-", "******** passwd-", "******** passwd-"),
            (&["abcd", "cdef"], "abcdef", "********", "******"),
            (&["abcd"], "abcdabcd", "****************", "********"),
            // What is short, common or stars is left alone.
            (
                &["", " \n", "**", "abc", "True", "root", "22", "8080"],
                "a ** abc True root 8080",
                "a ** abc True root 8080",
                "a ** abc True root 8080",
            ),
            (&["123456"], "pin 123456", "pin ********", "pin ******"),
            (&[], "hunter2", "hunter2", "hunter2"),
        ] {
            let mask = SecretMask::new(&secrets.iter().map(|s| (*s).into()).collect::<Vec<_>>());
            assert_eq!(mask.mask_str(text), masked, "{secrets:?}");
            assert_eq!(mask.mask_columns(text), columns, "{secrets:?}");
            let value = |text: &str| Map::from_iter([(text, vec![Value::from(text)])]).into();
            assert_eq!(mask.mask_value(&value(text)), value(masked), "{secrets:?}");
        }
    }

    #[test]
    fn a_name_that_equals_a_marked_secret_stays_readable() {
        let mask = SecretMask::with_marked(
            &["opened-1".into(), "both-2".into()],
            &["zabbix\n".into(), "both-2".into()],
        );
        for (text, names, shown) in [
            ("database zabbix is present", &["zabbix"][..], "database zabbix is present"),
            ("database zabbix is present", &["zabbix-db"], "database ******** is present"),
            ("mysql -pzabbix", &["mysql -pzabbix"], "mysql -p********"),
            // Encoded, it is no name.
            ("zabbix emFiYml4", &["zabbix"], "zabbix ********"),
            // What was decrypted is masked also as a name.
            ("opened-1", &["opened-1"], "********"),
            ("both-2", &["both-2"], "********"),
        ] {
            assert_eq!(mask.mask_named(text, names), shown, "{names:?}");
        }
        assert_eq!(mask.mask_str("zabbix"), "********");
        assert_eq!(
            mask.mask_tag("cmd_|-zabbix_|-x zabbix both-2_|-run"),
            "cmd_|-zabbix_|-x zabbix ********_|-run"
        );
    }

    #[test]
    fn a_number_is_masked_too() {
        let mask = SecretMask::new(&["12345678".into()]);
        assert_eq!(
            mask.mask_value(&json(r#"{"a": 12345678, "b": 1234}"#)),
            json(r#"{"a": "********", "b": 1234}"#)
        );
        assert!(mask.finds_in(&json("[12345678]")) && !mask.finds_in(&json("[1234]")));
    }

    #[test]
    fn a_long_secret_is_masked_as_a_whole() {
        let long: String = (0..3000).map(|n| char::from(b'a' + (n * n % 26) as u8)).collect();
        let mask = SecretMask::new(&[long.as_str().into()]);
        let shown = mask.mask_string(&format!("x {long} y"));
        assert!(
            shown.starts_with("x *")
                && shown.ends_with("* y")
                && shown.trim_matches(['x', ' ', 'y', '*']).is_empty(),
            "{shown}"
        );
    }

    /// Comments, names and changes as runs print them: no value that a pillar commonly holds may hide a part of them.
    #[test]
    fn ordinary_texts_stay_readable() {
        let texts = include_str!("ordinary_texts.txt");
        let everyday = [
            "true",
            "false",
            "yes",
            "none",
            "null",
            "root",
            "admin",
            "user",
            "test",
            "0644",
            "0600",
            "8080",
            "22",
            "443",
            "file",
            "managed",
            "present",
            "absent",
            "running",
            "installed",
            "latest",
            "service",
            "nginx",
            "default",
            "localhost",
            "password",
            "secret",
            "token",
            "enabled",
            "disabled",
            "changeme",
            "state",
            "changed",
            "failed",
        ];
        let mask = SecretMask::new(&everyday.map(Secret::from));
        assert!(mask.is_empty());
        let mask =
            SecretMask::new(&["hunter2-of-the-canary".into(), "Tr0ub4dor&3".into(), "gXm9-2LqPz".into()]);
        assert_eq!(mask.mask_str(texts), texts);
    }

    #[test]
    fn pillar_values_with_secret_keys_are_masked() {
        for (pillar, want) in [
            (r#"{"password": "p", "user": "u"}"#, r#"{"password": "********", "user": "u"}"#),
            (r#"{"a": [{"root-password": 1}]}"#, r#"{"a": [{"root-password": "********"}]}"#),
            (r#"{"tokens": {"ci": "t", "on": true}}"#, r#"{"tokens": {"ci": "********", "on": true}}"#),
            (r#"{"token": null, "secrets": ["a", "b"]}"#, r#"{"token": null, "secrets": "********"}"#),
            (r#"{"note": "it is hunter2", "hunter2": 1}"#, r#"{"note": "it is ********", "hunter2": 1}"#),
        ] {
            assert_eq!(SecretMask::new(&["hunter2".into()]).mask_pillar(&json(pillar)), json(want));
        }
    }

    #[test]
    fn hidden_content_keeps_only_its_shape() {
        let want = json(&r#"{"a": ["S", {"b": "S"}], "c": "S"}"#.replace('S', NO_LOG_TEXT));
        assert_eq!(hide_content(&json(r#"{"a": ["x", {"b": null}], "c": true}"#)), want);
    }
}
