//! `file.line`: one line, found by what stands in it or beside it, is put there, replaced or taken away.
//!
//! Law: Salt's own rules, odd ones included: `delete` takes the lines equal to the first match, `replace` the first match alone.

use super::edited::{Absent, Backup, Edit, Editor};
use super::pattern::{Flags, Pattern};
use super::text::{Ends, is_space, lines};
use crate::states::{Args, Failure, Scene};

/// What is done with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
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
pub(super) enum Location {
    /// Before all.
    Start,
    /// After all.
    End,
    /// Some other word: nowhere.
    Nowhere,
}

/// The parameters of an edit.
#[derive(Clone, Debug)]
pub(super) struct Line {
    name: String,
    content: String,
    find: Option<String>,
    mode: Mode,
    location: Option<Location>,
    before: Option<String>,
    after: Option<String>,
    indent: bool,
    show_changes: bool,
    backup: bool,
    create: bool,
}

impl Line {
    /// Reads `file.line`.
    pub(super) fn read(name: String, args: &Args<'_>) -> Result<Self, Failure> {
        let mode = args.text("mode")?.map(|m| m.to_lowercase());
        let mode = match mode.as_deref() {
            Some("ensure") => Mode::Ensure,
            Some("insert") => Mode::Insert,
            Some("replace") => Mode::Replace,
            Some("delete") => Mode::Delete,
            None => return Err(Failure::new("Mode was not defined. How to process the file?")),
            Some(other) => return Err(Failure::new(format!("Unknown mode: \"{other}\""))),
        };
        let content = args.text("content")?;
        if content.is_none() && mode != Mode::Delete {
            return Err(Failure::new("Content can only be empty if mode is ['delete']"));
        }
        let (before, after) = (args.text("before")?, args.text("after")?);
        let given = args.text("match")?.filter(|m| !m.is_empty());
        let find = given.or_else(|| if before.is_none() && after.is_none() { content.clone() } else { None });
        let location = args.text("location")?.filter(|l| !l.is_empty()).map(|l| match &*l {
            "start" => Location::Start,
            "end" => Location::End,
            _ => Location::Nowhere,
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
    pub(super) fn transform(&self, old: &str) -> Result<String, Failure> {
        let mut body: Vec<String> = lines(old, Ends::Universal).into_iter().map(str::to_owned).collect();
        if body.last().is_some_and(|line| !end_of(line).is_empty()) {
            body.push(String::new());
        }
        let mut body = self.set(body)?;
        for i in 0..body.len().saturating_sub(1) {
            if end_of(&body[i]).is_empty() {
                let neighbour = if i > 1 { i - 1 } else { 1 };
                body[i] = with_end_of(&body[neighbour], &body[i]);
            }
        }
        Ok(body.concat())
    }

    fn set(&self, mut body: Vec<String>) -> Result<Vec<String>, Failure> {
        let after = matching(&body, self.after.as_deref())?;
        let before = matching(&body, self.before.as_deref())?;
        let found = matching(&body, self.find.as_deref())?;
        let first = found.as_ref().and_then(|f| f.first());
        match (self.mode, first) {
            (Mode::Delete, Some(line)) => body.retain(|l| l != line),
            (Mode::Replace, Some(line)) => {
                if let Some(at) = body.iter().position(|l| l == line) {
                    body[at] = self.indented_as(&body[at]);
                }
            }
            (Mode::Delete | Mode::Replace, None) => {}
            (Mode::Insert, _) => self.insert(&mut body, before, after)?,
            (Mode::Ensure, _) => self.ensure(&mut body, before, after)?,
        }
        Ok(body)
    }

    fn insert(&self, body: &mut Vec<String>, before: Found, after: Found) -> Result<(), Failure> {
        if let Some(location) = self.location {
            match (location, body.is_empty()) {
                (Location::End, true) => body.push(self.content.clone()),
                (Location::End, false) => body.push(self.indented_as(&body[body.len() - 1])),
                (Location::Start, true) => body.push(format!("{}\n", self.content)),
                (Location::Start, false) => body.insert(0, with_end_of(&body[0], &self.content)),
                (Location::Nowhere, _) => {}
            }
            return Ok(());
        }
        if before.is_none() && after.is_none() {
            return Err(Failure::new(
                "On insert either \"location\" or \"before/after\" conditions are required.",
            ));
        }
        let (before, after) = (hits(before), hits(after));
        if !before.is_empty() && !after.is_empty() {
            let last = only(body, &before, "before")?;
            only(body, &after, "after")?;
            body.insert(last, self.indented_as(&body[last]));
        } else if !after.is_empty() {
            let at = only(body, &after, "after")?;
            if body.get(at + 1).is_none_or(|next| !self.is_content(next)) {
                body.insert(at + 1, self.indented_as(&body[at]));
            }
        } else if !before.is_empty() {
            let at = only(body, &before, "before")?;
            if !self.is_content(&body[previous(body, at)]) {
                body.insert(at, self.indented_as(&body[at]));
            }
        } else {
            return Err(Failure::new("Neither before or after was found in file"));
        }
        Ok(())
    }

    fn ensure(&self, body: &mut Vec<String>, before: Found, after: Found) -> Result<(), Failure> {
        let (before, after) = (hits(before), hits(after));
        if !before.is_empty() && !after.is_empty() {
            let above = only(body, &after, "after")?;
            let below = only(body, &before, "before")?;
            if body.iter().any(|l| l.trim_start_matches(is_space) == self.content) {
                return Ok(());
            }
            let line = self.indented_as(&body[above]);
            if above + 1 == below {
                body.insert(below, line);
            } else if above + 2 == below {
                body[above + 1] = line;
            } else {
                return Err(Failure::new(
                    "Found more than one line between boundaries \"before\" and \"after\".",
                ));
            }
        } else if !before.is_empty() {
            let at = only(body, &before, "before")?;
            if at == 0 || !self.is_content(&body[at - 1]) {
                body.insert(at, self.indented_as(&body[previous(body, at)]));
            }
        } else if !after.is_empty() {
            let at = only(body, &after, "after")?;
            if body.get(at + 1).is_none_or(|next| !self.is_content(next)) {
                body.insert(at + 1, self.indented_as(&body[at]));
            }
        } else {
            return Err(Failure::new(
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

impl Editor for Line {
    fn edit(&self, old: Option<&str>, _: &Scene<'_>) -> Result<Edit, Failure> {
        let old = old.unwrap_or_default();
        let new = self.transform(old)?;
        Ok(Edit::of(old, new, self.show_changes, Ends::Unicode, "Changes would be made"))
    }

    fn absent(&self) -> Absent {
        if self.create {
            return Absent::Made { makedirs: false, empty: true, would: None };
        }
        Absent::Fails(format!("{}: file not found", self.name))
    }

    fn backup(&self) -> Backup {
        if self.backup { Backup::Time } else { Backup::None }
    }

    fn takes_any(&self) -> bool {
        true
    }
}

/// Lines that a pattern was found in; nothing when there was no pattern, or no line to look at.
type Found = Option<Vec<String>>;

fn hits(found: Found) -> Vec<String> {
    found.unwrap_or_default()
}

fn matching(body: &[String], pattern: Option<&str>) -> Result<Found, Failure> {
    let Some(pattern) = pattern.filter(|p| !p.is_empty() && !body.is_empty()) else { return Ok(None) };
    let flags = Flags { dot_all: true, ..Flags::default() };
    let longest = body.iter().max_by_key(|line| line.len()).map_or("", String::as_str);
    let regex = Pattern::new(pattern, flags, longest)?;
    let mut found = Vec::new();
    for line in body {
        if line.contains(pattern) || regex.is_found(line)? {
            found.push(line.clone());
        }
    }
    Ok(Some(found))
}

/// Where the one line stands; of several, nobody knows which is meant.
fn only(body: &[String], found: &[String], what: &str) -> Result<usize, Failure> {
    let place = found.first().and_then(|line| body.iter().position(|l| l == line));
    let words = |which| Failure::new(format!("Found {which} expected occurrences in \"{what}\" expression"));
    match (place, found.len()) {
        (Some(at), 1) => Ok(at),
        (_, 0) | (None, _) => Err(words("less than")),
        _ => Err(words("more than")),
    }
}

/// The line above; above the first one stands the last, as in Python.
const fn previous(body: &[String], at: usize) -> usize {
    if at > 0 { at - 1 } else { body.len() - 1 }
}

fn end_of(line: &str) -> &str {
    if line.ends_with("\r\n") {
        return "\r\n";
    }
    if line.ends_with('\n') {
        return "\n";
    }
    if line.ends_with('\r') { "\r" } else { "" }
}

fn with_end_of(other: &str, line: &str) -> String {
    let end = match end_of(other) {
        "" => "\n",
        end => end,
    };
    format!("{}{end}", line.trim_end_matches(is_space))
}
