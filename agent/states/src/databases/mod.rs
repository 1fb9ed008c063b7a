//! The clients of databases: statements in, what the server says out, for functions and states alike.

pub mod mysql;
pub mod mysql_grant;
pub mod postgres_objects;
pub mod postgres_privileges;
pub mod postgres_role;
pub mod psql;
