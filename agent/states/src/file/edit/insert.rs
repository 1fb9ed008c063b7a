//! `file.append` and `file.prepend`: texts that a file should hold, at its end or at its start.
//!
//! Law: a text that is in the file already, whatever the space between its words, is not written again (held by
//! `words_are_found_whatever_the_space`).

use zagent_config::{Map, Value};

use super::diff::unified_diff;
use super::editor::{EditChange, EditReport, EditResult, MissingFile, TextEditor};
use super::python_regex::{PythonRegex, RegexFlags};
use super::text::{LineEnds, lines, lines_without_ends};
use super::texts::EditTexts;
use crate::{ChunkArgs, StateCtx, StateError};

/// Where texts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InsertPlace {
    /// After the last line; `loose` when the space between words does not count.
    End {
        /// The space between words does not count.
        loose: bool,
    },
    /// Before the first line; `header` when they must be the first lines and not just somewhere in the file.
    Start {
        /// They must be the first lines.
        header: bool,
    },
}

/// Texts that a file should hold.
pub(crate) struct FileInsert {
    name: String,
    place: InsertPlace,
    texts: EditTexts,
    makedirs: bool,
    show_changes: bool,
}

impl FileInsert {
    /// Reads `file.append`.
    pub(crate) fn append(name: String, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        Self::read(name, args, InsertPlace::End { loose: args.flag("ignore_whitespace", true) })
    }

    /// Reads `file.prepend`.
    pub(crate) fn prepend(name: String, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        Self::read(name, args, InsertPlace::Start { header: args.flag("header", false) })
    }

    fn read(name: String, args: &ChunkArgs<'_>, place: InsertPlace) -> Result<Self, StateError> {
        let texts = EditTexts::read(args)?;
        let (makedirs, show_changes) = (args.flag("makedirs", false), args.flag("show_changes", true));
        Ok(Self { name, place, texts, makedirs, show_changes })
    }
}

impl TextEditor for FileInsert {
    fn edit(&self, old: Option<&str>, ctx: &StateCtx<'_>) -> Result<EditResult, StateError> {
        let old = old.unwrap_or_default();
        let texts = match self.texts.load_sources(ctx)? {
            Some(texts) => texts,
            None => texts_of(self.texts.given.as_ref())?,
        };
        insert_texts(old, &texts, self.place, &self.name, self.show_changes)
    }

    fn texts(&self) -> Option<&EditTexts> {
        Some(&self.texts)
    }

    fn on_missing_file(&self) -> MissingFile {
        let mut changes = Map::new();
        changes.insert("new", self.name.clone());
        let comment = format!("File {} is set to be created", self.name);
        MissingFile::Create {
            makedirs: self.makedirs,
            empty: true,
            would: Some(EditReport { comment, changes }),
        }
    }
}

/// A text, or a list of texts; anything else as Python writes it.
fn texts_of(given: Option<&Value>) -> Result<Vec<String>, StateError> {
    let text = |v: &Value| v.as_str().map_or_else(|| zagent_config::value::python_str(v), str::to_owned);
    match given {
        None => Err(StateError::new("No text found to append. Nothing appended")),
        Some(Value::List(items)) => Ok(items.iter().map(text).collect()),
        Some(other) => Ok(vec![text(other)]),
    }
}

/// Puts texts into a text.
///
/// # Errors
/// Fails when a text that is searched for as a pattern is none.
pub(crate) fn insert_texts(
    old: &str,
    texts: &[String],
    place: InsertPlace,
    name: &str,
    show_changes: bool,
) -> Result<EditResult, StateError> {
    let mut fresh: Vec<&str> = Vec::new();
    for text in texts {
        let is_there = match place {
            InsertPlace::End { loose: true } | InsertPlace::Start { header: false } => {
                contains_lines(old, text)
            }
            InsertPlace::End { loose: false } => {
                PythonRegex::new(text, RegexFlags::LINES, old)?.is_match(old)?
            }
            InsertPlace::Start { header: true } => false,
        };
        if !is_there {
            fresh.extend(lines_without_ends(text));
        }
    }
    if place == (InsertPlace::Start { header: true }) {
        let head = lines_without_ends(old);
        if head.get(..fresh.len()) == Some(&fresh[..]) {
            fresh.clear();
        }
    }
    if fresh.is_empty() {
        return Ok(EditResult::Unchanged(format!("File {name} is in correct state")));
    }
    let block: String = fresh.iter().map(|line| format!("{line}\n")).collect();
    let (new, verb) = match place {
        InsertPlace::End { .. } if old.is_empty() || old.ends_with('\n') => {
            (format!("{old}{block}"), "Appended")
        }
        InsertPlace::End { .. } => (format!("{old}\n{block}"), "Appended"),
        InsertPlace::Start { .. } => (format!("{block}{old}"), "Prepended"),
    };
    let diff = match place {
        _ if !show_changes => "<show_changes=False>".to_owned(),
        InsertPlace::End { .. } => {
            unified_diff(&lines_without_ends(old), &lines_without_ends(&new)).join("\n")
        }
        InsertPlace::Start { .. } => {
            unified_diff(&lines(old, LineEnds::Unicode), &lines(&new, LineEnds::Unicode)).concat()
        }
    };
    Ok(EditResult::Change(EditChange {
        new,
        predicted: EditReport::with_diff(format!("File {name} is set to be updated"), diff.clone()),
        applied: EditReport::with_diff(format!("{verb} {} lines", fresh.len()), diff),
        failed: false,
    }))
}

/// True when some lines of a text are the words of another, one after the other, whatever the space between and around them.
fn contains_lines(text: &str, wanted: &str) -> bool {
    let words: Vec<String> =
        lines_without_ends(wanted).into_iter().flat_map(|line| split_words(line, wanted)).collect();
    let is_blank = |part: &str| part.chars().all(is_byte_space);
    let Some(first) = words.first() else { return text.split('\n').any(is_blank) };
    let mut from = 0;
    while let Some(at) = text[from..].find(first.as_str()) {
        let start = from + at;
        let line_start = text[..start].rfind('\n').map_or(0, |end| end + 1);
        let mut rest = &text[start..];
        let mut follows = |word: &String| {
            let found = rest.trim_start_matches(is_byte_space).strip_prefix(word.as_str());
            rest = found.unwrap_or(rest);
            found.is_some()
        };
        if is_blank(&text[line_start..start])
            && words.iter().all(&mut follows)
            && is_blank(rest.split('\n').next().unwrap_or_default())
        {
            return true;
        }
        from = start + first.chars().next().map_or(1, char::len_utf8);
    }
    false
}

const fn is_byte_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}

/// The words of a line; one that starts with a quote goes up to the next one. Which quotes count depends on the whole text:
/// one that stands in it as an apostrophe does not.
fn split_words(line: &str, whole: &str) -> Vec<String> {
    let quotes: &[char] = match () {
        () if whole.contains("'\\\"") => &[],
        () if whole.contains('\'') => &['"'],
        () if whole.contains('"') => &['\''],
        () => &['\'', '"'],
    };
    let is_gap = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut words = Vec::new();
    let mut rest = line.trim_start_matches(is_gap);
    while let Some(c) = rest.chars().next() {
        let end = if quotes.contains(&c) {
            rest[1..].find(c).map_or(rest.len(), |at| at + 2)
        } else {
            rest.find(is_gap).unwrap_or(rest.len())
        };
        words.push(rest[..end].to_owned());
        rest = rest[end..].trim_start_matches(is_gap);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whatever_the_space() {
        for (text, wanted, found) in [
            ("a  b\nc", "a b c", true),
            ("a  b\nc", "a c", false),
            ("if [ -z \"$x\" ]; then", "if [ -z \"$x\" ];\n  then", true),
            ("ab", "a b", true),
            ("key", "y", false),
            ("# foo", "foo", false),
            ("foo # it is", "foo", false),
            ("x\n\t foo \nx", "foo", true),
            ("anything", "", false),
            ("anything\n", "", true),
            ("a\n \nb", "\n", true),
            ("", "x", false),
            ("it's fine", "it's   fine", true),
            ("say \"a  b\" now", "say \"a b\" now", true),
            ("'a b' c", "'a  b' c", true),
            ("größe", "größe", true),
        ] {
            assert_eq!(contains_lines(text, wanted), found, "{wanted:?} in {text:?}");
        }
    }
}
