//! `file.keyvalue`: keys and their values, one on a line, with something between them.
//!
//! Law: of every key as many lines stay as `count` says; what else the file holds stays as it is, unless `prune`
//! asks (held by `edits_do_and_say_what_salts_do`).

use zagent_config::Value;
use zagent_config::value::python_str;

use super::editor::{EditChange, EditReport, EditResult, MissingFile, TextEditor, is_salt};
use super::text::{LineEnds, is_space, lines};
use crate::{ChunkArgs, StateCtx, StateError};

/// Where keys go that are not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyNotFound {
    Nowhere,
    End,
    Start,
}

/// One key that should have a value.
#[derive(Clone, Debug)]
struct KeyValuePair {
    key: String,
    value: String,
    /// Python's name of the value's type, when it is no text.
    kind: Option<&'static str>,
}

/// The parameters of an edit.
#[derive(Clone, Debug)]
pub(crate) struct FileKeyvalue {
    name: String,
    pairs: Vec<KeyValuePair>,
    separator: String,
    not_found: KeyNotFound,
    count: i64,
    uncomment: Option<String>,
    key_ignore_case: bool,
    value_ignore_case: bool,
    show_changes: bool,
    ignore_if_missing: bool,
    create_if_missing: bool,
    prune: bool,
}

impl FileKeyvalue {
    /// Reads `file.keyvalue`.
    pub(crate) fn read(name: String, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let flag = |key| args.flag(key, false);
        let create_if_missing = flag("create_if_missing");
        let not_found = match (flag("append_if_not_found"), flag("prepend_if_not_found")) {
            (true, _) => KeyNotFound::End,
            (false, true) => KeyNotFound::Start,
            (false, false) => KeyNotFound::Nowhere,
        };
        let separator = args.text("separator")?.unwrap_or_else(|| "=".into());
        if separator.is_empty() {
            return Err(StateError::new("empty separator"));
        }
        Ok(Self {
            pairs: read_pairs(args)?,
            separator,
            count: args.int("count")?.unwrap_or(1),
            uncomment: args.text("uncomment")?,
            key_ignore_case: flag("key_ignore_case"),
            value_ignore_case: flag("value_ignore_case"),
            show_changes: args.flag("show_changes", true),
            ignore_if_missing: flag("ignore_if_missing"),
            prune: flag("prune"),
            create_if_missing,
            not_found,
            name,
        })
    }

    /// Sets the keys. `exact` does as Salt does where it joins a new line to an unfinished last one.
    pub(crate) fn transform(&self, old: Option<&str>, exact: bool) -> EditResult {
        let mut work = KeyValueEdit { left: vec![self.count; self.pairs.len()], ..KeyValueEdit::default() };
        for line in lines(old.unwrap_or_default(), LineEnds::Universal) {
            self.edit_line(line, &mut work);
        }
        self.add_missing(if old.is_none() { KeyNotFound::End } else { self.not_found }, &mut work, exact);
        for line in &work.pruned {
            let at = work.diff.len().min(1);
            work.diff.insert(at, format!("- {line}"));
        }
        let (changed, deleted) = (work.changed, work.pruned.len());
        if changed == 0 && deleted == 0 {
            return EditResult::Unchanged(String::new());
        }
        let name = &self.name;
        let mut would = EditReport::comment_only(format!(
            "File {name} is set to be changed ({changed} lines modified, {deleted} deleted)"
        ));
        let mut did = EditReport::comment_only(format!("Changed {changed}, deleted {deleted} lines"));
        if self.show_changes {
            would.comment += "\nPredicted diff:\n\r\t\t";
            would.comment += &work.diff.join("\r\t\t");
            would.changes.insert("diff", work.diff.concat());
            did.changes.insert("diff", work.diff.concat());
        }
        EditResult::Change(EditChange {
            new: work.content.concat(),
            predicted: would,
            applied: did,
            failed: false,
        })
    }

    /// One line of the file: kept, corrected, or dropped.
    fn edit_line(&self, original: &str, work: &mut KeyValueEdit) {
        let bare = self.strip(original);
        let uncommented = bare.len() < original.len();
        let tested = self.fold_key(bare);
        let mut line = original.to_owned();
        if self.prune && !self.pairs.iter().any(|p| tested.starts_with(&self.fold_key(&p.key))) {
            work.pruned.push(line);
            return;
        }
        let Some((line_key, line_value)) = bare.split_once(&self.separator) else {
            work.content.push(line);
            return;
        };
        for (i, pair) in self.pairs.iter().enumerate() {
            let key = self.fold_key(&pair.key);
            if !tested.starts_with(&key) || self.fold_key(line_key) != key {
                continue;
            }
            let equal = self.fold_value(line_value) == self.fold_value(&pair.value);
            let left = work.left[i];
            // A commented line counts only while lines are wanted; a plain one must be right and not be one too many.
            if if uncommented { left > 0 } else { left == 0 || !equal } {
                work.diff.push(format!("- {line}"));
                line.clear();
                if left != 0 {
                    line = format!("{line_key}{}{}\n", self.separator, pair.value);
                    work.diff.push(added_line(&line, pair));
                }
                work.changed += 1;
            }
            work.left[i] -= i64::from(left > 0);
        }
        work.content.push(line);
    }

    /// Adds keys of which lines are missing.
    fn add_missing(&self, place: KeyNotFound, work: &mut KeyValueEdit, exact: bool) {
        let missing = self.pairs.iter().zip(&work.left).filter(|(_, left)| **left > 0);
        let fresh: Vec<String> =
            missing.map(|(pair, _)| format!("{}{}{}\n", pair.key, self.separator, pair.value)).collect();
        if fresh.is_empty() || place == KeyNotFound::Nowhere {
            return;
        }
        work.changed += fresh.len();
        if place == KeyNotFound::Start {
            work.diff.insert(0, "  <SOF>\n".into());
            for line in fresh {
                work.diff.insert(1, format!("+ {line}"));
                work.content.insert(0, line);
            }
            return;
        }
        if let Some(last) =
            work.content.last_mut().filter(|l| !exact && !l.is_empty() && !l.ends_with(['\n', '\r']))
        {
            last.push('\n');
        }
        work.diff.push("- <EOF>\n".into());
        work.diff.extend(fresh.iter().map(|line| format!("+ {line}")));
        work.diff.push("+ <EOF>\n".into());
        work.content.extend(fresh);
    }

    fn strip<'l>(&self, line: &'l str) -> &'l str {
        match &self.uncomment {
            None => line.trim_start_matches(is_space),
            Some(signs) => line.trim_start_matches(|c| signs.contains(c)),
        }
    }

    fn fold_key(&self, text: &str) -> String {
        if self.key_ignore_case { text.to_lowercase() } else { text.to_owned() }
    }

    fn fold_value(&self, text: &str) -> String {
        let text = text.trim_matches(is_space);
        if self.value_ignore_case { text.to_lowercase() } else { text.to_owned() }
    }
}

/// What has become of the file so far.
#[derive(Default)]
struct KeyValueEdit {
    content: Vec<String>,
    pruned: Vec<String>,
    diff: Vec<String>,
    changed: usize,
    /// Lines that each key may still have; negative for any number.
    left: Vec<i64>,
}

/// A new line as the diff shows it; a value that was no text is marked.
fn added_line(line: &str, pair: &KeyValuePair) -> String {
    match pair.kind {
        Some(kind) => format!("+ {} (from {kind} type)\n", line.trim_end_matches(is_space)),
        None => format!("+ {line}"),
    }
}

fn read_pairs(args: &ChunkArgs<'_>) -> Result<Vec<KeyValuePair>, StateError> {
    let pair = |key: &Value, value: &Value| KeyValuePair {
        key: python_str(key),
        value: python_str(value),
        kind: (!matches!(value, Value::Str(_))).then(|| value.type_name()),
    };
    let given = args.get("key_values");
    if let (Some(key), Some(value)) = (args.get("key"), args.get("value")) {
        if matches!(given, Some(Value::Map(_))) {
            return Err(StateError::new("file.keyvalue can not combine key_values with key and value"));
        }
        return Ok(vec![pair(key, value)]);
    }
    let words = "file.keyvalue key and value not supplied and key_values";
    match given {
        Some(Value::Map(map)) if !map.is_empty() => Ok(map.iter().map(|(k, v)| pair(k, v)).collect()),
        Some(other) if other.is_truthy() => Err(StateError::new(format!("{words} is not a dictionary"))),
        _ => Err(StateError::new(format!("{words} is empty"))),
    }
}

impl TextEditor for FileKeyvalue {
    fn edit(&self, old: Option<&str>, ctx: &StateCtx<'_>) -> Result<EditResult, StateError> {
        Ok(self.transform(old, is_salt(ctx)))
    }

    fn on_missing_file(&self) -> MissingFile {
        let words = format!("unable to open {}", self.name);
        match (self.create_if_missing, self.ignore_if_missing) {
            (true, _) => MissingFile::Create { makedirs: false, empty: false, would: None },
            (false, true) => MissingFile::Skip(words),
            (false, false) => MissingFile::Fail(words),
        }
    }

    fn accepts_binary(&self) -> bool {
        true
    }
}
