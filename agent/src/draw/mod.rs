//! Faults and graphs in, pictures out.

pub mod fault;
pub mod graph;
