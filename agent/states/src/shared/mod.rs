//! What several state modules share.

pub(crate) mod account_checks;
pub mod accounts;
pub(crate) mod apache;
pub(crate) mod command_plan;
pub(crate) mod docker;
pub(crate) mod docker_functions;
pub(crate) mod lang_pkg;
pub(crate) mod lang_pkg_functions;
pub(crate) mod lang_pkg_state;
pub(crate) mod mysql;
pub(crate) mod mysql_functions;
pub(crate) mod netfilter;
pub(crate) mod pep440;
pub(crate) mod planned_state;
pub(crate) mod postgres;
pub(crate) mod postgres_functions;
pub(crate) mod store_plan;
pub(crate) mod store_undo;
pub mod text_file;
pub(crate) mod yaml_map_file;
