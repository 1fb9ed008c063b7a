//! Texts and values in, the same without their secrets out.
//!
//! Law: what was decrypted is hidden wherever it stands, also inside a longer text and in every line of it; in a pillar,
//! so is what its key calls a secret.

use std::borrow::Cow;

use zagent_config::{Map, Value, secret};

/// What stands for a secret.
pub const STARS: &str = "********";

/// Lines of a secret that are shorter say nothing and occur everywhere.
const SHORTEST_LINE: usize = 8;

/// Hides secrets.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    secrets: Vec<String>,
}

impl Mask {
    /// Hides these texts.
    #[must_use]
    pub fn new(secrets: &[String]) -> Self {
        let mut all: Vec<String> = Vec::new();
        for secret in secrets.iter().filter(|s| !s.trim().is_empty()) {
            all.push(secret.clone());
            let lines = secret.lines().map(str::trim).filter(|l| l.len() >= SHORTEST_LINE);
            all.extend(lines.map(str::to_owned));
        }
        // Longest first, so that a secret inside another does not leave its rest to be seen.
        all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        all.dedup();
        Self { secrets: all }
    }

    /// A text without its secrets.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        self.veil(text).into_owned()
    }

    /// The same, without a copy where there is nothing to hide.
    #[must_use]
    pub fn veil<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.secrets.iter().fold(Cow::Borrowed(text), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret.as_str(), STARS).into() } else { text }
        })
    }

    /// True when there is nothing to hide.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// A value without its secrets.
    #[must_use]
    pub fn value(&self, value: &Value) -> Value {
        if self.secrets.is_empty() { value.clone() } else { self.walk(value, false) }
    }

    /// A pillar without its secrets, by content and by the names of keys.
    #[must_use]
    pub fn pillar(&self, value: &Value) -> Value {
        self.walk(value, true)
    }

    fn walk(&self, value: &Value, by_key: bool) -> Value {
        match value {
            Value::Str(text) if self.secrets.iter().any(|s| text.contains(s.as_str())) => {
                self.text(text).into()
            }
            Value::List(list) => list.iter().map(|v| self.walk(v, by_key)).collect(),
            Value::Map(map) => {
                let mut out = Map::with_capacity(map.len());
                for (key, value) in map.iter() {
                    let hide = by_key
                        && tells(key)
                        && !matches!(value, Value::Map(_) | Value::Null | Value::Bool(_));
                    let key = if by_key { key.clone() } else { self.walk(key, false) };
                    out.insert(key, if hide { STARS.into() } else { self.walk(value, by_key) });
                }
                out.into()
            }
            other => other.clone(),
        }
    }
}

fn tells(key: &Value) -> bool {
    key.as_str().is_some_and(secret::tells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_everywhere() {
        let mask = Mask::new(&["hunter2".into(), "-----BEGIN\nabcdefghijkl\n".into(), String::new()]);
        assert_eq!(
            mask.text("+pass=hunter2\n+-----BEGIN\n+abcdefghijkl\n"),
            "+pass=********\n+********\n+********\n"
        );
        let value = Value::from_json_str(r#"{"a": ["x hunter2 y"], "n": 1}"#).unwrap();
        assert_eq!(mask.value(&value), Value::from_json_str(r#"{"a": ["x ******** y"], "n": 1}"#).unwrap());
    }

    #[test]
    fn a_pillar_hides_what_its_keys_call_secret() {
        let pillar = r#"{"db": {"password": "p", "user": "u", "root-password": 1}, "tokens": {"ci": "t"}, "token": null}"#;
        let want = r#"{"db": {"password": "********", "user": "u", "root-password": "********"}, "tokens": {"ci": "t"}, "token": null}"#;
        let got = Mask::default().pillar(&Value::from_json_str(pillar).unwrap());
        assert_eq!(got, Value::from_json_str(want).unwrap());
    }
}
