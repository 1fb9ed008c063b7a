//! `file.replace`: what a pattern finds becomes something else; what it does not find may be put at an end of the file.

use zagent_config::Value;

use super::edited::{Absent, Backup, Edit, Editor};
use super::pattern::{Flags, Pattern, Template, escape};
use super::text::{Encoding, Ends};
use crate::states::{Args, Failure, Scene};

/// Where a text goes that the pattern did not find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotFound {
    Nowhere,
    End,
    Start,
}

/// The parameters of an edit.
#[derive(Clone, Debug)]
pub(super) struct Replace {
    name: String,
    pattern: String,
    with: String,
    template: Template,
    count: usize,
    flags: Flags,
    not_found: NotFound,
    not_found_content: String,
    backup: Backup,
    show_changes: bool,
    ignore_if_missing: bool,
    encoding: Option<Encoding>,
}

impl Replace {
    /// Reads `file.replace`.
    pub(super) fn read(name: String, args: &Args<'_>) -> Result<Self, Failure> {
        let needed = |key: &str| {
            args.text(key)?
                .ok_or_else(|| Failure::new(format!("Missing parameter {key} for state file.replace")))
        };
        let (pattern, with) = (needed("pattern")?, needed("repl")?);
        let literal = args.flag("backslash_literal", false);
        let template = if literal { Template::literal(&with) } else { Template::parse(&with)? };
        let not_found =
            match (args.flag("append_if_not_found", false), args.flag("prepend_if_not_found", false)) {
                (true, true) => {
                    return Err(Failure::new("Only one of append and prepend_if_not_found is permitted"));
                }
                (true, false) => NotFound::End,
                (false, true) => NotFound::Start,
                (false, false) => NotFound::Nowhere,
            };
        let encoding = args.text("encoding")?.map(|name| Encoding::named(&name)).transpose()?;
        let mut flags = args.get("flags").map_or(Ok(Flags::LINES), Flags::of)?;
        // With an encoding Salt searches characters, without one bytes.
        flags.ascii = encoding.is_none();
        Ok(Self {
            count: usize::try_from(args.int("count")?.unwrap_or(0)).unwrap_or(0),
            not_found_content: args.text("not_found_content")?.unwrap_or_else(|| with.clone()),
            backup: backup_of(args),
            show_changes: args.flag("show_changes", true),
            ignore_if_missing: args.flag("ignore_if_missing", false),
            name,
            pattern,
            with,
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
    pub(super) fn transform(&self, old: &str) -> Result<String, Failure> {
        let pattern = Pattern::new(&self.pattern, self.flags, old)?;
        let (new, hits) = pattern.replace(old, &self.template, self.count)?;
        if hits > 0 || self.not_found == NotFound::Nowhere || self.is_there(old)? {
            return Ok(new);
        }
        let content = &self.not_found_content;
        Ok(match self.not_found {
            NotFound::Start => format!("{content}\n{new}"),
            _ if new.is_empty() || new.ends_with('\n') => format!("{new}{content}\n"),
            _ => format!("{new}\n{content}\n"),
        })
    }

    /// True when the text that would be added is a line already.
    fn is_there(&self, old: &str) -> Result<bool, Failure> {
        let content = if self.not_found_content.is_empty() { &self.with } else { &self.not_found_content };
        Pattern::new(&format!("^{}($|(?=\r\n))", escape(content)), self.flags, old)?.is_found(old)
    }
}

impl Editor for Replace {
    fn edit(&self, old: Option<&str>, _: &Scene<'_>) -> Result<Edit, Failure> {
        let old = old.unwrap_or_default();
        let new = self.transform(old)?;
        Ok(Edit::of(old, new, self.show_changes, Ends::Universal, "Changes would have been made"))
    }

    fn absent(&self) -> Absent {
        if self.ignore_if_missing {
            return Absent::Fine("No changes needed to be made".into());
        }
        Absent::Fails(format!("{}: file not found", self.name))
    }

    fn backup(&self) -> Backup {
        self.backup.clone()
    }

    fn encoding(&self) -> Encoding {
        self.encoding.unwrap_or_default()
    }

    fn takes_any(&self) -> bool {
        self.encoding.is_some()
    }
}

/// `backup` as most edits take it: an ending such as `.bak`, which is also the default, or something false.
pub(super) fn backup_of(args: &Args<'_>) -> Backup {
    match args.chunk.args.get("backup") {
        None => Backup::Suffix(".bak".into()),
        Some(Value::Str(suffix)) if !suffix.is_empty() => Backup::Suffix(suffix.to_string()),
        Some(Value::Bool(true)) => Backup::Suffix("True".into()),
        Some(_) => Backup::None,
    }
}
