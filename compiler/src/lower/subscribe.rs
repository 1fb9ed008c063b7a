//! `subscribe` of an `exec` becomes `watch`: `file#/etc/x` is `file: /etc/x`, and existing references stay unchanged.
//!
//! Law: an existing `watch` keeps its position; `link` reports what is not a reference (held by
//! `subscriptions_become_watches`).

use zagent_config::{List, Map, Pos, Value};

use crate::high::single_entry;

/// Converts the subscriptions of one state, if any; returns their positions, so that messages can say `subscribe`.
pub(super) fn lower_subscriptions(args: &mut Map) -> Vec<Pos> {
    let Some(entry) = args.entry("subscribe") else { return Vec::new() };
    let at = entry.at;
    let given = match args.remove("subscribe") {
        None | Some(Value::Null) => return Vec::new(),
        Some(Value::List(list)) => (*list).clone(),
        Some(single) => List::with_positions(vec![single], vec![at]),
    };
    let mut watched = match args.get("watch") {
        Some(Value::List(list)) => (**list).clone(),
        // A `watch` that is not a list is a separate error.
        Some(other) if other.is_truthy() => return Vec::new(),
        _ => List::default(),
    };
    let mut positions = Vec::new();
    for (reference, at) in given.into_positioned() {
        positions.push(at);
        watched.push_at(reference_of(reference), at);
    }
    args.insert_at("watch".into(), watched.into(), at);
    positions
}

/// `type#name` as `{type: name}`.
fn reference_of(value: Value) -> Value {
    let is_module =
        |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    match value.as_str().and_then(|text| text.split_once('#')) {
        Some((module, name)) if is_module(module) && !name.is_empty() => single_entry(module, name),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(json: &str) -> String {
        let mut args = Value::from_json_str(json).unwrap().as_map().unwrap().clone();
        lower_subscriptions(&mut args);
        serde_json::to_string(&Value::from(args)).unwrap()
    }

    #[test]
    fn subscriptions_become_watches() {
        for (given, want) in [
            (r#"{"subscribe":["file#/etc/x"]}"#, r#"{"watch":[{"file":"/etc/x"}]}"#),
            (r#"{"subscribe":"file#/etc/x"}"#, r#"{"watch":[{"file":"/etc/x"}]}"#),
            (r#"{"subscribe":[{"file":"/etc/x"},"an id"]}"#, r#"{"watch":[{"file":"/etc/x"},"an id"]}"#),
            (
                r#"{"watch":[{"pkg":"p"}],"subscribe":["file#/a#b"]}"#,
                r#"{"watch":[{"pkg":"p"},{"file":"/a#b"}]}"#,
            ),
            (r##"{"subscribe":["#x","a b#c","file#"]}"##, r##"{"watch":["#x","a b#c","file#"]}"##),
            (r#"{"subscribe":[7]}"#, r#"{"watch":[7]}"#),
            (r#"{"subscribe":null,"command":"x"}"#, r#"{"command":"x"}"#),
            (r#"{"command":"x"}"#, r#"{"command":"x"}"#),
        ] {
            assert_eq!(turned(given), want, "{given}");
        }
    }
}
