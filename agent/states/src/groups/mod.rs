//! State modules that are built together.

#[cfg(test)]
pub mod account_tests;
pub mod accounts;
pub mod apache;
pub mod fetch;
pub mod firewall;
pub mod mysql;
pub mod packages;
pub mod postgres;
pub mod postgres_objects;
#[cfg(test)]
pub mod service_tests;
pub mod services;
pub mod stores;
