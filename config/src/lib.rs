//! Everything a human writes for zagent, parsed and checked: configuration, ids, paths, targets; and the values
//! and faults that all crates share.

pub mod codes;
pub mod cron;
pub mod fault;
pub mod glob;
pub mod ids;
pub mod manifest;
pub mod paths;
pub mod pattern;
pub mod salt_config;
pub mod secret;
pub mod settings;
pub mod suggest;
pub mod target;
mod text;
pub mod value;
mod yaml;

pub use fault::{Excerpt, Fault, Faults, Place, Step};
pub use value::{List, Map, Pos, Value};
