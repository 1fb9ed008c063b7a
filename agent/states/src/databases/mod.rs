//! What programs keep (databases, containers, volumes): asked and told by their clients, for functions and states alike.

pub mod mysql;
pub mod mysql_grant;
pub mod postgres_objects;
pub mod postgres_privileges;
pub mod postgres_role;
pub mod psql;

pub use crate::named_args::{NamedArgs, with_map_args};
