//! What a stateful command printed in, whether it changed something out.
//!
//! The last line of its output is `changed=yes comment='…' key=value`, or all of it is a JSON object with these keys.

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::{ApplyResult, is_salt};
use zagent_host::command_options::value_text;
use zagent_host::exec::shell_words;

/// Reads what the command said about itself; gives whether it counts as a success.
pub(crate) fn reinterpret(done: ApplyResult, succeeded: bool, compat: Compat) -> (ApplyResult, bool) {
    let raw = done.changes;
    let text = |key: &str| raw.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut told = ApplyResult { details: done.details, ..ApplyResult::default() };
    let stdout = text("stdout");
    if stdout.is_empty() {
        told.comment = text("stderr");
        return (told, succeeded);
    }
    let (mut data, before) = match parse_output(&stdout, compat) {
        Ok(read) => read,
        Err(words) => {
            told.comment = words.to_owned();
            // Output that is no object at all is not shown; what could not be taken apart is.
            if words == UNPARSABLE_OUTPUT {
                told.changes = raw;
            }
            return (told, false);
        }
    };
    let changed = match data.get("changed").map(value_text).as_deref().map(str::to_ascii_lowercase).as_deref()
    {
        Some("true" | "yes" | "1") => true,
        None | Some("false" | "no" | "0") => false,
        Some(_) => {
            let said = data.get("changed").map(value_text).unwrap_or_default();
            told.comment = format!("Failed parsing boolean value: {said}");
            return (told, false);
        }
    };
    if let Some(comment) = data.remove("comment") {
        told.comment = value_text(&comment);
    }
    if changed {
        for (key, value) in raw.iter() {
            if !data.keys().any(|k| k == key) {
                data.insert(key.clone(), value.clone());
            }
        }
        data.insert("stdout", before);
        told.changes = data;
    }
    (told, succeeded)
}

const UNPARSABLE_OUTPUT: &str =
    "Failed parsing script output! Stdout must be JSON or a line of name=value pairs.";
const NOT_AN_OBJECT: &str = "script JSON output must be a JSON object (e.g., {})!";

/// What was said, and the output before it.
fn parse_output(stdout: &str, compat: Compat) -> Result<(Map, String), &'static str> {
    match Value::from_json_str(stdout) {
        Ok(Value::Map(map)) => return Ok(((*map).clone(), String::new())),
        Ok(_) => return Err(NOT_AN_OBJECT),
        Err(_) => {}
    }
    let (before, last) = match stdout.trim_end().rfind('\n') {
        Some(at) => (&stdout[..at], &stdout[at + 1..]),
        None if is_salt(compat) => (without_last_line(stdout), stdout),
        None => ("", stdout),
    };
    let mut data = Map::new();
    for word in shell_words::split(last).ok_or(UNPARSABLE_OUTPUT)? {
        match word.split('=').collect::<Vec<_>>()[..] {
            [key, value] => data.insert(key, value),
            _ => return Err(UNPARSABLE_OUTPUT),
        };
    }
    Ok((data, before.to_owned()))
}

/// Salt cuts the last character where there is only one line.
fn without_last_line(text: &str) -> &str {
    text.char_indices().next_back().map_or("", |(at, _)| &text[..at])
}
