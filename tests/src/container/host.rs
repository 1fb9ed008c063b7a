//! States applied in a container: an SLS in, what came of it out.
//!
//! Law: what a dry run foretells is what the run then does, and a second run does nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::{Node, program};

/// What a command may take.
const LONG: Duration = Duration::from_secs(280);

/// What changed, by name: how it was and how it is.
pub type Changes = BTreeMap<String, (String, String)>;

/// A container that the agent's program is bound into.
#[derive(Debug)]
pub struct Host {
    /// The container.
    pub node: Node,
}

/// What came of a run of one state.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
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

    /// All states ended well.
    ///
    /// # Panics
    /// When they did not.
    pub fn is_well(&self) -> &Self {
        assert_eq!((self.code, &self.report["success"]), (0, &true.into()), "{:#}", self.report);
        self
    }

    /// All states ended well and did nothing.
    ///
    /// # Panics
    /// When they did something.
    pub fn is_still(&self) -> &Self {
        self.is_well();
        assert_eq!(self.report["changed"], 0, "{:#}", self.report);
        self
    }

    /// The last state failed, and says so with these words.
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

    /// What the last state changed, or would: those of its changes that have an old and a new value.
    #[must_use]
    pub fn changes(&self) -> Changes {
        let all = &self.last()["changes"];
        // A purge tells apart what was installed.
        let all = all.get("installed").unwrap_or(all).as_object().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let all = all.filter(|(_, how)| how.get("old").is_some());
        all.map(|(name, how)| (name.clone(), (text(&how["old"]), text(&how["new"])))).collect()
    }
}

impl Host {
    /// Boots a usual Debian and installs packages of it.
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

    /// Runs a script that must end well.
    ///
    /// # Panics
    /// When it does not.
    pub fn sh(&self, script: &str) -> String {
        let said = self.node.shell(script, LONG);
        assert_eq!(said.code, 0, "{script}: {}{}", said.out, said.err);
        said.out
    }

    /// True when a script ends well.
    #[must_use]
    pub fn holds(&self, script: &str) -> bool {
        self.node.shell(script, LONG).code == 0
    }

    /// What an execution function says.
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

    /// Foretells what applying it would do.
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

    /// Foretells an SLS, applies it, and applies it again: the host is as before until it is applied, `look` tells how.
    /// What was foretold is done, and once only.
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
