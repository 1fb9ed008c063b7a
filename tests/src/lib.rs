//! What crosses crates: the corpus of trees that real Salt compiled and the rules by which two compilations are equal;
//! trees and nodes that live in memory; inputs that were never meant to be seen.

pub mod corpus;
pub mod memory;
pub mod mutate;
