//! `file.append` and `file.prepend`: texts that a file should hold, at its end or at its start.
//!
//! Law: a text that is in the file already, whatever the space between its words, is not written again.

use zagent_config::{Map, Value};

use super::diff::unified;
use super::edited::{Absent, Change, Edit, Editor, Said};
use super::pattern::{Flags, Pattern};
use super::sources::Texts;
use super::text::{Ends, bare_lines, lines};
use crate::states::{Args, Failure, Scene};

/// Where texts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
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
pub(super) struct Insert {
    name: String,
    place: Place,
    texts: Texts,
    makedirs: bool,
    show_changes: bool,
}

impl Insert {
    /// Reads `file.append`.
    pub(super) fn append(name: String, args: &Args<'_>) -> Result<Self, Failure> {
        Self::read(name, args, Place::End { loose: args.flag("ignore_whitespace", true) })
    }

    /// Reads `file.prepend`.
    pub(super) fn prepend(name: String, args: &Args<'_>) -> Result<Self, Failure> {
        Self::read(name, args, Place::Start { header: args.flag("header", false) })
    }

    fn read(name: String, args: &Args<'_>, place: Place) -> Result<Self, Failure> {
        let texts = Texts::read(args)?;
        let (makedirs, show_changes) = (args.flag("makedirs", false), args.flag("show_changes", true));
        Ok(Self { name, place, texts, makedirs, show_changes })
    }
}

impl Editor for Insert {
    fn edit(&self, old: Option<&str>, scene: &Scene<'_>) -> Result<Edit, Failure> {
        let old = old.unwrap_or_default();
        let texts = match self.texts.load(scene)? {
            Some(texts) => texts,
            None => texts_of(self.texts.given.as_ref())?,
        };
        insert(old, &texts, self.place, &self.name, self.show_changes)
    }

    fn texts(&self) -> Option<&Texts> {
        Some(&self.texts)
    }

    fn absent(&self) -> Absent {
        let mut changes = Map::new();
        changes.insert("new", self.name.clone());
        let comment = format!("File {} is set to be created", self.name);
        Absent::Made { makedirs: self.makedirs, empty: true, would: Some(Said { comment, changes }) }
    }
}

/// A text, or a list of texts; anything else as Python writes it.
fn texts_of(given: Option<&Value>) -> Result<Vec<String>, Failure> {
    let text = |v: &Value| v.as_str().map_or_else(|| zagent_compiler::yaml::python_str(v), str::to_owned);
    match given {
        None => Err(Failure::new("No text found to append. Nothing appended")),
        Some(Value::List(items)) => Ok(items.iter().map(text).collect()),
        Some(other) => Ok(vec![text(other)]),
    }
}

/// Puts texts into a text.
///
/// # Errors
/// Fails when a text that is searched for as a pattern is none.
pub(super) fn insert(
    old: &str,
    texts: &[String],
    place: Place,
    name: &str,
    show_changes: bool,
) -> Result<Edit, Failure> {
    let mut fresh: Vec<&str> = Vec::new();
    for text in texts {
        let is_there = match place {
            Place::End { loose: true } | Place::Start { header: false } => holds(old, text),
            Place::End { loose: false } => Pattern::new(text, Flags::LINES, old)?.is_found(old)?,
            Place::Start { header: true } => false,
        };
        if !is_there {
            fresh.extend(bare_lines(text));
        }
    }
    if place == (Place::Start { header: true }) {
        let head = bare_lines(old);
        if head.get(..fresh.len()) == Some(&fresh[..]) {
            fresh.clear();
        }
    }
    if fresh.is_empty() {
        return Ok(Edit::Right(format!("File {name} is in correct state")));
    }
    let block: String = fresh.iter().map(|line| format!("{line}\n")).collect();
    let (new, verb) = match place {
        Place::End { .. } if old.is_empty() || old.ends_with('\n') => (format!("{old}{block}"), "Appended"),
        Place::End { .. } => (format!("{old}\n{block}"), "Appended"),
        Place::Start { .. } => (format!("{block}{old}"), "Prepended"),
    };
    let diff = match place {
        _ if !show_changes => "<show_changes=False>".to_owned(),
        Place::End { .. } => unified(&bare_lines(old), &bare_lines(&new)).join("\n"),
        Place::Start { .. } => unified(&lines(old, Ends::Unicode), &lines(&new, Ends::Unicode)).concat(),
    };
    Ok(Edit::Change(Change {
        new,
        would: Said::diff(format!("File {name} is set to be updated"), diff.clone()),
        did: Said::diff(format!("{verb} {} lines", fresh.len()), diff),
        failed: false,
    }))
}

/// True when some lines of a text are the words of another, one after the other, whatever the space between and around them.
fn holds(text: &str, wanted: &str) -> bool {
    let words: Vec<String> = bare_lines(wanted).into_iter().flat_map(|line| words(line, wanted)).collect();
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
fn words(line: &str, whole: &str) -> Vec<String> {
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
            assert_eq!(holds(text, wanted), found, "{wanted:?} in {text:?}");
        }
    }
}
