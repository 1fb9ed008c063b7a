//! A host that is not here: recorded facts, and no answer for what only a machine can say.
//!
//! Law: whatever a template asks, no program is started, and no file and no variable of the machine that compiles is read
//! (held by `a_check_starts_nothing_and_shows_nothing`).
//! Its clock is the only thing that is.

use std::sync::Arc;

use zagent_compiler::{CallError, Cipher, FunctionCall, TemplateHost};
use zagent_config::mask::Secret;
use zagent_config::{Map, Value};

use crate::functions;
use crate::template_host::recorded_facts::RecordedFacts;
use zagent_host::Machine;
use zagent_host::facts::Grains;

/// The key of an inventory file under which answers of functions may be recorded:
/// `functions: {"pkg.version": {"nginx": "1.22"}, "cmd.run": {"hostname": "web-01"}, "status.time": "2024"}`.
///
/// An answer is found by the function's name and its first argument; a value that is no mapping answers every call.
pub const RECORDED_FUNCTIONS_KEY: &str = "functions";

/// A host known by its recorded facts.
pub struct RecordedHost {
    grains: Arc<dyn Grains>,
    answers: Map,
    /// The machine that asks, for its clock.
    machine: Machine,
}

/// Why a recorded host starts nothing.
const NO_PROGRAMS: &str = "a compile for a recorded host starts no program";

impl RecordedHost {
    /// A host with these facts and these answers.
    #[must_use]
    pub fn new(grains: Arc<dyn Grains>, answers: Map) -> Self {
        Self { grains, answers, machine: Machine::this_host().without_programs(NO_PROGRAMS) }
    }

    /// A host as an inventory file records it.
    #[must_use]
    pub fn from_inventory(recorded: &Value) -> Self {
        let (facts, answers) = Self::inventory_facts(recorded);
        Self::new(facts, answers)
    }

    /// The facts and the answers of an inventory file.
    #[must_use]
    pub fn inventory_facts(recorded: &Value) -> (Arc<dyn Grains>, Map) {
        let mut facts = recorded.as_map().cloned().unwrap_or_default();
        let answers = facts
            .remove(RECORDED_FUNCTIONS_KEY)
            .and_then(|answers| answers.as_map().cloned())
            .unwrap_or_default();
        (Arc::new(RecordedFacts::new(facts)), answers)
    }

    fn recorded_answer(&self, call: &FunctionCall) -> Option<Value> {
        match (self.answers.get(&call.function)?, call.args.first()) {
            (Value::Map(by_argument), Some(first)) => by_argument.get_value(first).cloned(),
            (Value::Map(_), None) => None,
            (fixed, _) => Some(fixed.clone()),
        }
    }
}

/// How the answer of a call is recorded.
fn answer_example(call: &FunctionCall) -> String {
    let name = &call.function;
    match call.args.first().and_then(Value::as_str) {
        Some(first) => format!("{{{name}: {{{}: ANSWER}}}}", serde_json::Value::from(first)),
        None => format!("{{{name}: ANSWER}}"),
    }
}

/// Lots for a host that is not here: always the lowest, so that two compiles of one tree are equal.
fn fixed_random(call: &FunctionCall) -> Value {
    let number = |i: usize, default| call.args.get(i).and_then(Value::as_int).unwrap_or(default);
    let count = |n: i64| usize::try_from(n.clamp(0, 1 << 16)).unwrap_or(0);
    if call.function == "random.get_str" {
        return "a".repeat(count(number(0, 20))).into();
    }
    vec![Value::Int(0); count(number(1, 1))].into()
}

impl TemplateHost for RecordedHost {
    fn grain(&self, name: &str) -> Option<Value> {
        self.grains.get(name)
    }

    fn grains(&self) -> Value {
        self.grains.all()
    }

    fn call(&self, call: &FunctionCall) -> Result<Value, CallError> {
        if let Some(answer) = self.recorded_answer(call) {
            return Ok(answer);
        }
        match call.function.as_str() {
            name if name.starts_with("log.") => return Ok(true.into()),
            "zagent.random" | "random.get_str" => return Ok(fixed_random(call)),
            "zagent.now" | "zagent.utc_offset" => {
                return functions::call_from_template(&self.machine, call);
            }
            _ => {}
        }
        if call.function == "network.get_fqdn" {
            return Ok(self.grains.get("fqdn").unwrap_or_default());
        }
        if !self.functions().contains(&call.function.as_str()) {
            return Err(CallError::Unknown);
        }
        Err(CallError::Unavailable {
            message: "a recorded host cannot answer it, and the machine that compiles is never asked".into(),
            hint: format!(
                "record the answer in inventory/NODE.yaml: `{RECORDED_FUNCTIONS_KEY}: {}`",
                answer_example(call)
            ),
        })
    }

    fn functions(&self) -> Vec<&'static str> {
        let mut names = functions::names_including(&self.answers);
        names.push("network.get_fqdn");
        names
    }

    fn decrypt(&self, _: Cipher, _: &str) -> Result<Secret, String> {
        Ok("(a secret of a recorded host)".into())
    }

    fn external_pillar(&self, _: &Value) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_answers_and_refusals() {
        let answers =
            r#"{"pkg.version": {"nginx": "1.22"}, "status.time": "2024", "postgres.psql_query": []}"#;
        let answers = Value::from_json_str(answers).unwrap().as_map().cloned().unwrap();
        let facts = Arc::new(RecordedFacts::from_json(r#"{"os": "Debian"}"#).unwrap());
        let host = RecordedHost::new(facts, answers);
        let call = |function: &str, args: &[&str]| {
            let args = args.iter().map(|a| Value::from(*a)).collect();
            host.call(&FunctionCall { function: function.into(), args, kwargs: Map::new() })
        };
        assert_eq!(call("pkg.version", &["nginx"]), Ok("1.22".into()));
        assert_eq!(call("status.time", &["%Y"]), Ok("2024".into()));
        assert_eq!(call("log.error", &["x"]), Ok(true.into()));
        assert_eq!(call("no.such", &[]), Err(CallError::Unknown));
        assert_eq!(call("random.get_str", &[]), Ok("a".repeat(20).into()));
        let refused = call("pkg.version", &["bash"]);
        assert!(
            matches!(&refused, Err(CallError::Unavailable { hint, .. }) if hint.ends_with(r#"`functions: {pkg.version: {"bash": ANSWER}}`"#)),
            "{refused:?}"
        );
        assert!(host.functions().contains(&"postgres.psql_query") && !host.functions().contains(&"dig.A"));
    }
}
