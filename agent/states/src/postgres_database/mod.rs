//! States of the module `postgres_database`: databases of PostgreSQL.

pub(crate) mod functions;

use zagent_config::{Map, Value};

use crate::databases::postgres_objects as pg;
use crate::databases::postgres_objects::find_by_name;
use crate::databases::psql::{PsqlClient, quote_ident};
use crate::named_args::{NamedArgs, with_map_args};
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::postgres::{POSTGRES_LOGIN, plan_removal, run_statement};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::shared::store_undo::StoreUndo;
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError, Undoable};

const DATABASE_DROPPED: &str = "a database that was dropped cannot come back";

/// The module `postgres_database`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "postgres_database",
    build,
    functions: functions::TABLE,
    undo: &[&POSTGRES_DATABASE_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("present", database_present),
        StoreFunction::new("absent", database_absent).irreversible(DATABASE_DROPPED),
    ],
    Some(&POSTGRES_LOGIN),
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

/// A database with its owner and tablespace.
pub(crate) static POSTGRES_DATABASE_UNDO: StoreUndo = StoreUndo {
    kind: "postgres_database",
    login: Some(&POSTGRES_LOGIN),
    capture: |given, ctx| {
        let all = PsqlClient::from_journal_key(given).rows_by_name(&ctx.tools(), pg::LIST_DATABASES)?;
        let Some(row) = find_by_name(&all, &given.require_text("name")?) else { return Ok(Value::Null) };
        let part = |key: &str| (key.to_ascii_lowercase(), row.get(key).cloned().unwrap_or(Value::Null));
        Ok(Map::from_iter([part("Owner"), part("Tablespace")].map(|(k, v)| (Value::from(k), v))).into())
    },
    restore: |given, to, ctx| {
        let (psql, name, tools) =
            (PsqlClient::from_journal_key(given), given.require_text("name")?, ctx.tools());
        let all = psql.rows_by_name(&tools, pg::LIST_DATABASES)?;
        let sql = match (to.as_map(), find_by_name(&all, &name)) {
            (None, _) => format!("DROP DATABASE {};", quote_ident(&name)),
            (Some(_), None) => return Err(StateError::new(DATABASE_DROPPED)),
            (Some(was), Some(now)) => {
                let text = |row: &Map, key: &str| {
                    row.get(key).and_then(Value::as_str).map(quote_ident).unwrap_or_default()
                };
                let mut sql =
                    format!("ALTER DATABASE {} OWNER TO {};\n", quote_ident(&name), text(was, "owner"));
                if text(was, "tablespace") != text(now, "Tablespace") {
                    sql.push_str(&format!(
                        "ALTER DATABASE {} SET TABLESPACE {};\n",
                        quote_ident(&name),
                        text(was, "tablespace")
                    ));
                }
                sql
            }
        };
        psql.run(&tools, &sql)?;
        Ok(())
    },
    keep_reason: Some(|given, ctx| {
        let rows = PsqlClient::from_journal_key(given)
            .in_database(&given.require_text("name")?)
            .rows(&ctx.tools(), USER_OBJECTS_SQL)?;
        let count = rows.first().and_then(|r| r.get("held")).and_then(Value::as_str);
        Ok((count != Some("0")).then(|| "there are tables in the database".to_owned()))
    }),
};

/// How much of a database is somebody's: tables and the like that no extension brought, and large objects.
const USER_OBJECTS_SQL: &str = "SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relkind IN ('r', 'p', 'm', 'v', 'f', 'S') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' \
     AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')) \
     + (SELECT count(*) FROM pg_largeobject_metadata) AS held";

fn database_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    let all = psql.rows_by_name(&ctx.tools(), pg::LIST_DATABASES)?;
    let key = Some((&POSTGRES_DATABASE_UNDO as &'static dyn Undoable, psql.journal_key(&name)));
    let Some(now) = find_by_name(&all, &name) else {
        return Ok(StatePlan::Change(PlannedChange {
            preview_comment: format!("Database {name} is set to be created"),
            done_comment: format!("The database {name} has been created"),
            failure_prefix: format!("Failed to create database {name}"),
            changes: single_change(&name, "Present"),
            undoable: key,
            run_change: run_statement(psql, pg::create_database(given, &name)),
        }));
    };
    let differs = |argument: &str, column: &str| {
        let has = now.get(column).and_then(Value::as_str).unwrap_or_default();
        given.text(argument).is_some_and(|want| match argument {
            "encoding" => !want.eq_ignore_ascii_case(has),
            _ => want != has,
        })
    };
    if differs("encoding", "Encoding") || differs("lc_collate", "Collate") || differs("lc_ctype", "Ctype") {
        return Err(StateError::new(format!(
            "Database {name} has wrong parameters which couldn't be changed on fly."
        )));
    }
    if !differs("tablespace", "Tablespace") && !differs("owner", "Owner") {
        return Ok(StatePlan::InSync(format!("Database {name} is already present")));
    }
    let mut wanted = Map::new();
    for key in ["owner", "owner_recurse", "tablespace"] {
        if let Some(value) = given.get(key) {
            wanted.insert(key, value.clone());
        }
    }
    let own = name.clone();
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Database {name} exists, but parameters need to be changed"),
        done_comment: format!("Parameters for database {name} have been changed"),
        failure_prefix: format!("Failed to change parameters for database {name}"),
        changes: single_change(&name, "Parameters changed"),
        undoable: key,
        run_change: Box::new(move |ctx| {
            with_map_args(&wanted, |given| Ok(pg::alter_database(&psql, &ctx.tools(), given, &own)?))
        }),
    }))
}

fn database_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    if !psql.rows_by_name(&ctx.tools(), pg::LIST_DATABASES)?.contains(&name) {
        return Ok(StatePlan::InSync(format!("Database {name} is not present, so it cannot be removed")));
    }
    Ok(plan_removal("Database", &name, "", None, run_statement(psql, pg::drop_database(&name))))
}
