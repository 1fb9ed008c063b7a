//! Texts and values in, the same without secrets out.
//!
//! Law: decrypted text is masked wherever it appears, also inside a longer text and in each of its lines; in
//! a pillar, values with secret key names are masked as well.

use std::borrow::Cow;

use crate::{Map, Value, secret_keys};

/// Replacement for a secret.
pub const MASKED_TEXT: &str = "********";

/// Shorter lines of a secret are not masked: they reveal nothing and occur everywhere.
const MIN_LINE_LEN: usize = 8;

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
            all.push(secret.clone());
            let lines = secret.lines().map(str::trim).filter(|l| l.len() >= MIN_LINE_LEN);
            all.extend(lines.map(str::to_owned));
        }
        // Longest first, so that a secret inside another does not leave the rest visible.
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
        self.secrets.iter().fold(Cow::Borrowed(text), |text, secret| {
            if text.contains(secret.as_str()) {
                text.replace(secret.as_str(), MASKED_TEXT).into()
            } else {
                text
            }
        })
    }

    /// True when there is nothing to mask.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// A value with secrets masked.
    #[must_use]
    pub fn mask_value(&self, value: &Value) -> Value {
        if self.secrets.is_empty() { value.clone() } else { self.mask_tree(value, false) }
    }

    /// A pillar with secrets masked, by content and by key names.
    #[must_use]
    pub fn mask_pillar(&self, value: &Value) -> Value {
        self.mask_tree(value, true)
    }

    fn mask_tree(&self, value: &Value, by_key: bool) -> Value {
        match value {
            Value::Str(text) if self.secrets.iter().any(|s| text.contains(s.as_str())) => {
                self.mask_string(text).into()
            }
            Value::List(list) => list.iter().map(|v| self.mask_tree(v, by_key)).collect(),
            Value::Map(map) => {
                let mut out = Map::with_capacity(map.len());
                for (key, value) in map.iter() {
                    let hide = by_key
                        && is_secret_key(key)
                        && !matches!(value, Value::Map(_) | Value::Null | Value::Bool(_));
                    let key = if by_key { key.clone() } else { self.mask_tree(key, false) };
                    out.insert(key, if hide { MASKED_TEXT.into() } else { self.mask_tree(value, by_key) });
                }
                out.into()
            }
            other => other.clone(),
        }
    }
}

fn is_secret_key(key: &Value) -> bool {
    key.as_str().is_some_and(secret_keys::is_secret_key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_everywhere() {
        let mask = SecretMask::new(&["hunter2".into(), "-----BEGIN\nabcdefghijkl\n".into(), String::new()]);
        assert_eq!(
            mask.mask_string("+pass=hunter2\n+-----BEGIN\n+abcdefghijkl\n"),
            "+pass=********\n+********\n+********\n"
        );
        let value = Value::from_json_str(r#"{"a": ["x hunter2 y"], "n": 1}"#).unwrap();
        assert_eq!(
            mask.mask_value(&value),
            Value::from_json_str(r#"{"a": ["x ******** y"], "n": 1}"#).unwrap()
        );
    }

    #[test]
    fn pillar_values_with_secret_keys_are_masked() {
        let pillar = r#"{"db": {"password": "p", "user": "u", "root-password": 1}, "tokens": {"ci": "t"}, "token": null}"#;
        let want = r#"{"db": {"password": "********", "user": "u", "root-password": "********"}, "tokens": {"ci": "t"}, "token": null}"#;
        let got = SecretMask::default().mask_pillar(&Value::from_json_str(pillar).unwrap());
        assert_eq!(got, Value::from_json_str(want).unwrap());
    }
}
