//! The state matrix: rows of tests/matrix in, their results in a container out.

mod judge;
mod page;
mod row;

pub use judge::{Bench, Cell, Verdict};
pub use page::page;
pub use row::{Expected, Row, read};

use std::path::PathBuf;

/// The directory of the rows, one file per module.
#[must_use]
pub fn dir() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/matrix"))
}
