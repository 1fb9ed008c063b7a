//! A file of rows in, the rows out; errors have their position.

use std::fs;

use serde_yaml::{Mapping, Value};

use super::dir;

/// What a state does on the host that its row prepares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It changes the host once.
    Change,
    /// It never has anything to do.
    Nothing,
    /// It fails, and changes nothing.
    Failure,
}

/// One way to use a state function.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its file, without the ending.
    pub file: String,
    /// The function, such as `file.managed`.
    pub state: String,
    /// What is special in this row.
    pub title: String,
    /// Prepares the host.
    pub setup: String,
    /// The only SLS of the tree.
    pub sls: String,
    /// Succeeds when the host is in the desired state.
    pub right: String,
    /// Causes a drift; empty when there is none.
    pub drift: Option<String>,
    /// Succeeds when a revert has restored the host; empty when it cannot.
    pub reverted: Option<String>,
    /// Why there is no drift, no revert or a change each time.
    pub why: String,
    /// A dry run can predict the change.
    pub foreseen: bool,
    /// The result of a run.
    pub expected: Expected,
    /// The second run also changes something.
    pub restless: bool,
    /// Why it cannot run in a container.
    pub skip: String,
}

const KEYS: [&str; 12] = [
    "state",
    "title",
    "setup",
    "sls",
    "right",
    "drift",
    "reverted",
    "why",
    "foresight",
    "expect",
    "again",
    "skip",
];

/// All rows, by file.
///
/// # Errors
/// Returns all errors in them.
pub fn read() -> Result<Vec<Row>, Vec<String>> {
    let mut files: Vec<_> = fs::read_dir(dir()).map_err(|e| vec![e.to_string()])?.flatten().collect();
    files.sort_by_key(fs::DirEntry::file_name);
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for path in files.iter().map(fs::DirEntry::path).filter(|p| p.extension().is_some_and(|e| e == "yaml")) {
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).map_err(|e| vec![format!("{}: {e}", path.display())])?;
        let list: Vec<Mapping> = match serde_yaml::from_str(&text) {
            Ok(list) => list,
            Err(e) => {
                wrong.push(format!("{file}.yaml: {e}"));
                continue;
            }
        };
        for (n, map) in list.iter().enumerate() {
            match row(&file, map) {
                Ok(row) => rows.push(row),
                Err(why) => wrong.push(format!("{file}.yaml, row {}: {why}", n + 1)),
            }
        }
    }
    if wrong.is_empty() { Ok(rows) } else { Err(wrong) }
}

fn row(file: &str, map: &Mapping) -> Result<Row, String> {
    if let Some(odd) = map.keys().find(|k| !k.as_str().is_some_and(|k| KEYS.contains(&k))) {
        return Err(format!("unknown key {odd:?}"));
    }
    let text = |key: &str| match map.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Bool(word)) => Ok(if *word { "yes" } else { "no" }.to_owned()),
        Some(other) => Err(format!("`{key}` is not a text: {other:?}")),
    };
    let one_of = |key: &str, words: &[&str]| {
        let found = text(key)?;
        let found = if found.is_empty() { words[0].to_owned() } else { found };
        words.iter().position(|w| *w == found).ok_or_else(|| format!("`{key}` is one of {words:?}"))
    };
    let unless = |key: &str, word: &str| text(key).map(|t| (!t.is_empty() && t != word).then_some(t));
    let expected = [Expected::Change, Expected::Nothing, Expected::Failure]
        [one_of("expect", &["change", "none", "failure"])?];
    let (sls, why) = (text("sls")?, text("why")?);
    // A row that only gives a reason.
    let skip = if sls.is_empty() { why.clone() } else { text("skip")? };
    let row = Row {
        file: file.to_owned(),
        state: text("state")?,
        title: text("title")?,
        setup: text("setup")?,
        sls,
        right: text("right")?,
        drift: unless("drift", "none")?,
        reverted: unless("reverted", "no")?,
        why,
        foreseen: one_of("foresight", &["change", "unknown"])? == 0,
        expected,
        restless: one_of("again", &["none", "change"])? == 1,
        skip,
    };
    let is_bare = row.drift.is_none() || row.reverted.is_none() || row.restless;
    match () {
        () if !row.skip.is_empty() => {}
        () if !row.sls.contains(&row.state)
            && !row.sls.contains(row.state.split('.').next().unwrap_or("")) =>
        {
            return Err(format!("its SLS does not use {}", row.state));
        }
        () if row.right.is_empty() => return Err(format!("{}: `right` is missing", row.state)),
        () if expected == Expected::Change && is_bare && row.why.is_empty() => {
            return Err(format!("{}: no drift, no revert or a change each time, and no `why`", row.state));
        }
        () => {}
    }
    Ok(row)
}
