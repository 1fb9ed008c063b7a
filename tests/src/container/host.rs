//! States applied in a container: an SLS in, its result out.
//!
//! A run does what the dry run predicts, and a second run does nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::{Node, program};

/// The time limit of a command.
const LONG: Duration = Duration::from_secs(280);

/// Changes by name: the old and the new value.
pub type Changes = BTreeMap<String, (String, String)>;

/// A container with the agent's program mounted into it.
#[derive(Debug)]
pub struct Host {
    /// The container.
    pub node: Node,
}

/// The result of a run of one state.
#[derive(Debug)]
pub struct Ran {
    /// The exit code.
    pub code: i32,
    /// The report.
    pub report: Value,
}

impl Ran {
    /// The result of the last state.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn last(&self) -> &Value {
        let states = self.report["states"].as_object().expect("states");
        let last = states.values().max_by_key(|s| s["__run_num__"].as_u64());
        last.unwrap_or_else(|| panic!("no state: {:#}", self.report))
    }

    /// All states succeeded.
    ///
    /// # Panics
    /// When they did not.
    pub fn is_well(&self) -> &Self {
        assert_eq!((self.code, &self.report["success"]), (0, &true.into()), "{:#}", self.report);
        self
    }

    /// All states succeeded and changed nothing.
    ///
    /// # Panics
    /// When they changed something.
    pub fn is_still(&self) -> &Self {
        self.is_well();
        assert_eq!(self.report["changed"], 0, "{:#}", self.report);
        self
    }

    /// The last state failed with this message.
    ///
    /// # Panics
    /// When it does not.
    pub fn is_told(&self, words: &[&str]) -> &Self {
        let state = self.last();
        assert_eq!((self.code, &state["result"]), (1, &false.into()), "{state:#}");
        let said = state["comment"].as_str().unwrap_or_default();
        for word in words {
            assert!(said.contains(word), "`{word}` is not in {state:#}");
        }
        self
    }

    /// The changes of the last state, or the predicted ones: those with an old and a new value.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let all = &self.last()["changes"];
        // A purge lists what was installed separately.
        let all = all.get("installed").unwrap_or(all).as_object().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = all.filter(|(_, how)| how.get("old").is_some());
        all.map(|(name, how)| (name.clone(), (text(&how["old"]), text(&how["new"])))).collect()
    }
}

impl Host {
    /// Boots a usual Debian and installs packages in it.
    ///
    /// # Panics
    /// When it does not come up.
    #[must_use]
    pub fn with(packages: &[&str]) -> Self {
        let program = program().canonicalize().expect("the program");
        let host = Self { node: Node::usual(&[format!("{}:/usr/bin/zagent", program.display())]) };
        let names = packages.join(" ");
        host.sh(&format!(
            "DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends {names} 2>&1"
        ));
        host
    }

    /// Runs a script that must succeed.
    ///
    /// # Panics
    /// When it does not.
    pub fn sh(&self, script: &str) -> String {
        let said = self.node.shell(script, LONG);
        assert_eq!(said.code, 0, "{script}: {}{}", said.out, said.err);
        said.out
    }

    /// True when a script succeeds.
    #[must_use]
    pub fn holds(&self, script: &str) -> bool {
        self.node.shell(script, LONG).code == 0
    }

    /// The result of an execution function.
    ///
    /// # Panics
    /// When it fails.
    #[must_use]
    pub fn call(&self, words: &str) -> Value {
        let said = self.sh(&format!("zagent {words} --out json"));
        serde_json::from_str(&said).unwrap_or_else(|e| panic!("{words}: {e}: {said}"))
    }

    /// Applies an SLS.
    pub fn apply(&self, sls: &str) -> Ran {
        self.run(sls, "")
    }

    /// Runs an SLS in test mode.
    pub fn foretell(&self, sls: &str) -> Ran {
        self.run(sls, "--test")
    }

    fn run(&self, sls: &str, how: &str) -> Ran {
        self.node.write("/srv/states/all.sls", sls);
        let said =
            self.node.shell(&format!("zagent state.apply all --states /srv/states --out json {how}"), LONG);
        let report = serde_json::from_str(&said.out);
        Ran {
            code: said.code,
            report: report.unwrap_or_else(|e| panic!("{sls}: {e}: {}{}", said.out, said.err)),
        }
    }

    /// Runs an SLS in test mode, applies it, and applies it again: the host is unchanged until it is applied, as `look`
    /// shows. The run does what was predicted, and the second run does nothing.
    ///
    /// # Panics
    /// When it is not.
    pub fn settles(&self, sls: &str, look: &str) -> Ran {
        let before = self.sh(look);
        let foretold = self.foretell(sls);
        foretold.is_well();
        assert_eq!(foretold.last()["result"], Value::Null, "{:#}", foretold.last());
        assert_eq!(self.sh(look), before, "a dry run changed the host: {sls}");
        let ran = self.apply(sls);
        assert_eq!(ran.is_well().changes(), foretold.changes(), "{sls}: {:#}", ran.last());
        assert_ne!(ran.report["changed"], 0, "{sls}: {:#}", ran.last());
        self.apply(sls).is_still();
        ran
    }
}
