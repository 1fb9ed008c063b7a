//! Owner, mode and attributes that a state declares in, how an entry differs from them out.
//!
//! Law: only what is declared is compared (held by `every_state_comments_and_changes_like_salt`).

use std::path::Path;

use zagent_config::{Map, Value};

use super::owner::Owner;
use crate::{ChunkArgs, StateCtx, StateError};
use zagent_host::Machine;
use zagent_host::fs::{FileKind, FileMeta, Stat};

/// Owner, mode and attributes that an entry should have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Perms {
    /// Who should own it.
    pub owner: Owner,
    /// Permission bits.
    pub mode: Option<u32>,
    /// Attributes as letters of `chattr`.
    pub attrs: Option<String>,
}

impl Perms {
    /// Owner as `user` and `group` say, mode as the first of these arguments that is given.
    ///
    /// # Errors
    /// Fails when one of them cannot be understood.
    pub(crate) fn read(args: &ChunkArgs<'_>, modes: &[&str]) -> Result<Self, StateError> {
        let mode = modes.iter().find(|key| args.get(key).is_some()).map(|key| args.mode(key)).transpose()?;
        Ok(Self { owner: Owner::read(args)?, mode: mode.flatten(), attrs: None })
    }

    /// True when owner and mode are as declared. A link has no mode of its own.
    pub(crate) fn matches(&self, machine: &Machine, found: &Stat) -> bool {
        self.mode.is_none_or(|mode| mode == found.mode || found.kind == FileKind::Link)
            && self.owner.matches(machine, found)
    }

    /// What differs, as Salt reports it.
    pub(crate) fn changes(&self, machine: &Machine, found: &Stat) -> Map {
        let mut changes = Map::new();
        if let Some(user) = self.owner.user()
            && user.uid(machine) != Some(found.uid)
        {
            changes.insert("user", user);
        }
        if let Some(group) = self.owner.group()
            && group.gid(machine) != Some(found.gid)
        {
            changes.insert("group", group);
        }
        if let Some(mode) = self.mode
            && mode != found.mode
            && found.kind != FileKind::Link
        {
            changes.insert("mode", octal_mode(mode));
        }
        changes
    }

    /// What an entry gets.
    ///
    /// # Errors
    /// Fails with Salt's words when the user or group does not exist.
    pub(crate) fn meta(&self, machine: &Machine) -> Result<FileMeta, StateError> {
        let ids = self.owner.ids(machine)?;
        Ok(FileMeta { mode: self.mode, uid: ids.uid, gid: ids.gid })
    }

    /// Letters that are missing and letters that are too many; nothing when the attributes are right, not declared, or
    /// unknown to the file system.
    ///
    /// # Errors
    /// Fails when they cannot be read.
    pub(crate) fn attrs_diff(
        &self,
        ctx: &StateCtx<'_>,
        path: &Path,
    ) -> Result<Option<AttrsDiff>, StateError> {
        let Some(wanted) = &self.attrs else { return Ok(None) };
        let Some(found) = ctx.fs.attrs(path)? else { return Ok(None) };
        // Extents are how the file system stores a file: nobody asks for them, and nobody can take them away.
        let added: String = wanted.chars().filter(|c| !found.contains(*c)).collect();
        let removed: String = found.chars().filter(|c| *c != 'e' && !wanted.contains(*c)).collect();
        Ok((!added.is_empty() || !removed.is_empty()).then_some(AttrsDiff { found, added, removed }))
    }

    /// Sets the attributes; what changed, as Salt reports it.
    ///
    /// # Errors
    /// Fails when they cannot be read or set.
    pub(crate) fn set_attrs(&self, ctx: &StateCtx<'_>, path: &Path) -> Result<Option<Value>, StateError> {
        let Some(letters) = self.attrs_diff(ctx, path)? else { return Ok(None) };
        ctx.fs.set_attrs(path, &letters.added, &letters.removed)?;
        let mut change = Map::new();
        change.insert("old", letters.found);
        change.insert("new", self.attrs.clone().unwrap_or_default());
        Ok(Some(change.into()))
    }
}

/// How attributes differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttrsDiff {
    /// Those that are there.
    pub found: String,
    /// Those that are missing.
    pub added: String,
    /// Those that are too many.
    pub removed: String,
}

/// Permission bits as Salt writes them.
pub(crate) fn octal_mode(mode: u32) -> String {
    format!("{mode:04o}")
}
