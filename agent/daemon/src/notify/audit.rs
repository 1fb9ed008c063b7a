//! Changes of runs in, JSON lines out, for questions months later.
//!
//! Law: only real changes: a dry run and a run without changes write nothing. A line says what changed and never
//! its content: no contents, no diffs, no output, no secrets. Each line is one write at the end of the file (held
//! by `only_real_changes_are_written_and_never_contents`, `a_truncated_line_does_not_damage_the_next`).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::OFlags;
use serde::Serialize;
use serde_json::{Map as Json, Value as JsonValue};
use zagent_config::durable;
use zagent_config::mask::secret_keys;
use zagent_config::{Map, Value};

use zagent_config::mask::MASKED_TEXT;
use zagent_run::{RunReport, StateOutcome};

/// Size at which the file is rotated.
const MAX_FILE_BYTES: u64 = 10 << 20;
/// Maximum characters of one value.
const MAX_VALUE_CHARS: usize = 120;
/// Maximum keys of one mapping.
const MAX_KEYS: usize = 50;
/// Maximum depth of changes: a package, and its old and new version.
const MAX_DEPTH: usize = 2;

/// Keys of changes whose values are contents.
const CONTENT_KEYS: [&str; 7] = ["diff", "stdout", "stderr", "contents", "content", "text", "data"];

/// The file could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the audit file `{}`", path.display())]
pub struct AuditError {
    /// The file.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// One line.
#[derive(Serialize)]
struct AuditLine<'a> {
    time: Timestamp,
    node: &'a str,
    run: &'a str,
    revision: &'a str,
    mode: &'static str,
    trigger: &'static str,
    id: &'a str,
    sls: &'a str,
    fun: String,
    name: &'a str,
    /// False when it changed something and still failed.
    success: bool,
    changes: JsonValue,
}

/// Writes what a run changed; returns the number of lines.
///
/// # Errors
/// Fails when the file cannot be written.
pub fn write(path: &Path, report: &RunReport) -> Result<usize, AuditError> {
    write_with_rotation(path, report, MAX_FILE_BYTES)
        .map_err(|source| AuditError { path: path.to_owned(), source })
}

fn write_with_rotation(path: &Path, report: &RunReport, largest: u64) -> io::Result<usize> {
    if report.mode.changes_nothing() {
        return Ok(0);
    }
    let changed: Vec<&StateOutcome> = report
        .states
        .iter()
        .filter(|s| !s.changes.is_empty() && s.skip.is_none() && s.result.is_some())
        .collect();
    if changed.is_empty() {
        return Ok(0);
    }
    let mut file = open_append(path)?;
    for state in &changed {
        let mut line = serde_json::to_vec(&audit_line(report, state))?;
        line.push(b'\n');
        let size = file.metadata()?.len();
        if size > 0 && size + line.len() as u64 > largest {
            durable::sync_file(&file, path)?;
            std::fs::rename(path, rotated_path(path))?;
            file = open_append(path)?;
        }
        file.write_all(&line)?;
    }
    durable::sync_file(&file, path)?;
    Ok(changed.len())
}

/// Opens the file for appending. A line truncated by a full disk is terminated, so the next line is complete.
fn open_append(path: &Path) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut options = File::options();
    let mut file =
        options.read(true).append(true).create(true).mode(0o600).custom_flags(no_follow).open(path)?;
    if file.seek(SeekFrom::End(0))? > 0 {
        let mut last = [b'\n'];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != [b'\n'] {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

fn rotated_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

fn audit_line<'a>(report: &'a RunReport, state: &'a StateOutcome) -> AuditLine<'a> {
    AuditLine {
        time: state.start,
        node: &report.node,
        run: &report.run,
        revision: &report.revision,
        mode: report.mode.as_str(),
        trigger: report.trigger.as_str(),
        id: &state.id,
        sls: &state.sls,
        fun: format!("{}.{}", state.state, state.fun),
        name: &state.name,
        success: state.result == Some(true),
        changes: summarize_changes(&state.changes, MAX_DEPTH),
    }
}

/// What changed, without contents.
fn summarize_changes(changes: &Map, depth: usize) -> JsonValue {
    let mut out = Json::new();
    for (key, value) in changes.iter().take(MAX_KEYS) {
        let key = key.json_key();
        let short = match key.to_ascii_lowercase() {
            key if CONTENT_KEYS.contains(&key.as_str()) => "changed".into(),
            key if secret_keys::is_secret_key(&key) => MASKED_TEXT.into(),
            _ => summarize_value(value, depth),
        };
        out.insert(key, short);
    }
    if changes.len() > MAX_KEYS {
        out.insert("…".into(), format!("{} more", changes.len() - MAX_KEYS).into());
    }
    out.into()
}

fn summarize_value(value: &Value, depth: usize) -> JsonValue {
    match value {
        Value::Map(map) if depth > 0 => summarize_changes(map, depth - 1),
        Value::Map(map) => format!("{} keys", map.len()).into(),
        Value::List(list) => format!("{} items", list.len()).into(),
        Value::Str(text) if text.contains('\n') || text.chars().count() > MAX_VALUE_CHARS => {
            format!("{} bytes", text.len()).into()
        }
        Value::Str(text) => (**text).into(),
        other => serde_json::to_value(other).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use zagent_run::RunMode;
    use zagent_run::samples::{bad, changed, report, state};

    fn file(path: &Path) -> Vec<JsonValue> {
        let text = std::fs::read_to_string(path).unwrap();
        assert!(text.ends_with('\n'));
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn one(id: &str, changes: &str) -> StateOutcome {
        changed(state("file.managed", id, id), "done", changes)
    }

    #[test]
    fn only_real_changes_are_written_and_never_contents() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log/audit.jsonl");
        let dry = report(RunMode::Test, vec![one("/a", r#"{"x": 1}"#)]);
        let idle =
            report(RunMode::Apply, vec![state("test.nop", "a", "a"), bad(state("test.nop", "b", "b"), "no")]);
        assert_eq!((write(&path, &dry).unwrap(), write(&path, &idle).unwrap()), (0, 0));
        assert!(!path.exists() && !path.parent().unwrap().exists(), "no trace");
        let changes = r#"{"diff": "-old\n+s3cret", "mode": "0600", "pkg": {"old": "", "new": "1.2"}, "password": "p4ss",
            "pid": 7, "note": "it is here", "long": "a\nb", "list": [1, 2], "deep": {"a": {"b": {"c": "d"}}}}"#;
        let mut half = one("/half", r#"{"mode": "0644"}"#);
        half.result = Some(false);
        let run = report(RunMode::Apply, vec![one("/etc/conf", changes), state("test.nop", "x", "x"), half]);
        assert_eq!(write(&path, &run).unwrap(), 2);
        let text = std::fs::read_to_string(&path).unwrap();
        for hidden in ["s3cret", "p4ss", "a\\nb", "\"d\""] {
            assert!(!text.contains(hidden), "{hidden}: {text}");
        }
        let lines = file(&path);
        let want = r#"{"diff":"changed","mode":"0600","pkg":{"old":"","new":"1.2"},"password":"********","pid":7,
            "note":"it is here","long":"3 bytes","list":"2 items","deep":{"a":{"b":"1 keys"}}}"#;
        assert_eq!(lines[0]["changes"], serde_json::from_str::<JsonValue>(want).unwrap());
        assert_eq!((&lines[0]["id"], &lines[0]["fun"]), (&"/etc/conf".into(), &"file.managed".into()));
        assert_eq!((&lines[0]["success"], &lines[1]["success"]), (&true.into(), &false.into()));
        assert_eq!(
            (lines[0]["run"].as_str(), lines[0]["node"].as_str()),
            (Some(&*run.run), Some(&*run.node))
        );
        let mode = |p: &Path| std::fs::metadata(p).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    }

    #[test]
    fn a_large_file_is_rotated_and_no_line_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        let run = report(RunMode::Apply, (0..8).map(|n| one(&format!("/{n}"), r#"{"x": 1}"#)).collect());
        assert_eq!(write_with_rotation(&path, &run, 2000).unwrap(), 8);
        let (new, old) = (file(&path), file(&rotated_path(&path)));
        assert!(!new.is_empty() && old.len() + new.len() == 8, "{} {}", old.len(), new.len());
        assert!(std::fs::metadata(rotated_path(&path)).unwrap().len() <= 2000);
    }

    #[test]
    fn a_truncated_line_does_not_damage_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.jsonl");
        std::fs::write(&path, "{\"half\": ").unwrap();
        let run = report(RunMode::Apply, vec![one("/a", r#"{"x": 1}"#)]);
        write(&path, &run).unwrap();
        write(&path, &run).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let whole = text.lines().filter(|line| serde_json::from_str::<JsonValue>(line).is_ok()).count();
        assert_eq!((text.lines().count(), whole), (3, 2), "{text}");
    }

    #[test]
    fn links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (dir.path().join("audit.jsonl"), dir.path().join("other"));
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let run = report(RunMode::Apply, vec![one("/a", r#"{"x": 1}"#)]);
        assert!(write(&path, &run).is_err() && !other.exists());
    }
}
