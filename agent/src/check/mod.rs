//! A states repository in, everything that is wrong with it out, for every host of its inventory.
//!
//! Law: a fault that many hosts share is told once, with their names; hosts are compiled side by side and the report does
//! not depend on who was first.

mod compile;
mod diff;
mod findings;
mod inventory;
mod sarif;
mod text;
mod top;
mod unused;

pub use compile::{Compiled, compile};
pub use diff::{Change, Diff, HostDiff, diff};
pub use findings::{Finding, Findings};
pub use inventory::{Inventory, InventoryError, Node};
pub use sarif::sarif;
pub use text::{diff_text, text};

use zagent_config::Fault;

use crate::draw::fault::Severity;

/// The outcome of a check.
pub struct Report {
    /// The hosts, sorted by name, with the number of states each has; `None` when it does not compile.
    pub hosts: Vec<(String, Option<usize>)>,
    /// True when the hosts come from an inventory, false when this host stood in.
    pub recorded: bool,
    /// What was found.
    pub findings: Vec<Finding>,
}

impl Report {
    /// How many errors there are.
    #[must_use]
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|f| f.severity == Severity::Error).count()
    }

    /// How many warnings there are.
    #[must_use]
    pub fn warnings(&self) -> usize {
        self.findings.len() - self.errors()
    }

    /// The report as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let hosts = self.hosts.iter().map(|(name, states)| {
            (name.clone(), serde_json::json!({"compiles": states.is_some(), "states": states}))
        });
        let errors = self.findings.iter().filter(|f| f.severity == Severity::Error).map(Finding::to_json);
        let warnings = self.findings.iter().filter(|f| f.severity == Severity::Warning).map(Finding::to_json);
        serde_json::json!({
            "success": self.errors() == 0,
            "recorded": self.recorded,
            "hosts": hosts.collect::<serde_json::Map<_, _>>(),
            "errors": errors.collect::<Vec<_>>(),
            "warnings": warnings.collect::<Vec<_>>(),
        })
    }
}

/// Checks compiled hosts: their faults and warnings, targets that mean nobody, SLS that nobody uses.
#[must_use]
pub fn report(inventory: &Inventory, compiled: &[Compiled], files: &dyn zagent_compiler::Files) -> Report {
    let mut findings = Findings::default();
    for (node, one) in inventory.nodes.iter().zip(compiled) {
        for fault in one.faults() {
            findings.add(Severity::Error, fault, &node.name);
        }
        for fault in one.warnings() {
            findings.add(Severity::Warning, fault, &node.name);
        }
    }
    if inventory.recorded {
        let mut extra: Vec<Fault> = top::silent(compiled);
        extra.extend(unused::unused(compiled, files));
        for fault in &extra {
            findings.add_for_all(Severity::Warning, fault);
        }
    }
    let hosts =
        inventory.nodes.iter().zip(compiled).map(|(node, one)| (node.name.clone(), one.states())).collect();
    Report { hosts, recorded: inventory.recorded, findings: findings.into_sorted() }
}
