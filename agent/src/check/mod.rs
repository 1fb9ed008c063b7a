//! States repository in, all its errors and warnings out, for every host of its inventory.
//!
//! Law: a diagnostic shared by many hosts is reported once, with their names; hosts compile in parallel and the
//! report does not depend on which one finishes first (held by `check_reports_each_error_once`).

mod compile;
mod diff;
mod findings;
mod forges;
mod inventory;
mod markdown;
mod sarif;
mod sources;
mod text;
mod unmatched_targets;
mod unused_sls;

pub use compile::{CompiledHost, compile_hosts};
pub use diff::{HostDiff, PlanChange, PlanDiff, diff_plans};
pub use findings::{CheckFinding, CheckFindings};
use forges::forge_path;
pub use forges::{github_annotations, gitlab_code_quality};
pub use inventory::{Inventory, InventoryError, InventoryNode};
pub use markdown::{diff_markdown, report_markdown};
pub use sarif::render_sarif;
pub use text::{diff_text, report_text};

use zagent_config::Diagnostic;

use crate::draw::diagnostic::Severity;

/// Result of a check.
pub struct CheckReport {
    /// Hosts, sorted by name, with their number of states; `None` when a host does not compile.
    pub hosts: Vec<(String, Option<usize>)>,
    /// True when the hosts come from an inventory, false when this host is used instead.
    pub recorded: bool,
    /// Findings.
    pub findings: Vec<CheckFinding>,
}

impl CheckReport {
    /// Number of errors.
    #[must_use]
    pub fn error_count(&self) -> usize {
        self.findings.iter().filter(|f| f.severity == Severity::Error).count()
    }

    /// Number of warnings.
    #[must_use]
    pub fn warning_count(&self) -> usize {
        self.findings.len() - self.error_count()
    }

    /// The report as JSON.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let hosts = self.hosts.iter().map(|(name, states)| {
            (name.clone(), serde_json::json!({"compiles": states.is_some(), "states": states}))
        });
        let errors =
            self.findings.iter().filter(|f| f.severity == Severity::Error).map(CheckFinding::to_json);
        let warnings =
            self.findings.iter().filter(|f| f.severity == Severity::Warning).map(CheckFinding::to_json);
        serde_json::json!({
            "success": self.error_count() == 0,
            "recorded": self.recorded,
            "hosts": hosts.collect::<serde_json::Map<_, _>>(),
            "errors": errors.collect::<Vec<_>>(),
            "warnings": warnings.collect::<Vec<_>>(),
        })
    }
}

/// Checks compiled hosts: their errors and warnings, sources that do not exist or do not render, targets that match no host, unused SLS files.
#[must_use]
pub fn build_report(
    inventory: &Inventory,
    compiled: &[CompiledHost],
    files: &dyn zagent_compiler::FileTree,
) -> CheckReport {
    let mut findings = CheckFindings::default();
    for (node, one) in inventory.nodes.iter().zip(compiled) {
        for fault in one.errors() {
            findings.add(Severity::Error, fault, &node.name);
        }
        for fault in one.warnings() {
            findings.add(Severity::Warning, fault, &node.name);
        }
        for (severity, fault) in &one.source_problems {
            findings.add(*severity, fault, &node.name);
        }
    }
    if inventory.recorded {
        let mut extra: Vec<Diagnostic> = unmatched_targets::unmatched_targets(compiled);
        extra.extend(unused_sls::unused_sls(compiled, files));
        for fault in &extra {
            findings.add_for_tree(Severity::Warning, fault);
        }
    }
    let hosts = inventory
        .nodes
        .iter()
        .zip(compiled)
        .map(|(node, one)| (node.name.clone(), one.state_count()))
        .collect();
    CheckReport { hosts, recorded: inventory.recorded, findings: findings.into_sorted() }
}
