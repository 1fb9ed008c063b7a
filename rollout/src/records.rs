//! Where rollouts are written and reports are read, as the driver sees it.
//!
//! Law: a record is replaced only by whoever knows it, as on a [board](crate::board).

use std::collections::BTreeMap;

use zagent_config::ids::{NodeId, RolloutId};

use crate::board::{BoardError, Token};
use crate::record::{Component, Record};
use crate::report::Report;

/// Something as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held<T> {
    /// What.
    pub value: T,
    /// Which version of it.
    pub token: Token,
}

/// The records of rollouts.
pub trait Records {
    /// One record; none when there is no such rollout.
    ///
    /// # Errors
    /// Fails when the place cannot be asked, and when what is there is no record.
    fn get(&mut self, id: &RolloutId) -> Result<Option<Held<Record>>, BoardError>;

    /// Writes a record, when it is still what the writer knows; `expected` is none for a new one. `note` is what happened,
    /// its first line short; a write that is not `lasting` need not be kept in a log.
    ///
    /// # Errors
    /// Fails with a conflict when it is not, and when the place cannot be asked.
    fn put(
        &mut self,
        record: &Record,
        expected: Option<&Token>,
        note: &str,
        lasting: bool,
    ) -> Result<Token, BoardError>;

    /// All records, by id.
    ///
    /// # Errors
    /// Fails when the place cannot be asked.
    fn list(&mut self) -> Result<Vec<Held<Record>>, BoardError>;

    /// Those that the last list left out: they are there, and cannot be read or do not count. Whoever knew one before goes
    /// by what it knew.
    fn unread(&self) -> Vec<RolloutId> {
        Vec::new()
    }

    /// Removes a record, when it is still what the writer knows.
    ///
    /// # Errors
    /// As [`Records::put`].
    fn delete(&mut self, id: &RolloutId, expected: &Token) -> Result<(), BoardError>;
}

/// The reports of nodes.
pub trait Reports {
    /// What every node said last about a component. A report that is not its node's own is not among them.
    ///
    /// # Errors
    /// Fails when the board cannot be asked.
    fn all(&mut self, component: Component) -> Result<BTreeMap<NodeId, Report>, BoardError>;

    /// Says something about this node.
    ///
    /// # Errors
    /// Fails when the board cannot be asked, and when it says no.
    fn put(&mut self, report: &Report) -> Result<(), BoardError>;

    /// Forgets a node that is gone.
    ///
    /// # Errors
    /// Fails when the board cannot be asked.
    fn forget(&mut self, component: Component, id: &NodeId) -> Result<(), BoardError>;

    /// The fingerprints of the keys that signed what was read last, for [`Progress::key`](crate::record::Progress::key).
    fn keys(&self) -> BTreeMap<NodeId, String> {
        BTreeMap::new()
    }

    /// Holds nodes to the keys that a record names: whoever takes a rollout over need not have seen them before.
    fn expect(&mut self, _record: &Record) {}
}
