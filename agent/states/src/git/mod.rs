//! States of the module `git`: repositories and their configuration, by the program `git`.
//!
//! Law: a look asks the remote repository what it has and the local one where it stands, and changes neither (held
//! by `a_clone_follows_and_keeps_what_is_not_committed`).

pub mod functions;

pub mod config;
pub(crate) mod detached;
pub mod latest;
pub(crate) mod local_repo;
pub mod present;
pub(crate) mod remote_rev;
pub mod target;

pub(crate) use config::GIT_CONFIG_UNDO;
pub(crate) use target::GIT_REPO_UNDO;

use std::sync::Arc;

use zagent_config::{Map, Value};

use crate::file::sources::FileSources;
use crate::{BuildResult, ChunkArgs, State, StateCtx, StateError, StateModule};
use zagent_host::git::{GitCli, split_login};
use zagent_host::temp_file::PrivateTempFile;

/// How files of the tree are named.
const TREE_PREFIX: &str = "salt://";

/// The module `git`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "git",
    build,
    functions: functions::TABLE,
    undo: &[&GIT_REPO_UNDO, &GIT_CONFIG_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    Some(match fun {
        "latest" => latest::GitLatest::from_args(args).map(|s| Box::new(s) as Box<dyn State>),
        "detached" => detached::GitDetached::from_args(args).map(|s| Box::new(s) as _),
        "cloned" => present::GitCloned::from_args(args).map(|s| Box::new(s) as _),
        "present" => present::GitPresent::from_args(args).map(|s| Box::new(s) as _),
        "config_set" => config::GitConfigSet::from_args(args).map(|s| Box::new(s) as _),
        "config_unset" => config::GitConfigUnset::from_args(args).map(|s| Box::new(s) as _),
        _ => return None,
    })
}

/// Who reaches a repository, and with what.
#[derive(Clone, Debug, Default)]
struct GitAccess {
    url: String,
    user: Option<String>,
    /// Paths, and keys that the tree holds.
    keys: Vec<String>,
    env: Arc<str>,
    login: Option<String>,
    password: Option<String>,
    accepts_new_host_keys: bool,
    /// What stood in the address.
    cut: Option<(String, String)>,
}

impl GitAccess {
    fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let keys = args.texts("identity")?.unwrap_or_default();
        if let Some(key) = keys.iter().find(|k| !k.starts_with(['/', '~']) && !k.starts_with(TREE_PREFIX)) {
            return Err(StateError::new(format!("identity '{key}' is not an absolute path")));
        }
        let (url, cut) = split_login(&args.name());
        Ok(Self {
            url,
            cut,
            user: args.text("user")?,
            keys,
            env: args.chunk.env.clone(),
            login: args.text("https_user")?,
            password: args.text("https_pass")?,
            accepts_new_host_keys: args.flag("accept_new_host_key", false),
        })
    }

    fn git<'s>(&self, ctx: &'s StateCtx<'_>) -> Result<GitCli<'s>, StateError> {
        let git = GitCli::new(ctx.tools(), self.user.as_deref())?;
        let git = git.with_new_host_keys(self.accepts_new_host_keys);
        let (mut keys, mut kept) = (Vec::new(), Vec::new());
        for key in &self.keys {
            if !key.starts_with(TREE_PREFIX) {
                keys.push(key.clone());
                continue;
            }
            let found =
                FileSources::without_verification(key.as_str().into()).find_source(ctx, &self.env, key);
            let file = PrivateTempFile::new_secret(
                ctx.machine,
                &found.map_err(StateError::new)?.bytes,
                ".key",
                git.uid(),
            );
            let file = file.map_err(|e| StateError::new(format!("cannot keep the key `{key}`: {e}")))?;
            keys.push(file.path().display().to_string());
            kept.push(file);
        }
        let git = git.with_keys(&keys).with_temp_files(kept);
        if self.login.is_none() && self.password.is_none() {
            return Ok(git.with_url_login(&self.url, self.cut.as_ref()));
        }
        Ok(git.with_login(&self.url, self.login.as_deref(), self.password.as_deref())?)
    }
}

/// One act on a repository.
struct GitStep {
    args: Vec<String>,
    /// What a dry run says of it.
    preview_comment: String,
    /// What is said once it was done; nothing for what goes without saying.
    done_comment: String,
}

impl GitStep {
    fn new(args: &[&str], would: impl Into<String>, did: impl Into<String>) -> Self {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        Self { args, preview_comment: would.into(), done_comment: did.into() }
    }
}

/// Sentences as Salt joins them: one stands alone, several end with a full stop.
fn join_sentences(parts: &[String]) -> String {
    let all = parts.iter().filter(|p| !p.is_empty()).map(String::as_str).collect::<Vec<_>>();
    let end = if all.len() > 1 { "." } else { "" };
    all.join(". ") + end
}

fn failure_with_changes(words: &str, made: &[String], changes: Map) -> StateError {
    let mut failure = StateError::new(words);
    if !made.is_empty() {
        failure.result.comment += "\n\nChanges already made: ";
        failure.result.comment += &join_sentences(made);
    }
    failure.result.changes = changes;
    failure
}

/// `{"old": …, "new": …}`.
fn old_new(old: Option<&str>, new: Option<&str>) -> Value {
    let text = |t: Option<&str>| t.map_or(Value::Null, Value::from);
    Value::from(Map::from_iter([("old", text(old)), ("new", text(new))]))
}

fn short_rev(rev: &str) -> &str {
    rev.get(..7).unwrap_or(rev)
}

/// True for what can be the beginning of a commit's name.
fn is_hash(rev: &str) -> bool {
    rev.len() <= 40 && rev.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
pub mod tests;
