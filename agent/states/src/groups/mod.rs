//! State modules that are built together.

pub mod apache;
pub mod mysql;
pub mod postgres;
pub mod postgres_objects;
pub mod rows;
pub mod stores;
