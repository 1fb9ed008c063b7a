//! The `file` states: what stands at a path against what a state wants there.
//!
//! Law: a path that cannot be read is unknown, not absent; only regular files are opened.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, json};
use zagent_compiler::{Chunk, Compat, name_text};
use zagent_config::Value;
use zagent_config::value::{DEFAULT_DELIMITER, traverse};

use super::{Future, Looker, Outcome, TemplateFile, diff, owner};

type Changes = Map<String, serde_json::Value>;

/// The outcome of a `file` state; `None` for a function that has no preview.
pub(super) fn look(chunk: &Chunk, looker: &Looker<'_, '_>) -> Option<Outcome> {
    let path = PathBuf::from(name_text(&chunk.name));
    let kind = match &*chunk.fun {
        "managed" => Future::File,
        "directory" => Future::Directory,
        "absent" => Future::Absent,
        "symlink" => Future::Unsure,
        _ => return None,
    };
    if !path.is_absolute() {
        return Some(Outcome::would_fail(format!("`{}` is not an absolute path", path.display())));
    }
    let outcome = match looker.future(&path) {
        Some(Future::Unsure) => Err("a state before it may change the path".to_owned()),
        before => stat(&path, before).and_then(|found| match kind {
            Future::File => managed(chunk, looker, &path, found.as_ref()),
            Future::Directory => directory(chunk, looker, &path, found.as_ref()),
            Future::Absent => Ok(absent(&path, found.as_ref())),
            Future::Unsure => symlink(chunk, looker, &path, found.as_ref()),
        }),
    };
    let outcome = outcome.unwrap_or_else(Outcome::unknown);
    match outcome.verdict {
        // A check for a prereq changes nothing for those behind it.
        _ if chunk.prereq.check => {}
        super::Verdict::WouldChange => looker.foresee(&path, kind),
        super::Verdict::Unknown => looker.foresee(&path, Future::Unsure),
        _ => {}
    }
    Some(outcome)
}

/// What is at a path, not following a link; a state before may have taken it away.
fn stat(path: &Path, before: Option<Future>) -> Result<Option<Metadata>, String> {
    if before == Some(Future::Absent) {
        return Ok(None);
    }
    match path.symlink_metadata() {
        Ok(found) => Ok(Some(found)),
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(format!("cannot look at `{}`: {e}", path.display())),
    }
}

fn truthy(chunk: &Chunk, key: &str, default: bool) -> bool {
    chunk.args.get(key).map_or(default, Value::is_truthy)
}

/// The reason why a path cannot be made: its parent is missing and nobody makes it.
fn orphan(chunk: &Chunk, looker: &Looker<'_, '_>, path: &Path) -> Option<Outcome> {
    let parent = path.parent()?;
    let comes = matches!(looker.future(parent), Some(Future::Directory));
    let goes = matches!(looker.future(parent), Some(Future::Absent));
    if truthy(chunk, "makedirs", false)
        || comes
        || (parent.is_dir() && !goes)
        || looker.scene.compat == Compat::Salt
    {
        return None;
    }
    // A package, say, may bring its directories along.
    if !goes && looker.is_unsure() {
        let text =
            format!("the directory `{}` does not exist, unless a state before makes it", parent.display());
        return Some(Outcome::unknown(text));
    }
    let text = format!("the directory `{}` does not exist; `makedirs: True` would make it", parent.display());
    Some(Outcome::would_fail(text))
}

fn managed(
    chunk: &Chunk,
    looker: &Looker<'_, '_>,
    path: &Path,
    found: Option<&Metadata>,
) -> Result<Outcome, String> {
    if found.is_some_and(Metadata::is_dir) {
        return Ok(Outcome::would_fail(format!("`{}` is a directory", path.display())));
    }
    let found = match found {
        Some(found) if found.is_symlink() && truthy(chunk, "follow_symlinks", true) => path.metadata().ok(),
        found => found.cloned(),
    };
    if found.is_some() && !truthy(chunk, "replace", true) {
        return Ok(Outcome::unchanged("it exists, and `replace: False` keeps it"));
    }
    if found.is_none() && !truthy(chunk, "create", true) {
        return Ok(Outcome::unchanged("it does not exist, and `create: False` leaves it so"));
    }
    let want = content(chunk, looker)?;
    let Some(found) = found else {
        return Ok(
            orphan(chunk, looker, path).unwrap_or_else(|| new_file(chunk, looker, path, want.as_deref()))
        );
    };
    let mut changes = owner::differs(chunk, &found, &["mode"])?;
    let mut shown = String::new();
    if let Some(want) = &want {
        let have = read(path, &found)?;
        if have != *want {
            shown = show(chunk, looker, path, &have, want);
            changes.insert("diff".into(), json!(shown));
        }
    }
    Ok(outcome(path, changes, shown))
}

fn new_file(chunk: &Chunk, looker: &Looker<'_, '_>, path: &Path, want: Option<&[u8]>) -> Outcome {
    let mut changes = Changes::new();
    changes.insert("newfile".into(), json!(path));
    let shown = show(chunk, looker, path, b"", want.unwrap_or_default());
    Outcome { diff: shown, ..Outcome::would_change(format!("{} would be made", path.display()), changes) }
}

/// The diff, as far as it may be shown.
fn show(chunk: &Chunk, looker: &Looker<'_, '_>, path: &Path, old: &[u8], new: &[u8]) -> String {
    if !truthy(chunk, "show_changes", true) || truthy(chunk, "no_log", false) {
        return "the state asks not to show it\n".into();
    }
    looker.scene.mask.text(&diff::unified(old, new, &path.display().to_string()))
}

fn read(path: &Path, found: &Metadata) -> Result<Vec<u8>, String> {
    // Opening a pipe or a device could block or have an effect.
    if !found.is_file() {
        return Err(format!("`{}` is not a regular file", path.display()));
    }
    std::fs::read(path).map_err(|e| format!("cannot read `{}`: {e}", path.display()))
}

/// The bytes that a file should have; `None` when the state does not say.
fn content(chunk: &Chunk, looker: &Looker<'_, '_>) -> Result<Option<Vec<u8>>, String> {
    let args = &chunk.args;
    for key in ["contents_grains", "source_hash", "sources", "check_cmd"] {
        if args.get(key).is_some_and(Value::is_truthy) {
            return Err(format!("a preview does not handle `{key}` yet"));
        }
    }
    let given = match args.get("contents_pillar").and_then(Value::as_str) {
        Some(key) => match traverse(looker.scene.pillar, key, DEFAULT_DELIMITER) {
            Some(value) => Some(value.clone()),
            None => return Err(format!("the pillar has no `{key}`")),
        },
        None => args.get("contents").filter(|v| !v.is_null()).cloned(),
    };
    if let Some(given) = given {
        let text = joined(&given, truthy(chunk, "contents_newline", true))?;
        return templated(chunk, looker, "contents", text.into_bytes()).map(Some);
    }
    let source = match args.get("source") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Str(one)) => one.to_string(),
        Some(Value::List(many)) => many
            .iter()
            .filter_map(Value::as_str)
            .find(|s| matches!(fetch(s, chunk, looker), Ok(Some(_))))
            .ok_or("none of its sources exists")?
            .to_owned(),
        Some(other) => return Err(format!("`source` is {}", other.kind())),
    };
    match fetch(&source, chunk, looker)? {
        Some(bytes) => templated(chunk, looker, source.trim_start_matches("salt://"), bytes).map(Some),
        None => Err(format!("`{source}` does not exist")),
    }
}

/// `contents`: a string, or a list of lines.
fn joined(given: &Value, newline: bool) -> Result<String, String> {
    let mut text = match given {
        Value::Str(s) => s.to_string(),
        Value::List(lines) => lines.iter().map(name_text).collect::<Vec<_>>().join("\n"),
        Value::Map(_) => return Err("its contents are a mapping".into()),
        other => name_text(other),
    };
    if newline && !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

fn fetch(source: &str, chunk: &Chunk, looker: &Looker<'_, '_>) -> Result<Option<Vec<u8>>, String> {
    if let Some(path) = source.strip_prefix("salt://") {
        let (path, env) = path.split_once("?saltenv=").unwrap_or((path, &*chunk.env));
        return Ok(looker.scene.files.read(env, path)?.map(|bytes| bytes.to_vec()));
    }
    if source.starts_with('/') {
        return match std::fs::metadata(source) {
            Ok(found) => read(Path::new(source), &found).map(Some),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(format!("cannot look at `{source}`: {e}")),
        };
    }
    Err(format!("a preview does not fetch `{source}`"))
}

fn templated(chunk: &Chunk, looker: &Looker<'_, '_>, path: &str, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    match chunk.args.get("template").and_then(Value::as_str) {
        None => return Ok(bytes),
        Some("jinja") => {}
        Some(other) => return Err(format!("a preview does not render `template: {other}`")),
    }
    let source = String::from_utf8(bytes).map_err(|_| format!("the template `{path}` is not UTF-8"))?;
    let mut variables = chunk.args.get("defaults").and_then(Value::as_map).cloned().unwrap_or_default();
    for (key, value) in chunk.args.get("context").and_then(Value::as_map).into_iter().flat_map(|m| m.iter()) {
        variables.insert(key.clone(), value.clone());
    }
    let file = TemplateFile { env: &chunk.env, path, source: &source, variables };
    looker.scene.templates.render(&file).map(String::into_bytes)
}

fn directory(
    chunk: &Chunk,
    looker: &Looker<'_, '_>,
    path: &Path,
    found: Option<&Metadata>,
) -> Result<Outcome, String> {
    let Some(found) = found else {
        let mut changes = Changes::new();
        changes.insert(path.display().to_string(), json!({"directory": "new"}));
        let made = || Outcome::would_change(format!("{} would be made", path.display()), changes);
        return Ok(orphan(chunk, looker, path).unwrap_or_else(made));
    };
    let followed = if found.is_symlink() { path.metadata().ok() } else { Some(found.clone()) };
    let Some(found) = followed.filter(Metadata::is_dir) else {
        if truthy(chunk, "force", false) {
            let mut changes = Changes::new();
            changes.insert("forced".into(), json!("what stands there would be removed"));
            return Ok(Outcome::would_change(
                format!("{} would be replaced by a directory", path.display()),
                changes,
            ));
        }
        return Ok(Outcome::would_fail(format!("`{}` exists and is not a directory", path.display())));
    };
    if let Some(key) = ["recurse", "clean"].into_iter().find(|k| truthy(chunk, k, false)) {
        return Err(format!("a preview does not look below a directory with `{key}` yet"));
    }
    let changes = owner::differs(chunk, &found, &["dir_mode", "mode"])?;
    Ok(outcome(path, changes, String::new()))
}

fn absent(path: &Path, found: Option<&Metadata>) -> Outcome {
    if found.is_none() {
        return Outcome::unchanged(format!("{} does not exist", path.display()));
    }
    if path.parent().is_none() {
        return Outcome::would_fail("refusing to remove `/`");
    }
    let mut changes = Changes::new();
    changes.insert("removed".into(), json!(path));
    Outcome::would_change(format!("{} would be removed", path.display()), changes)
}

fn symlink(
    chunk: &Chunk,
    looker: &Looker<'_, '_>,
    path: &Path,
    found: Option<&Metadata>,
) -> Result<Outcome, String> {
    let Some(target) = chunk.args.get("target").and_then(Value::as_str) else {
        return Ok(Outcome::would_fail("`target` is missing"));
    };
    let change = |old: serde_json::Value| {
        let mut changes = Changes::new();
        changes.insert("target".into(), json!({"old": old, "new": target}));
        Outcome::would_change(format!("{} would point at {target}", path.display()), changes)
    };
    match found {
        None => Ok(orphan(chunk, looker, path).unwrap_or_else(|| change(json!(null)))),
        Some(found) if found.is_symlink() => {
            let have =
                path.read_link().map_err(|e| format!("cannot read the link `{}`: {e}", path.display()))?;
            if have == Path::new(target) {
                Ok(Outcome::unchanged(format!("{} points at {target}", path.display())))
            } else {
                Ok(change(json!(have)))
            }
        }
        Some(_) if truthy(chunk, "force", false) || chunk.args.contains("backupname") => {
            Ok(change(json!("no link")))
        }
        Some(_) => Ok(Outcome::would_fail(format!(
            "`{}` exists and is no link; `force: True` would replace it",
            path.display()
        ))),
    }
}

fn outcome(path: &Path, changes: Changes, diff: String) -> Outcome {
    if changes.is_empty() {
        return Outcome::unchanged(format!("{} is as it should be", path.display()));
    }
    Outcome { diff, ..Outcome::would_change(format!("{} would be changed", path.display()), changes) }
}
