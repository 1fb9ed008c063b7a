//! States of the tree's own modules: `_states/NAME` is any executable, JSON in and JSON out.
//!
//! It reads `{"call": "check", "function": …, "args": …, "test": …, "grains": …, "low": …}` and prints
//! `{"result": …, "changes": …, "comment": …}`. For a resource it also reads `resource` and whether it runs on the node that
//! manages the resource (`minion`). To `check` it answers true (all is right), null (something would change) or
//! false; to `apply` and `revert` true or false.
//!
//! Law: what runs is what the tree holds, byte for byte; it has a time and a cap on what it prints, and anything
//! but an answer is a failure that says why (held by `anything_but_an_answer_is_a_failure_in_words`,
//! `a_file_that_was_tampered_with_is_written_anew`).

#![expect(
    clippy::disallowed_methods,
    reason = "a program of the tree has a deadline and is replaced in one step"
)]

use std::borrow::Cow;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use zagent_compiler::Chunk;
use zagent_config::{Map, Value};

use super::{ApplyResult, CheckResult, State, StateCtx, StateError};
use zagent_config::atomic_file::AtomicFile;
use zagent_config::error_chain;
use zagent_host::command_options::value_text;
use zagent_host::exec::{ExecCommand, ExitReason};
use zagent_host::temp_file::PrivateTempFile;

/// How long a module may take when its state does not say.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The most that a module may print.
const MAX_REPLY: usize = 8 << 20;
/// How much of what it complained about is told.
const MAX_STDERR_SHOWN: usize = 400;
/// The order to do it.
const APPLY: &str = "apply";
/// The order to undo it.
const REVERT: &str = "revert";
/// Where modules stand in a tree.
const MODULES_FOLDER: &str = "_states/";

/// The state that a chunk of no module of ours asks for.
pub fn build(chunk: &Chunk) -> Box<dyn State> {
    Box::new(ExternalState { chunk: chunk.clone() })
}

/// What has to be asked of a module to undo what a state of it did, as it stands in the journal.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct ExternalUndoNote {
    /// `revert`, or `apply` where a revert is to be undone.
    call: Cow<'static, str>,
    module: String,
    function: String,
    name: Value,
    args: Value,
}

impl ExternalUndoNote {
    fn new(chunk: &Chunk) -> Self {
        Self {
            call: Cow::Borrowed(REVERT),
            module: chunk.state.to_string(),
            function: chunk.fun.to_string(),
            name: chunk.name.clone(),
            args: chunk.args.clone().into(),
        }
    }

    /// The note of a journal; none when it is of somebody else.
    #[must_use]
    pub fn read(data: &serde_json::Value) -> Option<Self> {
        serde_json::from_value(data.clone()).ok().filter(|memo: &Self| [APPLY, REVERT].contains(&&*memo.call))
    }

    /// What it is about, as `module.function`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{}.{}", self.module, self.function)
    }

    /// What undoes that which this asks for.
    fn inverse(&self) -> Self {
        let call = if self.call == REVERT { APPLY } else { REVERT };
        Self { call: Cow::Borrowed(call), ..self.clone() }
    }

    /// Notes it, where the run notes anything.
    fn record(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let Some(journal) = ctx.journal else { return Ok(()) };
        let data = serde_json::to_value(self).map_err(|e| {
            StateError::new(format!("the arguments of `{}` are no JSON: {e}", self.describe()))
        })?;
        Ok(journal.note_other(ctx.tag, data)?)
    }
}

/// Lets a module undo what a state of it did.
///
/// # Errors
/// Fails when the module fails, or there is none.
pub fn revert(memo: &ExternalUndoNote, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
    let args = memo.args.as_map().cloned().unwrap_or_default();
    let mut chunk = Chunk::single(&memo.module, &memo.function, "", args);
    chunk.name = memo.name.clone();
    chunk.id = zagent_compiler::name_text(&memo.name).into();
    let state = ExternalState { chunk };
    if state.module_source(ctx)?.is_none() {
        return Err(StateError::new(format!("there is no module `{}` in the tree any more", memo.module)));
    }
    memo.inverse().record(ctx)?;
    state.execute(&memo.call, ctx)
}

struct ExternalState {
    chunk: Chunk,
}

/// A module as a program that can be run.
enum InstalledModule {
    /// In the cache of this host.
    Cached(PathBuf),
    /// On another machine, for as long as it is held.
    Temporary(PrivateTempFile),
}

impl InstalledModule {
    fn path(&self) -> &Path {
        match self {
            Self::Cached(path) => path,
            Self::Temporary(file) => file.path(),
        }
    }
}

/// What a module answered.
struct ExternalReply {
    result: Option<bool>,
    changes: Map,
    comment: String,
}

impl ExternalState {
    fn call_module(&self, call: &str, test: bool, ctx: &StateCtx<'_>) -> Result<ExternalReply, StateError> {
        let name = &*self.chunk.state;
        let installed = self.install_program(ctx)?;
        let limit = self.time_limit(ctx)?;
        let mut command = ExecCommand::new(installed.path());
        command.stdin = self.request_json(call, test, ctx)?;
        command.timeout = Some(limit);
        command.output_cap = MAX_REPLY;
        command.cwd = Some("/".into());
        command.cancel = Some(Arc::clone(ctx.cancel));
        let outcome = ctx.machine.run(&command).map_err(|e| StateError::new(error_chain(&e)))?;
        let said = stderr_excerpt(&outcome.stderr);
        match outcome.reason {
            ExitReason::Exited(0) if outcome.truncated => {
                Err(StateError::new(format!("module `{name}` printed more than {MAX_REPLY} bytes")))
            }
            ExitReason::Exited(0) => parse_reply(name, &outcome.stdout).map_err(StateError::new),
            ExitReason::Exited(code) => {
                Err(StateError::new(format!("module `{name}` exited with code {code}{said}")))
            }
            ExitReason::Signaled(n) => {
                Err(StateError::new(format!("signal {n} ended module `{name}`{said}")))
            }
            ExitReason::TimedOut => {
                Err(StateError::new(format!("module `{name}` was ended after {limit:?}")))
            }
            ExitReason::Cancelled => {
                Err(StateError::new(format!("module `{name}` was ended: the run was stopped")))
            }
        }
    }

    fn request_json(&self, call: &str, test: bool, ctx: &StateCtx<'_>) -> Result<Vec<u8>, StateError> {
        let mut args = self.chunk.args.clone();
        args.insert("name", self.chunk.name.clone());
        let mut question = Map::from_iter([
            ("call", Value::from(call)),
            ("function", Value::from(&*self.chunk.fun)),
            ("args", args.into()),
            ("test", test.into()),
            ("grains", ctx.host.grains()),
            ("low", self.chunk.to_value()),
        ]);
        if let Some(resource) = ctx.host.resource() {
            question.insert("resource", resource);
            question.insert("minion", self.chunk.runs_on_manager());
        }
        serde_json::to_vec(&Value::from(question))
            .map_err(|e| StateError::new(format!("the arguments of `{}` are no JSON: {e}", self.chunk.id)))
    }

    fn time_limit(&self, ctx: &StateCtx<'_>) -> Result<Duration, StateError> {
        let bad = |v: &Value| {
            StateError::new(format!("`timeout` must be a number of seconds, not {}", value_text(v)))
        };
        let own = match self.chunk.args.get("timeout").filter(|v| !v.is_null()) {
            None => TIMEOUT,
            Some(v) => {
                let seconds =
                    v.as_number().or_else(|| v.as_str()?.trim().parse().ok()).ok_or_else(|| bad(v))?;
                Duration::try_from_secs_f64(seconds).map_err(|_| bad(v))?
            }
        };
        let left = ctx.deadline.map(|d| d.saturating_duration_since(Instant::now()));
        Ok(left.map_or(own, |left| own.min(left)))
    }

    /// The module as a file of our own, named by its content.
    fn install_program(&self, ctx: &StateCtx<'_>) -> Result<InstalledModule, StateError> {
        let Some(content) = self.module_source(ctx)? else {
            return Err(unavailable_error(&self.chunk));
        };
        if content.starts_with(b"\x7fELF") || content.starts_with(b"#!") {
            let cannot =
                |e| StateError::new(format!("cannot keep module `{}` in the cache: {e}", self.chunk.state));
            if !ctx.machine.is_this_host() {
                // The cache is one of this host, and the module runs on another machine.
                let file = PrivateTempFile::new(ctx.machine, &content, "", None);
                return file.map(InstalledModule::Temporary).map_err(cannot);
            }
            let digest = format!("{:x}", Sha256::digest(&content));
            let kept = ctx.cache_dir.join("modules").join(&digest);
            if is_installed(&kept, &content) {
                return Ok(InstalledModule::Cached(kept));
            }
            let path = write_program(&ctx.staging_dir.join("modules"), &digest, &content);
            return path.map(InstalledModule::Cached).map_err(cannot);
        }
        // Salt's own modules are Python that it loads; here it is a program that runs.
        let hint = "it needs a first line such as `#!/usr/bin/env python3`";
        Err(StateError::new(format!("module `{}` is no program: {hint}", self.chunk.state)))
    }

    /// `_states/NAME`, or `_states/NAME.ext`.
    fn module_source(&self, ctx: &StateCtx<'_>) -> Result<Option<Arc<[u8]>>, StateError> {
        let exact = format!("{MODULES_FOLDER}{}", self.chunk.state);
        if let Some(content) = ctx.files.read(zagent_compiler::BASE_ENV, &exact).map_err(StateError::new)? {
            return Ok(Some(content));
        }
        let all = ctx.files.list(zagent_compiler::BASE_ENV).map_err(StateError::new)?;
        let fits = |path: &&String| {
            let rest = path.strip_prefix(exact.as_str());
            rest.is_some_and(|r| r.starts_with('.') && !r.contains('/'))
        };
        let Some(path) = all.iter().find(fits) else { return Ok(None) };
        ctx.files.read(zagent_compiler::BASE_ENV, path).map_err(StateError::new)
    }

    /// `apply` or `revert`: there is no third way out.
    fn execute(&self, call: &str, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let answer = self.call_module(call, false, ctx)?;
        let mut done = ApplyResult::new(answer.comment, answer.changes);
        match answer.result {
            Some(true) => return Ok(done),
            Some(false) => {}
            None => {
                let words = format!("module `{}` answered null to `{call}`", self.chunk.state);
                done.comment =
                    if done.comment.is_empty() { words } else { format!("{words}: {}", done.comment) };
            }
        }
        Err(done.into())
    }
}

impl State for ExternalState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let answer = self.call_module("check", true, ctx)?;
        match answer.result {
            Some(true) => Ok(CheckResult::in_sync(answer.comment)),
            Some(false) => Err(ApplyResult::new(answer.comment, answer.changes).into()),
            None => Ok(CheckResult::drifted(answer.comment, answer.changes)),
        }
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        ExternalUndoNote::new(&self.chunk).record(ctx)?;
        self.execute(APPLY, ctx)
    }

    fn is_convergent(&self) -> bool {
        true
    }
}

/// True when a program stands there with this content.
fn is_installed(path: &Path, content: &[u8]) -> bool {
    std::fs::read(path).is_ok_and(|have| have == content)
        && std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o7777 == 0o700)
}

/// Writes the file unless it is there already, whole or not at all.
fn write_program(dir: &Path, name: &str, content: &[u8]) -> std::io::Result<PathBuf> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let path = dir.join(name);
    if is_installed(&path, content) {
        return Ok(path);
    }
    AtomicFile::cached(0o700).write(&path, content)?;
    Ok(path)
}

/// Installs a program of the tree below a directory, named by its content; the same program is installed once.
///
/// # Errors
/// Fails with a message when it is no program or cannot be written.
pub fn install_program(cache: &Path, content: &[u8]) -> Result<PathBuf, String> {
    if !content.starts_with(b"\x7fELF") && !content.starts_with(b"#!") {
        return Err("it is no program: it needs a first line such as `#!/usr/bin/env python3`".into());
    }
    let digest = format!("{:x}", Sha256::digest(content));
    let dir = cache.join("modules");
    let kept = dir.join(&digest);
    if is_installed(&kept, content) {
        return Ok(kept);
    }
    write_program(&dir, &digest, content).map_err(|e| format!("cannot write `{}`: {e}", kept.display()))
}

fn parse_reply(name: &str, stdout: &[u8]) -> Result<ExternalReply, String> {
    let text =
        std::str::from_utf8(stdout).map_err(|_| format!("module `{name}` printed what is not UTF-8"))?;
    let value = Value::from_json_str(text.trim())
        .map_err(|e| format!("module `{name}` printed what is not JSON: {e}"))?;
    let Value::Map(map) = &value else {
        return Err(format!("module `{name}` printed {}, not an object", value.kind()));
    };
    let result = match map.get("result") {
        Some(Value::Bool(result)) => Some(*result),
        Some(Value::Null) => None,
        Some(other) => return Err(format!("module `{name}` answered {} as its result", other.kind())),
        None => return Err(format!("module `{name}` answered without a result")),
    };
    let changes = match map.get("changes") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Map(changes)) => (**changes).clone(),
        Some(other) => return Err(format!("module `{name}` answered {} as its changes", other.kind())),
    };
    let comment = map.get("comment").filter(|c| !c.is_null()).map(value_text).unwrap_or_default();
    Ok(ExternalReply { result, changes, comment })
}

/// What Salt says of a function that no module has.
fn unavailable_error(chunk: &Chunk) -> StateError {
    let Chunk { state, fun, sls, .. } = chunk;
    StateError::new(format!(
        "State '{state}.{fun}' was not found in SLS '{sls}'\nReason: '{state}.{fun}' is not available.\n"
    ))
}

fn stderr_excerpt(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let last = text.trim_end().lines().next_back().unwrap_or_default();
    let last: String = last.chars().take(MAX_STDERR_SHOWN).collect();
    if last.is_empty() { last } else { format!(": {last}") }
}

#[cfg(test)]
pub mod tests;
