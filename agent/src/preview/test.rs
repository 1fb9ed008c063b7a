//! The `test` states: they answer from their arguments alone.

use serde_json::json;
use zagent_compiler::Chunk;
use zagent_config::Value;
use zagent_config::value::{DEFAULT_DELIMITER, traverse};

use super::{Outcome, Verdict};

/// The outcome of a `test` state; `None` for a function that is not known here.
pub(super) fn look(chunk: &Chunk, pillar: &Value) -> Option<Outcome> {
    let comment =
        |default: &str| chunk.args.get("comment").and_then(Value::as_str).unwrap_or(default).to_owned();
    Some(match &*chunk.fun {
        "nop" => Outcome::unchanged("Success!"),
        "succeed_without_changes" => Outcome::unchanged(comment("Success!")),
        "fail_without_changes" => Outcome::would_fail("it is made to fail"),
        "succeed_with_changes" => Outcome::would_change("it is made to change something", pretended()),
        "fail_with_changes" => Outcome::would_change("it is made to change something and fail", pretended()),
        "configurable_test_state" => configurable(chunk),
        "show_notification" => match chunk.args.get("text").and_then(Value::as_str) {
            Some(text) if !text.is_empty() => Outcome::unchanged(text),
            _ => Outcome::would_fail("`text` is missing"),
        },
        "check_pillar" => check_pillar(chunk, pillar),
        _ => return None,
    })
}

fn pretended() -> serde_json::Map<String, serde_json::Value> {
    let mut changes = serde_json::Map::new();
    changes.insert("testing".into(), json!({"old": "Unchanged", "new": "Something pretended to change"}));
    changes
}

fn configurable(chunk: &Chunk) -> Outcome {
    let args = &chunk.args;
    let fails = args.get("result") == Some(&Value::Bool(false))
        && args.get("allow_test_mode_failure").is_some_and(Value::is_truthy);
    let changes = match args.get("changes") {
        None | Some(Value::Bool(true)) => true,
        Some(Value::Bool(false)) => false,
        Some(Value::Str(s)) if s.eq_ignore_ascii_case("random") => {
            return Outcome::unknown("its changes are random");
        }
        Some(_) => return Outcome::would_fail("`changes` must be True, False or Random"),
    };
    let mut outcome = match (fails, changes) {
        (true, _) => Outcome::would_fail("it is made to fail"),
        (false, true) => Outcome::would_change("it is made to change something", pretended()),
        (false, false) => Outcome::unchanged("it is made to stay as it is"),
    };
    if changes {
        outcome.changes = pretended();
    }
    outcome
}

/// `present`, and one list of keys a type.
fn check_pillar(chunk: &Chunk, pillar: &Value) -> Outcome {
    type Check = (&'static str, fn(&Value) -> bool);
    let checks: [Check; 6] = [
        ("present", |_| true),
        ("boolean", |v| v.as_bool().is_some()),
        ("integer", |v| matches!(v, Value::Int(_) | Value::Big(_) | Value::Bool(_))),
        ("string", |v| v.as_str().is_some()),
        ("listing", |v| v.as_list().is_some()),
        ("dictionary", |v| v.as_map().is_some()),
    ];
    let mut wrong = Vec::new();
    for (key, fits) in checks {
        let keys: Vec<&str> = match chunk.args.get(key) {
            Some(Value::Str(one)) => vec![one],
            Some(Value::List(many)) => many.iter().filter_map(Value::as_str).collect(),
            _ => continue,
        };
        for path in keys {
            match traverse(pillar, path, DEFAULT_DELIMITER) {
                None | Some(Value::Null) => wrong.push(format!("pillar key `{path}` is missing")),
                Some(value) if !fits(value) => {
                    wrong.push(format!("pillar key `{path}` is {}, not {key}", value.kind()));
                }
                Some(_) => {}
            }
        }
    }
    if wrong.is_empty() {
        return Outcome::unchanged("every pillar key is there");
    }
    Outcome { verdict: Verdict::WouldFail, ..Outcome::unchanged(wrong.join("; ")) }
}
