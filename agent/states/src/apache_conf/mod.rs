//! States of the module `apache_conf`: configurations of Apache, enabled or disabled.

use crate::shared::apache::{APACHE_UNDO, link_states, plan_link};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs};

/// The module `apache_conf`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "apache_conf",
    build,
    functions: &[],
    undo: &[&APACHE_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = link_states(&[
    StoreFunction::new("enabled", |given, ctx| plan_link(given, ctx, "conf", true)),
    StoreFunction::new("disabled", |given, ctx| plan_link(given, ctx, "conf", false)),
]);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}
