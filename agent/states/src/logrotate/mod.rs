//! `logrotate.set`: one directive of logrotate's configuration, or of one block in it.
//!
//! Only the line that is asked for changes; whatever else stands in the files stays.

pub(crate) mod config;
pub(crate) mod functions;

use std::path::{Path, PathBuf};

use zagent_config::{Map, Value};

use crate::logrotate::config as logrotate;
use crate::logrotate::config::{directive_value, set_directive};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule,
};
use zagent_host::fs::{FileKind, FileMeta};

/// The module `logrotate`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "logrotate",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    (fun == "set").then(|| LogrotateSet::from_args(args).map(|s| Box::new(s) as Box<dyn State>))
}

struct LogrotateSet {
    file: PathBuf,
    /// The block, when it is about one.
    block: Option<String>,
    directive: String,
    wanted: Value,
}

impl LogrotateSet {
    fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let key = args.text("key")?.ok_or_else(|| StateError::new("`key` is missing"))?;
        let value = args.chunk.args.get("value").cloned().unwrap_or(Value::Null);
        let file = args.path("conf_file")?.unwrap_or_else(|| logrotate::LOGROTATE_CONF.into());
        let setting = args.get("setting").cloned();
        let (block, directive, wanted) = match setting {
            Some(setting) => (Some(key), zagent_config::value::python_str(&value), setting),
            None => (None, key, value),
        };
        Ok(Self { file, block, directive, wanted: logrotate::number_or_text(wanted) })
    }

    /// The files, the first of which is the one that includes the others.
    fn config_files(&self, ctx: &StateCtx<'_>) -> Result<Vec<(PathBuf, String)>, StateError> {
        let text = |path: &Path| -> Result<String, StateError> {
            Ok(String::from_utf8_lossy(&ctx.fs.read(path)?).into_owned())
        };
        let main = text(&self.file)?;
        let mut files = Vec::new();
        for included in logrotate::includes(&main) {
            let path = PathBuf::from(included);
            match ctx.fs.stat(&path)?.map(|s| s.kind) {
                Some(FileKind::Dir) => {
                    for (name, kind) in ctx.fs.read_dir(&path)? {
                        if kind == FileKind::File {
                            files.push((path.join(&name), text(&path.join(name))?));
                        }
                    }
                }
                Some(_) => files.push((path.clone(), text(&path)?)),
                None => {}
            }
        }
        files.insert(0, (self.file.clone(), main));
        Ok(files)
    }

    /// The file that has to change, its new text, and the old value; nothing when all is right.
    fn find_drift(&self, ctx: &StateCtx<'_>) -> Result<Option<(PathBuf, String, Value)>, StateError> {
        let files = self.config_files(ctx)?;
        let block = self.block.as_deref();
        let at = match block {
            Some(block) => files.iter().position(|(_, text)| logrotate::has_block(text, block)),
            None => files.iter().position(|(_, text)| directive_value(text, None, &self.directive).is_some()),
        };
        let (path, text) = &files[at.unwrap_or(0)];
        let now = directive_value(text, block, &self.directive).unwrap_or(Value::Bool(false));
        if now == self.wanted {
            return Ok(None);
        }
        Ok(Some((path.clone(), set_directive(text, block, &self.directive, &self.wanted), now)))
    }

    fn comment(&self, how: &str) -> String {
        let wanted = zagent_config::value::python_str(&self.wanted);
        match (&self.block, how) {
            (None, "did") => format!("Set command '{}' value: {wanted}", self.directive),
            (None, how) => format!("Command '{}' {how} value: {wanted}", self.directive),
            (Some(block), "did") => {
                format!("Set block '{block}' command '{}' value: {wanted}", self.directive)
            }
            (Some(block), how) => {
                format!("Block '{block}' command '{}' {how} value: {wanted}", self.directive)
            }
        }
    }
}

impl State for LogrotateSet {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        Ok(match self.find_drift(ctx)? {
            None => CheckResult::in_sync(self.comment("already has")),
            Some((_, _, now)) => {
                let changes = Map::from_iter([("old", now), ("new", self.wanted.clone())]);
                CheckResult::drifted(self.comment("will be set to"), changes)
            }
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let Some((path, text, now)) = self.find_drift(ctx)? else { return Ok(ApplyResult::default()) };
        ctx.fs.write(&path, text.as_bytes(), FileMeta::default())?;
        let changes = Map::from_iter([("old", now), ("new", self.wanted.clone())]);
        Ok(ApplyResult::new(self.comment("did"), changes))
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        // Which of the files it is shows only when they are read.
        vec![LockKey::Path(self.file.clone()), LockKey::Path("/etc/logrotate.d".into())]
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::PACKAGE_FILES
    }
}
