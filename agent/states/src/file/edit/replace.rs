//! `file.replace`: what a pattern finds becomes something else; what it does not find may be put at an end of the file.

use zagent_config::Value;

use super::editor::{EditBackup, EditResult, MissingFile, TextEditor};
use super::python_regex::{PythonRegex, RegexFlags, ReplacementTemplate, escape};
use super::text::{LineEnds, TextEncoding};
use crate::{ChunkArgs, StateCtx, StateError};

/// Where a text goes that the pattern did not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReplaceNotFound {
    Nowhere,
    End,
    Start,
}

/// The parameters of an edit.
#[derive(Clone, Debug)]
pub(crate) struct FileReplace {
    name: String,
    pattern: String,
    replacement: String,
    template: ReplacementTemplate,
    count: usize,
    flags: RegexFlags,
    not_found: ReplaceNotFound,
    not_found_content: String,
    backup: EditBackup,
    show_changes: bool,
    ignore_if_missing: bool,
    encoding: Option<TextEncoding>,
}

impl FileReplace {
    /// Reads `file.replace`.
    pub(crate) fn read(name: String, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let needed = |key: &str| {
            args.text(key)?
                .ok_or_else(|| StateError::new(format!("Missing parameter {key} for state file.replace")))
        };
        let (pattern, with) = (needed("pattern")?, needed("repl")?);
        let literal = args.flag("backslash_literal", false);
        let template =
            if literal { ReplacementTemplate::literal(&with) } else { ReplacementTemplate::parse(&with)? };
        let not_found =
            match (args.flag("append_if_not_found", false), args.flag("prepend_if_not_found", false)) {
                (true, true) => {
                    return Err(StateError::new("Only one of append and prepend_if_not_found is permitted"));
                }
                (true, false) => ReplaceNotFound::End,
                (false, true) => ReplaceNotFound::Start,
                (false, false) => ReplaceNotFound::Nowhere,
            };
        let encoding = args.text("encoding")?.map(|name| TextEncoding::from_name(&name)).transpose()?;
        let mut flags = args.get("flags").map_or(Ok(RegexFlags::LINES), RegexFlags::from_value)?;
        // With an encoding Salt searches characters, without one bytes.
        flags.ascii = encoding.is_none();
        Ok(Self {
            count: usize::try_from(args.int("count")?.unwrap_or(0)).unwrap_or(0),
            not_found_content: args.text("not_found_content")?.unwrap_or_else(|| with.clone()),
            backup: parse_backup(args),
            show_changes: args.flag("show_changes", true),
            ignore_if_missing: args.flag("ignore_if_missing", false),
            name,
            pattern,
            replacement: with,
            template,
            flags,
            not_found,
            encoding,
        })
    }

    /// Replaces, or adds what was not found.
    ///
    /// # Errors
    /// Fails when the pattern is none, or takes too many steps.
    pub(crate) fn transform(&self, old: &str) -> Result<String, StateError> {
        let pattern = PythonRegex::new(&self.pattern, self.flags, old)?;
        let (new, hits) = pattern.replace(old, &self.template, self.count)?;
        if hits > 0 || self.not_found == ReplaceNotFound::Nowhere || self.contains_addition(old)? {
            return Ok(new);
        }
        let content = &self.not_found_content;
        Ok(match self.not_found {
            ReplaceNotFound::Start => format!("{content}\n{new}"),
            _ if new.is_empty() || new.ends_with('\n') => format!("{new}{content}\n"),
            _ => format!("{new}\n{content}\n"),
        })
    }

    /// True when the text that would be added is a line already.
    fn contains_addition(&self, old: &str) -> Result<bool, StateError> {
        let content =
            if self.not_found_content.is_empty() { &self.replacement } else { &self.not_found_content };
        PythonRegex::new(&format!("^{}($|(?=\r\n))", escape(content)), self.flags, old)?.is_match(old)
    }
}

impl TextEditor for FileReplace {
    fn edit(&self, old: Option<&str>, _: &StateCtx<'_>) -> Result<EditResult, StateError> {
        let old = old.unwrap_or_default();
        let new = self.transform(old)?;
        Ok(EditResult::from_texts(
            old,
            new,
            self.show_changes,
            LineEnds::Universal,
            "Changes would have been made",
        ))
    }

    fn on_missing_file(&self) -> MissingFile {
        if self.ignore_if_missing {
            return MissingFile::Skip("No changes needed to be made".into());
        }
        MissingFile::Fail(format!("{}: file not found", self.name))
    }

    fn backup(&self) -> EditBackup {
        self.backup.clone()
    }

    fn encoding(&self) -> TextEncoding {
        self.encoding.unwrap_or_default()
    }

    fn accepts_binary(&self) -> bool {
        self.encoding.is_some()
    }
}

/// `backup` as most edits take it: an ending such as `.bak`, which is also the default, or something false.
pub(crate) fn parse_backup(args: &ChunkArgs<'_>) -> EditBackup {
    match args.chunk.args.get("backup") {
        None => EditBackup::Suffix(".bak".into()),
        Some(Value::Str(suffix)) if !suffix.is_empty() => EditBackup::Suffix(suffix.to_string()),
        Some(Value::Bool(true)) => EditBackup::Suffix("True".into()),
        Some(_) => EditBackup::None,
    }
}
