//! What crosses crates: the corpus of trees that real Salt compiled and ran, and the rules by which two compilations or two
//! runs are equal; trees and nodes that live in memory or are drawn by lot; hosts to run one SLS on, and whole Debians to run
//! the agent on; the matrix of states; whole fleets on virtual time; inputs that were never meant to be seen.

pub mod container;
pub mod corpus;
pub mod fleet;
pub mod matrix;
pub mod memory;
pub mod mutate;
pub mod node;
pub mod site;
pub mod trees;
pub mod twin;
