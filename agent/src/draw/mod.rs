//! Diagnostics and graphs in, drawings out.

pub mod diagnostic;
pub mod graph;
