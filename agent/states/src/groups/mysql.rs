//! States of the modules `mysql_*`.

use zagent_config::{Map, Value};

use crate::databases::NamedArgs;
use crate::databases::mysql;
use crate::databases::mysql::{MysqlClient, account, database_sql, quote_ident, quote_literal};
use crate::databases::mysql_grant;
use crate::databases::mysql_grant::MysqlGrant;
use crate::groups::stores::{
    ChangeFn, PlannedChange, StorePlan, StorePlanner, StorePlannerRow, StoreUndo, single_change,
};
pub(crate) use crate::{StateCtx, StateError};

const DATABASE_DROPPED: &str = "a database that was dropped cannot come back";
const QUERY_IRREVERSIBLE: Option<&str> = Some("nobody knows what a query changes");

pub const PLANNERS: &[StorePlannerRow] = &[
    ("mysql_user", "present", user_present as StorePlanner, None),
    ("mysql_user", "absent", user_absent, None),
    ("mysql_database", "present", database_present, None),
    ("mysql_database", "absent", database_absent, Some(DATABASE_DROPPED)),
    ("mysql_grants", "present", |g, s| plan_grant(g, s, true), None),
    ("mysql_grants", "absent", |g, s| plan_grant(g, s, false), None),
    ("mysql_query", "run", plan_query, QUERY_IRREVERSIBLE),
    ("mysql_query", "run_file", plan_query, QUERY_IRREVERSIBLE),
];

/// An account with its password and grants, as the statements that make it.
pub static MYSQL_USER_UNDO: StoreUndo = StoreUndo {
    kind: "mysql_user",
    capture: |given, ctx| {
        let (sql, tools, (user, host)) = (MysqlClient::new(given), ctx.tools(), user_and_host(given)?);
        if mysql::find_user(&sql, &tools, &user, &host)?.is_none() {
            return Ok(Value::Null);
        }
        let mut lines = sql.column(&tools, &format!("SHOW CREATE USER {}", account(&user, &host)))?;
        lines.extend(mysql_grant::show_grants(&sql, &tools, &user, &host)?);
        Ok(mysql_grant::grants_value(lines))
    },
    restore: |given, to, ctx| {
        let (sql, tools, (user, host)) = (MysqlClient::new(given), ctx.tools(), user_and_host(given)?);
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

/// The grants of an account.
pub static MYSQL_GRANTS_UNDO: StoreUndo = StoreUndo {
    kind: "mysql_grants",
    capture: |given, ctx| {
        let (user, host) = user_and_host(given)?;
        Ok(mysql_grant::grants_value(mysql_grant::show_grants(
            &MysqlClient::new(given),
            &ctx.tools(),
            &user,
            &host,
        )?))
    },
    restore: |given, to, ctx| {
        let (user, host) = user_and_host(given)?;
        let mut statements = format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {};\n", account(&user, &host));
        for line in to.as_list().into_iter().flat_map(|l| l.iter()).filter_map(Value::as_str) {
            statements.push_str(&format!("{line};\n"));
        }
        Ok(MysqlClient::new(given).execute(&ctx.tools(), &statements)?)
    },
    keep_reason: None,
};

pub static MYSQL_DATABASE_UNDO: StoreUndo = StoreUndo {
    kind: "mysql_database",
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
            Some(was) => crate::groups::stores::with_map_args(was, |was| database_sql(was, "ALTER", &name)),
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

/// An account: `user` of a grant, else the name.
fn user_and_host(given: &NamedArgs<'_>) -> Result<(String, String), StateError> {
    let user = given
        .get("user")
        .or_else(|| given.get("name"))
        .map(zagent_host::exec::command_options::value_text)
        .unwrap_or_default();
    Ok((user, given.text("host").unwrap_or_else(|| "localhost".to_owned())))
}

fn run_statement(sql: MysqlClient, text: String) -> ChangeFn {
    Box::new(move |ctx| Ok(sql.execute(&ctx.tools(), &text)?))
}

fn user_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (sql, tools, (name, host)) = (MysqlClient::new(given), ctx.tools(), user_and_host(given)?);
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
        return Ok(StorePlan::InSync(format!("User {name}@{host} is already present{with}")));
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
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: would,
        done_comment: did,
        failure_prefix: fails,
        changes: single_change(&name, change),
        undoable: thing,
        run_change: run_statement(sql, text),
    }))
}

fn user_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (sql, (name, host)) = (MysqlClient::new(given), user_and_host(given)?);
    if mysql::find_user(&sql, &ctx.tools(), &name, &host)?.is_none() {
        return Ok(StorePlan::InSync(format!("User {name}@{host} is not present, so it cannot be removed")));
    }
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("User {name}@{host} is set to be removed"),
        done_comment: format!("User {name}@{host} has been removed"),
        failure_prefix: format!("User {name}@{host} failed to be removed"),
        changes: single_change(&name, "Absent"),
        undoable: Some((&MYSQL_USER_UNDO, sql.journal_key(&[("name", &name), ("host", &host)]))),
        run_change: run_statement(sql, format!("DROP USER {};", account(&name, &host))),
    }))
}

fn database_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (sql, name) = (MysqlClient::new(given), given.require_text("name")?);
    let thing = Some((&MYSQL_DATABASE_UNDO as _, sql.journal_key(&[("name", &name)])));
    let Some((set, collate)) = sql.find_database(&ctx.tools(), &name)? else {
        return Ok(StorePlan::Change(PlannedChange {
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
        if let Some(wanted) = given.text(key).filter(|w| !w.eq_ignore_ascii_case(&now)) {
            words.push(format!("Database {told} {now} != {wanted} needs to be updated"));
            changes.insert(key, Map::from_iter([("old", now), ("new", wanted)]));
        }
    }
    if words.is_empty() {
        return Ok(StorePlan::InSync(format!("Database {name} is already present")));
    }
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: words.join("\n"),
        done_comment: format!("Database {name} has been altered"),
        failure_prefix: format!("Failed to alter database {name}"),
        changes: single_change(&name, changes),
        undoable: thing,
        run_change: run_statement(sql, database_sql(given, "ALTER", &name)),
    }))
}

fn database_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (sql, name) = (MysqlClient::new(given), given.require_text("name")?);
    if sql.find_database(&ctx.tools(), &name)?.is_none() {
        return Ok(StorePlan::InSync(format!("Database {name} is not present, so it cannot be removed")));
    }
    if matches!(&*name, "mysql" | "information_schema" | "performance_schema" | "sys") {
        return Err(StateError::new(format!("Unable to remove database {name}: the server itself needs it")));
    }
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Database {name} is present and needs to be removed"),
        done_comment: format!("Database {name} has been removed"),
        failure_prefix: format!("Unable to remove database {name}"),
        changes: single_change(&name, "Absent"),
        undoable: None,
        run_change: run_statement(sql, format!("DROP DATABASE {};", quote_ident(&name))),
    }))
}

fn plan_grant(given: &NamedArgs<'_>, ctx: &StateCtx<'_>, present: bool) -> Result<StorePlan, StateError> {
    let (sql, tools, name, grant) =
        (MysqlClient::new(given), ctx.tools(), given.require_text("name")?, MysqlGrant::new(given)?);
    let words = given.text_list("grant").unwrap_or_default().join(",");
    let (db, user, host) = (given.require_text("database")?, grant.user.clone(), grant.host.clone());
    if mysql_grant::is_granted(&sql, &tools, &grant)? == present {
        return Ok(StorePlan::InSync(match present {
            true => format!("Grant {words} on {db} to {user}@{host} is already present"),
            false => {
                format!("Grant {words} on {db} to {user}@{host} is not present, so it cannot be revoked")
            }
        }));
    }
    let thing = Some((
        &MYSQL_GRANTS_UNDO as _,
        sql.journal_key(&[("name", &name), ("user", &user), ("host", &host)]),
    ));
    let (verb, past, to) = if present { ("created", "added", "to") } else { ("revoked", "revoked", "for") };
    let text = match (present, given.is_enabled("revoke_first")) {
        (false, _) => grant.revoke_sql(),
        (true, false) => grant.grant_sql(),
        (true, true) => {
            let all = format!(
                "REVOKE ALL PRIVILEGES, GRANT OPTION FROM {}@{};\n",
                quote_literal(&user),
                quote_literal(&host)
            );
            all + &grant.grant_sql()
        }
    };
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("MySQL grant {name} is set to be {verb}"),
        done_comment: format!("Grant {words} on {db} {to} {user}@{host} has been {past}"),
        failure_prefix: format!("Failed to execute: \"{text}\""),
        changes: single_change(&name, if present { "Present" } else { "Absent" }),
        undoable: thing,
        run_change: run_statement(sql, text),
    }))
}

/// An act, not a condition: it runs every time, unless its output is there already.
fn plan_query(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (sql, db) = (MysqlClient::new(given), given.require_text("database")?);
    if given.flag("check_db_exists").unwrap_or(true) && sql.find_database(&ctx.tools(), &db)?.is_none() {
        return Err(StateError::new(format!("Database {db} is not present")));
    }
    let text = match given.text("query_file") {
        Some(source) => crate::groups::stores::read_source(&source, given, ctx)?,
        None => given.require_text("query")?.into_bytes(),
    };
    let output = match given.text("output") {
        Some(output) if output == "grain" => {
            return Err(StateError::new("the output of a query cannot become a grain here"));
        }
        other => other.map(std::path::PathBuf::from),
    };
    if let Some(path) = output.as_ref().filter(|_| given.flag("overwrite") == Some(false))
        && ctx.fs.stat(path)?.is_some()
    {
        return Ok(StorePlan::InSync(format!("No execution needed. File {} already set", path.display())));
    }
    let (to, change) = match &output {
        Some(path) => (
            format!("storing result in file: {}", path.display()),
            format!("Executed. Output into {}", path.display()),
        ),
        None => ("not storing result".to_owned(), "Executed".to_owned()),
    };
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Query would execute, {to}"),
        done_comment: change.clone(),
        failure_prefix: "the query failed".to_owned(),
        changes: single_change("query", change),
        undoable: None,
        run_change: Box::new(move |ctx| {
            let told = mysql::run_query(&sql, &ctx.tools(), &db, &text)?;
            if let Some(path) = &output {
                crate::groups::stores::write_json(ctx, path, &told.into())?;
            }
            Ok(())
        }),
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
