//! `rollout.yaml`: the order and its progress in one record.
//!
//! Law: a record says everything that a driver or a node must know; whoever reads it can go on from there. Every write
//! raises `serial`, so that an old one is known as such. What a newer version added is kept as it is by an older one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::{NodeId, RolloutId};

use crate::{BatchSize, Span};

/// The version of the format.
pub const RECORD_SCHEMA: u32 = 1;

/// What is rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Component {
    /// The binary, by a version.
    Agent,
    /// The states, by a commit.
    States,
}

impl Component {
    /// Its word in records and keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::States => "states",
        }
    }
}

/// Who decides when a node's turn has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutMode {
    /// A driver, by what nodes report.
    #[default]
    Driver,
    /// The clock: waves by time; no node needs to report, nobody needs to write.
    Clock,
}

/// How much care is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutProfile {
    /// As the fields say.
    #[default]
    Normal,
    /// One canary, then everybody; maintenance windows do not hold it up. Pauses and pins do.
    Emergency,
}

/// Nodes that go first: so many of each stratum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Nodes a stratum; none with 0.
    pub count: usize,
    /// What strata are made of: `os`, `arch`, `role`.
    #[serde(default = "strata")]
    pub by: Vec<String>,
}

/// By which facts strata are told apart unless the order says otherwise.
fn strata() -> Vec<String> {
    ["os", "arch", "role"].map(String::from).to_vec()
}

impl Default for Canary {
    fn default() -> Self {
        Self { count: 1, by: strata() }
    }
}

/// One binary of a release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The kernel it is for, such as `linux`.
    pub os: String,
    /// The machine it is for, such as `x86_64`.
    pub arch: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its digest, in hex.
    pub blake3: String,
    /// Where it is, over https.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The Git ref that holds it, in the repository of the record.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The SSH signature of the release, armoured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// Where the current batch stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchPhase {
    /// Nodes fetch and verify.
    #[default]
    Prepare,
    /// Nodes switch.
    Apply,
    /// Nodes prove themselves.
    Soak,
    /// Nodes keep it.
    Confirm,
    /// Between two batches.
    Pause,
}

/// Where a node stands in a rollout, as far as the driver knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeStatus {
    /// Its turn has not come, or it has not answered yet.
    #[default]
    Waiting,
    /// It has what it needs.
    Prepared,
    /// It runs the new one, unconfirmed.
    Applied,
    /// It keeps the new one.
    Confirmed,
    /// It did not work out; the node is back on what it had.
    Failed,
    /// It does not answer, and goes on without a driver: whatever it had unconfirmed, it takes back.
    Silent,
}

/// How one node does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProgress {
    /// Where it stands.
    pub status: NodeStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Since when it is late; it fails, or counts as silent, when it stays so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Timestamp>,
    /// Why it is waited for although it is late: what its reports say that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// The fingerprint of the key that signs its reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Where a rollout stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutStatus {
    /// Written; nobody has begun.
    #[default]
    Created,
    /// Under way.
    Rolling,
    /// The batch under way is finished, no other begun.
    Paused,
    /// Every node was asked, and few enough failed.
    Completed,
    /// Someone asked for its end.
    Aborting,
    /// Over before its time.
    Aborted,
}

impl RolloutStatus {
    /// True when nothing follows.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Aborted)
    }

    /// Its word in a record.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Rolling => "rolling",
            Self::Paused => "paused",
            Self::Completed => "completed",
            Self::Aborting => "aborting",
            Self::Aborted => "aborted",
        }
    }
}

/// Who drives, and when it last said so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverLease {
    /// Who.
    pub id: String,
    /// When.
    pub heartbeat: Timestamp,
}

/// A rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutRecord {
    /// The version of the format.
    pub schema: u32,
    /// Its name.
    pub id: RolloutId,
    /// What is rolled out.
    pub component: Component,
    /// To which version or commit.
    pub to: String,
    /// From which, as far as that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// To which nodes: a compound target.
    pub target: String,
    /// Nodes a batch.
    pub batch_size: BatchSize,
    /// Who goes first.
    #[serde(default)]
    pub canary: Canary,
    /// How long nodes prove themselves.
    pub soak_time: Span,
    /// How long between two batches.
    pub batch_pause: Span,
    /// So many failed nodes end it.
    pub max_failed: usize,
    /// So many silent nodes are passed over; one more ends it.
    #[serde(default)]
    pub max_silent: usize,
    /// What every node must speak.
    #[serde(default)]
    pub min_protocol: u32,
    /// True when nothing is done.
    #[serde(default)]
    pub dry_run: bool,
    /// Who decides when a node's turn has come.
    #[serde(default)]
    pub mode: RolloutMode,
    /// How much care is taken.
    #[serde(default)]
    pub profile: RolloutProfile,
    /// True when an older version, or one that a node rejected, is meant.
    #[serde(default)]
    pub anyway: bool,
    /// The binaries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Who comes when.
    #[serde(default)]
    pub batches: Vec<Vec<NodeId>>,
    /// The batch under way.
    #[serde(default)]
    pub current_batch: usize,
    /// Where it stands.
    #[serde(default)]
    pub phase: BatchPhase,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_since: Option<Timestamp>,
    /// How each node does.
    #[serde(default)]
    pub nodes: BTreeMap<NodeId, NodeProgress>,
    /// How many failed.
    #[serde(default)]
    pub failed: usize,
    /// Where it stands.
    pub state: RolloutStatus,
    /// Why it is paused or was ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverLease>,
    /// When it was ordered, and by whom.
    pub created: Timestamp,
    /// By whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// How often it was written.
    pub serial: u64,
    /// What this version does not know.
    #[serde(flatten)]
    pub unknown_fields: BTreeMap<String, serde_json::Value>,
}

impl RolloutRecord {
    /// The batch of a node.
    #[must_use]
    pub fn batch_of(&self, node: &NodeId) -> Option<usize> {
        self.batches.iter().position(|batch| batch.contains(node))
    }

    /// Where a node stands.
    #[must_use]
    pub fn node_status(&self, node: &NodeId) -> NodeStatus {
        self.nodes.get(node).map_or(NodeStatus::Waiting, |progress| progress.status)
    }
}
