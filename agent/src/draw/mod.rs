//! Diagnostics in, drawings out.

pub mod diagnostic;
