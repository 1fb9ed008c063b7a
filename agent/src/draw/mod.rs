//! Faults and graphs in, pictures out.

pub mod diagnostic;
pub mod graph;
