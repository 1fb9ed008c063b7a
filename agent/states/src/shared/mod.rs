//! What several state modules share.

pub mod account_checks;
pub mod accounts;
pub(crate) mod apache;
pub mod command_plan;
pub(crate) mod docker;
pub(crate) mod docker_functions;
pub mod lang_pkg;
pub(crate) mod lang_pkg_state;
pub(crate) mod mysql;
pub(crate) mod mysql_functions;
pub mod netfilter;
pub mod pep440;
pub(crate) mod planned_state;
pub(crate) mod postgres;
pub(crate) mod postgres_functions;
pub(crate) mod store_plan;
pub(crate) mod store_undo;
pub mod text_file;
pub mod yaml_map_file;
