//! The stores for rollout records and node reports, as the driver sees them.
//!
//! Law: only a writer that knows the present version replaces a record, as on a [board](crate::board) (held by
//! `after_a_conflict_a_driver_reads_again_and_yields_to_another`).

use std::collections::BTreeMap;

use zagent_config::ids::{NodeId, RolloutId};

use crate::acceptance::OrderSignatures;
use crate::board::{BoardError, VersionToken};
use crate::record::{Component, RolloutRecord};
use crate::report::NodeReport;

/// A stored value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedValue<T> {
    /// The value.
    pub value: T,
    /// Its version.
    pub token: VersionToken,
}

/// A record that exists and counts for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedRecord {
    /// Which rollout.
    pub id: RolloutId,
    /// Why.
    pub why: String,
    /// What it says, if it can be read; nothing in it can be trusted.
    pub record: Option<Box<RolloutRecord>>,
    /// True when it is not for this host. A reader that knew another skipped record before keeps what it knew.
    pub is_foreign: bool,
}

/// A report that counts for nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedReport {
    /// The node that it claims to be from.
    pub node: NodeId,
    /// Why.
    pub why: String,
}

/// The records of rollouts.
pub trait Records {
    /// One record; `None` when the rollout does not exist.
    ///
    /// # Errors
    /// Fails when the store cannot be read, or when the value is not a record.
    fn get(&mut self, id: &RolloutId) -> Result<Option<VersionedValue<RolloutRecord>>, BoardError>;

    /// Writes a record, if it is still the version that the writer knows; `expected` is `None` for a new one. `note`
    /// says what happened, with a short first line; a write that is not `lasting` need not be kept in a log.
    ///
    /// # Errors
    /// Fails with a conflict when it is not, and when the store cannot be reached.
    fn put(
        &mut self,
        record: &RolloutRecord,
        expected: Option<&VersionToken>,
        note: &str,
        lasting: bool,
    ) -> Result<VersionToken, BoardError>;

    /// All records, by id.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    fn list(&mut self) -> Result<Vec<VersionedValue<RolloutRecord>>, BoardError>;

    /// The records that the last list skipped: they exist, but cannot be read or are not accepted.
    fn skipped(&self) -> Vec<SkippedRecord> {
        Vec::new()
    }

    /// The signatures of the order in a record, whether or not they are enough.
    fn signatures(&self, _record: &RolloutRecord) -> OrderSignatures {
        OrderSignatures::default()
    }

    /// Removes a record, if it is still the version that the writer knows.
    ///
    /// # Errors
    /// As [`Records::put`].
    fn delete(&mut self, id: &RolloutId, expected: &VersionToken) -> Result<(), BoardError>;
}

/// The reports of nodes.
pub trait Reports {
    /// The last report of every node about a component, without reports that their node did not sign.
    ///
    /// # Errors
    /// Fails when the board cannot be reached.
    fn latest_reports(&mut self, component: Component) -> Result<BTreeMap<NodeId, NodeReport>, BoardError>;

    /// Publishes a report of this node.
    ///
    /// # Errors
    /// Fails when the board cannot be reached, and when it refuses.
    fn put(&mut self, report: &NodeReport) -> Result<(), BoardError>;

    /// Forgets a node that was removed.
    ///
    /// # Errors
    /// Fails when the board cannot be reached.
    fn forget(&mut self, component: Component, id: &NodeId) -> Result<(), BoardError>;

    /// The reports that the last call of [`Reports::latest_reports`] did not count, and why.
    fn refused(&self) -> Vec<RefusedReport> {
        Vec::new()
    }

    /// True when a list or a signed enrolment says which key belongs to a node; otherwise its first key counts.
    fn is_vouched_for(&self, _node: &NodeId) -> bool {
        true
    }

    /// The fingerprints of the keys that signed the last reports, for [`Progress::key`](crate::record::Progress::key).
    fn signing_keys(&self) -> BTreeMap<NodeId, String> {
        BTreeMap::new()
    }

    /// Pins nodes to the keys in a record: a driver that takes over may not have seen them before.
    fn pin_keys(&mut self, _record: &RolloutRecord) {}
}
