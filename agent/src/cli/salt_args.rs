//! `name key=value` in, positional and named values out, parsed as salt-call does.
//!
//! Law: a value is parsed as YAML only when nothing is lost: text that was typed stays text (held by
//! `values_are_parsed_as_in_salt`).

use zagent_compiler::{TreeLimits, schema, yaml};
use zagent_config::suggest::nearest;
use zagent_config::{Map, Value};

use super::run_args::RunOptionArgs;
use super::tree_args::TreeArgs;
use zagent_daemon::error::AgentError;

/// Arguments of a command line.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SaltArgs {
    /// Arguments without a key, as typed.
    pub(super) positional: Vec<String>,
    /// Arguments with a key.
    pub(super) named: Map,
}

/// Keys that apply to any run.
pub(super) const RUN_KEYS: [&str; 3] = ["test", "pillar", "saltenv"];

impl SaltArgs {
    pub(super) fn new(words: &[String]) -> Self {
        let mut all = Self::default();
        for word in words {
            match split_key_value(word) {
                Some((key, text)) => {
                    all.named.insert(key, parse_value(text));
                }
                None => all.positional.push(word.clone()),
            }
        }
        all
    }

    /// Takes out the keys of the run itself: `test=`, `pillar=`, `saltenv=`.
    pub(super) fn take_run_keys(
        &mut self,
        tree: &mut TreeArgs,
        order: &mut RunOptionArgs,
    ) -> Result<(), AgentError> {
        if let Some(test) = self.named.remove("test") {
            order.test |= test.is_truthy();
        }
        if let Some(env) = self.named.remove("saltenv").filter(|v| !v.is_null()) {
            tree.saltenv = Some(zagent_config::value::python_str(&env));
        }
        match self.named.remove("pillar") {
            None | Some(Value::Null) => {}
            Some(pillar @ Value::Map(_)) => {
                tree.pillar_data = Some(serde_json::to_string(&pillar).unwrap_or_default());
            }
            Some(other) => {
                let message = format!("`pillar=` is {}, expected a mapping", other.kind());
                return Err(AgentError::usage_hint(
                    message,
                    "example: pillar='{\"nginx\": {\"workers\": 4}}'",
                ));
            }
        }
        tree.test = order.test;
        Ok(())
    }

    /// Rejects the remaining named arguments.
    pub(super) fn reject_named(&self, known: &[&'static str]) -> Result<(), AgentError> {
        let Some(key) = self.named.keys().next().and_then(Value::as_str) else { return Ok(()) };
        let keys = || RUN_KEYS.iter().chain(known).copied();
        let hint = match nearest(key, keys()) {
            Some(near) => format!("did you mean `{near}=`?"),
            None => format!("known keys: {}", keys().map(|k| format!("{k}=")).collect::<Vec<_>>().join(", ")),
        };
        Err(AgentError::usage_hint(format!("unknown argument `{key}`"), hint))
    }

    /// Rejects keys that a state function does not have; where it accepts any key, rejects likely typing
    /// errors. A mistyped `test=True` must not change the host.
    pub(super) fn reject_unknown_keys(
        &self,
        function: schema::StateFunction,
        written: &str,
    ) -> Result<(), AgentError> {
        let marks = function.describe().map(|d| d.traits);
        if marks.is_some_and(|m| m.takes_any) {
            return self.reject_mistyped_test(written);
        }
        let own = function.parameters();
        for key in self.named.keys().filter_map(Value::as_str) {
            let is_known = key == "name" || key.starts_with("__") || own.contains(&key);
            if is_known || schema::keyword(key).is_some() {
                continue;
            }
            let near = nearest(key, RUN_KEYS.into_iter().chain(own.iter().copied()));
            let hint =
                match near.or_else(|| function.nearest_parameter(key).filter(|_| !function.takes_any())) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if function.takes_any() => continue,
                    None => format!("parameters: {}", own.join(", ")),
                };
            return Err(AgentError::usage_hint(format!("`{written}` has no parameter `{key}`"), hint));
        }
        Ok(())
    }

    /// Rejects what can only be a mistyped `test=True`, where any key is accepted.
    pub(super) fn reject_mistyped_test(&self, written: &str) -> Result<(), AgentError> {
        let is_flag = |value: &Value| matches!(value, Value::Bool(_));
        let slip = |key: &&str| nearest(key, ["test"]).is_some();
        let keys = self.named.iter().filter(|(_, value)| is_flag(value)).filter_map(|(key, _)| key.as_str());
        match keys.into_iter().find(slip) {
            None => Ok(()),
            Some(key) => {
                let message =
                    format!("`{key}` looks like a typing error: `{written}` would not be a dry run");
                Err(AgentError::usage_hint(message, "did you mean `test`?"))
            }
        }
    }

    /// Rejects all arguments without a key.
    pub(super) fn reject_positional(&self, hint: &str) -> Result<(), AgentError> {
        match self.positional.first() {
            None => Ok(()),
            Some(word) => Err(AgentError::usage_hint(format!("unexpected argument `{word}`"), hint)),
        }
    }
}

/// Splits `key=value`: the key is a word, and the value does not start with `=`.
fn split_key_value(word: &str) -> Option<(&str, &str)> {
    let (key, text) = word.split_once('=')?;
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    let begins = key.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_');
    (begins && key.chars().all(is_word) && !text.starts_with('=')).then_some((key, text))
}

/// Parses a value as typed: YAML, unless that would lose something.
pub(super) fn parse_value(text: &str) -> Value {
    let as_typed = || Value::from(text);
    let is_number_like = text.contains('_') && text.trim().chars().all(|c| c.is_ascii_digit() || c == '_');
    let is_bare = matches!(text.trim(), "" | "---" | "...");
    if is_bare || is_number_like || text.contains(['\t', '\r', '\n']) {
        return as_typed();
    }
    if text == "None" {
        return Value::Null;
    }
    let Ok(read) = yaml::load(text, &TreeLimits::default()) else { return as_typed() };
    match &read {
        // YAML would drop the comment.
        Value::Str(_) | Value::Null if text.contains('#') => as_typed(),
        // `a: b` and `- a` are more likely sentences than data.
        Value::Map(_) if !text.starts_with('{') => as_typed(),
        Value::List(_) if !text.starts_with('[') => as_typed(),
        Value::Str(s) if s.is_empty() && matches!(text, "|" | "!") => as_typed(),
        Value::Null if text == "!" => as_typed(),
        _ => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_as_in_salt() {
        let json = |text: &str| serde_json::to_string(&parse_value(text)).unwrap();
        for (text, want) in [
            ("vim", r#""vim""#),
            ("True", "true"),
            ("no", "false"),
            ("0644", "644"),
            ("'0644'", r#""0644""#),
            ("1_000", r#""1_000""#),
            ("1.5", "1.5"),
            ("None", "null"),
            ("null", "null"),
            ("", r#""""#),
            ("---", r##""---""##),
            ("[1, a]", r#"[1,"a"]"#),
            (r#"{"a": {"b": 1}}"#, r#"{"a":{"b":1}}"#),
            ("a: b", r#""a: b""#),
            ("- a", r#""- a""#),
            ("a #b", r##""a #b""##),
            ("#", r##""#""##),
            ("[1] #x", "[1]"),
            ("!", r#""!""#),
            ("|", r#""|""#),
            ("two\nlines", r#""two\nlines""#),
            ("{broken", r#""{broken""#),
        ] {
            assert_eq!(json(text), want, "{text}");
        }
    }

    #[test]
    fn keys_are_words() {
        let words = |list: &[&str]| SaltArgs::new(&list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        let read = words(&["/etc/motd", "contents=a=b", "1=2", "a==b", "x.y-z=1", "=v", "a b=c"]);
        assert_eq!(read.positional, ["/etc/motd", "1=2", "a==b", "=v", "a b=c"]);
        assert_eq!(serde_json::to_string(&read.named).unwrap(), r#"{"contents":"a=b","x.y-z":1}"#);
    }

    #[test]
    fn keys_of_the_run_are_taken_out() {
        let (mut tree, mut order) = (TreeArgs::default(), RunOptionArgs::default());
        let list = ["test=True", "pillar={\"a\": 1}", "saltenv=dev", "mods=x"].map(str::to_owned);
        let mut words = SaltArgs::new(&list);
        words.take_run_keys(&mut tree, &mut order).unwrap();
        assert!(order.test && tree.test);
        assert_eq!((tree.saltenv.as_deref(), tree.pillar_data.as_deref()), (Some("dev"), Some(r#"{"a":1}"#)));
        assert!(words.reject_named(&["mod"]).is_err_and(
            |t| matches!(t, AgentError::Usage { hint: Some(h), .. } if h == "did you mean `mod=`?")
        ));
        let mut bad = SaltArgs::new(&["pillar=[1]".to_owned()]);
        assert!(bad.take_run_keys(&mut tree, &mut order).is_err());
    }
}
