//! What programs keep (databases, containers, volumes): asked and told by their clients, for functions and states alike.

pub mod mysql;
pub mod mysql_grant;
pub mod postgres_objects;
pub mod postgres_privileges;
pub mod postgres_role;
pub mod psql;

pub use crate::named_args::{NamedArgs, with_map_args};

use crate::functions::ExecFunction;

pub const FUNCTION_TABLES: [&[ExecFunction]; 3] = [
    crate::functions::postgres::FUNCTIONS,
    crate::functions::mysql::FUNCTIONS,
    crate::docker_container::engine::FUNCTIONS,
];
