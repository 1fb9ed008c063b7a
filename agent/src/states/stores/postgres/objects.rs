//! Schemas, extensions, tablespaces, languages and privileges.

use zagent_config::{Map, Value};

use super::super::{Act, Kept, Plan, changed};
use super::{removal, statement};
use crate::host::functions::stores::postgres::{self as pg, one};
use crate::host::functions::stores::privileges::Wish;
use crate::host::functions::stores::psql::{Psql, ident};
use crate::host::functions::stores::{Given, of_map};
use crate::states::{Failure, Scene};

/// Schemas, tablespaces and languages: `type` says which. What is null is taken away, what was there is made again.
pub(in super::super) static OBJECT: Kept = Kept {
    kind: "postgres_object",
    look: |given, scene| {
        let all = Psql::of_key(given).by_name(&scene.tools(), listing(&given.must("type")?))?;
        Ok(all.get(&given.must("name")?).cloned().unwrap_or(Value::Null))
    },
    put: |given, to, scene| {
        let (psql, name, kind) = (Psql::of_key(given), given.must("name")?, given.must("type")?);
        let now = psql.by_name(&scene.tools(), listing(&kind))?;
        let owner = to.get("Owner").or_else(|| to.get("owner")).and_then(Value::as_str).map(str::to_owned);
        let wanted = owner.iter().map(|o| ("owner", Value::from(o.as_str()))).collect::<Map>();
        let sql = match (to.as_map(), now.contains(&name), &*kind) {
            // A language that is made comes as an extension, and goes with it alone.
            (None, _, "LANGUAGE") if psql.by_name(&scene.tools(), pg::EXTENSIONS)?.contains(&name) => {
                format!("DROP EXTENSION {};", ident(&name))
            }
            (None, _, _) => format!("DROP {kind} {};", ident(&name)),
            (Some(_), true, "EXTENSION" | "LANGUAGE") => String::new(),
            (Some(_), true, _) => {
                format!(
                    "ALTER {kind} {} OWNER TO {};",
                    ident(&name),
                    ident(owner.as_deref().unwrap_or("postgres"))
                )
            }
            (Some(_), false, "SCHEMA") => of_map(&wanted, |g| pg::create_schema(g, &name)),
            (Some(was), false, "TABLESPACE") => {
                let place = was.get("Location").and_then(Value::as_str).unwrap_or_default();
                of_map(&wanted, |g| pg::create_tablespace(g, &name, place))?
            }
            (Some(_), false, _) => format!("CREATE {kind} {};", ident(&name)),
        };
        psql.run(&scene.tools(), &sql)?;
        Ok(())
    },
    full: None,
};

/// What a role may do with an object.
pub(in super::super) static PRIVILEGES: Kept = Kept {
    kind: "postgres_privileges",
    look: |given, scene| Ok(Wish::new(given)?.now(&Psql::of_key(given), &scene.tools())?.into()),
    put: |given, to, scene| {
        let sql = Wish::new(given)?.restore(to.as_map().unwrap_or(&Map::new()));
        Psql::of_key(given).run(&scene.tools(), &sql)?;
        Ok(())
    },
    full: None,
};

fn listing(kind: &str) -> &'static str {
    match kind {
        "SCHEMA" => pg::SCHEMAS,
        "TABLESPACE" => pg::TABLESPACES,
        "LANGUAGE" => pg::LANGUAGES,
        _ => pg::EXTENSIONS,
    }
}

/// A key of the journal with more in it.
fn key(psql: &Psql, name: &str, more: &[(&str, &str)]) -> Value {
    let mut key = match psql.key(name) {
        Value::Map(map) => (*map).clone(),
        plain => Map::from_iter([("name", plain)]),
    };
    for (part, value) in more {
        key.insert(*part, *value);
    }
    key.into()
}

pub(super) fn schema_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (name, db) = (given.must("name")?, given.must("dbname")?);
    let psql = Psql::of_state(given).within(&db);
    if psql.by_name(&scene.tools(), pg::SCHEMAS)?.contains(&name) {
        return Ok(Plan::Right(format!("Schema {name} already exists in database {db}")));
    }
    Ok(Plan::Act(Act {
        would: format!("Schema {name} is set to be created in database {db}."),
        did: format!("Schema {name} has been created in database {db}"),
        fails: format!("Failed to create schema {name} in database {db}"),
        changes: changed(&name, "Present"),
        thing: Some((&OBJECT, key(&psql, &name, &[("type", "SCHEMA")]))),
        act: statement(psql, pg::create_schema(given, &name)),
    }))
}

pub(super) fn schema_absent(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (name, db) = (given.must("name")?, given.must("dbname")?);
    let psql = Psql::of_state(given).within(&db);
    if !psql.by_name(&scene.tools(), pg::SCHEMAS)?.contains(&name) {
        return Ok(Plan::Right(format!(
            "Schema {name} is not present in database {db}, so it cannot be removed"
        )));
    }
    let thing = key(&psql, &name, &[("type", "SCHEMA")]);
    let sql = format!("DROP SCHEMA {};", ident(&name));
    Ok(removal(
        "Schema",
        &name,
        &format!(" from database {db}"),
        Some((&OBJECT, thing)),
        statement(psql, sql),
    ))
}

pub(super) fn extension_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (psql, name) = (Psql::of_state(given), given.must("name")?);
    let all = psql.by_name(&scene.tools(), pg::EXTENSIONS)?;
    let now = one(&all, &name);
    let sql = pg::extension(given, &name, now);
    if sql.is_empty() {
        return Ok(Plan::Right(format!("Extension {name} is already present")));
    }
    let (mode, done) = if now.is_none() { ("install", "installed") } else { ("upgrade", "upgraded") };
    Ok(Plan::Act(Act {
        would: format!("Extension {name} is set to be {done}"),
        did: format!("The extension {name} has been {done}"),
        fails: format!("Failed to {mode} extension {name}"),
        changes: changed(&name, if now.is_none() { "Installed" } else { "Upgraded" }),
        thing: Some((&OBJECT, key(&psql, &name, &[("type", "EXTENSION")]))),
        act: statement(psql, sql),
    }))
}

pub(super) fn extension_absent(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (psql, name) = (Psql::of_state(given), given.must("name")?);
    if !psql.by_name(&scene.tools(), pg::EXTENSIONS)?.contains(&name) {
        return Ok(Plan::Right(format!("Extension {name} is not present, so it cannot be removed")));
    }
    Ok(removal("Extension", &name, "", None, statement(psql, pg::drop_extension(given, &name))))
}

pub(super) fn tablespace_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (psql, name, directory) = (Psql::of_state(given), given.must("name")?, given.must("directory")?);
    let all = psql.by_name(&scene.tools(), pg::TABLESPACES)?;
    let thing = Some((&OBJECT as _, key(&psql, &name, &[("type", "TABLESPACE")])));
    let Some(now) = one(&all, &name) else {
        return Ok(Plan::Act(Act {
            would: format!("Tablespace {name} is set to be created"),
            did: format!("The tablespace {name} has been created"),
            fails: format!("Failed to create tablespace {name}"),
            changes: changed(&name, "Present"),
            thing,
            act: statement(psql, pg::create_tablespace(given, &name, &directory)?),
        }));
    };
    let text = |key: &str| now.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("Location") != directory {
        return Err(Failure::new(format!(
            "Tablespace {name} is not at the right location. This is unfixable without dropping and recreating the tablespace."
        )));
    }
    let (mut sql, mut changes, mut did) = (String::new(), Map::new(), "opts");
    if let Some(owner) = given.text("owner").filter(|o| text("Owner") != o) {
        sql.push_str(&format!("ALTER TABLESPACE {} OWNER TO {};\n", ident(&name), ident(&owner)));
        changes.insert("owner", owner);
        did = "owner";
    }
    let held: Vec<&str> = text("Opts").trim_matches(['{', '}']).split(',').collect();
    let mut options = Map::new();
    for (k, v) in given.pairs("options").iter() {
        let wanted = pg::setting(k, v)?;
        let plain = wanted.replace(['"', ' '], "");
        if !held.iter().any(|h| *h == plain || *h == format!("{}={}", k.json_key(), v.json_key())) {
            sql.push_str(&format!("ALTER TABLESPACE {} SET ({wanted});\n", ident(&name)));
            options.insert(k.clone(), v.clone());
        }
    }
    if sql.is_empty() {
        return Ok(Plan::Right(format!("Tablespace {name} is already present")));
    }
    if !options.is_empty() {
        changes.insert("options", options);
        did = "opts";
    }
    let to_be = if did == "opts" { "options" } else { "owner" };
    Ok(Plan::Act(Act {
        would: format!("Tablespace {name} {to_be} to be altered"),
        did: format!("Tablespace {name} {did} changed"),
        fails: format!("Failed to change tablespace {name}"),
        changes: changed(&name, changes),
        thing,
        act: statement(psql, sql),
    }))
}

pub(super) fn tablespace_absent(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (psql, name) = (Psql::of_state(given), given.must("name")?);
    if !psql.by_name(&scene.tools(), pg::TABLESPACES)?.contains(&name) {
        return Ok(Plan::Right(format!("Tablespace {name} is not present, so it cannot be removed")));
    }
    let thing = Some((&OBJECT as _, key(&psql, &name, &[("type", "TABLESPACE")])));
    let sql = format!("DROP TABLESPACE {};", ident(&name));
    Ok(removal("Tablespace", &name, "", thing, statement(psql, sql)))
}

pub(super) fn language(given: &Given<'_>, scene: &Scene<'_>, present: bool) -> Result<Plan, Failure> {
    let (psql, name, tools) = (Psql::of_state(given), given.must("name")?, scene.tools());
    given.must("maintenance_db")?;
    if psql.by_name(&tools, pg::LANGUAGES)?.contains(&name) == present {
        return Ok(Plan::Right(match present {
            true => format!("Language {name} is already installed"),
            false => format!("Language {name} is not present so it cannot be removed"),
        }));
    }
    // A language that an extension brought along goes with it.
    let is_extension = psql.by_name(&tools, pg::EXTENSIONS)?.contains(&name);
    let kind = if is_extension { "EXTENSION" } else { "LANGUAGE" };
    let thing = Some((&OBJECT as _, key(&psql, &name, &[("type", kind)])));
    if !present {
        let sql = format!("DROP {kind} {};", ident(&name));
        return Ok(removal("Language", &name, "", thing, statement(psql, sql)));
    }
    Ok(Plan::Act(Act {
        would: format!("Language {name} is set to be installed"),
        did: format!("Language {name} has been installed"),
        fails: format!("Failed to install language {name}"),
        changes: changed(&name, "Present"),
        thing,
        act: statement(psql, format!("CREATE LANGUAGE {};", ident(&name))),
    }))
}

pub(super) fn privileges(given: &Given<'_>, scene: &Scene<'_>, present: bool) -> Result<Plan, Failure> {
    let (psql, wish, tools) = (Psql::of_state(given), Wish::new(given)?, scene.tools());
    if wish.is_held(&psql, &tools, present)? == present {
        return Ok(Plan::Right(match present {
            true => "The requested privilege(s) are already set".to_owned(),
            false => "The requested privilege(s) are not set so cannot be revoked".to_owned(),
        }));
    }
    let what = if wish.privileges.is_empty() { wish.object.clone() } else { wish.privileges.join(",") };
    let (verb, done, to) = if present { ("grant", "granted", "to") } else { ("revoke", "revoked", "from") };
    let role = &wish.role;
    let sql = wish.sql(present, &wish.now(&psql, &tools)?)?;
    let mut more = Vec::new();
    for part in ["object_name", "object_type", "privileges", "prepend"] {
        if let Some(texts) = given.texts(part) {
            more.push((part, if part == "object_name" { given.must(part)? } else { texts.join(",") }));
        }
    }
    let more: Vec<(&str, &str)> = more.iter().map(|(k, v)| (*k, v.as_str())).collect();
    Ok(Plan::Act(Act {
        would: format!("The privilege(s): {what} are set to be {done} {to} {role}"),
        did: format!("The privilege(s): {what} have been {done} {to} {role}"),
        fails: format!("Failed to {verb} privilege(s): {what} {to} {role}"),
        changes: changed(role, if present { "Present" } else { "Absent" }),
        thing: Some((&PRIVILEGES, key(&psql, role, &more))),
        act: statement(psql, sql),
    }))
}
