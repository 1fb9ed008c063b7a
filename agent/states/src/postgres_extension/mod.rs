//! States of the module `postgres_extension`: extensions of a database.

pub(crate) mod functions;

use crate::databases::postgres_objects as pg;
use crate::databases::postgres_objects::find_by_name;
use crate::databases::psql::PsqlClient;
use crate::named_args::NamedArgs;
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::postgres::{POSTGRES_LOGIN, POSTGRES_OBJECT_UNDO, plan_removal, run_statement, undo_key};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};

/// The module `postgres_extension`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "postgres_extension",
    build,
    functions: functions::TABLE,
    undo: &[&POSTGRES_OBJECT_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("present", extension_present),
        StoreFunction::new("absent", extension_absent)
            .irreversible("what depended on the extension is gone with it"),
    ],
    Some(&POSTGRES_LOGIN),
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

fn extension_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    let all = psql.rows_by_name(&ctx.tools(), pg::LIST_EXTENSIONS)?;
    let now = find_by_name(&all, &name);
    let sql = pg::extension_sql(given, &name, now);
    if sql.is_empty() {
        return Ok(StatePlan::InSync(format!("Extension {name} is already present")));
    }
    let (mode, done) = if now.is_none() { ("install", "installed") } else { ("upgrade", "upgraded") };
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Extension {name} is set to be {done}"),
        done_comment: format!("The extension {name} has been {done}"),
        failure_prefix: format!("Failed to {mode} extension {name}"),
        changes: single_change(&name, if now.is_none() { "Installed" } else { "Upgraded" }),
        undoable: Some((&POSTGRES_OBJECT_UNDO, undo_key(&psql, &name, &[("type", "EXTENSION")]))),
        run_change: run_statement(psql, sql),
    }))
}

fn extension_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    if !psql.rows_by_name(&ctx.tools(), pg::LIST_EXTENSIONS)?.contains(&name) {
        return Ok(StatePlan::InSync(format!("Extension {name} is not present, so it cannot be removed")));
    }
    Ok(plan_removal("Extension", &name, "", None, run_statement(psql, pg::drop_extension(given, &name))))
}
