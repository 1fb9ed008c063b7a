//! What a node says about itself: one report for each component.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::{NodeId, RolloutId};

use crate::phase::{NodeOutcome, NodePhase, NodeState};
use crate::record::Component;

/// What a node does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeActivity {
    /// Nothing but its work.
    #[default]
    Idle,
    /// It fetches and verifies.
    Preparing,
    /// It has what it needs.
    Staged,
    /// It switches.
    Applying,
    /// It runs the new one, unconfirmed.
    Soaking,
    /// It goes back.
    RollingBack,
}

/// How a rollout ended on this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRollout {
    /// Which rollout.
    pub rollout: RolloutId,
    /// How it ended; none while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<NodeOutcome>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Since when.
    pub at: Timestamp,
    /// When the new one was first seen ready, since it was last not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_since: Option<Timestamp>,
    /// When the rollout was ordered: another of the same name is another.
    #[serde(default)]
    pub created: Timestamp,
}

/// The process that the watchdog looks after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentProcess {
    /// Its number.
    pub pid: u32,
    /// Seconds since it began.
    pub uptime: u64,
}

/// The last run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedRun {
    /// Which.
    pub run: String,
    /// When it began.
    pub at: Timestamp,
    /// How it went.
    pub success: bool,
    /// States that changed.
    pub changed: usize,
    /// States that failed.
    pub failed: usize,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The node.
    pub id: NodeId,
    /// What it speaks of.
    pub component: Component,
    /// The version of the agent.
    pub version: String,
    /// The commit of its states.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// What it does.
    pub state: NodeActivity,
    /// The rollout that it takes part in, or took part in last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<NodeRollout>,
    /// Its kernel, such as `linux`.
    pub os: String,
    /// Its machine, such as `x86_64`.
    pub arch: String,
    /// The facts that targets and strata ask for.
    #[serde(default)]
    pub facts: BTreeMap<String, serde_json::Value>,
    /// When this was true.
    pub updated_at: Timestamp,
    /// The process that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child: Option<AgentProcess>,
    /// Why it is not well; none when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Why it begins nothing now, such as a pause or a closed window; it is well and goes on afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<String>,
    /// What it speaks.
    #[serde(default)]
    pub protocol: u32,
    /// The last run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<ReportedRun>,
}

impl NodeReport {
    /// Takes over what a node's phase says.
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
