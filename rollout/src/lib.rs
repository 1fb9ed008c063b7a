//! Who goes first: nodes in, batches out.

mod batches;

pub use batches::{BatchSize, batches};
