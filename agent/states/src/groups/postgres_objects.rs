//! Schemas, extensions, tablespaces, languages and privileges.

use zagent_config::{Map, Value};

use crate::databases::postgres_objects as pg;
use crate::databases::postgres_objects::find_by_name;
use crate::databases::postgres_privileges::PrivilegeRequest;
use crate::databases::psql::{PsqlClient, quote_ident};
use crate::databases::{NamedArgs, with_map_args};
use crate::groups::postgres::{plan_removal, run_statement};
use crate::groups::stores::{PlannedChange, StorePlan, StoreUndo, single_change};
use crate::{StateCtx, StateError};

/// Schemas, tablespaces and languages: `type` says which. What is null is taken away, what was there is made again.
pub static POSTGRES_OBJECT_UNDO: StoreUndo = StoreUndo {
    kind: "postgres_object",
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

/// What a role may do with an object.
pub static POSTGRES_PRIVILEGES_UNDO: StoreUndo = StoreUndo {
    kind: "postgres_privileges",
    capture: |given, ctx| {
        Ok(PrivilegeRequest::new(given)?
            .current_privileges(&PsqlClient::from_journal_key(given), &ctx.tools())?
            .into())
    },
    restore: |given, to, ctx| {
        let sql = PrivilegeRequest::new(given)?.restore_sql(to.as_map().unwrap_or(&Map::new()));
        PsqlClient::from_journal_key(given).run(&ctx.tools(), &sql)?;
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
fn undo_key(psql: &PsqlClient, name: &str, more: &[(&str, &str)]) -> Value {
    let mut key = match psql.journal_key(name) {
        Value::Map(map) => (*map).clone(),
        plain => Map::from_iter([("name", plain)]),
    };
    for (part, value) in more {
        key.insert(*part, *value);
    }
    key.into()
}

pub fn schema_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (name, db) = (given.require_text("name")?, given.require_text("dbname")?);
    let psql = PsqlClient::from_state_args(given).in_database(&db);
    if psql.rows_by_name(&ctx.tools(), pg::LIST_SCHEMAS)?.contains(&name) {
        return Ok(StorePlan::InSync(format!("Schema {name} already exists in database {db}")));
    }
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Schema {name} is set to be created in database {db}."),
        done_comment: format!("Schema {name} has been created in database {db}"),
        failure_prefix: format!("Failed to create schema {name} in database {db}"),
        changes: single_change(&name, "Present"),
        undoable: Some((&POSTGRES_OBJECT_UNDO, undo_key(&psql, &name, &[("type", "SCHEMA")]))),
        run_change: run_statement(psql, pg::create_schema(given, &name)),
    }))
}

pub fn schema_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (name, db) = (given.require_text("name")?, given.require_text("dbname")?);
    let psql = PsqlClient::from_state_args(given).in_database(&db);
    if !psql.rows_by_name(&ctx.tools(), pg::LIST_SCHEMAS)?.contains(&name) {
        return Ok(StorePlan::InSync(format!(
            "Schema {name} is not present in database {db}, so it cannot be removed"
        )));
    }
    let thing = undo_key(&psql, &name, &[("type", "SCHEMA")]);
    let sql = format!("DROP SCHEMA {};", quote_ident(&name));
    Ok(plan_removal(
        "Schema",
        &name,
        &format!(" from database {db}"),
        Some((&POSTGRES_OBJECT_UNDO, thing)),
        run_statement(psql, sql),
    ))
}

pub fn extension_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    let all = psql.rows_by_name(&ctx.tools(), pg::LIST_EXTENSIONS)?;
    let now = find_by_name(&all, &name);
    let sql = pg::extension_sql(given, &name, now);
    if sql.is_empty() {
        return Ok(StorePlan::InSync(format!("Extension {name} is already present")));
    }
    let (mode, done) = if now.is_none() { ("install", "installed") } else { ("upgrade", "upgraded") };
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Extension {name} is set to be {done}"),
        done_comment: format!("The extension {name} has been {done}"),
        failure_prefix: format!("Failed to {mode} extension {name}"),
        changes: single_change(&name, if now.is_none() { "Installed" } else { "Upgraded" }),
        undoable: Some((&POSTGRES_OBJECT_UNDO, undo_key(&psql, &name, &[("type", "EXTENSION")]))),
        run_change: run_statement(psql, sql),
    }))
}

pub fn extension_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    if !psql.rows_by_name(&ctx.tools(), pg::LIST_EXTENSIONS)?.contains(&name) {
        return Ok(StorePlan::InSync(format!("Extension {name} is not present, so it cannot be removed")));
    }
    Ok(plan_removal("Extension", &name, "", None, run_statement(psql, pg::drop_extension(given, &name))))
}

pub fn tablespace_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (psql, name, directory) =
        (PsqlClient::from_state_args(given), given.require_text("name")?, given.require_text("directory")?);
    let all = psql.rows_by_name(&ctx.tools(), pg::LIST_TABLESPACES)?;
    let thing = Some((&POSTGRES_OBJECT_UNDO as _, undo_key(&psql, &name, &[("type", "TABLESPACE")])));
    let Some(now) = find_by_name(&all, &name) else {
        return Ok(StorePlan::Change(PlannedChange {
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
        return Ok(StorePlan::InSync(format!("Tablespace {name} is already present")));
    }
    if !options.is_empty() {
        changes.insert("options", options);
        did = "opts";
    }
    let to_be = if did == "opts" { "options" } else { "owner" };
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Tablespace {name} {to_be} to be altered"),
        done_comment: format!("Tablespace {name} {did} changed"),
        failure_prefix: format!("Failed to change tablespace {name}"),
        changes: single_change(&name, changes),
        undoable: thing,
        run_change: run_statement(psql, sql),
    }))
}

pub fn tablespace_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (psql, name) = (PsqlClient::from_state_args(given), given.require_text("name")?);
    if !psql.rows_by_name(&ctx.tools(), pg::LIST_TABLESPACES)?.contains(&name) {
        return Ok(StorePlan::InSync(format!("Tablespace {name} is not present, so it cannot be removed")));
    }
    let thing = Some((&POSTGRES_OBJECT_UNDO as _, undo_key(&psql, &name, &[("type", "TABLESPACE")])));
    let sql = format!("DROP TABLESPACE {};", quote_ident(&name));
    Ok(plan_removal("Tablespace", &name, "", thing, run_statement(psql, sql)))
}

pub fn plan_language(
    given: &NamedArgs<'_>,
    ctx: &StateCtx<'_>,
    present: bool,
) -> Result<StorePlan, StateError> {
    let (psql, name, tools) = (PsqlClient::from_state_args(given), given.require_text("name")?, ctx.tools());
    given.require_text("maintenance_db")?;
    if psql.rows_by_name(&tools, pg::LIST_LANGUAGES)?.contains(&name) == present {
        return Ok(StorePlan::InSync(match present {
            true => format!("Language {name} is already installed"),
            false => format!("Language {name} is not present so it cannot be removed"),
        }));
    }
    // A language that an extension brought along goes with it.
    let is_extension = psql.rows_by_name(&tools, pg::LIST_EXTENSIONS)?.contains(&name);
    let kind = if is_extension { "EXTENSION" } else { "LANGUAGE" };
    let thing = Some((&POSTGRES_OBJECT_UNDO as _, undo_key(&psql, &name, &[("type", kind)])));
    if !present {
        let sql = format!("DROP {kind} {};", quote_ident(&name));
        return Ok(plan_removal("Language", &name, "", thing, run_statement(psql, sql)));
    }
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Language {name} is set to be installed"),
        done_comment: format!("Language {name} has been installed"),
        failure_prefix: format!("Failed to install language {name}"),
        changes: single_change(&name, "Present"),
        undoable: thing,
        run_change: run_statement(psql, format!("CREATE LANGUAGE {};", quote_ident(&name))),
    }))
}

pub fn plan_privileges(
    given: &NamedArgs<'_>,
    ctx: &StateCtx<'_>,
    present: bool,
) -> Result<StorePlan, StateError> {
    let (psql, wish, tools) =
        (PsqlClient::from_state_args(given), PrivilegeRequest::new(given)?, ctx.tools());
    if wish.has_privileges(&psql, &tools, present)? == present {
        return Ok(StorePlan::InSync(match present {
            true => "The requested privilege(s) are already set".to_owned(),
            false => "The requested privilege(s) are not set so cannot be revoked".to_owned(),
        }));
    }
    let what = if wish.privileges.is_empty() { wish.object.clone() } else { wish.privileges.join(",") };
    let (verb, done, to) = if present { ("grant", "granted", "to") } else { ("revoke", "revoked", "from") };
    let role = &wish.role;
    let sql = wish.change_sql(present, &wish.current_privileges(&psql, &tools)?)?;
    let mut more = Vec::new();
    for part in ["object_name", "object_type", "privileges", "prepend"] {
        if let Some(texts) = given.text_list(part) {
            more.push((
                part,
                if part == "object_name" { given.require_text(part)? } else { texts.join(",") },
            ));
        }
    }
    let more: Vec<(&str, &str)> = more.iter().map(|(k, v)| (*k, v.as_str())).collect();
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("The privilege(s): {what} are set to be {done} {to} {role}"),
        done_comment: format!("The privilege(s): {what} have been {done} {to} {role}"),
        failure_prefix: format!("Failed to {verb} privilege(s): {what} {to} {role}"),
        changes: single_change(role, if present { "Present" } else { "Absent" }),
        undoable: Some((&POSTGRES_PRIVILEGES_UNDO, undo_key(&psql, role, &more))),
        run_change: run_statement(psql, sql),
    }))
}
