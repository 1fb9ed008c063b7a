//! What is known of a fleet, as the pages show it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::FleetRollout;

/// The condition of a node, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeCondition {
    /// Its last run or a health check failed.
    Failed,
    /// Its watchdog or agent works with less than it should.
    Degraded,
    /// Its reports are not accepted.
    Refused,
    /// It has not reported for too long.
    Stale,
    /// It was stopped on request.
    Stopped,
    /// It is held back: paused, pinned or outside of its window.
    Held,
    /// As it should be.
    Ok,
}

impl NodeCondition {
    /// All of them, those that need attention first.
    pub const ALL: [Self; 7] =
        [Self::Failed, Self::Degraded, Self::Refused, Self::Stale, Self::Stopped, Self::Held, Self::Ok];

    /// Its word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Degraded => "degraded",
            Self::Refused => "refused",
            Self::Stale => "stale",
            Self::Stopped => "stopped",
            Self::Held => "held",
            Self::Ok => "ok",
        }
    }

    /// Its badge.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Failed | Self::Degraded | Self::Refused => "badge bad",
            Self::Stale | Self::Stopped | Self::Held => "badge warn",
            Self::Ok => "badge good",
        }
    }
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetNode {
    /// Its id.
    pub id: String,
    /// Its condition.
    pub condition: NodeCondition,
    /// Version of the agent.
    pub version: String,
    /// Commit of its states, shortened.
    pub revision: String,
    /// Operating system and its release.
    pub os: String,
    /// What it does.
    pub activity: String,
    /// Time of its last report.
    pub reported: Option<Timestamp>,
    /// What is wrong: failed checks, reasons, rejected versions.
    pub errors: Vec<String>,
    /// Everything else that it reports, by name.
    pub facts: Vec<(String, String)>,
}

/// A fleet at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetData {
    /// Name of the fleet.
    pub name: String,
    /// When it was read.
    pub at: Timestamp,
    /// The nodes, by id.
    pub nodes: Vec<FleetNode>,
    /// The rollouts, newest first.
    pub rollouts: Vec<FleetRollout>,
    /// What could not be read.
    pub unread: Vec<String>,
}

impl FleetData {
    /// True when nothing but the time differs.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.nodes, &self.rollouts, &self.unread) == (&other.nodes, &other.rollouts, &other.unread)
    }

    /// Errors of nodes and rollouts, with the nodes that have them; the most frequent first.
    pub(super) fn failures(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for node in &self.nodes {
            for error in &node.errors {
                groups.entry(error).or_default().push(&node.id);
            }
        }
        for rollout in self.rollouts.iter().filter(|rollout| !rollout.is_over) {
            for (node, error) in &rollout.failures {
                let nodes = groups.entry(error).or_default();
                if !nodes.contains(&node.as_str()) {
                    nodes.push(node);
                }
            }
        }
        let mut all: Vec<_> = groups.into_iter().collect();
        all.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
        all
    }
}
