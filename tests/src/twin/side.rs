//! A plan in, the actions and the result of one side out.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Plan, imprint};
use crate::container::{Node, program};

/// The time limit of an application.
const LONG: Duration = Duration::from_secs(400);

/// The actions and the result.
#[derive(Clone, Debug)]
pub struct Side {
    /// The dry run, by tag; Salt runs none.
    pub trial: Value,
    /// The results of the run, by tag; or the error.
    pub first: Value,
    /// Those of the second run.
    pub second: Value,
    /// The remaining state of the host.
    pub left: Value,
}

/// Salt's result, from the recording or, without a matching one, from a run.
///
/// # Panics
/// When there is no recording and no Salt.
#[must_use]
pub fn record(plan: &Plan, twins: &Path, salt: Option<&Path>) -> Side {
    let path = twins.join(format!("{}.json", plan.name));
    let kept = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let fits = |kept: &Value| kept["key"] == plan.key().as_str();
    let kept = kept.filter(fits).unwrap_or_else(|| {
        let salt = salt.unwrap_or_else(|| panic!("no recording of {} and no SALT", plan.name));
        let fresh = by_salt(plan, salt);
        fs::create_dir_all(twins).expect("a directory for recordings");
        fs::write(&path, serde_json::to_string_pretty(&fresh).expect("JSON")).expect("a recording");
        fresh
    });
    Side {
        trial: Value::Null,
        first: kept["first"].clone(),
        second: kept["second"].clone(),
        left: kept["left"].clone(),
    }
}

fn by_salt(plan: &Plan, salt: &Path) -> Value {
    let salt = salt.canonicalize().expect("the directory of Salt");
    // The interpreter is included, so that the host needs no Python.
    let python = salt.join("bin/python3").canonicalize().expect("an interpreter");
    let prefix: PathBuf = python.ancestors().nth(2).expect("a program is in PREFIX/bin").to_owned();
    let mut binds = vec![salt.display().to_string()];
    if !prefix.starts_with("/usr") && !prefix.starts_with(&salt) {
        binds.push(prefix.display().to_string());
    }
    let node = prepare(plan, binds);
    let call = format!(
        "{}/bin/salt-call --local --file-root=/srv/states --pillar-root=/srv/pillar --log-file=/dev/null -l critical --out json state.apply {}",
        salt.display(),
        plan.sls.join(",")
    );
    let go = || {
        let said = node.shell(&call, LONG);
        let text = said.out.find('{').map_or("", |at| &said.out[at..]);
        match serde_json::from_str::<Value>(text) {
            Ok(report) if report["local"].is_object() => slim(&report["local"]),
            Ok(report) => json!({ "error": report["local"] }),
            Err(_) => json!({ "error": format!("{}: {}{}", said.code, said.out, said.err) }),
        }
    };
    let first = go();
    let left = imprint(&node);
    json!({ "key": plan.key(), "first": first, "left": left, "second": go() })
}

/// zagent's result.
#[must_use]
pub fn zagent(plan: &Plan) -> Side {
    let node = prepare(
        plan,
        vec![format!("{}:/usr/bin/zagent", program().canonicalize().expect("the program").display())],
    );
    let order = std::env::var("SCHEDULE").map_or_else(|_| String::new(), |s| format!("--schedule {s}"));
    let call = |more: &str| {
        let words = format!(
            "zagent state.apply {} --states /srv/states --pillar /srv/pillar --out json {order} {} {more}",
            plan.sls.join(","),
            plan.options
        );
        let said = node.shell(&words, LONG);
        match serde_json::from_str::<Value>(&said.out) {
            Ok(report) if report["states"].is_object() => slim(&report["states"]),
            _ => json!({ "error": format!("{}: {}{}", said.code, said.out, said.err) }),
        }
    };
    let trial = call("--test");
    let first = call("");
    let left = imprint(&node);
    Side { trial, first, second: call(""), left }
}

fn prepare(plan: &Plan, mut binds: Vec<String>) -> Node {
    binds.push(format!("{}:/srv/states", plan.dir.canonicalize().expect("the formula").display()));
    let node = Node::usual(&binds);
    let mut names = Vec::new();
    if plan.example {
        node.write("/srv/pillar/example.sls", plan.example_text());
        names.push("example");
    }
    if !plan.pillar.is_empty() {
        node.write("/srv/pillar/overlay.sls", &plan.pillar);
        names.push("overlay");
    }
    node.write("/srv/pillar/top.sls", format!("base: {{'*': {names:?}}}\n"));
    if !plan.setup.is_empty() {
        let script = format!("set -e\nexport DEBIAN_FRONTEND=noninteractive\n{}", plan.setup);
        let said = node.shell(&script, LONG);
        assert_eq!(said.code, 0, "setup of {}: {}{}", plan.name, said.out, said.err);
    }
    node
}

/// The parts of the results that are compared.
fn slim(states: &Value) -> Value {
    let one = |(tag, state): (&String, &Value)| {
        let changed = state["changes"].as_object().is_some_and(|c| !c.is_empty());
        let unknown = state["details"]["unknown"] == true;
        let comment: String = state["comment"].as_str().unwrap_or_default().chars().take(400).collect();
        let changes: String = state["changes"].to_string().chars().take(600).collect();
        let slim = json!({
            "result": state["result"], "changed": changed, "unknown": unknown, "comment": comment, "changes": changes,
        });
        (tag.clone(), slim)
    };
    Value::Object(states.as_object().into_iter().flatten().map(one).collect())
}
