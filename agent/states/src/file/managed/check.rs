//! How a managed file stands, in the words and changes of a dry run.

use zagent_config::Map;

use super::FileManaged;
use crate::file::desired_content::RenderedContent;
use crate::file::diff::{ContentDiff, content_diff, new_content_diff};
use crate::file::perms::octal_mode;
use crate::file::sources::FileSources;
use crate::{CheckResult, StateCtx, StateError};
use zagent_host::fs::{FileKind, Stat};

impl FileManaged {
    pub(crate) fn check_metadata(&self, ctx: &StateCtx<'_>, found: &Stat) -> Result<CheckResult, StateError> {
        let path = self.path.display();
        let letters = self.perms.attrs_diff(ctx, &self.path)?;
        if letters.is_none() && self.perms.matches(ctx.machine, found) {
            let is_local = !self.desired.sources().is_some_and(FileSources::is_remote);
            let words = if self.replace && is_local {
                "is in the correct state"
            } else {
                "exists with proper permissions. No changes made."
            };
            return Ok(CheckResult::in_sync(format!("File {path} {words}")));
        }
        let mut changes = self.perms.changes(ctx.machine, found);
        self.add_attrs(&mut changes, letters.is_some());
        let comment = match self.perms.mode {
            Some(mode) if mode != found.mode => format!(
                "File {path} will be updated with permissions {} from its current state of {}",
                octal_mode(mode),
                octal_mode(found.mode)
            ),
            _ => format!("File {path} not updated"),
        };
        Ok(CheckResult::drifted(comment, changes))
    }

    fn add_attrs(&self, changes: &mut Map, differ: bool) {
        if let Some(attrs) = self.perms.attrs.as_deref().filter(|_| differ) {
            changes.insert("attrs", attrs);
        }
    }

    pub(crate) fn check_content(
        &self,
        ctx: &StateCtx<'_>,
        found: &Stat,
        made: &RenderedContent,
        is_same: bool,
    ) -> Result<CheckResult, StateError> {
        let letters = self.perms.attrs_diff(ctx, &self.path)?;
        if is_same && letters.is_none() && self.perms.matches(ctx.machine, found) {
            return Ok(CheckResult::in_sync(format!("File {} is in the correct state", self.path.display())));
        }
        let old = if is_same { Vec::new() } else { ctx.fs.read(&self.path)? };
        let (mut changes, shown) =
            if is_same { Default::default() } else { self.content_changes(&old, &made.bytes) };
        for (key, value) in self.perms.changes(ctx.machine, found).iter() {
            changes.insert(key.clone(), value.clone());
        }
        self.add_attrs(&mut changes, letters.is_some());
        Ok(CheckResult::drifted(self.predicted_comment(), changes).with_diff(shown))
    }

    /// The difference of two contents, for `changes` and for people.
    pub(crate) fn content_changes(&self, old: &[u8], new: &[u8]) -> (Map, String) {
        let mut changes = Map::new();
        if !self.show_changes {
            changes.insert("diff", "<show_changes=False>");
            return (changes, String::new());
        }
        let ContentDiff { salt, shown } = content_diff(old, new);
        changes.insert("diff", salt);
        (changes, shown)
    }

    pub(crate) fn predicted_comment(&self) -> String {
        format!(
            "The file {} is set to be changed\nNote: No changes made, actual changes may\nbe different due to other \
             states.",
            self.path.display()
        )
    }

    pub(crate) fn check_missing(&self, made: Option<&RenderedContent>) -> CheckResult {
        let mut changes = Map::new();
        let bytes = made.map_or(&[][..], |made| &made.bytes);
        if self.new_file_diff && made.is_some() {
            changes = self.content_changes(b"", bytes).0;
        }
        if changes.is_empty() {
            changes.insert("newfile", self.path.to_string_lossy().into_owned());
        }
        let shown = self.shown_as_new(bytes);
        self.new_diff.replace(Some(shown.clone()));
        CheckResult::drifted(self.predicted_comment(), changes).with_diff(shown)
    }

    /// What people see of a new file.
    pub(crate) fn shown_as_new(&self, bytes: &[u8]) -> String {
        if self.show_changes { new_content_diff(bytes) } else { String::new() }
    }

    /// The difference to what a link leads to.
    pub(crate) fn link_changes(&self, ctx: &StateCtx<'_>, new: &[u8]) -> Result<(Map, String), StateError> {
        let led = ctx.fs.stat(&self.path)?.filter(|led| led.kind == FileKind::File);
        let (mut changes, shown) = match led {
            Some(_) => self.content_changes(&ctx.fs.read(&self.path)?, new),
            None => (Map::new(), String::new()),
        };
        // A link to the very same content, or to nothing, has no lines to show.
        if led.is_none() || shown.is_empty() && self.show_changes {
            changes.insert("diff", "Replace symbolic link with regular file");
        }
        Ok((changes, shown))
    }
}
