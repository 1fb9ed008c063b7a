//! The matrix of states: rows of tests/matrix in, for each of them what became of it in a container out.

mod judge;
mod page;
mod row;

pub use judge::{Bench, Cell, Verdict};
pub use page::page;
pub use row::{Expected, Row, read};

use std::path::PathBuf;

/// Where the rows are, one file a module.
#[must_use]
pub fn dir() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/matrix"))
}
