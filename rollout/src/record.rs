//! A rollout: the order and its progress, as a driver and a node see them. [`crate::stored_record`] has its stored form.
//!
//! Law: a record contains everything that a driver or a node needs; any reader can continue from there. The order never
//! changes after it was written; every write of its progress increases `serial`, so that old records are recognized.
//! Older versions keep the fields that a newer version added (held by
//! `a_record_is_stored_in_parts_and_its_order_never_changes`, `a_record_of_the_format_before_is_read_and_stays_in_it`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::{FleetId, NodeId, RolloutId};

use crate::phase::saturating_after;
use crate::{BatchSize, Span};

/// The version of the format: the order is signed apart from its progress.
pub const RECORD_SCHEMA: u32 = 2;
/// The version before it, whose records are bound to no fleet and to no signers.
pub const UNBOUND_SCHEMA: u32 = 1;
/// How long an order is valid unless it says otherwise.
pub const RECORD_VALIDITY: Span = Span::seconds(30 * 24 * 60 * 60);

/// What is rolled out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Component {
    /// The agent binary, by version.
    Agent,
    /// The states, by commit.
    States,
}

impl Component {
    /// Its name in records and keys.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::States => "states",
        }
    }
}

/// How the time of each node is decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutMode {
    /// By a driver, from what nodes report.
    #[default]
    Driver,
    /// By the clock: waves by time; no node needs to report, and no one needs to write.
    Clock,
}

/// How careful the rollout is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutProfile {
    /// As the fields say.
    #[default]
    Normal,
    /// One canary, then all nodes; ignores maintenance windows. Pauses and pins still apply.
    Emergency,
}

/// Nodes that go first: this many per stratum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Canary {
    /// Nodes per stratum; none with 0.
    pub count: usize,
    /// The facts that define strata: `os`, `arch`, `role`.
    #[serde(default = "strata")]
    pub by: Vec<String>,
}

/// The default facts that define strata.
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
    /// Its https URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The Git ref that contains it, in the repository of the record.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// The SSH signature of the release, armoured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The protocol that a node must support to take it; part of what is signed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub min_protocol: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// The phase of the current batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchPhase {
    /// Nodes fetch and verify.
    #[default]
    Prepare,
    /// Nodes switch.
    Apply,
    /// Nodes soak.
    Soak,
    /// Nodes confirm.
    Confirm,
    /// Between two batches.
    Pause,
}

/// The status of a node in a rollout, as far as the driver knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeStatus {
    /// Its turn has not come, or it has not answered yet.
    #[default]
    Waiting,
    /// Everything is fetched and verified.
    Prepared,
    /// It runs the new version, unconfirmed.
    Applied,
    /// It keeps the new version.
    Confirmed,
    /// It failed; the node is back on the old version.
    Failed,
    /// It does not answer, and continues without a driver: it rolls back everything unconfirmed.
    Silent,
}

/// The progress of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeProgress {
    /// Its status.
    pub status: NodeStatus,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Since when it is late; if it stays late, it fails or counts as silent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late: Option<Timestamp>,
    /// Why the driver waits for it although it is late: the hold in its reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<String>,
    /// What it waits for or refuses, as its last report says; the time limits apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The fingerprint of the key that signs its reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// The status of a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RolloutStatus {
    /// Written; not started.
    #[default]
    Created,
    /// Under way.
    Rolling,
    /// The current batch is finished, no other starts.
    Paused,
    /// All nodes took part, and few enough failed.
    Completed,
    /// An abort was requested.
    Aborting,
    /// Aborted.
    Aborted,
}

impl RolloutStatus {
    /// True when the status is final.
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

/// The driver, and its last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverLease {
    /// Its id.
    pub id: String,
    /// The time of the heartbeat.
    pub heartbeat: Timestamp,
}

/// Nodes that the driver moved out of their batch into a batch of their own, right after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Postponement {
    /// The index of the batch that they were in.
    pub batch: usize,
    /// The nodes.
    pub nodes: Vec<NodeId>,
}

/// An order as it was signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedOrder {
    /// Exactly the bytes that are signed.
    pub text: String,
    /// SSH signatures, armoured, in sequence; empty when there is none.
    pub signatures: String,
    /// The node lists of the order, before anything was postponed.
    pub(crate) batches: Vec<Vec<NodeId>>,
}

/// A rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutRecord {
    /// The version of the format.
    pub schema: u32,
    /// Its name.
    pub id: RolloutId,
    /// The fleet that it is for; every other fleet refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fleet: Option<FleetId>,
    /// When the order ends: nothing starts afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Timestamp>,
    /// What is rolled out.
    pub component: Component,
    /// The target version or commit.
    pub to: String,
    /// The version or commit before, if it is the same for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The target nodes: a compound target.
    pub target: String,
    /// Nodes per batch.
    pub batch_size: BatchSize,
    /// The nodes that go first.
    #[serde(default)]
    pub canary: Canary,
    /// How long nodes soak.
    pub soak_time: Span,
    /// The pause between two batches.
    pub batch_pause: Span,
    /// Abort after this number of failed nodes.
    pub max_failed: usize,
    /// This number of silent nodes is allowed; one more aborts.
    #[serde(default)]
    pub max_silent: usize,
    /// The protocol that every node must support.
    #[serde(default)]
    pub min_protocol: u32,
    /// True for a dry run.
    #[serde(default)]
    pub dry_run: bool,
    /// How the time of each node is decided.
    #[serde(default)]
    pub mode: RolloutMode,
    /// How careful the rollout is.
    #[serde(default)]
    pub profile: RolloutProfile,
    /// True to accept an older version, or one that a node rejected.
    #[serde(default)]
    pub anyway: bool,
    /// The binaries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// The nodes per batch, in order: those of the order, changed by what was postponed.
    #[serde(default)]
    pub batches: Vec<Vec<NodeId>>,
    /// What was postponed, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub postponed: Vec<Postponement>,
    /// The current batch.
    #[serde(default)]
    pub current_batch: usize,
    /// The phase of the batch.
    #[serde(default)]
    pub phase: BatchPhase,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_since: Option<Timestamp>,
    /// The progress of each node.
    #[serde(default)]
    pub nodes: BTreeMap<NodeId, NodeProgress>,
    /// How many failed.
    #[serde(default)]
    pub failed: usize,
    /// The status.
    pub state: RolloutStatus,
    /// Why it is paused or was aborted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<DriverLease>,
    /// When it was ordered.
    pub created: Timestamp,
    /// Who ordered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// The number of writes.
    pub serial: u64,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub unknown_fields: BTreeMap<String, serde_json::Value>,
    /// The order as it was signed; `None` before it is written for the first time.
    #[serde(skip)]
    pub sealed: Option<Box<SealedOrder>>,
}

impl RolloutRecord {
    /// When the order ends.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.expires.unwrap_or_else(|| saturating_after(self.created, RECORD_VALIDITY.0))
    }

    /// True when nothing may start any more.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at()
    }

    /// Moves nodes out of a batch into a batch of their own right after it. Nodes that are not in the batch stay where
    /// they are.
    pub fn postpone(&mut self, batch: usize, nodes: Vec<NodeId>) {
        let step = Postponement { batch, nodes };
        if apply_postponement(&mut self.batches, &step) {
            self.postponed.push(step);
        }
    }

    /// The batch of a node.
    #[must_use]
    pub fn batch_of(&self, node: &NodeId) -> Option<usize> {
        self.batches.iter().position(|batch| batch.contains(node))
    }

    /// The status of a node.
    #[must_use]
    pub fn node_status(&self, node: &NodeId) -> NodeStatus {
        self.nodes.get(node).map_or(NodeStatus::Waiting, |progress| progress.status)
    }
}

/// Moves the nodes; false when none of them is in the batch.
pub(crate) fn apply_postponement(batches: &mut Vec<Vec<NodeId>>, step: &Postponement) -> bool {
    let Some(batch) = batches.get_mut(step.batch) else { return false };
    let (moved, rest): (Vec<NodeId>, Vec<NodeId>) =
        std::mem::take(batch).into_iter().partition(|node| step.nodes.contains(node));
    *batch = rest;
    let has_moved = !moved.is_empty();
    if has_moved {
        batches.insert(step.batch.saturating_add(1), moved);
    }
    has_moved
}
