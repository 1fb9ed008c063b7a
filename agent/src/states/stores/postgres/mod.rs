//! States of the modules `postgres_*`.

mod objects;

use zagent_config::{Map, Value};

use super::{Act, Deed, Kept, Plan, Planner, Row, changed};
use crate::host::functions::stores::postgres::{self as pg, one};
use crate::host::functions::stores::psql::{Psql, ident, literal};
use crate::host::functions::stores::{Given, role};
use crate::states::{Failure, Scene, Thing};

const DROPPED: Option<&str> = Some("a database that was dropped cannot come back");

pub(super) const TABLE: &[Row] = &[
    ("postgres_user", "present", |g, s| role_present(g, s, true), None),
    ("postgres_user", "absent", |g, s| role_absent(g, s, "User"), None),
    ("postgres_group", "present", |g, s| role_present(g, s, false), None),
    ("postgres_group", "absent", |g, s| role_absent(g, s, "Group"), None),
    ("postgres_database", "present", database_present as Planner, None),
    ("postgres_database", "absent", database_absent, DROPPED),
    ("postgres_schema", "present", objects::schema_present, None),
    ("postgres_schema", "absent", objects::schema_absent, None),
    ("postgres_extension", "present", objects::extension_present, None),
    (
        "postgres_extension",
        "absent",
        objects::extension_absent,
        Some("what depended on the extension is gone with it"),
    ),
    ("postgres_tablespace", "present", objects::tablespace_present, None),
    ("postgres_tablespace", "absent", objects::tablespace_absent, None),
    ("postgres_language", "present", |g, s| objects::language(g, s, true), None),
    ("postgres_language", "absent", |g, s| objects::language(g, s, false), None),
    ("postgres_privileges", "present", |g, s| objects::privileges(g, s, true), None),
    ("postgres_privileges", "absent", |g, s| objects::privileges(g, s, false), None),
];

pub(super) use objects::{OBJECT, PRIVILEGES};

pub(super) static ROLE: Kept = Kept {
    kind: "postgres_role",
    look: |given, scene| {
        let all = role::list(&Psql::of_key(given), &scene.tools(), true)?;
        Ok(all.get(&given.must("name")?).cloned().unwrap_or(Value::Null))
    },
    put: |given, to, scene| {
        let (psql, name, tools) = (Psql::of_key(given), given.must("name")?, scene.tools());
        let all = role::list(&psql, &tools, false)?;
        let now = one(&all, &name);
        let Some(was) = to.as_map() else {
            psql.run(&tools, &format!("DROP ROLE {};", ident(&name)))?;
            return Ok(());
        };
        let groups = |row: &Map| -> Vec<String> {
            row.get("groups")
                .and_then(Value::as_list)
                .map(|l| l.iter().map(Value::json_key).collect())
                .unwrap_or_default()
        };
        let mut sql = role::restore(&name, was, now.is_none());
        let (before, after) = (groups(was), now.map(groups).unwrap_or_default());
        for group in after.iter().filter(|g| !before.contains(g)) {
            sql.push_str(&format!("REVOKE {} FROM {};\n", ident(group), ident(&name)));
        }
        sql.push_str(&role::joins(&name, before.into_iter().filter(|g| !after.contains(g)).collect()));
        psql.run(&tools, &sql)?;
        Ok(())
    },
    full: None,
};

pub(super) static DATABASE: Kept = Kept {
    kind: "postgres_database",
    look: |given, scene| {
        let all = Psql::of_key(given).by_name(&scene.tools(), pg::DATABASES)?;
        let Some(row) = one(&all, &given.must("name")?) else { return Ok(Value::Null) };
        let part = |key: &str| (key.to_ascii_lowercase(), row.get(key).cloned().unwrap_or(Value::Null));
        Ok(Map::from_iter([part("Owner"), part("Tablespace")].map(|(k, v)| (Value::from(k), v))).into())
    },
    put: |given, to, scene| {
        let (psql, name, tools) = (Psql::of_key(given), given.must("name")?, scene.tools());
        let all = psql.by_name(&tools, pg::DATABASES)?;
        let sql = match (to.as_map(), one(&all, &name)) {
            (None, _) => format!("DROP DATABASE {};", ident(&name)),
            (Some(_), None) => return Err(Failure::new("a database that was dropped cannot come back")),
            (Some(was), Some(now)) => {
                let text = |row: &Map, key: &str| {
                    row.get(key).and_then(Value::as_str).map(ident).unwrap_or_default()
                };
                let mut sql = format!("ALTER DATABASE {} OWNER TO {};\n", ident(&name), text(was, "owner"));
                if text(was, "tablespace") != text(now, "Tablespace") {
                    sql.push_str(&format!(
                        "ALTER DATABASE {} SET TABLESPACE {};\n",
                        ident(&name),
                        text(was, "tablespace")
                    ));
                }
                sql
            }
        };
        psql.run(&tools, &sql)?;
        Ok(())
    },
    full: Some(|given, scene| {
        let rows = Psql::of_key(given).within(&given.must("name")?).rows(&scene.tools(), HELD)?;
        let count = rows.first().and_then(|r| r.get("held")).and_then(Value::as_str);
        Ok((count != Some("0")).then(|| "there are tables in the database".to_owned()))
    }),
};

/// How much of a database is somebody's: tables and the like that no extension brought, and large objects.
const HELD: &str = "SELECT (SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE c.relkind IN ('r', 'p', 'm', 'v', 'f', 'S') AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%' \
     AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')) \
     + (SELECT count(*) FROM pg_largeobject_metadata) AS held";

/// An act of one text of statements.
fn statement(psql: Psql, sql: String) -> Deed {
    Box::new(move |scene| Ok(psql.run(&scene.tools(), &sql).map(|_| ())?))
}

fn role_present(given: &Given<'_>, scene: &Scene<'_>, is_user: bool) -> Result<Plan, Failure> {
    let (psql, name, tools) = (Psql::of_state(given), given.must("name")?, scene.tools());
    let (noun, small) = if is_user { ("User", "user") } else { ("Group", "group") };
    let all = role::list(&psql, &tools, !given.is("refresh_password") && given.get("password").is_some())?;
    let password = given.text("password");
    let (mode, changes, sql) = match one(&all, &name) {
        None => {
            let password = password.or_else(|| given.text("default_password"));
            ("create", Value::from("Present"), role::create(given, &name, is_user, password)?)
        }
        Some(now) => {
            let expiry = match given.text("valid_until") {
                Some(text) => {
                    let rows =
                        psql.rows(&tools, &format!("SELECT {}::timestamp(0) AS dt", literal(&text)))?;
                    rows.first().and_then(|r| r.get("dt")).and_then(Value::as_str).map(str::to_owned)
                }
                None => None,
            };
            let update = role::differences(given, &name, now, password.as_deref(), expiry.as_deref());
            if update.is_empty() {
                return Ok(Plan::Right(format!("{noun} {name} is already present")));
            }
            let sql = role::alter(given, &name, &update, password)?;
            ("update", update.into(), sql)
        }
    };
    Ok(Plan::Act(Act {
        would: format!("{noun} {name} is set to be {mode}d"),
        did: format!("The {small} {name} has been {mode}d"),
        fails: format!("Failed to {mode} {small} {name}"),
        changes: changed(&name, changes),
        thing: Some((&ROLE, psql.key(&name))),
        act: statement(psql, sql),
    }))
}

fn role_absent(given: &Given<'_>, scene: &Scene<'_>, noun: &str) -> Result<Plan, Failure> {
    let (psql, name) = (Psql::of_state(given), given.must("name")?);
    if !role::list(&psql, &scene.tools(), false)?.contains(&name) {
        return Ok(Plan::Right(format!("{noun} {name} is not present, so it cannot be removed")));
    }
    let sql = format!("DROP ROLE {};", ident(&name));
    Ok(removal(noun, &name, "", Some((&ROLE, psql.key(&name))), statement(psql, sql)))
}

/// The plan that takes something away.
fn removal(
    noun: &str,
    name: &str,
    whence: &str,
    thing: Option<(&'static dyn Thing, Value)>,
    act: Deed,
) -> Plan {
    Plan::Act(Act {
        would: format!("{noun} {name} is set to be removed{whence}"),
        did: format!("{noun} {name} has been removed{whence}"),
        fails: format!("{noun} {name} failed to be removed"),
        changes: changed(name, "Absent"),
        thing,
        act,
    })
}

fn database_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (psql, name) = (Psql::of_state(given), given.must("name")?);
    let all = psql.by_name(&scene.tools(), pg::DATABASES)?;
    let key = Some((&DATABASE as &'static dyn Thing, psql.key(&name)));
    let Some(now) = one(&all, &name) else {
        return Ok(Plan::Act(Act {
            would: format!("Database {name} is set to be created"),
            did: format!("The database {name} has been created"),
            fails: format!("Failed to create database {name}"),
            changes: changed(&name, "Present"),
            thing: key,
            act: statement(psql, pg::create_database(given, &name)),
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
        return Err(Failure::new(format!(
            "Database {name} has wrong parameters which couldn't be changed on fly."
        )));
    }
    if !differs("tablespace", "Tablespace") && !differs("owner", "Owner") {
        return Ok(Plan::Right(format!("Database {name} is already present")));
    }
    let mut wanted = Map::new();
    for key in ["owner", "owner_recurse", "tablespace"] {
        if let Some(value) = given.get(key) {
            wanted.insert(key, value.clone());
        }
    }
    let own = name.clone();
    Ok(Plan::Act(Act {
        would: format!("Database {name} exists, but parameters need to be changed"),
        did: format!("Parameters for database {name} have been changed"),
        fails: format!("Failed to change parameters for database {name}"),
        changes: changed(&name, "Parameters changed"),
        thing: key,
        act: Box::new(move |scene| {
            super::of_map(&wanted, |given| Ok(pg::alter_database(&psql, &scene.tools(), given, &own)?))
        }),
    }))
}

fn database_absent(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (psql, name) = (Psql::of_state(given), given.must("name")?);
    if !psql.by_name(&scene.tools(), pg::DATABASES)?.contains(&name) {
        return Ok(Plan::Right(format!("Database {name} is not present, so it cannot be removed")));
    }
    Ok(removal("Database", &name, "", None, statement(psql, pg::drop_database(&name))))
}
