//! What is done to a managed file that is not as it should be.

use std::path::Path;

use zagent_config::Map;

use super::FileManaged;
use crate::file::desired_content::RenderedContent;
use crate::file::perms::octal_mode;
use crate::file::{backup, parents};
use crate::{ApplyResult, StateCtx, StateError};
use zagent_host::fs::{FileMeta, Stat};

/// The mode of a file before Salt gives it the one that is asked for: what it reports depends on it.
const PRIVATE: u32 = 0o600;

impl FileManaged {
    pub(crate) fn apply_metadata(&self, ctx: &StateCtx<'_>, found: &Stat) -> Result<ApplyResult, StateError> {
        let mut changes = self.perms.changes(ctx.machine, found);
        ctx.fs.set_meta(&self.path, self.perms.meta(ctx.machine)?, self.follow)?;
        self.note_attrs(ctx, &self.path, &mut changes)?;
        Ok(ApplyResult::new("", changes))
    }

    fn note_attrs(&self, ctx: &StateCtx<'_>, path: &Path, changes: &mut Map) -> Result<(), StateError> {
        if let Some(change) = self.perms.set_attrs(ctx, path)? {
            changes.insert("attrs", change);
        }
        Ok(())
    }

    pub(crate) fn write_content(
        &self,
        ctx: &StateCtx<'_>,
        found: &Stat,
        made: &RenderedContent,
        is_same: bool,
    ) -> Result<ApplyResult, StateError> {
        let path = self.resolve_target(ctx)?;
        let meta = self.perms.meta(ctx.machine)?;
        if is_same {
            self.check_cmd.as_ref().map_or(Ok(()), |check| check.run(ctx, &made.bytes, meta))?;
        } else {
            self.verify_new_content(ctx, &made.bytes, meta)?;
        }
        let mut done = ApplyResult::new(format!("File {} updated", self.path.display()), Map::new());
        if is_same {
            ctx.fs.set_meta(&path, meta, true)?;
        } else {
            let old = ctx.fs.read_for_change(&path)?;
            if self.backup {
                backup::save_backup(ctx, &path, found, &old)?;
            }
            ctx.fs.write(&path, &made.bytes, meta)?;
            (done.changes, done.diff) = self.content_changes(&old, &made.bytes);
            if self.ignore.covers(&old, &made.bytes) {
                done = done.with_detail("skip_req", true);
            }
        }
        for (key, value) in self.perms.changes(ctx.machine, found).iter() {
            done.changes.insert(key.clone(), value.clone());
        }
        self.note_attrs(ctx, &path, &mut done.changes)?;
        Ok(done)
    }

    /// Puts a file in the place of a link; it keeps owner and mode of what the link led to.
    pub(crate) fn replace_link(
        &self,
        ctx: &StateCtx<'_>,
        made: &RenderedContent,
    ) -> Result<ApplyResult, StateError> {
        let mut meta = self.perms.meta(ctx.machine)?;
        self.verify_new_content(ctx, &made.bytes, meta)?;
        let (mut changes, shown) = self.link_changes(ctx, &made.bytes)?;
        if let Some(led) = ctx.fs.stat(&self.path)? {
            meta.mode = meta.mode.or(Some(led.mode));
            meta.uid = meta.uid.or(Some(led.uid));
            meta.gid = meta.gid.or(Some(led.gid));
        }
        ctx.fs.write(&self.path, &made.bytes, meta)?;
        self.note_attrs(ctx, &self.path, &mut changes)?;
        Ok(ApplyResult::new(format!("File {} updated", self.path.display()), changes).with_diff(shown))
    }

    pub(crate) fn create(
        &self,
        ctx: &StateCtx<'_>,
        made: Option<&RenderedContent>,
    ) -> Result<ApplyResult, StateError> {
        let path = self.resolve_target(ctx)?;
        let meta = self.perms.meta(ctx.machine)?;
        let bytes = made.map_or(&[][..], |made| &made.bytes);
        self.verify_new_content(ctx, bytes, meta)?;
        if !parents::parent_exists(ctx, &path)? {
            if !self.makedirs {
                return Err(StateError::new("Parent directory not present"));
            }
            let mode = self.dir_mode.or_else(|| self.perms.mode.map(parents::mode_for_dirs));
            parents::make_parents(ctx, &path, FileMeta { mode, ..meta })?;
        }
        ctx.fs.write(&path, bytes, meta)?;
        let mut done = self.creation_result(made.is_some(), bytes);
        self.note_new_metadata(ctx, &path, &mut done.changes)?;
        self.note_attrs(ctx, &path, &mut done.changes)?;
        Ok(done)
    }

    fn creation_result(&self, is_said: bool, bytes: &[u8]) -> ApplyResult {
        let path = self.path.display();
        let mut changes = Map::new();
        if !is_said {
            changes.insert("new", format!("file {path} created"));
            return ApplyResult::new("Empty file", changes);
        }
        changes.insert("diff", "New file");
        if self.new_file_diff {
            changes = self.content_changes(b"", bytes).0;
        }
        let shown = self.new_diff.take().unwrap_or_else(|| self.shown_as_new(bytes));
        ApplyResult::new(format!("File {path} updated"), changes).with_diff(shown)
    }

    /// What Salt reports of the owner and mode of a new file: what differs from how it makes one at first.
    fn note_new_metadata(
        &self,
        ctx: &StateCtx<'_>,
        path: &Path,
        changes: &mut Map,
    ) -> Result<(), StateError> {
        let Some(found) = ctx.fs.stat(path)? else { return Ok(()) };
        let parent = path.parent().map(|dir| ctx.fs.stat(dir)).transpose()?.flatten();
        let gid = match parent {
            Some(dir) if dir.mode & 0o2000 != 0 => dir.gid,
            _ => rustix::process::getegid().as_raw(),
        };
        if let Some(user) =
            self.perms.owner.user().filter(|_| found.uid != rustix::process::geteuid().as_raw())
        {
            changes.insert("user", user);
        }
        if let Some(group) = self.perms.owner.group().filter(|_| found.gid != gid) {
            changes.insert("group", group);
        }
        let is_private = self.perms.mode.is_some() || self.desired.sources().is_some();
        if is_private && found.mode != PRIVATE {
            changes.insert("mode", octal_mode(found.mode));
        }
        Ok(())
    }
}
