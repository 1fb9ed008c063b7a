//! `file.touch`: a file that is there, with new times. An act: it is done on every run, as in Salt.

use std::path::PathBuf;

use jiff::Timestamp;
use zagent_compiler::Compat;
use zagent_config::Map;

use super::args::{reapply, state_path};
use super::parents;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
};
use zagent_host::fs::{FileKind, FileMeta, Stat};

/// Nanoseconds in a second.
const NANOS_PER_SECOND: f64 = 1e9;

/// A file with times.
#[derive(Debug)]
struct FileTouch {
    path: PathBuf,
    atime: Option<i128>,
    mtime: Option<i128>,
    makedirs: bool,
}

/// Makes the state.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    Ok(Box::new(FileTouch {
        path: state_path(args, "Must provide name to file.touch")?,
        atime: time_arg(args, "atime")?,
        mtime: time_arg(args, "mtime")?,
        makedirs: args.flag("makedirs", false),
    }))
}

fn time_arg(args: &ChunkArgs<'_>, key: &str) -> Result<Option<i128>, StateError> {
    if let Ok(Some(seconds)) = args.int(key) {
        return Ok(Some(i128::from(seconds) * 1_000_000_000));
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is too large becomes the largest time there is"
    )]
    let nanoseconds = |seconds: f64| (seconds * NANOS_PER_SECOND) as i128;
    match args.number(key) {
        Ok(seconds) => Ok(seconds.map(nanoseconds)),
        Err(_) => Err(StateError::new("atime and mtime must be integers")),
    }
}

impl FileTouch {
    fn is_in_sync(&self, compat: Compat, found: &Stat) -> bool {
        let times = [(self.atime, found.atime), (self.mtime, found.mtime)];
        let is_given = self.atime.is_some() && self.mtime.is_some();
        compat == Compat::Strict && is_given && times.iter().all(|(wanted, found)| *wanted == Some(*found))
    }

    fn changes_with(&self, key: &str) -> Map {
        [(key, self.path.to_string_lossy().as_ref())].into_iter().collect()
    }
}

impl State for FileTouch {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let path = self.path.display();
        match ctx.fs.stat(&self.path)? {
            None => Ok(CheckResult::drifted(
                format!("File {path} is set to be created"),
                self.changes_with("new"),
            )),
            Some(found) if self.is_in_sync(ctx.compat, &found) => {
                Ok(CheckResult::in_sync(format!("File {path} exists and has the correct times")))
            }
            Some(_) => Ok(CheckResult::drifted(
                format!("Times set to be updated on file {path}"),
                self.changes_with("touched"),
            )),
        }
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let path = self.path.display();
        if !parents::parent_exists(ctx, &self.path)? {
            if !self.makedirs {
                return Err(StateError::new(format!("Directory not present to touch file {path}")));
            }
            parents::make_parents(ctx, &self.path, FileMeta::default())?;
        }
        let found = ctx.fs.stat(&self.path)?;
        if found.is_none() {
            ctx.fs.write(&self.path, b"", FileMeta::default())?;
        }
        let now = Timestamp::now().as_nanosecond();
        ctx.fs.set_times(&self.path, self.atime.unwrap_or(now), self.mtime.unwrap_or(now))?;
        Ok(match found.map(|found| found.kind) {
            None => ApplyResult::new(format!("Created empty file {path}"), self.changes_with("new")),
            Some(FileKind::Dir) => {
                ApplyResult::new(format!("Updated times on directory {path}"), self.changes_with("touched"))
            }
            Some(_) => {
                ApplyResult::new(format!("Updated times on file {path}"), self.changes_with("touched"))
            }
        })
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        reapply(self, ctx)
    }

    fn is_convergent(&self) -> bool {
        false
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
