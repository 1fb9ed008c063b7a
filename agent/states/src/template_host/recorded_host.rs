//! A host that is not here: recorded facts, and no answer for what only a machine can say.

use std::sync::Arc;

use zagent_compiler::{CallError, Cipher, FunctionCall, TemplateHost};
use zagent_config::mask::Secret;
use zagent_config::{Map, Value};

use crate::functions;
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

impl RecordedHost {
    /// A host with these facts and these answers; the time is that of `machine`.
    #[must_use]
    pub const fn new(grains: Arc<dyn Grains>, answers: Map, machine: Machine) -> Self {
        Self { grains, answers, machine }
    }

    fn recorded_answer(&self, call: &FunctionCall) -> Option<Value> {
        match (self.answers.get(&call.function)?, call.args.first()) {
            (Value::Map(by_argument), Some(first)) => by_argument.get_value(first).cloned(),
            (Value::Map(_), None) => None,
            (fixed, _) => Some(fixed.clone()),
        }
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
        let name = &call.function;
        Err(CallError::Failed(format!(
            "`{name}` is not available for a recorded host; its answer can be recorded under `{RECORDED_FUNCTIONS_KEY}` in the inventory"
        )))
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
    use crate::template_host::recorded_facts::RecordedFacts;

    #[test]
    fn recorded_answers_and_refusals() {
        let answers =
            r#"{"pkg.version": {"nginx": "1.22"}, "status.time": "2024", "postgres.psql_query": []}"#;
        let answers = Value::from_json_str(answers).unwrap().as_map().cloned().unwrap();
        let facts = Arc::new(RecordedFacts::from_json(r#"{"os": "Debian"}"#).unwrap());
        let host = RecordedHost::new(facts, answers, Machine::this_host());
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
            matches!(&refused, Err(CallError::Failed(w)) if w.contains("not available for a recorded host"))
        );
        assert!(host.functions().contains(&"postgres.psql_query") && !host.functions().contains(&"dig.A"));
    }
}
