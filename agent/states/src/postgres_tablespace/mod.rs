//! States of the module `postgres_tablespace`: tablespaces of a server.

pub(crate) mod functions;

use zagent_config::{Map, Value};

use crate::databases::postgres_objects as pg;
use crate::databases::postgres_objects::find_by_name;
use crate::databases::psql::{PsqlClient, quote_ident};
use crate::named_args::NamedArgs;
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::postgres::{POSTGRES_LOGIN, POSTGRES_OBJECT_UNDO, plan_removal, run_statement, undo_key};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};

/// The module `postgres_tablespace`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "postgres_tablespace",
    build,
    functions: functions::TABLE,
    undo: &[&POSTGRES_OBJECT_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[StoreFunction::new("present", tablespace_present), StoreFunction::new("absent", tablespace_absent)],
    Some(&POSTGRES_LOGIN),
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

fn tablespace_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (psql, name, directory) =
        (PsqlClient::from_state_args(given), given.require_text("name")?, given.require_text("directory")?);
    let all = psql.rows_by_name(&ctx.tools(), pg::LIST_TABLESPACES)?;
    let thing = Some((&POSTGRES_OBJECT_UNDO as _, undo_key(&psql, &name, &[("type", "TABLESPACE")])));
    let Some(now) = find_by_name(&all, &name) else {
        return Ok(StatePlan::Change(PlannedChange {
            preview_comment: format!("Tablespace {name} is set to be created"),
            done_comment: format!("The tablespace {name} has been created"),
            failure_prefix: format!("Failed to create tablespace {name}"),
            changes: single_change(&name, "Present"),
            undoable: thing,
            run_change: run_statement(psql, pg::create_tablespace(given, &name, &directory)?),
        }));
    };
    let text = |key: &str| now.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("Location") != directory {
        return Err(StateError::new(format!(
            "Tablespace {name} is not at the right location. This is unfixable without dropping and recreating the tablespace."
        )));
    }
    let (mut sql, mut changes, mut did) = (String::new(), Map::new(), "opts");
    if let Some(owner) = given.text("owner").filter(|o| text("Owner") != o) {
        sql.push_str(&format!("ALTER TABLESPACE {} OWNER TO {};\n", quote_ident(&name), quote_ident(&owner)));
        changes.insert("owner", owner);
        did = "owner";
    }
    let held: Vec<&str> = text("Opts").trim_matches(['{', '}']).split(',').collect();
    let mut options = Map::new();
    for (k, v) in given.pairs("options").iter() {
        let wanted = pg::tablespace_setting(k, v)?;
        let plain = wanted.replace(['"', ' '], "");
        if !held.iter().any(|h| *h == plain || *h == format!("{}={}", k.json_key(), v.json_key())) {
            sql.push_str(&format!("ALTER TABLESPACE {} SET ({wanted});\n", quote_ident(&name)));
            options.insert(k.clone(), v.clone());
        }
    }
    if sql.is_empty() {
        return Ok(StatePlan::InSync(format!("Tablespace {name} is already present")));
    }
    if !options.is_empty() {
        changes.insert("options", options);
        did = "opts";
    }
    let to_be = if did == "opts" { "options" } else { "owner" };
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Tablespace {name} {to_be} to be altered"),
        done_comment: format!("Tablespace {name} {did} changed"),
        failure_prefix: format!("Failed to change tablespace {name}"),
        changes: single_change(&name, changes),
        undoable: thing,
        run_change: run_statement(psql, sql),
    }))
}

fn tablespace_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    if !psql.rows_by_name(&ctx.tools(), pg::LIST_TABLESPACES)?.contains(&name) {
        return Ok(StatePlan::InSync(format!("Tablespace {name} is not present, so it cannot be removed")));
    }
    let thing = Some((&POSTGRES_OBJECT_UNDO as _, undo_key(&psql, &name, &[("type", "TABLESPACE")])));
    let sql = format!("DROP TABLESPACE {};", quote_ident(&name));
    Ok(plan_removal("Tablespace", &name, "", thing, run_statement(psql, sql)))
}
