//! A Git repository in, the files of one commit out, verified and published so that nothing half-done is ever visible.
//!
//! Law: nothing is checked out. Objects are read, names are judged before they are believed, and a tree that holds a
//! hostile name or a link that leaves it is refused whole. States of trust are types: [`Staged`], [`Verified`],
//! [`Generation`]; each is made from the one before, and from nothing else.

mod cache;
mod disk;
mod error;
mod floor;
mod generation;
mod heal;
mod integrity;
mod lock;
pub mod manifest;
mod name;
mod prune;
mod publish;
mod record;
mod refusal;
mod repository;
mod shape;
pub mod source;
mod stage;
mod store;
#[cfg(feature = "testing")]
#[expect(clippy::unwrap_used, reason = "a test that cannot set up its repository has failed")]
pub mod testing;
mod tree;
pub mod trust;
mod verify;
mod vouch;

pub use cache::Cache;
pub use error::Error;
pub use generation::{Generation, Pin};
pub use heal::Healed;
pub use integrity::{Depth, Tampered};
pub use record::{Kept, Record, Stamp};
pub use refusal::{CacheError, Refusal};
pub use repository::Repository;
pub use stage::{DIRECTORY, Staged};
pub use store::{Commit, Store};
pub use tree::{Limits, Tree};
pub use verify::{Ancestry, Newest, Proof, Verified};
