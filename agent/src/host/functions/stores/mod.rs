//! What programs keep (databases, containers, volumes): asked and told by their clients, for functions and states alike.

pub(crate) mod docker;
mod given;
pub(crate) mod grants;
pub(crate) mod mysql;
mod mysql_table;
pub(crate) mod postgres;
mod postgres_table;
pub(crate) mod privileges;
pub(crate) mod psql;
pub(crate) mod role;

pub(crate) use given::{Given, of_map};

use super::Entry;

pub(super) const TABLES: [&[Entry]; 3] = [postgres_table::TABLE, mysql_table::TABLE, docker::TABLE];
