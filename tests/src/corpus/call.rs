//! A command and a staged case in, the program's answer out.
//!
//! A panic, a refused command line and empty output are errors of the program, never an answer.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::Value;

use super::{Ask, Mismatch, Staged};

/// Exit code of a wrong command line (DESIGN of exit codes: usage or configuration).
const USAGE: u8 = 2;

/// The output of the program.
#[derive(Clone, Debug)]
pub enum Answer {
    /// It printed data.
    Data(Value),
    /// It refuses the states; the messages.
    Refused(String),
}

/// Runs the program, in this process, on a case.
///
/// # Errors
/// Fails when the program panics, refuses its command line, or prints nothing that can be parsed.
pub fn answer(ask: Ask, staged: &Staged) -> Result<Answer, Mismatch> {
    let unmask: &[&str] = if ask == Ask::Pillar { &["--unmask"] } else { &[] };
    let said = call(ask.name(), &[&["show", ask.name()], unmask].concat(), staged)?;
    // A pillar may have a single key that equals the name of a node.
    Ok(if ask == Ask::Pillar { said } else { said.unwrapped(staged.id()) })
}

/// Runs a case with the program, in this process, and returns its report.
///
/// # Errors
/// Fails as [`answer`] does.
pub fn report(is_test: bool, staged: &Staged) -> Result<Answer, Mismatch> {
    let test: &[&str] = if is_test { &["--test"] } else { &[] };
    call("run", &[&["run", "--once"], test].concat(), staged).map(|said| said.unwrapped(staged.id()))
}

fn call(name: &str, words: &[&str], staged: &Staged) -> Result<Answer, Mismatch> {
    let mut args: Vec<OsString> = vec!["zagent".into()];
    args.extend(words.iter().map(Into::into));
    args.extend(staged.options().iter().cloned());
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let code =
        catch_unwind(AssertUnwindSafe(|| zagent::cli::run(args, &mut out, &mut err, (false, false)) as u8))
            .map_err(|_| Mismatch(format!("{name}: panicked")))?;
    read(name, code, &String::from_utf8_lossy(&out), &String::from_utf8_lossy(&err))
}

fn read(name: &str, code: u8, out: &str, err: &str) -> Result<Answer, Mismatch> {
    if code == USAGE {
        return Err(Mismatch(format!("{name}: command line refused: {}", err.trim())));
    }
    let Ok(data) = serde_json::from_str::<Value>(out) else {
        if code == 0 {
            return Err(Mismatch(format!("{name}: exit 0, but no JSON: {out:?}")));
        }
        return Ok(Answer::Refused(if err.trim().is_empty() { out } else { err }.trim().to_owned()));
    };
    Ok(Answer::of(data))
}

impl Answer {
    fn of(data: Value) -> Self {
        match refusal(&data) {
            Some(words) => Self::Refused(words),
            None => Self::Data(data),
        }
    }

    fn unwrapped(self, id: &str) -> Self {
        match self {
            Self::Data(data) => Self::of(unwrap_minion(data, id)),
            refused => refused,
        }
    }
}

/// Salt's own tools print `{minion: answer}`.
fn unwrap_minion(data: Value, id: &str) -> Value {
    match data {
        Value::Object(map) if map.len() == 1 && map.keys().all(|key| key == "local" || key == id) => {
            map.into_iter().next().map_or(Value::Null, |(_, answer)| answer)
        }
        other => other,
    }
}

fn refusal(data: &Value) -> Option<String> {
    let words = match data {
        Value::Object(map) if !map.contains_key("states") => map.get("errors")?.as_array()?,
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_string) => items,
        _ => return None,
    };
    Some(words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" / "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u8, out: &str, err: &str) -> Result<Answer, Mismatch> {
        read("lowstate", code, out, err).map(|said| said.unwrapped("testminion"))
    }

    #[test]
    fn data_is_unwrapped_from_the_name_of_the_node() {
        assert!(matches!(of(0, r#"{"local": [1]}"#, ""), Ok(Answer::Data(Value::Array(_)))));
        assert!(
            matches!(of(0, r#"{"testminion": {}}"#, ""), Ok(Answer::Data(Value::Object(map))) if map.is_empty())
        );
    }

    #[test]
    fn errors_are_a_refusal_in_every_shape() {
        for (code, out, err) in [
            (65, r#"{"success": false, "errors": [{"code": "ZA0101"}]}"#, ""),
            (0, r#"["words"]"#, ""),
            (65, "", "words"),
        ] {
            assert!(matches!(of(code, out, err), Ok(Answer::Refused(_))), "{out}");
        }
    }

    #[test]
    fn empty_output_and_usage_errors_are_not_answers() {
        assert!(of(0, "", "").is_err());
        assert!(of(2, "", "error: unexpected argument").is_err());
    }
}
