//! States of the module `postgres_privileges`: what roles may do with objects.

pub(crate) mod functions;

use zagent_config::Map;

use crate::databases::postgres_privileges::PrivilegeRequest;
use crate::databases::psql::PsqlClient;
use crate::named_args::NamedArgs;
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::postgres::{POSTGRES_LOGIN, run_statement, undo_key};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::shared::store_undo::StoreUndo;
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};

/// The module `postgres_privileges`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "postgres_privileges",
    build,
    functions: functions::TABLE,
    undo: &[&POSTGRES_PRIVILEGES_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("present", |given, ctx| plan_privileges(given, ctx, true)),
        StoreFunction::new("absent", |given, ctx| plan_privileges(given, ctx, false)),
    ],
    Some(&POSTGRES_LOGIN),
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

/// What a role may do with an object.
pub(crate) static POSTGRES_PRIVILEGES_UNDO: StoreUndo = StoreUndo {
    kind: "postgres_privileges",
    login: Some(&POSTGRES_LOGIN),
    capture: |given, ctx| {
        Ok(PrivilegeRequest::new(given)?
            .current_privileges(&PsqlClient::from_journal_key(given), &ctx.tools())?
            .into())
    },
    restore: |given, to, ctx| {
        let sql = PrivilegeRequest::new(given)?.restore_sql(to.as_map().unwrap_or(&Map::new()));
        PsqlClient::from_journal_key(given).run(&ctx.tools(), &sql)?;
        Ok(())
    },
    keep_reason: None,
};

fn plan_privileges(
    given: &NamedArgs<'_>,
    ctx: &StateCtx<'_>,
    present: bool,
) -> Result<StatePlan, StateError> {
    let (psql, wish, tools) =
        (PsqlClient::from_state_args(given), PrivilegeRequest::new(given)?, ctx.tools());
    if wish.has_privileges(&psql, &tools, present)? == present {
        return Ok(StatePlan::InSync(match present {
            true => "The requested privilege(s) are already set".to_owned(),
            false => "The requested privilege(s) are not set so cannot be revoked".to_owned(),
        }));
    }
    let what = if wish.privileges.is_empty() { wish.object.clone() } else { wish.privileges.join(",") };
    let (verb, done, to) = if present { ("grant", "granted", "to") } else { ("revoke", "revoked", "from") };
    let role = &wish.role;
    let sql = wish.change_sql(present, &wish.current_privileges(&psql, &tools)?)?;
    let mut more = Vec::new();
    for part in ["object_name", "object_type", "privileges", "prepend"] {
        if let Some(texts) = given.text_list(part) {
            more.push((
                part,
                if part == "object_name" { given.require_text(part)? } else { texts.join(",") },
            ));
        }
    }
    let more: Vec<(&str, &str)> = more.iter().map(|(k, v)| (*k, v.as_str())).collect();
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("The privilege(s): {what} are set to be {done} {to} {role}"),
        done_comment: format!("The privilege(s): {what} have been {done} {to} {role}"),
        failure_prefix: format!("Failed to {verb} privilege(s): {what} {to} {role}"),
        changes: single_change(role, if present { "Present" } else { "Absent" }),
        undoable: Some((&POSTGRES_PRIVILEGES_UNDO, undo_key(&psql, role, &more))),
        run_change: run_statement(psql, sql),
    }))
}
