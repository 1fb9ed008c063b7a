//! What the modules `postgres_*` share: how the server is reached, a statement as a change, and roles and objects, which
//! several modules manage.

use zagent_config::{Map, Value};

use super::planned_state::{ChangeFn, PlannedChange, StatePlan, single_change};
use super::store_undo::{ServerLogin, StoreUndo};
use crate::databases::postgres_objects as pg;
use crate::databases::postgres_objects::find_by_name;
use crate::databases::postgres_role;
use crate::databases::psql::{PsqlClient, quote_ident, quote_literal};
use crate::named_args::{NamedArgs, with_map_args};
use crate::{StateCtx, StateError, Undoable};

/// How a server of PostgreSQL is reached.
pub(crate) static POSTGRES_LOGIN: ServerLogin = ServerLogin {
    pillar_defaults: &[
        ("db_host", "postgres.host"),
        ("db_port", "postgres.port"),
        ("db_user", "postgres.user"),
        ("db_password", "postgres.pass"),
        ("maintenance_db", "postgres.maintenance_db"),
    ],
    exclusive_arg: None,
    password_arg: "db_password",
    password_key: "password",
};

/// A role: a user or a group.
pub(crate) static POSTGRES_ROLE_UNDO: StoreUndo = StoreUndo {
    kind: "postgres_role",
    login: Some(&POSTGRES_LOGIN),
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

/// Schemas, tablespaces and languages: `type` says which. What is null is taken away, what was there is made again.
pub(crate) static POSTGRES_OBJECT_UNDO: StoreUndo = StoreUndo {
    kind: "postgres_object",
    login: Some(&POSTGRES_LOGIN),
    capture: |given, ctx| {
        let all = PsqlClient::from_journal_key(given)
            .rows_by_name(&ctx.tools(), listing_query(&given.require_text("type")?))?;
        Ok(all.get(&given.require_text("name")?).cloned().unwrap_or(Value::Null))
    },
    restore: |given, to, ctx| {
        let (psql, name, kind) =
            (PsqlClient::from_journal_key(given), given.require_text("name")?, given.require_text("type")?);
        let now = psql.rows_by_name(&ctx.tools(), listing_query(&kind))?;
        let owner = to.get("Owner").or_else(|| to.get("owner")).and_then(Value::as_str).map(str::to_owned);
        let wanted = owner.iter().map(|o| ("owner", Value::from(o.as_str()))).collect::<Map>();
        let sql = match (to.as_map(), now.contains(&name), &*kind) {
            // A language that is made comes as an extension, and goes with it alone.
            (None, _, "LANGUAGE")
                if psql.rows_by_name(&ctx.tools(), pg::LIST_EXTENSIONS)?.contains(&name) =>
            {
                format!("DROP EXTENSION {};", quote_ident(&name))
            }
            (None, _, _) => format!("DROP {kind} {};", quote_ident(&name)),
            (Some(_), true, "EXTENSION" | "LANGUAGE") => String::new(),
            (Some(_), true, _) => {
                format!(
                    "ALTER {kind} {} OWNER TO {};",
                    quote_ident(&name),
                    quote_ident(owner.as_deref().unwrap_or("postgres"))
                )
            }
            (Some(_), false, "SCHEMA") => with_map_args(&wanted, |g| pg::create_schema(g, &name)),
            (Some(was), false, "TABLESPACE") => {
                let place = was.get("Location").and_then(Value::as_str).unwrap_or_default();
                with_map_args(&wanted, |g| pg::create_tablespace(g, &name, place))?
            }
            (Some(_), false, _) => format!("CREATE {kind} {};", quote_ident(&name)),
        };
        psql.run(&ctx.tools(), &sql)?;
        Ok(())
    },
    keep_reason: None,
};

fn listing_query(kind: &str) -> &'static str {
    match kind {
        "SCHEMA" => pg::LIST_SCHEMAS,
        "TABLESPACE" => pg::LIST_TABLESPACES,
        "LANGUAGE" => pg::LIST_LANGUAGES,
        _ => pg::LIST_EXTENSIONS,
    }
}

/// A key of the journal with more in it.
pub(crate) fn undo_key(psql: &PsqlClient, name: &str, more: &[(&str, &str)]) -> Value {
    let mut key = match psql.journal_key(name) {
        Value::Map(map) => (*map).clone(),
        plain => Map::from_iter([("name", plain)]),
    };
    for (part, value) in more {
        key.insert(*part, *value);
    }
    key.into()
}

/// A change by one text of statements.
pub(crate) fn run_statement(psql: PsqlClient, sql: String) -> ChangeFn {
    Box::new(move |ctx| Ok(psql.run(&ctx.tools(), &sql).map(|_| ())?))
}

/// Plans a role that has to be there.
pub(crate) fn role_present(
    given: &NamedArgs<'_>,
    ctx: &StateCtx<'_>,
    is_user: bool,
) -> Result<StatePlan, StateError> {
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
                return Ok(StatePlan::InSync(format!("{noun} {name} is already present")));
            }
            let sql = postgres_role::alter_role_sql(given, &name, &update, password)?;
            ("update", update.into(), sql)
        }
    };
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("{noun} {name} is set to be {mode}d"),
        done_comment: format!("The {small} {name} has been {mode}d"),
        failure_prefix: format!("Failed to {mode} {small} {name}"),
        changes: single_change(&name, changes),
        undoable: Some((&POSTGRES_ROLE_UNDO, psql.journal_key(&name))),
        run_change: run_statement(psql, sql),
    }))
}

/// Plans a role that has to go.
pub(crate) fn role_absent(
    given: &NamedArgs<'_>,
    ctx: &StateCtx<'_>,
    noun: &str,
) -> Result<StatePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    if !postgres_role::list_roles(&psql, &ctx.tools(), false)?.contains(&name) {
        return Ok(StatePlan::InSync(format!("{noun} {name} is not present, so it cannot be removed")));
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
) -> StatePlan {
    StatePlan::Change(PlannedChange {
        preview_comment: format!("{noun} {name} is set to be removed{whence}"),
        done_comment: format!("{noun} {name} has been removed{whence}"),
        failure_prefix: format!("{noun} {name} failed to be removed"),
        changes: single_change(name, "Absent"),
        undoable: thing,
        run_change: act,
    })
}
