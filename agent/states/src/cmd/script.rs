//! `cmd.script`: a script of the state tree or of the host, run from a file of its own.

use std::path::Path;

use zagent_config::{Map, Value};

use super::{CmdResult, CmdState, StateCtx, StateError, refused_error};
use zagent_host::command_options::{CommandOptions, value_text};
use zagent_host::exec::shell_words;
use zagent_host::temp_file::PrivateTempFile;

/// Runs a script from the state tree out of a temporary file of its own.
///
/// # Errors
/// Fails when the script cannot be fetched, rendered, written or started.
pub fn run_script(
    cmd: &CmdState,
    name: &str,
    options: CommandOptions,
    ctx: &StateCtx<'_>,
) -> Result<CmdResult, StateError> {
    let source = cmd.args.get("source").filter(|v| !v.is_null()).map_or_else(|| name.to_owned(), value_text);
    let Some(mut content) = script_content(&source, &cmd.env, ctx)? else {
        return Ok(CmdResult { code: Some(1), is_missing: true, ..CmdResult::without_output() });
    };
    if cmd.flag("template") {
        let text = String::from_utf8(content)
            .map_err(|_| StateError::new(format!("`{source}` is no template: it is not UTF-8")))?;
        content = cmd.render(text, tree_path(&source), template_variables(cmd), ctx)?.into_bytes();
    }
    let owner = options.runas.as_ref().map(|who| who.ids.uid);
    let cannot = |e| StateError::new(format!("cannot write the script `{source}` to a file of its own: {e}"));
    let file = PrivateTempFile::new(ctx.machine, &content, extension(&source), owner).map_err(cannot)?;
    let words = script_arguments(cmd.args.get("args"), name)?;
    let outcome = options.run_file(ctx.machine, file.path(), words).map_err(|e| refused_error(&e))?;
    cmd.interpret_outcome(&outcome, name, &options)
}

/// What only the template reads, `defaults` over it, and `context` over them.
fn template_variables(cmd: &CmdState) -> Map {
    let mut variables = cmd.extra.clone();
    for map in ["defaults", "context"].into_iter().filter_map(|k| cmd.args.get(k)?.as_map()) {
        for (key, value) in map.iter() {
            variables.insert(key.clone(), value.clone());
        }
    }
    variables
}

/// The arguments: `args`, or what stands behind the first word of the name.
fn script_arguments(args: Option<&Value>, name: &str) -> Result<Vec<String>, StateError> {
    let text = match args.filter(|a| a.is_truthy()) {
        Some(Value::List(list)) => return Ok(list.iter().map(value_text).collect()),
        Some(other) => value_text(other),
        None => name.split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or_default(),
    };
    shell_words::split(&text)
        .ok_or_else(|| StateError::new(format!("a quotation mark is not closed in `{text}`")))
}

/// The bytes of a script: `salt://` from the tree, a path from the host.
fn script_content(source: &str, env: &str, ctx: &StateCtx<'_>) -> Result<Option<Vec<u8>>, StateError> {
    if let Some(rest) = source.strip_prefix("salt://") {
        let (path, env) = rest.split_once("?saltenv=").unwrap_or((rest, env));
        let read = ctx.files.read(env, path.trim_start_matches('|')).map_err(StateError::new)?;
        return Ok(read.map(|bytes| bytes.to_vec()));
    }
    let path = Path::new(source.strip_prefix("file://").unwrap_or(source));
    if !path.is_absolute() {
        if source.contains("://") {
            return Err(StateError::new(format!(
                "a script comes from salt:// or from this host, not from {source}"
            )));
        }
        return Ok(None);
    }
    match ctx.fs.read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.is_not_found() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn tree_path(source: &str) -> &str {
    let path = source.strip_prefix("salt://").unwrap_or(source);
    path.split_once("?saltenv=").map_or(path, |(path, _)| path)
}

/// `.sh` of `a/b.sh`: some interpreters go by it.
fn extension(source: &str) -> &str {
    let name = tree_path(source).rsplit('/').next().unwrap_or_default();
    let dot = name.rfind('.').filter(|at| *at > 0);
    dot.map(|at| &name[at..])
        .filter(|e| e.chars().all(|c| c == '.' || c.is_ascii_alphanumeric()))
        .unwrap_or_default()
}
