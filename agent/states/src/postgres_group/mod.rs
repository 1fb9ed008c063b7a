//! States of the module `postgres_group`: roles that others are members of.

pub(crate) mod functions;

use crate::shared::postgres::{POSTGRES_LOGIN, POSTGRES_ROLE_UNDO, role_absent, role_present};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs};

/// The module `postgres_group`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "postgres_group",
    build,
    functions: functions::TABLE,
    undo: &[&POSTGRES_ROLE_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("present", |given, ctx| role_present(given, ctx, false)),
        StoreFunction::new("absent", |given, ctx| role_absent(given, ctx, "Group")),
    ],
    Some(&POSTGRES_LOGIN),
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}
