//! `file.comment` and `file.uncomment`: lines that a pattern finds get a comment sign, or lose it.

use super::diff::unified_diff;
use super::editor::{EditBackup, EditChange, EditReport, EditResult, MissingFile, TextEditor};
use super::python_regex::{PythonRegex, RegexFlags};
use super::replace::parse_backup;
use super::text::{LineEnds, lines};
use crate::{ChunkArgs, StateCtx, StateError};

/// The parameters of an edit.
#[derive(Clone, Debug)]
pub(crate) struct FileComment {
    name: String,
    regex: String,
    sign: String,
    backup: EditBackup,
    ignore_missing: bool,
    /// True to put the sign there, false to take it away.
    adds: bool,
}

impl FileComment {
    /// Reads `file.comment` (`adds`) or `file.uncomment`.
    pub(crate) fn read(name: String, args: &ChunkArgs<'_>, adds: bool) -> Result<Self, StateError> {
        let fun = if adds { "comment" } else { "uncomment" };
        let regex = args.text("regex")?;
        let regex =
            regex.ok_or_else(|| StateError::new(format!("Missing parameter regex for state file.{fun}")))?;
        let sign = args.text("char")?.unwrap_or_else(|| "#".into());
        let ignore_missing = adds && args.flag("ignore_missing", false);
        Ok(Self { name, regex, sign, backup: parse_backup(args), ignore_missing, adds })
    }

    /// What becomes of a text.
    ///
    /// # Errors
    /// Fails with Salt's words when the pattern is nowhere, or does not match what it should.
    pub(crate) fn transform(&self, old: &str) -> Result<EditResult, StateError> {
        let found =
            |pattern: &str, text: &str| PythonRegex::new(pattern, RegexFlags::LINES, text)?.is_match(text);
        let Self { regex, sign, .. } = self;
        let (todo, done) = if self.adds {
            let inner = unanchored(regex);
            (format!(r"^(?!\s*{sign})\s*{inner}"), format!("{sign}{inner}"))
        } else {
            let inner = regex.trim_start_matches('^');
            (format!("{sign}[ \t]*{inner}"), format!("^[ \t]*{inner}"))
        };
        let verb = if self.adds { "commented" } else { "uncommented" };
        if !found(&todo, old)? {
            if found(&done, old)? {
                return Ok(EditResult::Unchanged(format!("Pattern already {verb}")));
            }
            if self.ignore_missing {
                return Ok(EditResult::Unchanged("Pattern not found and ignore_missing set to True".into()));
            }
            let told = if self.adds { unanchored(regex) } else { regex };
            return Err(StateError::new(format!("{told}: Pattern not found")));
        }
        let new = self.transform_lines(old)?;
        let failed = !found(&done, &new)?;
        let words = match (failed, self.adds) {
            (true, _) => format!("Expected {verb} lines not found"),
            (false, true) => "Commented lines successfully".to_owned(),
            (false, false) => "Uncommented lines successfully".to_owned(),
        };
        if new == old {
            return if failed { Err(StateError::new(words)) } else { Ok(EditResult::Unchanged(words)) };
        }
        let ends = if self.adds { LineEnds::Unicode } else { LineEnds::Newline };
        let diff = unified_diff(&lines(old, ends), &lines(&new, ends)).concat();
        let mut would = EditReport::comment_only(format!("File {} is set to be updated", self.name));
        would.changes.insert(self.name.as_str(), "updated");
        Ok(EditResult::Change(EditChange {
            new,
            predicted: would,
            applied: EditReport::with_diff(words, diff),
            failed,
        }))
    }

    /// Puts or takes the sign, line by line.
    fn transform_lines(&self, old: &str) -> Result<String, StateError> {
        let Self { regex, sign, .. } = self;
        let inner = regex.trim_start_matches('^').trim_end_matches('$');
        let tail = if regex.ends_with('$') { "$" } else { "" };
        let head = if regex.starts_with('^') { "^" } else { "" };
        let pattern =
            if self.adds { format!("{head}({inner}){tail}") } else { format!(r"^{sign}\s*({inner}){tail}") };
        let pattern = PythonRegex::new(&pattern, RegexFlags::default(), old)?;
        let mut out = String::with_capacity(old.len() + 16);
        for line in lines(old, LineEnds::Newline) {
            if !pattern.matches_at_start(line)? {
                out.push_str(line);
            } else if self.adds {
                out.push_str(sign);
                out.push_str(line);
            } else {
                out.push_str(line.trim_start_matches(|c| sign.contains(c)));
            }
        }
        Ok(out)
    }
}

impl TextEditor for FileComment {
    fn edit(&self, old: Option<&str>, _: &StateCtx<'_>) -> Result<EditResult, StateError> {
        let old = old.unwrap_or_default();
        self.transform(old)
    }

    fn on_missing_file(&self) -> MissingFile {
        MissingFile::Fail(format!("{}: file not found", self.name))
    }

    fn backup(&self) -> EditBackup {
        self.backup.clone()
    }
}

/// A pattern without one leading flag group, `^` and trailing `$`. One with a line break stays as it is.
fn unanchored(regex: &str) -> &str {
    if regex.contains('\n') {
        return regex;
    }
    let flag = regex.strip_prefix("(?").and_then(|r| r.strip_prefix(['i', 'L', 'm', 's', 'u', 'x']));
    let rest = flag.and_then(|r| r.strip_prefix(')')).unwrap_or(regex);
    let rest = rest.strip_prefix('^').unwrap_or(rest);
    rest.strip_suffix('$').unwrap_or(rest)
}
