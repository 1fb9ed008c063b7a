//! Modules of databases, containers, volumes and the like: a module and a function in, a state out.

use crate::{BuildResult, ChunkArgs, StateModule, Undoable};

/// The modules, by name.
pub(crate) const MODULES: &[StateModule] = &[
    crate::apache_conf::MODULE,
    crate::apache_module::MODULE,
    crate::apache_site::MODULE,
    crate::docker_container::MODULE,
    crate::docker_image::MODULE,
    crate::docker_network::MODULE,
    crate::docker_volume::MODULE,
    crate::lvm::MODULE,
    crate::mysql_database::MODULE,
    crate::mysql_grants::MODULE,
    crate::mysql_query::MODULE,
    crate::mysql_user::MODULE,
    crate::pdbedit::MODULE,
    crate::postgres_database::MODULE,
    crate::postgres_extension::MODULE,
    crate::postgres_group::MODULE,
    crate::postgres_language::MODULE,
    crate::postgres_privileges::MODULE,
    crate::postgres_schema::MODULE,
    crate::postgres_tablespace::MODULE,
    crate::postgres_user::MODULE,
    crate::stateconf::MODULE,
];

/// Makes the state of a function of these modules; nothing when there is no such function.
pub fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let module = MODULES.iter().find(|module| module.name == state)?;
    (module.build)(fun, args)
}

/// What a revert can restore.
pub const UNDOABLES: &[&dyn Undoable] = &[
    &crate::shared::postgres::POSTGRES_ROLE_UNDO,
    &crate::postgres_database::POSTGRES_DATABASE_UNDO,
    &crate::shared::postgres::POSTGRES_OBJECT_UNDO,
    &crate::postgres_privileges::POSTGRES_PRIVILEGES_UNDO,
    &crate::mysql_user::MYSQL_USER_UNDO,
    &crate::mysql_database::MYSQL_DATABASE_UNDO,
    &crate::mysql_grants::MYSQL_GRANTS_UNDO,
    &crate::docker_container::DOCKER_CONTAINER_UNDO,
    &crate::shared::docker::DOCKER_OBJECT_UNDO,
    &crate::lvm::LVM_UNDO,
    &crate::shared::apache::APACHE_UNDO,
    &crate::pdbedit::PDBEDIT_UNDO,
];
