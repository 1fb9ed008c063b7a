//! The clients of databases: statements in, what the server says out, for functions and states alike.

pub(crate) mod mysql;
pub(crate) mod mysql_grant;
pub(crate) mod postgres_objects;
pub(crate) mod postgres_privileges;
pub(crate) mod postgres_role;
pub(crate) mod psql;
