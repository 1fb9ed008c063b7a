//! Resources: other systems that a node manages. A pillar and a state tree in, an inventory out; for each resource its grains, its
//! machine, its execution functions; and the outcomes of all of them folded into one report.
//!
//! Law: what a resource answers is data. It is bounded, and none of it becomes a path, a command or a template of the node that
//! manages it (held by `a_custom_type_that_floods_is_cut_off`, `an_id_from_discovery_is_checked`).

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

pub mod custom;
pub mod dummy;
pub mod grains;
pub mod host;
pub mod inventory;
pub mod merge;
pub mod ssh;
pub mod store;

pub use host::ResourceHost;
pub use inventory::{Inventory, Resource};
pub use merge::{ResourceOutcome, fold};
pub use store::ResourceStore;

/// Why something could not be done with a resource.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// The executable of a type failed.
    #[error("resource type `{kind}`: {message}")]
    Type {
        /// The type.
        kind: String,
        /// What went wrong.
        message: String,
    },
    /// The directory of a chroot cannot be used.
    #[error("cannot use the directory of a chroot resource")]
    Root(#[source] zagent_host::fs::FsError),
    /// A file about the resource cannot be used.
    #[error(transparent)]
    File(#[from] zagent_config::json_file::JsonFileError),
    /// The files of a resource cannot be removed.
    #[error("cannot remove `{}`", path.display())]
    Remove {
        /// The directory.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is no way to reach it.
    #[error("{0}")]
    Unreachable(String),
}
