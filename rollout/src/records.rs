//! Where rollouts are written and reports are read, as the driver sees it.
//!
//! Law: a record is replaced only by whoever knows it, as on a [board](crate::board).

use std::collections::BTreeMap;

use zagent_config::ids::{NodeId, RolloutId};

use crate::board::{BoardError, VersionToken};
use crate::record::{Component, RolloutRecord};
use crate::report::NodeReport;

/// Something as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedValue<T> {
    /// What.
    pub value: T,
    /// Which version of it.
    pub token: VersionToken,
}

/// The records of rollouts.
pub trait Records {
    /// One record; none when there is no such rollout.
    ///
    /// # Errors
    /// Fails when the place cannot be asked, and when what is there is no record.
    fn get(&mut self, id: &RolloutId) -> Result<Option<VersionedValue<RolloutRecord>>, BoardError>;

    /// Writes a record, when it is still what the writer knows; `expected` is none for a new one. `note` is what happened,
    /// its first line short; a write that is not `lasting` need not be kept in a log.
    ///
    /// # Errors
    /// Fails with a conflict when it is not, and when the place cannot be asked.
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
    /// Fails when the place cannot be asked.
    fn list(&mut self) -> Result<Vec<VersionedValue<RolloutRecord>>, BoardError>;

    /// Those that the last list left out: they are there, and cannot be read or do not count. Whoever knew one before goes
    /// by what it knew.
    fn unreadable(&self) -> Vec<RolloutId> {
        Vec::new()
    }

    /// Removes a record, when it is still what the writer knows.
    ///
    /// # Errors
    /// As [`Records::put`].
    fn delete(&mut self, id: &RolloutId, expected: &VersionToken) -> Result<(), BoardError>;
}

/// The reports of nodes.
pub trait Reports {
    /// What every node said last about a component. A report that is not its node's own is not among them.
    ///
    /// # Errors
    /// Fails when the board cannot be asked.
    fn latest_reports(&mut self, component: Component) -> Result<BTreeMap<NodeId, NodeReport>, BoardError>;

    /// Says something about this node.
    ///
    /// # Errors
    /// Fails when the board cannot be asked, and when it says no.
    fn put(&mut self, report: &NodeReport) -> Result<(), BoardError>;

    /// Forgets a node that is gone.
    ///
    /// # Errors
    /// Fails when the board cannot be asked.
    fn forget(&mut self, component: Component, id: &NodeId) -> Result<(), BoardError>;

    /// The fingerprints of the keys that signed what was read last, for [`Progress::key`](crate::record::Progress::key).
    fn signing_keys(&self) -> BTreeMap<NodeId, String> {
        BTreeMap::new()
    }

    /// Holds nodes to the keys that a record names: whoever takes a rollout over need not have seen them before.
    fn pin_keys(&mut self, _record: &RolloutRecord) {}
}
