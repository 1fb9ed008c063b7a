//! What several state modules share.

pub mod account_checks;
pub mod accounts;
pub mod command_plan;
pub mod lang_pkg;
pub mod netfilter;
pub mod pep440;
pub mod text_file;
pub mod yaml_map_file;
