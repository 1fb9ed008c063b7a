//! State modules that are built together.

#[cfg(test)]
pub mod account_tests;
pub mod accounts;
pub mod fetch;
pub mod firewall;
pub mod packages;
#[cfg(test)]
pub mod service_tests;
pub mod services;
pub mod stores;
