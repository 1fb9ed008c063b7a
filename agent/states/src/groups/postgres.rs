//! States of the modules `postgres_*`.

use zagent_config::{Map, Value};

use crate::databases::postgres_objects as pg;
use crate::databases::postgres_objects::find_by_name;
use crate::databases::psql::{PsqlClient, quote_ident, quote_literal};
use crate::databases::{NamedArgs, postgres_role};
use crate::groups::stores::{
    ChangeFn, PlannedChange, StorePlan, StorePlanner, StorePlannerRow, StoreUndo, single_change,
};
use crate::{StateCtx, StateError, Undoable};

const DATABASE_DROPPED: Option<&str> = Some("a database that was dropped cannot come back");

pub const PLANNERS: &[StorePlannerRow] = &[
    ("postgres_user", "present", |g, s| role_present(g, s, true), None),
    ("postgres_user", "absent", |g, s| role_absent(g, s, "User"), None),
    ("postgres_group", "present", |g, s| role_present(g, s, false), None),
    ("postgres_group", "absent", |g, s| role_absent(g, s, "Group"), None),
    ("postgres_database", "present", database_present as StorePlanner, None),
    ("postgres_database", "absent", database_absent, DATABASE_DROPPED),
    ("postgres_schema", "present", crate::groups::postgres_objects::schema_present, None),
    ("postgres_schema", "absent", crate::groups::postgres_objects::schema_absent, None),
    ("postgres_extension", "present", crate::groups::postgres_objects::extension_present, None),
    (
        "postgres_extension",
        "absent",
        crate::groups::postgres_objects::extension_absent,
        Some("what depended on the extension is gone with it"),
    ),
    ("postgres_tablespace", "present", crate::groups::postgres_objects::tablespace_present, None),
    ("postgres_tablespace", "absent", crate::groups::postgres_objects::tablespace_absent, None),
    ("postgres_language", "present", |g, s| crate::groups::postgres_objects::plan_language(g, s, true), None),
    ("postgres_language", "absent", |g, s| crate::groups::postgres_objects::plan_language(g, s, false), None),
    (
        "postgres_privileges",
        "present",
        |g, s| crate::groups::postgres_objects::plan_privileges(g, s, true),
        None,
    ),
    (
        "postgres_privileges",
        "absent",
        |g, s| crate::groups::postgres_objects::plan_privileges(g, s, false),
        None,
    ),
];

pub use crate::groups::postgres_objects::{POSTGRES_OBJECT_UNDO, POSTGRES_PRIVILEGES_UNDO};

pub static POSTGRES_ROLE_UNDO: StoreUndo = StoreUndo {
    kind: "postgres_role",
    capture: |given, ctx| {
        let all = postgres_role::list_roles(&PsqlClient::from_journal_key(given), &ctx.tools(), true)?;
        Ok(all.get(&given.require_text("name")?).cloned().unwrap_or(Value::Null))
    },
    restore: |given, to, ctx| {
        let (psql, name, tools) =
            (PsqlClient::from_journal_key(given), given.require_text("name")?, ctx.tools());
        let all = postgres_role::list_roles(&psql, &tools, false)?;
        let now = find_by_name(&all, &name);
        let Some(was) = to.as_map() else {
            psql.run(&tools, &format!("DROP ROLE {};", quote_ident(&name)))?;
            return Ok(());
        };
        let groups = |row: &Map| -> Vec<String> {
            row.get("groups")
                .and_then(Value::as_list)
                .map(|l| l.iter().map(Value::json_key).collect())
                .unwrap_or_default()
        };
        let mut sql = postgres_role::restore_role_sql(&name, was, now.is_none());
        let (before, after) = (groups(was), now.map(groups).unwrap_or_default());
        for group in after.iter().filter(|g| !before.contains(g)) {
            sql.push_str(&format!("REVOKE {} FROM {};\n", quote_ident(group), quote_ident(&name)));
        }
        sql.push_str(&postgres_role::grant_groups_sql(
            &name,
            before.into_iter().filter(|g| !after.contains(g)).collect(),
        ));
        psql.run(&tools, &sql)?;
        Ok(())
    },
    keep_reason: None,
};

pub static POSTGRES_DATABASE_UNDO: StoreUndo = StoreUndo {
    kind: "postgres_database",
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
            (Some(_), None) => return Err(StateError::new("a database that was dropped cannot come back")),
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

/// An act of one text of statements.
pub(crate) fn run_statement(psql: PsqlClient, sql: String) -> ChangeFn {
    Box::new(move |ctx| Ok(psql.run(&ctx.tools(), &sql).map(|_| ())?))
}

fn role_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>, is_user: bool) -> Result<StorePlan, StateError> {
    let (psql, name, tools) = (PsqlClient::from_state_args(given), given.require_text("name")?, ctx.tools());
    let (noun, small) = if is_user { ("User", "user") } else { ("Group", "group") };
    let all = postgres_role::list_roles(
        &psql,
        &tools,
        !given.is_enabled("refresh_password") && given.get("password").is_some(),
    )?;
    let password = given.text("password");
    let (mode, changes, sql) = match find_by_name(&all, &name) {
        None => {
            let password = password.or_else(|| given.text("default_password"));
            (
                "create",
                Value::from("Present"),
                postgres_role::create_role_sql(given, &name, is_user, password)?,
            )
        }
        Some(now) => {
            let expiry = match given.text("valid_until") {
                Some(text) => {
                    let rows =
                        psql.rows(&tools, &format!("SELECT {}::timestamp(0) AS dt", quote_literal(&text)))?;
                    rows.first().and_then(|r| r.get("dt")).and_then(Value::as_str).map(str::to_owned)
                }
                None => None,
            };
            let update =
                postgres_role::role_differences(given, &name, now, password.as_deref(), expiry.as_deref());
            if update.is_empty() {
                return Ok(StorePlan::InSync(format!("{noun} {name} is already present")));
            }
            let sql = postgres_role::alter_role_sql(given, &name, &update, password)?;
            ("update", update.into(), sql)
        }
    };
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("{noun} {name} is set to be {mode}d"),
        done_comment: format!("The {small} {name} has been {mode}d"),
        failure_prefix: format!("Failed to {mode} {small} {name}"),
        changes: single_change(&name, changes),
        undoable: Some((&POSTGRES_ROLE_UNDO, psql.journal_key(&name))),
        run_change: run_statement(psql, sql),
    }))
}

fn role_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>, noun: &str) -> Result<StorePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    if !postgres_role::list_roles(&psql, &ctx.tools(), false)?.contains(&name) {
        return Ok(StorePlan::InSync(format!("{noun} {name} is not present, so it cannot be removed")));
    }
    let sql = format!("DROP ROLE {};", quote_ident(&name));
    Ok(plan_removal(
        noun,
        &name,
        "",
        Some((&POSTGRES_ROLE_UNDO, psql.journal_key(&name))),
        run_statement(psql, sql),
    ))
}

/// The plan that takes something away.
pub(crate) fn plan_removal(
    noun: &str,
    name: &str,
    whence: &str,
    thing: Option<(&'static dyn Undoable, Value)>,
    act: ChangeFn,
) -> StorePlan {
    StorePlan::Change(PlannedChange {
        preview_comment: format!("{noun} {name} is set to be removed{whence}"),
        done_comment: format!("{noun} {name} has been removed{whence}"),
        failure_prefix: format!("{noun} {name} failed to be removed"),
        changes: single_change(name, "Absent"),
        undoable: thing,
        run_change: act,
    })
}

fn database_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    let all = psql.rows_by_name(&ctx.tools(), pg::LIST_DATABASES)?;
    let key = Some((&POSTGRES_DATABASE_UNDO as &'static dyn Undoable, psql.journal_key(&name)));
    let Some(now) = find_by_name(&all, &name) else {
        return Ok(StorePlan::Change(PlannedChange {
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
        return Ok(StorePlan::InSync(format!("Database {name} is already present")));
    }
    let mut wanted = Map::new();
    for key in ["owner", "owner_recurse", "tablespace"] {
        if let Some(value) = given.get(key) {
            wanted.insert(key, value.clone());
        }
    }
    let own = name.clone();
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Database {name} exists, but parameters need to be changed"),
        done_comment: format!("Parameters for database {name} have been changed"),
        failure_prefix: format!("Failed to change parameters for database {name}"),
        changes: single_change(&name, "Parameters changed"),
        undoable: key,
        run_change: Box::new(move |ctx| {
            crate::groups::stores::with_map_args(&wanted, |given| {
                Ok(pg::alter_database(&psql, &ctx.tools(), given, &own)?)
            })
        }),
    }))
}

fn database_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    if !psql.rows_by_name(&ctx.tools(), pg::LIST_DATABASES)?.contains(&name) {
        return Ok(StorePlan::InSync(format!("Database {name} is not present, so it cannot be removed")));
    }
    Ok(plan_removal("Database", &name, "", None, run_statement(psql, pg::drop_database(&name))))
}
