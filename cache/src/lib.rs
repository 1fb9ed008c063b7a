//! A Git repository in, the files of one commit out, verified and published so that nothing incomplete is ever visible.
//!
//! Law: nothing is checked out. Objects are read, names are checked before they are used, and a tree with a hostile
//! name or a symlink that leaves it is refused as a whole. Trust levels are types: [`SignedCommit`],
//! [`JudgedCommit`], [`StagedRevision`], [`VerifiedTree`], [`Generation`]; each is created only from the one before
//! (held by `no_hostile_tree_is_published`, `StagedRevision`, `VerifiedTree`, `Generation`).

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

mod cache;
mod commit_history;
mod commit_tree;
mod deadline;
mod dir_entries;
mod disk;
mod error;
mod generation;
mod integrity;
mod judged;
mod lock;
pub mod manifest;
mod object_store;
mod pack;
mod packed_blob;
mod path_names;
mod prune;
mod publish;
mod record;
mod refusal;
mod repair;
mod replay_floor;
mod repository;
pub mod source;
mod stage;
mod stamps;
#[cfg(feature = "testing")]
#[expect(clippy::unwrap_used, reason = "a test that cannot set up its repository has failed")]
pub mod testing;
mod tree_listing;
pub mod trust;
mod verify;

pub use cache::Cache;
pub use commit_history::{Ancestry, ManifestAudience, VerifyContext};
pub use commit_tree::CommitTree;
pub use error::RepositoryError;
pub use generation::{Generation, GenerationPin};
pub use integrity::CheckDepth;
pub use judged::{CommitTrust, JudgedCommit, SignedCommit};
pub use object_store::{ObjectStore, StoredCommit};
pub use record::{FileRecord, GenerationRecord, TreeFileStamp};
pub use refusal::{CacheError, Refusal, TamperError};
pub use repair::RepairReport;
pub use replay_floor::damaged_replay_records;
pub use repository::GitRepository;
pub use stage::{DIR_PREFIX, StagedRevision};
pub use tree_listing::CacheLimits;
pub use verify::{NewestAccepted, VerifiedTree};
