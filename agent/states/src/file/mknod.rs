//! `file.mknod`: a pipe or device.

use std::path::PathBuf;

use zagent_config::Map;

use super::args::{reapply, required_text, state_path};
use super::parents;
use super::perms::Perms;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
};
use zagent_host::fs::{FileKind, FileMeta, Stat};

/// The mode when none is given.
const MODE: u32 = 0o600;

/// A pipe or device that should be there.
#[derive(Debug)]
struct FileMknod {
    path: PathBuf,
    kind: FileKind,
    device: (u32, u32),
    perms: Perms,
}

/// Makes the state.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    let ntype = required_text(args, "ntype")?;
    let kind = match ntype.as_str() {
        "c" => FileKind::Char,
        "b" => FileKind::Block,
        "p" => FileKind::Fifo,
        _ => {
            return Err(StateError::new(format!(
                "Node type unavailable: '{ntype}'. Available node types are character ('c'), block ('b'), and pipe ('p')"
            )));
        }
    };
    let mut perms = Perms::read(args, &["mode"])?;
    perms.mode.get_or_insert(MODE);
    let path = state_path(args, "Must provide name to file.mknod")?;
    Ok(Box::new(FileMknod {
        path,
        kind,
        device: (device_number(args, "major")?, device_number(args, "minor")?),
        perms,
    }))
}

fn device_number(args: &ChunkArgs<'_>, key: &str) -> Result<u32, StateError> {
    let number = args.int(key)?.unwrap_or(0);
    u32::try_from(number)
        .map_err(|_| StateError::new(format!("`{key}` must be a device number, not {number}")))
}

impl FileMknod {
    const fn kind_names(&self) -> (&'static str, &'static str) {
        match self.kind {
            FileKind::Char => ("Character device", "character device"),
            FileKind::Block => ("Block device", "block device"),
            _ => ("Fifo pipe", "fifo pipe"),
        }
    }

    /// The node; nothing when there is none yet.
    fn find_node(&self, ctx: &StateCtx<'_>) -> Result<Option<Stat>, StateError> {
        let (path, (title, what)) = (self.path.display(), self.kind_names());
        match ctx.fs.stat(&self.path)? {
            None => Ok(None),
            Some(found) if found.kind == FileKind::File => {
                Err(StateError::new(format!("File {path} exists and is not a {what}. Refusing to continue")))
            }
            Some(found) if found.kind != self.kind => {
                Err(StateError::new(format!("File {path} exists and cannot be overwritten")))
            }
            Some(found) if self.kind != FileKind::Fifo && found.device != self.device => {
                let (major, minor) = found.device;
                Err(StateError::new(format!(
                    "{title} {path} exists and has a different major/minor {major}/{minor}. Refusing to continue"
                )))
            }
            found => Ok(found),
        }
    }
}

impl State for FileMknod {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (path, title) = (self.path.display(), self.kind_names().0);
        match self.find_node(ctx)? {
            None => Ok(CheckResult::drifted(format!("{title} {path} is set to be created"), Map::new())),
            Some(found) if self.perms.matches(ctx.machine, &found) => {
                Ok(CheckResult::in_sync(format!("{title} {path} is in the correct state")))
            }
            Some(found) => Ok(CheckResult::drifted("", self.perms.changes(ctx.machine, &found))),
        }
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let meta = self.perms.meta(ctx.machine)?;
        if let Some(found) = self.find_node(ctx)? {
            ctx.fs.set_meta(&self.path, meta, true)?;
            return Ok(ApplyResult::new("", self.perms.changes(ctx.machine, &found)));
        }
        parents::make_parents(ctx, &self.path, FileMeta { mode: None, ..meta })?;
        ctx.fs.make_node(&self.path, self.kind, self.device, meta)?;
        let mut changes = Map::new();
        changes.insert("new", format!("{} {} created.", self.kind_names().0, self.path.display()));
        Ok(ApplyResult::new("", changes))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        reapply(self, ctx)
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }
}
