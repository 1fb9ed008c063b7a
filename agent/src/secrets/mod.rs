//! The secrets of a states repository: who may read which file, and the encrypted texts in its files.

pub mod document;
pub mod keys;
pub mod recipients;
pub mod repository;
