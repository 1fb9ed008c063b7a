//! States of the module `mysql_query`: queries, and where their result is kept.

pub(crate) mod functions;

use std::path::Path;

use zagent_config::Value;

use crate::databases::mysql::{self, MysqlClient};
use crate::named_args::NamedArgs;
use crate::shared::mysql::MYSQL_LOGIN;
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change};
use crate::shared::store_plan::{RunsAlways, StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};
use zagent_host::fs::FileMeta;

const QUERY_IRREVERSIBLE: &str = "nobody knows what a query changes";

/// The module `mysql_query`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "mysql_query",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

static STATES: StoreModule =
    StoreModule::new(&[query_state("run"), query_state("run_file")], Some(&MYSQL_LOGIN));

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

const fn query_state(name: &'static str) -> StoreFunction {
    StoreFunction::new(name, plan_query).irreversible(QUERY_IRREVERSIBLE).runs(RunsAlways::Always)
}

/// An act, not a condition: it runs every time, unless its output is there already.
fn plan_query(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (sql, db) = (MysqlClient::new(given), given.require_text("database")?);
    if given.flag("check_db_exists").unwrap_or(true) && sql.find_database(&ctx.tools(), &db)?.is_none() {
        return Err(StateError::new(format!("Database {db} is not present")));
    }
    let text = match given.text("query_file") {
        Some(source) => read_source(&source, given, ctx)?,
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
        return Ok(StatePlan::InSync(format!("No execution needed. File {} already set", path.display())));
    }
    let (to, change) = match &output {
        Some(path) => (
            format!("storing result in file: {}", path.display()),
            format!("Executed. Output into {}", path.display()),
        ),
        None => ("not storing result".to_owned(), "Executed".to_owned()),
    };
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Query would execute, {to}"),
        done_comment: change.clone(),
        failure_prefix: "the query failed".to_owned(),
        changes: single_change("query", change),
        undoable: None,
        run_change: Box::new(move |ctx| {
            let told = mysql::run_query(&sql, &ctx.tools(), &db, &text)?;
            if let Some(path) = &output {
                write_json(ctx, path, &told.into())?;
            }
            Ok(())
        }),
    }))
}

/// The bytes of a file of the tree (`salt://…`) or of the host.
fn read_source(text: &str, given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<Vec<u8>, StateError> {
    let Some(path) = text.strip_prefix("salt://") else { return Ok(ctx.fs.read(Path::new(text))?) };
    let env = given.text("saltenv").unwrap_or_else(|| "base".to_owned());
    let found = ctx.files.read(&env, path).map_err(StateError::new)?;
    found
        .map(|bytes| bytes.to_vec())
        .ok_or_else(|| StateError::new(format!("there is no {text} in the tree")))
}

/// Writes a value as JSON.
fn write_json(ctx: &StateCtx<'_>, path: &Path, value: &Value) -> Result<(), StateError> {
    let text = serde_json::to_string(value).map_err(|e| StateError::new(e.to_string()))?;
    Ok(ctx.fs.write(path, format!("{text}\n").as_bytes(), FileMeta::default())?)
}
