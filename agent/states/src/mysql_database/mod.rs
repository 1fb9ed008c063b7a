//! States of the module `mysql_database`: databases of MySQL.

pub(crate) mod functions;

use zagent_config::{Map, Value};

use crate::databases::mysql::{MysqlClient, database_sql, quote_ident, quote_literal};
use crate::named_args::{NamedArgs, with_map_args};
use crate::shared::mysql::{MYSQL_LOGIN, run_statement};
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::shared::store_undo::StoreUndo;
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};

const DATABASE_DROPPED: &str = "a database that was dropped cannot come back";

/// The module `mysql_database`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "mysql_database",
    build,
    functions: functions::TABLE,
    undo: &[&MYSQL_DATABASE_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("present", database_present),
        StoreFunction::new("absent", database_absent).irreversible(DATABASE_DROPPED),
    ],
    Some(&MYSQL_LOGIN),
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

/// A database with its character set and collation.
pub(crate) static MYSQL_DATABASE_UNDO: StoreUndo = StoreUndo {
    kind: "mysql_database",
    login: Some(&MYSQL_LOGIN),
    capture: |given, ctx| {
        let found = MysqlClient::new(given).find_database(&ctx.tools(), &given.require_text("name")?)?;
        let told = |(set, collate): (String, String)| {
            Value::from(Map::from_iter([("character_set", set), ("collate", collate)]))
        };
        Ok(found.map_or(Value::Null, told))
    },
    restore: |given, to, ctx| {
        let (sql, tools, name) = (MysqlClient::new(given), ctx.tools(), given.require_text("name")?);
        let statement = match to.as_map() {
            None => format!("DROP DATABASE {};", quote_ident(&name)),
            Some(_) if sql.find_database(&tools, &name)?.is_none() => {
                return Err(StateError::new(DATABASE_DROPPED));
            }
            Some(was) => with_map_args(was, |was| database_sql(was, "ALTER", &name)),
        };
        Ok(sql.execute(&tools, &statement)?)
    },
    keep_reason: Some(|given, ctx| {
        let name = quote_literal(&given.require_text("name")?);
        let query = format!(
            "SELECT (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = {name}) + \
             (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = {name})"
        );
        let count = MysqlClient::new(given).column(&ctx.tools(), &query)?;
        let is_empty = count.first().is_some_and(|n| n == "0");
        Ok((!is_empty).then(|| "there are tables in the database".to_owned()))
    }),
};

fn database_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (sql, name) = (MysqlClient::new(given), given.require_text("name")?);
    let thing = Some((&MYSQL_DATABASE_UNDO as _, sql.journal_key(&[("name", &name)])));
    let Some((set, collate)) = sql.find_database(&ctx.tools(), &name)? else {
        return Ok(StatePlan::Change(PlannedChange {
            preview_comment: format!("Database {name} is not present and needs to be created"),
            done_comment: format!("The database {name} has been created"),
            failure_prefix: format!("Failed to create database {name}"),
            changes: single_change(&name, "Present"),
            undoable: thing,
            run_change: run_statement(sql, database_sql(given, "CREATE", &name)),
        }));
    };
    let (mut words, mut changes) = (Vec::new(), Map::new());
    for (key, told, now) in [("character_set", "character set", set), ("collate", "collate", collate)] {
        if let Some(wanted) = given.text(key).filter(|w| !is_same_charset(w, &now)) {
            words.push(format!("Database {told} {now} != {wanted} needs to be updated"));
            changes.insert(key, Map::from_iter([("old", now), ("new", wanted)]));
        }
    }
    if words.is_empty() {
        return Ok(StatePlan::InSync(format!("Database {name} is already present")));
    }
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: words.join("\n"),
        done_comment: format!("Database {name} has been altered"),
        failure_prefix: format!("Failed to alter database {name}"),
        changes: single_change(&name, changes),
        undoable: thing,
        run_change: run_statement(sql, database_sql(given, "ALTER", &name)),
    }))
}

/// Whether two names of a character set or a collation mean the same: the server says `utf8mb3` for `utf8`.
fn is_same_charset(wanted: &str, found: &str) -> bool {
    let full = |name: &str| {
        let name = name.to_ascii_lowercase();
        match name.strip_prefix("utf8") {
            Some(rest) if rest.is_empty() || rest.starts_with('_') => format!("utf8mb3{rest}"),
            _ => name,
        }
    };
    full(wanted) == full(found)
}

fn database_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (sql, name) = (MysqlClient::new(given), given.require_text("name")?);
    if sql.find_database(&ctx.tools(), &name)?.is_none() {
        return Ok(StatePlan::InSync(format!("Database {name} is not present, so it cannot be removed")));
    }
    if matches!(&*name, "mysql" | "information_schema" | "performance_schema" | "sys") {
        return Err(StateError::new(format!("Unable to remove database {name}: the server itself needs it")));
    }
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Database {name} is present and needs to be removed"),
        done_comment: format!("Database {name} has been removed"),
        failure_prefix: format!("Unable to remove database {name}"),
        changes: single_change(&name, "Absent"),
        undoable: None,
        run_change: run_statement(sql, format!("DROP DATABASE {};", quote_ident(&name))),
    }))
}

#[cfg(test)]
mod tests {
    use super::is_same_charset;

    #[test]
    fn a_character_set_has_two_names() {
        for (wanted, found, same) in [
            ("utf8", "utf8mb3", true),
            ("UTF8_general_ci", "utf8mb3_general_ci", true),
            ("utf8mb3", "utf8", true),
            ("utf8mb4", "utf8mb3", false),
            ("utf8", "utf8mb4", false),
            ("latin1", "latin1", true),
        ] {
            assert_eq!(is_same_charset(wanted, found), same, "{wanted} {found}");
        }
    }
}
