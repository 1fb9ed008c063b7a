//! Texts, values and diagnostics in, the same without secrets out.
//!
//! Law: a secret is masked wherever it appears, also inside a longer text, and so is each of its lines of at least
//! [`MIN_LINE_LEN`] bytes; under a key that marks a secret every value is masked (held by `tests::one_rule`).

mod diagnostic;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::ops::Range;

use crate::{Map, Value, secret_keys};

pub use self::diagnostic::mask_pillar_excerpts;

/// Replacement for a secret.
pub const MASKED_TEXT: &str = "********";

/// Replacement for everything that a state with `no_log` reports, as in Salt.
pub const NO_LOG_TEXT: &str = "**********";

/// Shorter lines of a secret are not masked: they reveal nothing and occur everywhere.
pub const MIN_LINE_LEN: usize = 4;

/// Masks secrets.
#[derive(Clone, Debug, Default)]
pub struct SecretMask {
    secrets: Vec<String>,
}

impl SecretMask {
    /// Masks these texts.
    #[must_use]
    pub fn new(secrets: &[String]) -> Self {
        let mut all: Vec<String> = Vec::new();
        for secret in secrets.iter().filter(|s| !s.trim().is_empty()) {
            all.extend([secret.clone(), secret.trim().to_owned()]);
            all.extend(long_lines(secret).map(str::to_owned));
        }
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self { secrets: all }
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
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// A value with secrets masked.
    #[must_use]
    pub fn mask_value(&self, value: &Value) -> Value {
        if self.secrets.is_empty() { value.clone() } else { self.mask_tree(value) }
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
            other => other.clone(),
        }
    }

    fn replace<'t>(&self, text: &'t str, mask: impl Fn(&str) -> String) -> Cow<'t, str> {
        let ranges = self.secret_ranges(text);
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

    /// Where the secrets are. Secrets that overlap are one range, so that no part of either stays visible.
    fn secret_ranges(&self, text: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = self
            .secrets
            .iter()
            .flat_map(|secret| text.match_indices(secret.as_str()).map(|(at, s)| at..at + s.len()))
            .collect();
        found.sort_by_key(|range| (range.start, Reverse(range.end)));
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(found.len());
        for range in found {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }
}

/// The lines of a text that are long enough to be masked on their own.
pub fn long_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| line.len() >= MIN_LINE_LEN)
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
            // A whole secret is masked at any length, with and without the space around it.
            (&["hunter2"][..], "+pass=hunter2 x", "+pass=******** x", "+pass=******* x"),
            (&["ab\n"], "cab", "c********", "c**"),
            (&["p w"], "=p w=", "=********=", "=* *="),
            (&["p-w$"], "p-w$", "********", "****"),
            // Lines are masked from four bytes on.
            (
                &["-----BEGIN\n  abcd\nxyz\n"],
                "-----BEGIN abcd xyz",
                "******** ******** xyz",
                "********** **** xyz",
            ),
            // The longer secret first; secrets that overlap leave nothing visible.
            (&["pass", "password"], "password pass", "******** ********", "******** ****"),
            (&["abcd", "cdef"], "abcdef", "********", "******"),
            (&["abcd"], "abcdabcd", "****************", "********"),
            // Neither empty secrets nor the stars themselves do harm.
            (&["", " \n", "**"], "a ** b", "a ******** b", "a ** b"),
            (&[], "hunter2", "hunter2", "hunter2"),
        ] {
            let mask = SecretMask::new(&secrets.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>());
            assert_eq!(mask.mask_str(text), masked, "{secrets:?}");
            assert_eq!(mask.mask_columns(text), columns, "{secrets:?}");
            let value = |text: &str| Map::from_iter([(text, vec![Value::from(text)])]).into();
            assert_eq!(mask.mask_value(&value(text)), value(masked), "{secrets:?}");
        }
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
