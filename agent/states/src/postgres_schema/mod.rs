//! States of the module `postgres_schema`: schemas of a database.

pub(crate) mod functions;

use crate::databases::postgres_objects as pg;
use crate::databases::psql::{PsqlClient, quote_ident};
use crate::named_args::NamedArgs;
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::postgres::{POSTGRES_LOGIN, POSTGRES_OBJECT_UNDO, plan_removal, run_statement, undo_key};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};

/// The module `postgres_schema`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "postgres_schema",
    build,
    functions: functions::TABLE,
    undo: &[&POSTGRES_OBJECT_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[StoreFunction::new("present", schema_present), StoreFunction::new("absent", schema_absent)],
    Some(&POSTGRES_LOGIN),
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

fn schema_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (name, db) = (given.require_text("name")?, given.require_text("dbname")?);
    let psql = PsqlClient::from_state_args(given).in_database(&db);
    if psql.rows_by_name(&ctx.tools(), pg::LIST_SCHEMAS)?.contains(&name) {
        return Ok(StatePlan::InSync(format!("Schema {name} already exists in database {db}")));
    }
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Schema {name} is set to be created in database {db}."),
        done_comment: format!("Schema {name} has been created in database {db}"),
        failure_prefix: format!("Failed to create schema {name} in database {db}"),
        changes: single_change(&name, "Present"),
        undoable: Some((&POSTGRES_OBJECT_UNDO, undo_key(&psql, &name, &[("type", "SCHEMA")]))),
        run_change: run_statement(psql, pg::create_schema(given, &name)),
    }))
}

fn schema_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (name, db) = (given.require_text("name")?, given.require_text("dbname")?);
    let psql = PsqlClient::from_state_args(given).in_database(&db);
    if !psql.rows_by_name(&ctx.tools(), pg::LIST_SCHEMAS)?.contains(&name) {
        return Ok(StatePlan::InSync(format!(
            "Schema {name} is not present in database {db}, so it cannot be removed"
        )));
    }
    let thing = undo_key(&psql, &name, &[("type", "SCHEMA")]);
    let sql = format!("DROP SCHEMA {};", quote_ident(&name));
    Ok(plan_removal(
        "Schema",
        &name,
        &format!(" from database {db}"),
        Some((&POSTGRES_OBJECT_UNDO, thing)),
        run_statement(psql, sql),
    ))
}
