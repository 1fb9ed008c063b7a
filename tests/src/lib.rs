//! Shared test code: the corpus of trees that real Salt compiled and ran, and the rules that decide whether two
//! compilations or runs are equal; random or in-memory trees and nodes; hosts to run one SLS on, and complete Debian
//! containers to run the agent on; the state matrix; whole fleets on virtual time; hostile inputs.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

pub mod container;
pub mod corpus;
pub mod fleet;
pub mod honesty;
pub mod matrix;
pub mod memory;
pub mod mutate;
pub mod node;
pub mod order_keys;
pub mod site;
pub mod trees;
pub mod twin;
