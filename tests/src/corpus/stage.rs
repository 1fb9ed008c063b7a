//! A case in, a scratch copy of its trees and its command line out.
//!
//! The copy is removed with the value; `@TMP@` in the files becomes a real directory, and back again in the
//! output.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tempfile::TempDir;

use super::Case;

/// The word for the scratch directory in recorded files.
pub(crate) const SCRATCH: &str = "@TMP@";
/// The word for the staged case in recorded files.
const HERE: &str = "@CASE@";

/// A case on disk, ready to run.
#[derive(Debug)]
pub struct Staged {
    root: TempDir,
    id: String,
    options: Vec<OsString>,
}

impl Staged {
    /// Copies the trees of `case` and writes the files that its command line names.
    ///
    /// # Errors
    /// Fails when something cannot be read or written.
    pub fn new(case: &Case, grains: &Path) -> io::Result<Self> {
        let root = tempfile::Builder::new().prefix("zagent-case-").tempdir()?;
        let scratch = root.path().join("tmp");
        fs::create_dir(&scratch)?;
        let envs = case.order.get("envs").and_then(Value::as_object).cloned().unwrap_or_default();
        let extra = envs.values().filter_map(Value::as_str);
        for tree in ["states", "pillar"].into_iter().chain(extra) {
            copy(&case.dir.join(tree), &root.path().join(tree), &scratch.to_string_lossy())?;
        }
        let id = case.order.get("id").and_then(Value::as_str).unwrap_or("testminion").to_owned();
        let facts = facts(case, grains, &id)?;
        write(&root.path().join("grains.json"), &Value::Object(facts))?;
        let own = format!("root: {}\n", root.path().join("agent").display());
        fs::write(root.path().join("zagent.yaml"), own)?;
        let mut staged = Self { root, id, options: Vec::new() };
        staged.options = staged.flags(case, &envs)?;
        Ok(staged)
    }

    fn flags(&self, case: &Case, envs: &Map<String, Value>) -> io::Result<Vec<OsString>> {
        let at = |name: &str| self.root.path().join(name).into_os_string();
        let mut flags: Vec<OsString> = vec!["--compat".into(), "salt".into(), "--out".into(), "json".into()];
        flags.extend(["--states".into(), at("states"), "--pillar".into(), at("pillar")]);
        flags.extend(["--config".into(), at("zagent.yaml")]);
        flags.extend(["--id".into(), self.id.clone().into(), "--grains".into(), at("grains.json")]);
        let sls: Vec<&str> = case
            .order
            .get("sls")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if !sls.is_empty() {
            flags.extend(["--sls".into(), sls.join(",").into()]);
        }
        if let Some(config) = case.order.get("config") {
            write(&self.root.path().join("config.json"), config)?;
            flags.extend(["--salt-config".into(), at("config.json")]);
        }
        for (name, dir) in envs {
            let mut pair = OsString::from(format!("{name}="));
            pair.push(at(dir.as_str().unwrap_or_default()));
            flags.extend(["--env".into(), pair]);
        }
        if let Some(pillar) = case.order.get("pillar_override") {
            flags.extend(["--pillar-data".into(), pillar.to_string().into()]);
        }
        Ok(flags)
    }

    /// The same case by zagent's own rules instead of Salt's.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.options.drain(..2);
        self
    }

    /// The node's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The options of every command on this case.
    pub fn options(&self) -> &[OsString] {
        &self.options
    }

    /// The working directory of the states of the case.
    pub fn scratch(&self) -> PathBuf {
        self.root.path().join("tmp")
    }

    /// `value` with the real directories replaced as in recorded files.
    pub fn neutral(&self, value: &Value) -> Value {
        let here = self.root.path().to_string_lossy();
        let scratch = format!("{here}/tmp");
        replace(value, &[(&scratch, SCRATCH), (&here, HERE)])
    }
}

fn replace(value: &Value, pairs: &[(&str, &str)]) -> Value {
    let text = |text: &str| pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    match value {
        Value::String(string) => Value::String(text(string)),
        Value::Array(items) => items.iter().map(|item| replace(item, pairs)).collect(),
        Value::Object(map) => map.iter().map(|(key, item)| (text(key), replace(item, pairs))).collect(),
        other => other.clone(),
    }
}

fn facts(case: &Case, grains: &Path, id: &str) -> io::Result<Map<String, Value>> {
    let mut facts: Map<String, Value> = serde_json::from_slice(&fs::read(grains)?)?;
    let added = case.order.get("grains").and_then(Value::as_object).into_iter().flatten();
    facts.extend(added.map(|(name, value)| (name.clone(), value.clone())));
    facts.insert("id".into(), id.into());
    Ok(facts)
}

fn write(path: &Path, value: &Value) -> io::Result<()> {
    fs::write(path, value.to_string())
}

fn copy(from: &Path, to: &Path, scratch: &str) -> io::Result<()> {
    fs::create_dir_all(to)?;
    if !from.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target, scratch)?;
            continue;
        }
        let bytes = fs::read(entry.path())?;
        match String::from_utf8(bytes) {
            Ok(text) => fs::write(target, text.replace(SCRATCH, scratch))?,
            Err(binary) => fs::write(target, binary.as_bytes())?,
        }
    }
    Ok(())
}
