//! `locale`: which locales exist, and which one the system speaks.

pub mod locale_gen;
