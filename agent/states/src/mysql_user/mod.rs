//! States of the module `mysql_user`: accounts of MySQL.

pub(crate) mod functions;

use zagent_config::Value;

use crate::databases::mysql::{self, MysqlClient, account};
use crate::databases::mysql_grant;
use crate::named_args::NamedArgs;
use crate::shared::mysql::{MYSQL_LOGIN, run_statement, user_and_host};
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::shared::store_undo::StoreUndo;
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};

/// The module `mysql_user`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "mysql_user",
    build,
    functions: functions::TABLE,
    undo: &[&MYSQL_USER_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[StoreFunction::new("present", user_present), StoreFunction::new("absent", user_absent)],
    Some(&MYSQL_LOGIN),
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

/// An account with its password and grants, as the statements that make it.
pub(crate) static MYSQL_USER_UNDO: StoreUndo = StoreUndo {
    kind: "mysql_user",
    login: Some(&MYSQL_LOGIN),
    capture: |given, ctx| {
        let (sql, tools, (user, host)) = (MysqlClient::new(given), ctx.tools(), user_and_host(given));
        if mysql::find_user(&sql, &tools, &user, &host)?.is_none() {
            return Ok(Value::Null);
        }
        let mut lines = sql.column(&tools, &format!("SHOW CREATE USER {}", account(&user, &host)))?;
        lines.extend(mysql_grant::show_grants(&sql, &tools, &user, &host)?);
        Ok(mysql_grant::grants_value(lines))
    },
    restore: |given, to, ctx| {
        let (sql, tools, (user, host)) = (MysqlClient::new(given), ctx.tools(), user_and_host(given));
        let is_there = mysql::find_user(&sql, &tools, &user, &host)?.is_some();
        let lines: Vec<&str> =
            to.as_list().into_iter().flat_map(|l| l.iter()).filter_map(Value::as_str).collect();
        Ok(sql.execute(&tools, &recreate_statements(&account(&user, &host), &lines, is_there))?)
    },
    keep_reason: None,
};

/// The statements that make an account as it was. One that is there is altered: were it dropped and a later statement
/// refused, it would be gone.
fn recreate_statements(who: &str, lines: &[&str], is_there: bool) -> String {
    let Some((first, grants)) = lines.split_first() else { return format!("DROP USER IF EXISTS {who};\n") };
    let mut all = match first.strip_prefix("CREATE USER ").filter(|_| is_there) {
        Some(rest) => format!("ALTER USER {rest};\nREVOKE ALL PRIVILEGES, GRANT OPTION FROM {who};\n"),
        None => format!("{first};\n"),
    };
    all.extend(grants.iter().map(|line| format!("{line};\n")));
    all
}

fn user_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (sql, tools, (name, host)) = (MysqlClient::new(given), ctx.tools(), user_and_host(given));
    let has_hash = given.text("password_hash").is_some();
    let is_passwordless = given.text("password").is_none() && !has_hash;
    if is_passwordless && !given.is_enabled("allow_passwordless") && !given.is_enabled("unix_socket") {
        let words = "Either password or password_hash must be specified, unless allow_passwordless is True";
        return Err(StateError::new(words));
    }
    let found = mysql::find_user(&sql, &tools, &name, &host)?;
    let with = if is_passwordless { " with passwordless login" } else { "" };
    if let Some(now) = found.as_ref().filter(|now| mysql::user_matches(given, now)) {
        let is_native = matches!(&*now.0, "" | "mysql_native_password");
        let with = match (is_passwordless, is_native) {
            (true, _) => with,
            (false, false) => ". Unable to verify password.",
            (false, true) if has_hash && given.text("password").is_none() => {
                " with the desired password hash"
            }
            (false, true) => " with the desired password",
        };
        return Ok(StatePlan::InSync(format!("User {name}@{host} is already present{with}")));
    }
    let verb = if found.is_some() { "ALTER" } else { "CREATE" };
    let text = mysql::user_sql(given, verb, &account(&name, &host), &sql.version(&tools)?);
    let (clear, cleared) = if is_passwordless { ("clear", "cleared") } else { ("change", "changed") };
    let (would, did, fails, change) = match found {
        Some(_) => (
            format!("Password for user {name}@{host} is set to be {cleared}"),
            format!("Password for user {name}@{host} has been {cleared}"),
            format!("Failed to {clear} password for user {name}@{host}"),
            "Updated",
        ),
        None => (
            format!("User {name}@{host} is set to be added{with}"),
            format!("The user {name}@{host} has been added{with}"),
            format!("Failed to create user {name}@{host}"),
            "Present",
        ),
    };
    let thing = Some((&MYSQL_USER_UNDO as _, sql.journal_key(&[("name", &name), ("host", &host)])));
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: would,
        done_comment: did,
        failure_prefix: fails,
        changes: single_change(&name, change),
        undoable: thing,
        run_change: run_statement(sql, text),
    }))
}

fn user_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (sql, (name, host)) = (MysqlClient::new(given), user_and_host(given));
    if mysql::find_user(&sql, &ctx.tools(), &name, &host)?.is_none() {
        return Ok(StatePlan::InSync(format!("User {name}@{host} is not present, so it cannot be removed")));
    }
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("User {name}@{host} is set to be removed"),
        done_comment: format!("User {name}@{host} has been removed"),
        failure_prefix: format!("User {name}@{host} failed to be removed"),
        changes: single_change(&name, "Absent"),
        undoable: Some((&MYSQL_USER_UNDO, sql.journal_key(&[("name", &name), ("host", &host)]))),
        run_change: run_statement(sql, format!("DROP USER {};", account(&name, &host))),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_that_is_there_is_altered() {
        let lines = ["CREATE USER `a`@`%` IDENTIFIED BY PASSWORD '*1'", "GRANT SELECT ON `b`.* TO `a`@`%`"];
        let rest = "GRANT SELECT ON `b`.* TO `a`@`%`;\n";
        assert_eq!(
            recreate_statements("'a'@'%'", &lines, true),
            format!(
                "ALTER USER `a`@`%` IDENTIFIED BY PASSWORD '*1';\nREVOKE ALL PRIVILEGES, GRANT OPTION FROM 'a'@'%';\n{rest}"
            )
        );
        assert_eq!(recreate_statements("'a'@'%'", &lines, false), format!("{};\n{rest}", lines[0]));
        assert_eq!(recreate_statements("'a'@'%'", &[], true), "DROP USER IF EXISTS 'a'@'%';\n");
    }
}
