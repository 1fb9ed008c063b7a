//! What programs keep (databases, containers, volumes): asked and told by their clients, for functions and states alike.

pub(crate) mod docker;
pub(crate) mod mysql;
mod mysql_functions;
pub(crate) mod mysql_grant;
mod named_args;
mod postgres_functions;
pub(crate) mod postgres_objects;
pub(crate) mod postgres_privileges;
pub(crate) mod postgres_role;
pub(crate) mod psql;

pub(crate) use named_args::{NamedArgs, with_map_args};

use super::ExecFunction;

pub(super) const FUNCTION_TABLES: [&[ExecFunction]; 3] =
    [postgres_functions::FUNCTIONS, mysql_functions::FUNCTIONS, docker::FUNCTIONS];
