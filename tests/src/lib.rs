//! What crosses crates: the corpus of trees that real Salt compiled and ran, and the rules by which two compilations or two
//! runs are equal; trees and nodes that live in memory or are drawn by lot; hosts to run one SLS on; inputs that were never
//! meant to be seen.

pub mod corpus;
pub mod memory;
pub mod mutate;
pub mod site;
pub mod trees;
