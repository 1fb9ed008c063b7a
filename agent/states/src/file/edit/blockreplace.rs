//! `file.blockreplace`: what stands between two marks is ours, the rest of the file is not.
//!
//! Law: a start mark without an end mark after it is a failure; nothing is cut off then (held by
//! `edits_do_and_say_what_salts_do`).

use zagent_config::Value;

use super::accumulated;
use super::editor::{EditBackup, EditResult, MissingFile, TextEditor, is_salt};
use super::python_regex::{PythonRegex, RegexFlags};
use super::text::{LineEnds, lines};
use super::texts::EditTexts;
use crate::{ChunkArgs, StateCtx, StateError};

/// Where a block goes that is not there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlockNotFound {
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
pub(crate) struct BlockMarkers {
    start: String,
    end: String,
    not_found: BlockNotFound,
    /// Whether the end mark stands on a line of its own; by default when the content has no line end at its end.
    append_newline: Option<bool>,
    /// True to join an inserted block to an unfinished last line, as Salt does.
    exact: bool,
}

/// The parameters of an edit.
pub(crate) struct FileBlockreplace {
    name: String,
    id: String,
    markers: BlockMarkers,
    content: String,
    texts: EditTexts,
    backup: EditBackup,
    show_changes: bool,
}

impl FileBlockreplace {
    /// Reads `file.blockreplace`.
    pub(crate) fn read(name: String, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let text = |key, default: &str| args.text(key).map(|t| t.unwrap_or_else(|| default.to_owned()));
        let append_newline = args.get("append_newline").map(Value::is_truthy);
        let marks = BlockMarkers {
            start: text("marker_start", "#-- start managed zone --")?,
            end: text("marker_end", "#-- end managed zone --")?,
            not_found: not_found(args)?,
            append_newline,
            exact: false,
        };
        let backup = match args.chunk.args.get("backup") {
            None => EditBackup::Suffix(".bak".into()),
            Some(Value::Str(suffix)) => EditBackup::Suffix(suffix.to_string()),
            Some(Value::Bool(true)) => EditBackup::Suffix("True".into()),
            Some(_) => EditBackup::None,
        };
        let (content, show_changes) = (text("content", "")?, args.flag("show_changes", true));
        let (id, texts) = (args.chunk.id.to_string(), EditTexts::read(args)?);
        Ok(Self { name, id, markers: marks, content, texts, backup, show_changes })
    }

    /// The content: what is given, what was accumulated, what the sources say.
    fn content(&self, ctx: &StateCtx<'_>) -> Result<String, StateError> {
        let mut content = self.content.clone();
        for line in accumulated::texts_for_state(ctx, &self.name, &self.id) {
            if !content.is_empty() {
                content.push('\n');
            }
            content.push_str(&line);
        }
        content.extend(self.texts.load_sources(ctx)?.unwrap_or_default());
        Ok(content)
    }
}

fn not_found(args: &ChunkArgs<'_>) -> Result<BlockNotFound, StateError> {
    let mut all = Vec::new();
    if args.flag("append_if_not_found", false) {
        all.push(BlockNotFound::End);
    }
    if args.flag("prepend_if_not_found", false) {
        all.push(BlockNotFound::Start);
    }
    for (key, make) in [
        ("insert_before_match", BlockNotFound::Before as fn(String) -> BlockNotFound),
        ("insert_after_match", BlockNotFound::After),
    ] {
        match args.get(key).filter(|v| v.is_truthy()) {
            None => {}
            Some(Value::Str(pattern)) => all.push(make(pattern.to_string())),
            Some(_) => return Err(salt_error(&format!("RegEx expected in {key} parameter."))),
        }
    }
    if all.len() > 1 {
        return Err(salt_error(
            "Only one of append_if_not_found, prepend_if_not_found, insert_before_match, and insert_after_match is \
             permitted",
        ));
    }
    Ok(all.pop().unwrap_or(BlockNotFound::Fails))
}

fn salt_error(words: &str) -> StateError {
    StateError::new(format!("Encountered error managing block: {words}. See the log for details."))
}

impl BlockMarkers {
    /// Puts the content between the marks.
    ///
    /// # Errors
    /// Fails with Salt's words when the marks are not there, or one of them is not.
    pub(crate) fn transform(&self, old: &str, content: &str) -> Result<String, StateError> {
        let old = lines(old, LineEnds::Universal);
        let end = old.first().map_or("\n", |line| if line.ends_with("\r\n") { "\r\n" } else { "\n" });
        let mut new: Vec<String> = Vec::with_capacity(old.len() + 4);
        let (mut inside, mut found) = (false, false);
        for line in &old {
            if line.contains(&self.start) {
                inside = true;
            } else if inside {
                if let Some(at) = line.find(&self.end) {
                    (inside, found) = (false, true);
                    new.extend(self.block_lines(content, end, &line[at..]));
                }
                continue;
            }
            new.push((*line).to_owned());
        }
        if inside {
            return Err(salt_error("Unterminated marked block. End of file reached before marker_end."));
        }
        if !found {
            self.insert_block(&mut new, content, end)?;
        }
        Ok(new.concat())
    }

    /// Puts a whole block into a text that has none.
    fn insert_block(&self, new: &mut Vec<String>, content: &str, end: &str) -> Result<(), StateError> {
        let missing = || salt_error("Cannot edit marked block. Markers were not found in file.");
        let at = match &self.not_found {
            BlockNotFound::Fails => return Err(missing()),
            BlockNotFound::Start => 0,
            BlockNotFound::End => new.len(),
            BlockNotFound::Before(pattern) => first_match(new, pattern)?.ok_or_else(missing)?,
            BlockNotFound::After(pattern) => first_match(new, pattern)?.ok_or_else(missing)? + 1,
        };
        let finishes = self.not_found == BlockNotFound::End || (!self.exact && at > 0);
        if finishes && let Some(last) = at.checked_sub(1).and_then(|above| new.get_mut(above)) {
            let ends: &[&str] = if self.exact { &[end] } else { &[end, "\n", "\r"] };
            if !ends.iter().any(|e| last.ends_with(e)) {
                last.push_str(end);
            }
        }
        let mut block = vec![format!("{}{end}", self.start)];
        block.extend(self.block_lines(content, end, &self.end));
        new.splice(at..at, block);
        Ok(())
    }

    /// The lines after the start mark: the content, and the end mark with what stood behind it.
    fn block_lines(&self, content: &str, end: &str, end_line: &str) -> Vec<String> {
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
fn first_match(lines: &[String], pattern: &str) -> Result<Option<usize>, StateError> {
    let longest = lines.iter().max_by_key(|line| line.len()).map_or("", String::as_str);
    let wrap = |failure: StateError| salt_error(&failure.result.comment);
    let regex = PythonRegex::new(pattern, RegexFlags::default(), longest).map_err(wrap)?;
    for (at, line) in lines.iter().enumerate() {
        if regex.is_match(line).map_err(wrap)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

impl TextEditor for FileBlockreplace {
    fn edit(&self, old: Option<&str>, ctx: &StateCtx<'_>) -> Result<EditResult, StateError> {
        let old = old.unwrap_or_default();
        let marks = BlockMarkers { exact: is_salt(ctx), ..self.markers.clone() };
        let new = marks.transform(old, &self.content(ctx)?)?;
        Ok(EditResult::from_texts(old, new, self.show_changes, LineEnds::Universal, "Changes would be made"))
    }

    fn texts(&self) -> Option<&EditTexts> {
        Some(&self.texts)
    }

    fn on_missing_file(&self) -> MissingFile {
        MissingFile::Fail(format!("{}: file not found", self.name))
    }

    fn backup(&self) -> EditBackup {
        self.backup.clone()
    }

    fn accepts_binary(&self) -> bool {
        true
    }
}
