//! States of the module `stateconf`, which do nothing: they only speak to a renderer.

use crate::named_args::NamedArgs;
use crate::shared::planned_state::StatePlan;
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, Effects, StateCtx, StateError};

/// The module `stateconf`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "stateconf",
    build,
    functions: &[],
    undo: &[],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule {
    functions: &[StoreFunction::new("set", plan_nothing), StoreFunction::new("context", plan_nothing)],
    login: None,
    reads: Effects::NONE,
    writes: Effects::NONE,
};

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

#[expect(clippy::unnecessary_wraps, reason = "it is a planner among others")]
fn plan_nothing(_: &NamedArgs<'_>, _: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    Ok(StatePlan::InSync(String::new()))
}
