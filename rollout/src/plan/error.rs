//! Why there is no plan, with the names of the nodes and how to fix it.

use jiff::Timestamp;
use zagent_config::target::TargetError;

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The version or commit is not valid.
    #[error("`{to}` is not a {wanted}")]
    BadGoal {
        /// What was written.
        to: String,
        /// What it must be.
        wanted: &'static str,
    },
    /// An artifact that no node could use.
    #[error("the artifact of {os}/{arch} cannot be used: {why}")]
    BadArtifact {
        /// For which kernel.
        os: String,
        /// For which machine.
        arch: String,
        /// Why not.
        why: &'static str,
    },
    /// The target is not valid.
    #[error("the target `{target}` cannot be used: {fault}{}", hint(fault))]
    Target {
        /// What was written.
        target: String,
        /// Why not.
        fault: TargetError,
    },
    /// There are no reports.
    #[error(
        "no node reports for {component}: a rollout only targets nodes that report (run `zagent node list` to see them)"
    )]
    NoNodes {
        /// For what.
        component: &'static str,
    },
    /// No reporting node matches.
    #[error("the target `{target}` matches none of the {known} nodes that report for {component}: {some}")]
    NoMatch {
        /// What was written.
        target: String,
        /// The component.
        component: &'static str,
        /// How many nodes report.
        known: usize,
        /// Some of them.
        some: String,
    },
    /// All are degraded, or do not report any more.
    #[error("no eligible nodes ({degraded} degraded excluded{})", silent_part(*silent, names))]
    NoEligible {
        /// How many.
        degraded: usize,
        /// How many do not report.
        silent: usize,
        /// These, each with since when.
        names: Vec<String>,
    },
    /// Some rejected it before.
    #[error("{to} was rejected or quarantined on these nodes: {}", .nodes.join(", "))]
    Rejected {
        /// Which version or commit.
        to: String,
        /// Each as `node (reason)`.
        nodes: Vec<String>,
    },
    /// Some do not support the required protocol.
    #[error("{to} needs a newer protocol than these nodes support: {}", .nodes.join(", "))]
    Protocol {
        /// Which version or commit.
        to: String,
        /// Each as `node (protocol X < Y)`.
        nodes: Vec<String>,
    },
    /// All nodes already run it.
    #[error("nothing to do: all {nodes} nodes already run {to}")]
    NothingToDo {
        /// How many.
        nodes: usize,
        /// On what.
        to: String,
    },
    /// Some run a newer version.
    #[error("{to} is older than what these nodes run: {}; pass `--anyway` to downgrade", .nodes.join(", "))]
    Downgrade {
        /// To which version.
        to: String,
        /// Each as `node (version)`.
        nodes: Vec<String>,
    },
    /// It would expire on the way.
    #[error("the rollout expires at {expires:.0}, and its last batch ends at {end:.0} at the earliest")]
    ExpiresTooSoon {
        /// When it expires.
        expires: Timestamp,
        /// The earliest end.
        end: Timestamp,
    },
    /// There is no binary for some nodes.
    #[error("there is no artifact of {to} for {}{}", .nodes.join(", "), instead(there))]
    NoArtifact {
        /// Of which version.
        to: String,
        /// Each as `os/arch (nodes)`.
        nodes: Vec<String>,
        /// The machines with a binary, each as `os/arch`.
        there: Vec<String>,
    },
}

fn silent_part(silent: usize, names: &[String]) -> String {
    if silent == 0 { String::new() } else { format!(", {silent} not reporting: {}", names.join(", ")) }
}

fn instead(there: &[String]) -> String {
    if there.is_empty() { String::new() } else { format!("; there is one for {}", there.join(", ")) }
}

fn hint(error: &TargetError) -> String {
    error.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default()
}
