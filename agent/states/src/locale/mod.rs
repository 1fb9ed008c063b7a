//! `locale`: which locales exist, and which one the system speaks.

pub(crate) mod functions;
pub mod locale_gen;
