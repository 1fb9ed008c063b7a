//! What a node reports about itself: one report per component.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::{NodeId, RolloutId};

use crate::phase::{NodeOutcome, NodePhase, NodeState};
use crate::record::Component;

/// The activity of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeActivity {
    /// Nothing.
    #[default]
    Idle,
    /// It fetches and verifies.
    Preparing,
    /// Everything is fetched and verified.
    Staged,
    /// It switches.
    Applying,
    /// It runs the new version, unconfirmed.
    Soaking,
    /// It rolls back.
    RollingBack,
}

/// The result of a rollout on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRollout {
    /// Which rollout.
    pub rollout: RolloutId,
    /// The result; `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<NodeOutcome>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Since when.
    pub at: Timestamp,
    /// When the new version became ready, without an interruption since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_since: Option<Timestamp>,
    /// When the rollout was ordered: another one with the same name is a different rollout.
    #[serde(default)]
    pub created: Timestamp,
}

/// The process that the watchdog supervises.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProcess {
    /// Its process id.
    pub pid: u32,
    /// Seconds since it started.
    pub uptime: u64,
}

/// The last run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedRun {
    /// Which.
    pub run: String,
    /// When it started.
    pub at: Timestamp,
    /// The result.
    pub success: bool,
    /// Number of changed states.
    pub changed: usize,
    /// Number of failed states.
    pub failed: usize,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The node.
    pub id: NodeId,
    /// The component.
    pub component: Component,
    /// The version of the agent.
    pub version: String,
    /// The commit of its states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// Its activity.
    pub state: NodeActivity,
    /// The rollout that it takes part in, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<NodeRollout>,
    /// Its kernel, such as `linux`.
    pub os: String,
    /// Its machine, such as `x86_64`.
    pub arch: String,
    /// The facts for targets and strata.
    #[serde(default)]
    pub facts: BTreeMap<String, serde_json::Value>,
    /// The time of the report.
    pub updated_at: Timestamp,
    /// The running process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<AgentProcess>,
    /// Why it is degraded; `None` when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Why it starts nothing now, such as a pause or a closed window; it is healthy and continues afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// What it waits for or refuses, by rollout: a record without enough signatures, of another fleet or expired, a
    /// commit that cannot be fetched.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waits: BTreeMap<RolloutId, String>,
    /// Its protocol version.
    #[serde(default)]
    pub protocol: u32,
    /// The last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<ReportedRun>,
    /// When it was stopped on request; `None` while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Timestamp>,
    /// Versions or commits that this node rejected or quarantined, and why; the newest few.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rejected: BTreeMap<String, String>,
    /// Health checks that fail, as `name: reason`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failing_checks: Vec<String>,
}

/// Maximum number of rejected versions in a report.
pub const MAX_REJECTED: usize = 8;
/// Maximum number of failing checks in a report.
pub const MAX_FAILING_CHECKS: usize = 8;
/// Maximum bytes of one reason in a report.
pub const MAX_REASON_BYTES: usize = 200;

/// A reason, cut to the size that a report may hold.
#[must_use]
pub fn short_reason(text: &str) -> String {
    let end = (0..=text.len().min(MAX_REASON_BYTES)).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    text[..end].to_owned()
}

impl NodeReport {
    /// Copies the state of a node's phase.
    pub fn update_from_node(&mut self, node: &NodeState) {
        let under_way = |order: &crate::phase::RolloutOrder, at| {
            let (rollout, created) = (order.rollout.clone()?, order.created);
            Some(NodeRollout { rollout, outcome: None, error: None, at, ready_since: None, created })
        };
        let ended = || {
            let last = node.last.as_ref()?;
            let (outcome, error) = (Some(last.outcome), last.why.clone());
            let (rollout, at, created) = (last.rollout.clone(), last.at, last.created);
            Some(NodeRollout { rollout, outcome, error, at, ready_since: None, created })
        };
        (self.state, self.taken) = match &node.phase {
            NodePhase::Idle => (NodeActivity::Idle, ended()),
            NodePhase::Preparing { order, since } => (NodeActivity::Preparing, under_way(order, *since)),
            NodePhase::Staged { order, since } => (NodeActivity::Staged, under_way(order, *since)),
            NodePhase::Applying { order, since } => (NodeActivity::Applying, under_way(order, *since)),
            NodePhase::Soaking { order, since, ready_since, .. } => {
                let taken = under_way(order, *since);
                (NodeActivity::Soaking, taken.map(|taken| NodeRollout { ready_since: *ready_since, ..taken }))
            }
            NodePhase::RollingBack { order, why, since, .. } => {
                let taken = under_way(order, *since);
                (
                    NodeActivity::RollingBack,
                    taken.map(|taken| NodeRollout { error: Some(why.clone()), ..taken }),
                )
            }
        };
    }
}
