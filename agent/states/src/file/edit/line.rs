//! `file.line`: one line, found by what stands in it or beside it, is put there, replaced or taken away.
//!
//! Law: Salt's own rules, odd ones included: `delete` takes the lines equal to the first match, `replace` the first
//! match alone (held by `edits_do_and_say_what_salts_do`).

use super::editor::{EditBackup, EditResult, MissingFile, TextEditor};
use super::python_regex::{PythonRegex, RegexFlags};
use super::text::{LineEnds, is_space, lines};
use crate::{ChunkArgs, StateCtx, StateError};

/// What is done with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineMode {
    /// It is put where it should be unless it is there.
    Ensure,
    /// It is put there.
    Insert,
    /// It takes the place of another.
    Replace,
    /// It is taken away.
    Delete,
}

/// Where `insert` puts a line, without looking at others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineLocation {
    /// Before all.
    Start,
    /// After all.
    End,
    /// Some other word: nowhere.
    Nowhere,
}

/// The parameters of an edit.
#[derive(Clone, Debug)]
pub(crate) struct FileLineState {
    name: String,
    content: String,
    find: Option<String>,
    mode: LineMode,
    location: Option<LineLocation>,
    before: Option<String>,
    after: Option<String>,
    indent: bool,
    show_changes: bool,
    backup: bool,
    create: bool,
}

impl FileLineState {
    /// Reads `file.line`.
    pub(crate) fn read(name: String, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let mode = args.text("mode")?.map(|m| m.to_lowercase());
        let mode = match mode.as_deref() {
            Some("ensure") => LineMode::Ensure,
            Some("insert") => LineMode::Insert,
            Some("replace") => LineMode::Replace,
            Some("delete") => LineMode::Delete,
            None => return Err(StateError::new("Mode was not defined. How to process the file?")),
            Some(other) => return Err(StateError::new(format!("Unknown mode: \"{other}\""))),
        };
        let content = args.text("content")?;
        if content.is_none() && mode != LineMode::Delete {
            return Err(StateError::new("Content can only be empty if mode is ['delete']"));
        }
        let (before, after) = (args.text("before")?, args.text("after")?);
        let given = args.text("match")?.filter(|m| !m.is_empty());
        let find = given.or_else(|| if before.is_none() && after.is_none() { content.clone() } else { None });
        let location = args.text("location")?.filter(|l| !l.is_empty()).map(|l| match &*l {
            "start" => LineLocation::Start,
            "end" => LineLocation::End,
            _ => LineLocation::Nowhere,
        });
        let flag = |key, default| args.flag(key, default);
        let (indent, show_changes) = (flag("indent", true), flag("show_changes", true));
        let (backup, create) = (flag("backup", false), flag("create", false));
        let content = content.unwrap_or_default();
        Ok(Self { name, content, find, mode, location, before, after, indent, show_changes, backup, create })
    }

    /// Puts, replaces or takes away the line.
    ///
    /// # Errors
    /// Fails with Salt's words when the place is not clear.
    pub(crate) fn transform(&self, old: &str) -> Result<String, StateError> {
        let mut body: Vec<String> = lines(old, LineEnds::Universal).into_iter().map(str::to_owned).collect();
        if body.last().is_some_and(|line| !line_end(line).is_empty()) {
            body.push(String::new());
        }
        let mut body = self.apply_mode(body)?;
        for i in 0..body.len().saturating_sub(1) {
            if line_end(&body[i]).is_empty() {
                let neighbour = if i > 1 { i - 1 } else { 1 };
                body[i] = with_line_end(&body[neighbour], &body[i]);
            }
        }
        Ok(body.concat())
    }

    fn apply_mode(&self, mut body: Vec<String>) -> Result<Vec<String>, StateError> {
        let after = find_lines(&body, self.after.as_deref())?;
        let before = find_lines(&body, self.before.as_deref())?;
        let found = find_lines(&body, self.find.as_deref())?;
        let first = found.as_ref().and_then(|f| f.first());
        match (self.mode, first) {
            (LineMode::Delete, Some(line)) => body.retain(|l| l != line),
            (LineMode::Replace, Some(line)) => {
                if let Some(at) = body.iter().position(|l| l == line) {
                    body[at] = self.indented_as(&body[at]);
                }
            }
            (LineMode::Delete | LineMode::Replace, None) => {}
            (LineMode::Insert, _) => self.insert(&mut body, before, after)?,
            (LineMode::Ensure, _) => self.ensure(&mut body, before, after)?,
        }
        Ok(body)
    }

    fn insert(
        &self,
        body: &mut Vec<String>,
        before: LineMatches,
        after: LineMatches,
    ) -> Result<(), StateError> {
        if let Some(location) = self.location {
            match (location, body.is_empty()) {
                (LineLocation::End, true) => body.push(self.content.clone()),
                (LineLocation::End, false) => body.push(self.indented_as(&body[body.len() - 1])),
                (LineLocation::Start, true) => body.push(format!("{}\n", self.content)),
                (LineLocation::Start, false) => body.insert(0, with_line_end(&body[0], &self.content)),
                (LineLocation::Nowhere, _) => {}
            }
            return Ok(());
        }
        if before.is_none() && after.is_none() {
            return Err(StateError::new(
                "On insert either \"location\" or \"before/after\" conditions are required.",
            ));
        }
        let (before, after) = (matched_lines(before), matched_lines(after));
        if !before.is_empty() && !after.is_empty() {
            let last = single_index(body, &before, "before")?;
            single_index(body, &after, "after")?;
            body.insert(last, self.indented_as(&body[last]));
        } else if !after.is_empty() {
            let at = single_index(body, &after, "after")?;
            if body.get(at + 1).is_none_or(|next| !self.is_content(next)) {
                body.insert(at + 1, self.indented_as(&body[at]));
            }
        } else if !before.is_empty() {
            let at = single_index(body, &before, "before")?;
            if !self.is_content(&body[previous_index(body, at)]) {
                body.insert(at, self.indented_as(&body[at]));
            }
        } else {
            return Err(StateError::new("Neither before or after was found in file"));
        }
        Ok(())
    }

    fn ensure(
        &self,
        body: &mut Vec<String>,
        before: LineMatches,
        after: LineMatches,
    ) -> Result<(), StateError> {
        let (before, after) = (matched_lines(before), matched_lines(after));
        if !before.is_empty() && !after.is_empty() {
            let above = single_index(body, &after, "after")?;
            let below = single_index(body, &before, "before")?;
            if body.iter().any(|l| l.trim_start_matches(is_space) == self.content) {
                return Ok(());
            }
            let line = self.indented_as(&body[above]);
            if above + 1 == below {
                body.insert(below, line);
            } else if above + 2 == below {
                body[above + 1] = line;
            } else {
                return Err(StateError::new(
                    "Found more than one line between boundaries \"before\" and \"after\".",
                ));
            }
        } else if !before.is_empty() {
            let at = single_index(body, &before, "before")?;
            if at == 0 || !self.is_content(&body[at - 1]) {
                body.insert(at, self.indented_as(&body[previous_index(body, at)]));
            }
        } else if !after.is_empty() {
            let at = single_index(body, &after, "after")?;
            if body.get(at + 1).is_none_or(|next| !self.is_content(next)) {
                body.insert(at + 1, self.indented_as(&body[at]));
            }
        } else {
            return Err(StateError::new(
                "Wrong conditions? Unable to ensure line without knowing where to put it before and/or after.",
            ));
        }
        Ok(())
    }

    fn is_content(&self, line: &str) -> bool {
        let ends = ['\r', '\n'];
        line.trim_end_matches(ends) == self.content.trim_end_matches(ends)
    }

    /// The content with the indentation of another line.
    fn indented_as(&self, other: &str) -> String {
        if !self.indent {
            return self.content.clone();
        }
        let indent = &other[..other.len() - other.trim_start_matches(['\t', ' ']).len()];
        format!("{indent}{}", self.content.trim_start_matches(is_space))
    }
}

impl TextEditor for FileLineState {
    fn edit(&self, old: Option<&str>, _: &StateCtx<'_>) -> Result<EditResult, StateError> {
        let old = old.unwrap_or_default();
        let new = self.transform(old)?;
        Ok(EditResult::from_texts(old, new, self.show_changes, LineEnds::Unicode, "Changes would be made"))
    }

    fn on_missing_file(&self) -> MissingFile {
        if self.create {
            return MissingFile::Create { makedirs: false, empty: true, would: None };
        }
        MissingFile::Fail(format!("{}: file not found", self.name))
    }

    fn backup(&self) -> EditBackup {
        if self.backup { EditBackup::Time } else { EditBackup::None }
    }

    fn accepts_binary(&self) -> bool {
        true
    }
}

/// Lines that a pattern was found in; nothing when there was no pattern, or no line to look at.
type LineMatches = Option<Vec<String>>;

fn matched_lines(found: LineMatches) -> Vec<String> {
    found.unwrap_or_default()
}

fn find_lines(body: &[String], pattern: Option<&str>) -> Result<LineMatches, StateError> {
    let Some(pattern) = pattern.filter(|p| !p.is_empty() && !body.is_empty()) else { return Ok(None) };
    let flags = RegexFlags { dot_all: true, ..RegexFlags::default() };
    let longest = body.iter().max_by_key(|line| line.len()).map_or("", String::as_str);
    let regex = PythonRegex::new(pattern, flags, longest)?;
    let mut found = Vec::new();
    for line in body {
        if line.contains(pattern) || regex.is_match(line)? {
            found.push(line.clone());
        }
    }
    Ok(Some(found))
}

/// Where the one line stands; of several, nobody knows which is meant.
fn single_index(body: &[String], found: &[String], what: &str) -> Result<usize, StateError> {
    let place = found.first().and_then(|line| body.iter().position(|l| l == line));
    let words =
        |which| StateError::new(format!("Found {which} expected occurrences in \"{what}\" expression"));
    match (place, found.len()) {
        (Some(at), 1) => Ok(at),
        (_, 0) | (None, _) => Err(words("less than")),
        _ => Err(words("more than")),
    }
}

/// The line above; above the first one stands the last, as in Python.
const fn previous_index(body: &[String], at: usize) -> usize {
    if at > 0 { at - 1 } else { body.len() - 1 }
}

fn line_end(line: &str) -> &str {
    if line.ends_with("\r\n") {
        return "\r\n";
    }
    if line.ends_with('\n') {
        return "\n";
    }
    if line.ends_with('\r') { "\r" } else { "" }
}

fn with_line_end(other: &str, line: &str) -> String {
    let end = match line_end(other) {
        "" => "\n",
        end => end,
    };
    format!("{}{end}", line.trim_end_matches(is_space))
}
