//! States of the modules `mysql_*`.

use zagent_config::{Map, Value};

use super::{Act, Deed, Kept, Plan, Planner, Row, changed};
use crate::host::functions::stores::Given;
use crate::host::functions::stores::grants::{self, Grant};
use crate::host::functions::stores::mysql::{self, Mysql, account, database_sql, ident, literal};
use crate::states::{Failure, Scene};

const DROPPED: &str = "a database that was dropped cannot come back";
const QUERY: Option<&str> = Some("nobody knows what a query changes");

pub(super) const TABLE: &[Row] = &[
    ("mysql_user", "present", user_present as Planner, None),
    ("mysql_user", "absent", user_absent, None),
    ("mysql_database", "present", database_present, None),
    ("mysql_database", "absent", database_absent, Some(DROPPED)),
    ("mysql_grants", "present", |g, s| grant(g, s, true), None),
    ("mysql_grants", "absent", |g, s| grant(g, s, false), None),
    ("mysql_query", "run", query, QUERY),
    ("mysql_query", "run_file", query, QUERY),
];

/// An account with its password and grants, as the statements that make it.
pub(super) static USER: Kept = Kept {
    kind: "mysql_user",
    look: |given, scene| {
        let (sql, tools, (user, host)) = (Mysql::new(given), scene.tools(), who(given)?);
        if mysql::user(&sql, &tools, &user, &host)?.is_none() {
            return Ok(Value::Null);
        }
        let mut lines = sql.column(&tools, &format!("SHOW CREATE USER {}", account(&user, &host)))?;
        lines.extend(grants::lines(&sql, &tools, &user, &host)?);
        Ok(grants::listed(lines))
    },
    put: |given, to, scene| {
        let (sql, tools, (user, host)) = (Mysql::new(given), scene.tools(), who(given)?);
        let is_there = mysql::user(&sql, &tools, &user, &host)?.is_some();
        let lines: Vec<&str> =
            to.as_list().into_iter().flat_map(|l| l.iter()).filter_map(Value::as_str).collect();
        Ok(sql.tell(&tools, &again(&account(&user, &host), &lines, is_there))?)
    },
    full: None,
};

/// The statements that make an account as it was. One that is there is altered: were it dropped and a later statement
/// refused, it would be gone.
fn again(who: &str, lines: &[&str], is_there: bool) -> String {
    let Some((first, grants)) = lines.split_first() else { return format!("DROP USER IF EXISTS {who};\n") };
    let mut all = match first.strip_prefix("CREATE USER ").filter(|_| is_there) {
        Some(rest) => format!("ALTER USER {rest};\nREVOKE ALL PRIVILEGES, GRANT OPTION FROM {who};\n"),
        None => format!("{first};\n"),
    };
    all.extend(grants.iter().map(|line| format!("{line};\n")));
    all
}

/// The grants of an account.
pub(super) static GRANTS: Kept = Kept {
    kind: "mysql_grants",
    look: |given, scene| {
        let (user, host) = who(given)?;
        Ok(grants::listed(grants::lines(&Mysql::new(given), &scene.tools(), &user, &host)?))
    },
    put: |given, to, scene| {
        let (user, host) = who(given)?;
        let mut statements = format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {};\n", account(&user, &host));
        for line in to.as_list().into_iter().flat_map(|l| l.iter()).filter_map(Value::as_str) {
            statements.push_str(&format!("{line};\n"));
        }
        Ok(Mysql::new(given).tell(&scene.tools(), &statements)?)
    },
    full: None,
};

pub(super) static DATABASE: Kept = Kept {
    kind: "mysql_database",
    look: |given, scene| {
        let found = Mysql::new(given).database(&scene.tools(), &given.must("name")?)?;
        let told = |(set, collate): (String, String)| {
            Value::from(Map::from_iter([("character_set", set), ("collate", collate)]))
        };
        Ok(found.map_or(Value::Null, told))
    },
    put: |given, to, scene| {
        let (sql, tools, name) = (Mysql::new(given), scene.tools(), given.must("name")?);
        let statement = match to.as_map() {
            None => format!("DROP DATABASE {};", ident(&name)),
            Some(_) if sql.database(&tools, &name)?.is_none() => return Err(Failure::new(DROPPED)),
            Some(was) => super::of_map(was, |was| database_sql(was, "ALTER", &name)),
        };
        Ok(sql.tell(&tools, &statement)?)
    },
    full: Some(|given, scene| {
        let name = literal(&given.must("name")?);
        let query = format!(
            "SELECT (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = {name}) + \
             (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = {name})"
        );
        let count = Mysql::new(given).column(&scene.tools(), &query)?;
        let is_empty = count.first().is_some_and(|n| n == "0");
        Ok((!is_empty).then(|| "there are tables in the database".to_owned()))
    }),
};

/// An account: `user` of a grant, else the name.
fn who(given: &Given<'_>) -> Result<(String, String), Failure> {
    let user =
        given.get("user").or_else(|| given.get("name")).map(crate::host::command::shown).unwrap_or_default();
    Ok((user, given.text("host").unwrap_or_else(|| "localhost".to_owned())))
}

fn statement(sql: Mysql, text: String) -> Deed {
    Box::new(move |scene| Ok(sql.tell(&scene.tools(), &text)?))
}

fn user_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (sql, tools, (name, host)) = (Mysql::new(given), scene.tools(), who(given)?);
    let has_hash = given.text("password_hash").is_some();
    let is_passwordless = given.text("password").is_none() && !has_hash;
    if is_passwordless && !given.is("allow_passwordless") && !given.is("unix_socket") {
        let words = "Either password or password_hash must be specified, unless allow_passwordless is True";
        return Err(Failure::new(words));
    }
    let found = mysql::user(&sql, &tools, &name, &host)?;
    let with = if is_passwordless { " with passwordless login" } else { "" };
    if let Some(now) = found.as_ref().filter(|now| mysql::is_user(given, now)) {
        let is_native = matches!(&*now.0, "" | "mysql_native_password");
        let with = match (is_passwordless, is_native) {
            (true, _) => with,
            (false, false) => ". Unable to verify password.",
            (false, true) if has_hash && given.text("password").is_none() => {
                " with the desired password hash"
            }
            (false, true) => " with the desired password",
        };
        return Ok(Plan::Right(format!("User {name}@{host} is already present{with}")));
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
    let thing = Some((&USER as _, sql.key(&[("name", &name), ("host", &host)])));
    Ok(Plan::Act(Act {
        would,
        did,
        fails,
        changes: changed(&name, change),
        thing,
        act: statement(sql, text),
    }))
}

fn user_absent(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (sql, (name, host)) = (Mysql::new(given), who(given)?);
    if mysql::user(&sql, &scene.tools(), &name, &host)?.is_none() {
        return Ok(Plan::Right(format!("User {name}@{host} is not present, so it cannot be removed")));
    }
    Ok(Plan::Act(Act {
        would: format!("User {name}@{host} is set to be removed"),
        did: format!("User {name}@{host} has been removed"),
        fails: format!("User {name}@{host} failed to be removed"),
        changes: changed(&name, "Absent"),
        thing: Some((&USER, sql.key(&[("name", &name), ("host", &host)]))),
        act: statement(sql, format!("DROP USER {};", account(&name, &host))),
    }))
}

fn database_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (sql, name) = (Mysql::new(given), given.must("name")?);
    let thing = Some((&DATABASE as _, sql.key(&[("name", &name)])));
    let Some((set, collate)) = sql.database(&scene.tools(), &name)? else {
        return Ok(Plan::Act(Act {
            would: format!("Database {name} is not present and needs to be created"),
            did: format!("The database {name} has been created"),
            fails: format!("Failed to create database {name}"),
            changes: changed(&name, "Present"),
            thing,
            act: statement(sql, database_sql(given, "CREATE", &name)),
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
        return Ok(Plan::Right(format!("Database {name} is already present")));
    }
    Ok(Plan::Act(Act {
        would: words.join("\n"),
        did: format!("Database {name} has been altered"),
        fails: format!("Failed to alter database {name}"),
        changes: changed(&name, changes),
        thing,
        act: statement(sql, database_sql(given, "ALTER", &name)),
    }))
}

fn database_absent(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (sql, name) = (Mysql::new(given), given.must("name")?);
    if sql.database(&scene.tools(), &name)?.is_none() {
        return Ok(Plan::Right(format!("Database {name} is not present, so it cannot be removed")));
    }
    if matches!(&*name, "mysql" | "information_schema" | "performance_schema" | "sys") {
        return Err(Failure::new(format!("Unable to remove database {name}: the server itself needs it")));
    }
    Ok(Plan::Act(Act {
        would: format!("Database {name} is present and needs to be removed"),
        did: format!("Database {name} has been removed"),
        fails: format!("Unable to remove database {name}"),
        changes: changed(&name, "Absent"),
        thing: None,
        act: statement(sql, format!("DROP DATABASE {};", ident(&name))),
    }))
}

fn grant(given: &Given<'_>, scene: &Scene<'_>, present: bool) -> Result<Plan, Failure> {
    let (sql, tools, name, grant) =
        (Mysql::new(given), scene.tools(), given.must("name")?, Grant::new(given)?);
    let words = given.texts("grant").unwrap_or_default().join(",");
    let (db, user, host) = (given.must("database")?, grant.user.clone(), grant.host.clone());
    if grants::is_there(&sql, &tools, &grant)? == present {
        return Ok(Plan::Right(match present {
            true => format!("Grant {words} on {db} to {user}@{host} is already present"),
            false => {
                format!("Grant {words} on {db} to {user}@{host} is not present, so it cannot be revoked")
            }
        }));
    }
    let thing = Some((&GRANTS as _, sql.key(&[("name", &name), ("user", &user), ("host", &host)])));
    let (verb, past, to) = if present { ("created", "added", "to") } else { ("revoked", "revoked", "for") };
    let text = match (present, given.is("revoke_first")) {
        (false, _) => grant.revoke(),
        (true, false) => grant.grant(),
        (true, true) => {
            let all =
                format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM {}@{};\n", literal(&user), literal(&host));
            all + &grant.grant()
        }
    };
    Ok(Plan::Act(Act {
        would: format!("MySQL grant {name} is set to be {verb}"),
        did: format!("Grant {words} on {db} {to} {user}@{host} has been {past}"),
        fails: format!("Failed to execute: \"{text}\""),
        changes: changed(&name, if present { "Present" } else { "Absent" }),
        thing,
        act: statement(sql, text),
    }))
}

/// An act, not a condition: it runs every time, unless its output is there already.
fn query(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (sql, db) = (Mysql::new(given), given.must("database")?);
    if given.flag("check_db_exists").unwrap_or(true) && sql.database(&scene.tools(), &db)?.is_none() {
        return Err(Failure::new(format!("Database {db} is not present")));
    }
    let text = match given.text("query_file") {
        Some(source) => super::source(&source, given, scene)?,
        None => given.must("query")?.into_bytes(),
    };
    let output = match given.text("output") {
        Some(output) if output == "grain" => {
            return Err(Failure::new("the output of a query cannot become a grain here"));
        }
        other => other.map(std::path::PathBuf::from),
    };
    if let Some(path) = output.as_ref().filter(|_| given.flag("overwrite") == Some(false))
        && scene.fs.stat(path)?.is_some()
    {
        return Ok(Plan::Right(format!("No execution needed. File {} already set", path.display())));
    }
    let (to, change) = match &output {
        Some(path) => (
            format!("storing result in file: {}", path.display()),
            format!("Executed. Output into {}", path.display()),
        ),
        None => ("not storing result".to_owned(), "Executed".to_owned()),
    };
    Ok(Plan::Act(Act {
        would: format!("Query would execute, {to}"),
        did: change.clone(),
        fails: "the query failed".to_owned(),
        changes: changed("query", change),
        thing: None,
        act: Box::new(move |scene| {
            let told = mysql::query(&sql, &scene.tools(), &db, &text)?;
            if let Some(path) = &output {
                super::write(scene, path, &told.into())?;
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
            again("'a'@'%'", &lines, true),
            format!(
                "ALTER USER `a`@`%` IDENTIFIED BY PASSWORD '*1';\nREVOKE ALL PRIVILEGES, GRANT OPTION FROM 'a'@'%';\n{rest}"
            )
        );
        assert_eq!(again("'a'@'%'", &lines, false), format!("{};\n{rest}", lines[0]));
        assert_eq!(again("'a'@'%'", &[], true), "DROP USER IF EXISTS 'a'@'%';\n");
    }
}
