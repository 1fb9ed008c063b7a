//! `file.blockreplace`: what stands between two marks is ours, the rest of the file is not.
//!
//! Law: a start mark without an end mark after it is a failure; nothing is cut off then.

use zagent_config::Value;

use super::accumulated;
use super::edited::{Absent, Backup, Edit, Editor, is_salt};
use super::pattern::{Flags, Pattern};
use super::sources::Texts;
use super::text::{Ends, lines};
use crate::states::{Args, Failure, Scene};

/// Where a block goes that is not there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// It has to be there.
    Fails,
    /// After the last line.
    End,
    /// Before the first line.
    Start,
    /// Before the first line that a pattern finds.
    Before(String),
    /// After the first line that a pattern finds.
    After(String),
}

/// The marks, and where the block goes.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    start: String,
    end: String,
    not_found: NotFound,
    /// Whether the end mark stands on a line of its own; by default when the content has no line end at its end.
    append_newline: Option<bool>,
    /// True to join an inserted block to an unfinished last line, as Salt does.
    exact: bool,
}

/// The parameters of an edit.
pub(super) struct Block {
    name: String,
    id: String,
    marks: Marks,
    content: String,
    texts: Texts,
    backup: Backup,
    show_changes: bool,
}

impl Block {
    /// Reads `file.blockreplace`.
    pub(super) fn read(name: String, args: &Args<'_>) -> Result<Self, Failure> {
        let text = |key, default: &str| args.text(key).map(|t| t.unwrap_or_else(|| default.to_owned()));
        let append_newline = args.get("append_newline").map(Value::is_truthy);
        let marks = Marks {
            start: text("marker_start", "#-- start managed zone --")?,
            end: text("marker_end", "#-- end managed zone --")?,
            not_found: not_found(args)?,
            append_newline,
            exact: false,
        };
        let backup = match args.chunk.args.get("backup") {
            None => Backup::Suffix(".bak".into()),
            Some(Value::Str(suffix)) => Backup::Suffix(suffix.to_string()),
            Some(Value::Bool(true)) => Backup::Suffix("True".into()),
            Some(_) => Backup::None,
        };
        let (content, show_changes) = (text("content", "")?, args.flag("show_changes", true));
        let (id, texts) = (args.chunk.id.to_string(), Texts::read(args)?);
        Ok(Self { name, id, marks, content, texts, backup, show_changes })
    }

    /// The content: what is given, what was accumulated, what the sources say.
    fn content(&self, scene: &Scene<'_>) -> Result<String, Failure> {
        let mut content = self.content.clone();
        for line in accumulated::for_state(scene, &self.name, &self.id) {
            if !content.is_empty() {
                content.push('\n');
            }
            content.push_str(&line);
        }
        content.extend(self.texts.load(scene)?.unwrap_or_default());
        Ok(content)
    }
}

fn not_found(args: &Args<'_>) -> Result<NotFound, Failure> {
    let mut all = Vec::new();
    if args.flag("append_if_not_found", false) {
        all.push(NotFound::End);
    }
    if args.flag("prepend_if_not_found", false) {
        all.push(NotFound::Start);
    }
    for (key, make) in [
        ("insert_before_match", NotFound::Before as fn(String) -> NotFound),
        ("insert_after_match", NotFound::After),
    ] {
        match args.get(key).filter(|v| v.is_truthy()) {
            None => {}
            Some(Value::Str(pattern)) => all.push(make(pattern.to_string())),
            Some(_) => return Err(told(&format!("RegEx expected in {key} parameter."))),
        }
    }
    if all.len() > 1 {
        return Err(told(
            "Only one of append_if_not_found, prepend_if_not_found, insert_before_match, and insert_after_match is \
             permitted",
        ));
    }
    Ok(all.pop().unwrap_or(NotFound::Fails))
}

fn told(words: &str) -> Failure {
    Failure::new(format!("Encountered error managing block: {words}. See the log for details."))
}

impl Marks {
    /// Puts the content between the marks.
    ///
    /// # Errors
    /// Fails with Salt's words when the marks are not there, or one of them is not.
    pub(super) fn transform(&self, old: &str, content: &str) -> Result<String, Failure> {
        let old = lines(old, Ends::Universal);
        let end = old.first().map_or("\n", |line| if line.ends_with("\r\n") { "\r\n" } else { "\n" });
        let mut new: Vec<String> = Vec::with_capacity(old.len() + 4);
        let (mut inside, mut found) = (false, false);
        for line in &old {
            if line.contains(&self.start) {
                inside = true;
            } else if inside {
                if let Some(at) = line.find(&self.end) {
                    (inside, found) = (false, true);
                    new.extend(self.body(content, end, &line[at..]));
                }
                continue;
            }
            new.push((*line).to_owned());
        }
        if inside {
            return Err(told("Unterminated marked block. End of file reached before marker_end."));
        }
        if !found {
            self.insert(&mut new, content, end)?;
        }
        Ok(new.concat())
    }

    /// Puts a whole block into a text that has none.
    fn insert(&self, new: &mut Vec<String>, content: &str, end: &str) -> Result<(), Failure> {
        let missing = || told("Cannot edit marked block. Markers were not found in file.");
        let at = match &self.not_found {
            NotFound::Fails => return Err(missing()),
            NotFound::Start => 0,
            NotFound::End => new.len(),
            NotFound::Before(pattern) => first(new, pattern)?.ok_or_else(missing)?,
            NotFound::After(pattern) => first(new, pattern)?.ok_or_else(missing)? + 1,
        };
        let finishes = self.not_found == NotFound::End || (!self.exact && at > 0);
        if finishes && let Some(last) = at.checked_sub(1).and_then(|above| new.get_mut(above)) {
            let ends: &[&str] = if self.exact { &[end] } else { &[end, "\n", "\r"] };
            if !ends.iter().any(|e| last.ends_with(e)) {
                last.push_str(end);
            }
        }
        let mut block = vec![format!("{}{end}", self.start)];
        block.extend(self.body(content, end, &self.end));
        new.splice(at..at, block);
        Ok(())
    }

    /// The lines after the start mark: the content, and the end mark with what stood behind it.
    fn body(&self, content: &str, end: &str, end_line: &str) -> Vec<String> {
        let end_line = format!("{}{end}", end_line.trim_end_matches(['\r', '\n']));
        let own_line = self.append_newline.unwrap_or(!content.ends_with('\n'));
        let parts: Vec<&str> = content.split('\n').collect();
        let mut out: Vec<String> = Vec::with_capacity(parts.len() + 1);
        for (i, part) in parts.iter().enumerate() {
            if i + 1 < parts.len() {
                out.push(format!("{}{end}", part.strip_suffix('\r').unwrap_or(part)));
            } else if own_line {
                out.push(format!("{part}{end}"));
                out.push(end_line.clone());
            } else {
                out.push(format!("{part}{end_line}"));
            }
        }
        out
    }
}

/// The first line that a pattern finds.
fn first(lines: &[String], pattern: &str) -> Result<Option<usize>, Failure> {
    let longest = lines.iter().max_by_key(|line| line.len()).map_or("", String::as_str);
    let wrap = |failure: Failure| told(&failure.done.comment);
    let regex = Pattern::new(pattern, Flags::default(), longest).map_err(wrap)?;
    for (at, line) in lines.iter().enumerate() {
        if regex.is_found(line).map_err(wrap)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

impl Editor for Block {
    fn edit(&self, old: Option<&str>, scene: &Scene<'_>) -> Result<Edit, Failure> {
        let old = old.unwrap_or_default();
        let marks = Marks { exact: is_salt(scene), ..self.marks.clone() };
        let new = marks.transform(old, &self.content(scene)?)?;
        Ok(Edit::of(old, new, self.show_changes, Ends::Universal, "Changes would be made"))
    }

    fn texts(&self) -> Option<&Texts> {
        Some(&self.texts)
    }

    fn absent(&self) -> Absent {
        Absent::Fails(format!("{}: file not found", self.name))
    }

    fn backup(&self) -> Backup {
        self.backup.clone()
    }

    fn takes_any(&self) -> bool {
        true
    }
}
