//! States of the module `postgres_language`: languages of a database.

pub(crate) mod functions;

use crate::databases::postgres_objects as pg;
use crate::databases::psql::{PsqlClient, quote_ident};
use crate::named_args::NamedArgs;
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::postgres::{POSTGRES_LOGIN, POSTGRES_OBJECT_UNDO, plan_removal, run_statement, undo_key};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};

/// The module `postgres_language`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "postgres_language",
    build,
    functions: functions::TABLE,
    undo: &[&POSTGRES_OBJECT_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("present", |given, ctx| plan_language(given, ctx, true)),
        StoreFunction::new("absent", |given, ctx| plan_language(given, ctx, false)),
    ],
    Some(&POSTGRES_LOGIN),
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

fn plan_language(given: &NamedArgs<'_>, ctx: &StateCtx<'_>, present: bool) -> Result<StatePlan, StateError> {
    let (psql, name, tools) = (PsqlClient::from_state_args(given), given.require_text("name")?, ctx.tools());
    given.require_text("maintenance_db")?;
    if psql.rows_by_name(&tools, pg::LIST_LANGUAGES)?.contains(&name) == present {
        return Ok(StatePlan::InSync(match present {
            true => format!("Language {name} is already installed"),
            false => format!("Language {name} is not present so it cannot be removed"),
        }));
    }
    // A language that an extension brought along goes with it.
    let is_extension = psql.rows_by_name(&tools, pg::LIST_EXTENSIONS)?.contains(&name);
    let kind = if is_extension { "EXTENSION" } else { "LANGUAGE" };
    let thing = Some((&POSTGRES_OBJECT_UNDO as _, undo_key(&psql, &name, &[("type", kind)])));
    if !present {
        let sql = format!("DROP {kind} {};", quote_ident(&name));
        return Ok(plan_removal("Language", &name, "", thing, run_statement(psql, sql)));
    }
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Language {name} is set to be installed"),
        done_comment: format!("Language {name} has been installed"),
        failure_prefix: format!("Failed to install language {name}"),
        changes: single_change(&name, "Present"),
        undoable: thing,
        run_change: run_statement(psql, format!("CREATE LANGUAGE {};", quote_ident(&name))),
    }))
}
