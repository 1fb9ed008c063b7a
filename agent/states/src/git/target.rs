//! The directory of a repository: what stands there in, the way to a fresh clone or back out.

use std::path::PathBuf;

use zagent_config::{Map, Value};

use crate::file::parents;
use crate::{ChunkArgs, StateCtx, StateError, Undoable};
use zagent_config::mask::redact_logins;
use zagent_host::command_options::RunAsUser;
use zagent_host::fs::{FileKind, FileMeta};
use zagent_host::git::GitCli;

/// Where a repository is or will be.
#[derive(Clone, Debug)]
pub(crate) struct GitTarget {
    pub path: PathBuf,
    pub bare: bool,
    pub user: Option<String>,
}

/// What stands at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetDirState {
    Missing,
    Empty,
    NotEmpty,
    Repository,
}

impl GitTarget {
    pub(crate) fn from_args(args: &ChunkArgs<'_>, key: &str, bare: bool) -> Result<Self, StateError> {
        let text = args.text(key)?.filter(|t| !t.is_empty());
        let text = text.ok_or_else(|| StateError::new(format!("'{key}' argument is required")))?;
        if !text.starts_with('/') {
            return Err(StateError::new(format!("{key} '{text}' is not an absolute path")));
        }
        Ok(Self { path: text.into(), bare, user: args.text("user")? })
    }

    pub(crate) fn dir_state(&self, ctx: &StateCtx<'_>) -> Result<TargetDirState, StateError> {
        let Some(stat) = ctx.fs.stat(&self.path)? else { return Ok(TargetDirState::Missing) };
        if stat.kind != FileKind::Dir {
            let words =
                format!("Target '{}' exists and is a regular file, cannot proceed", self.path.display());
            return Err(StateError::new(words));
        }
        let mark = self.path.join(if self.bare { "refs" } else { ".git" });
        if ctx.fs.lstat(&mark)?.is_some() {
            return Ok(TargetDirState::Repository);
        }
        Ok(if ctx.fs.read_dir(&self.path)?.is_empty() {
            TargetDirState::Empty
        } else {
            TargetDirState::NotEmpty
        })
    }

    /// Takes away what is in the directory, so that it can be put back.
    pub(crate) fn clear_dir(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        for (name, _) in ctx.fs.read_dir(&self.path)? {
            ctx.fs.remove(&self.path.join(name))?;
        }
        Ok(())
    }

    /// Makes the directory ready for a clone: parents as who runs the agent, the directory itself as the user.
    pub(crate) fn prepare_dir(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        if ctx.fs.stat(&self.path)?.is_some() {
            return Ok(());
        }
        let account = self.user.as_deref().map(|name| RunAsUser::find(ctx.machine, name)).transpose();
        let account = account.map_err(StateError::new)?;
        let mut meta = FileMeta { mode: Some(0o755), ..FileMeta::default() };
        parents::make_parents(ctx, &self.path, meta)?;
        if let Some(account) = account {
            (meta.uid, meta.gid) = (Some(account.ids.uid), Some(account.ids.gid));
        }
        Ok(ctx.fs.make_dir(&self.path, meta)?)
    }

    /// The name under which the journal knows it.
    pub(crate) fn undo_key(&self) -> Value {
        let mut key = Map::from_iter([("path", Value::from(self.path.display().to_string()))]);
        if let Some(user) = &self.user {
            key.insert("user", user.as_str());
        }
        if self.bare {
            key.insert("bare", true);
        }
        key.into()
    }

    fn from_key(key: &Value) -> Self {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        Self {
            path: text("path").unwrap_or_default().into(),
            user: text("user").map(str::to_owned),
            bare: key.get("bare").is_some(),
        }
    }
}

/// A repository as a thing: where its head and its remote stand, and what of its files is not committed. That cannot be put
/// back, so that a revert leaves a repository alone in which somebody worked since.
pub(crate) struct GitRepoUndo;
pub(crate) static GIT_REPO_UNDO: GitRepoUndo = GitRepoUndo;

impl Undoable for GitRepoUndo {
    fn kind(&self) -> &'static str {
        "git_repository"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let target = GitTarget::from_key(key);
        if target.dir_state(ctx)? != TargetDirState::Repository {
            return Ok(Value::Null);
        }
        let git = GitCli::new(ctx.tools(), target.user.as_deref())?;
        let text = |t: Option<String>| t.map_or(Value::Null, Value::from);
        // What is not committed; a repository without files has nothing of that.
        let tree = match target.bare {
            true => String::new(),
            false => git.run_checked(Some(&target.path), &["status", "--porcelain"])?,
        };
        let remotes =
            git.run(Some(&target.path), &["config", "--null", "--get-regexp", r"^(remote|branch)\..*"])?;
        Ok(Map::from_iter([
            ("revision", text(git.head_commit(&target.path)?)),
            ("branch", text(git.head_branch(&target.path)?)),
            // A password in an address is nothing for a journal.
            ("config", redact_logins(&remotes.stdout).into()),
            ("tree", tree.into()),
        ])
        .into())
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let target = GitTarget::from_key(key);
        if to.is_null() {
            return target.clear_dir(ctx);
        }
        let git = GitCli::new(ctx.tools(), target.user.as_deref())?;
        let dir = Some(target.path.as_path());
        let text = |name: &str| to.get(name).and_then(Value::as_str);
        if let (Some(revision), false) = (text("revision"), target.bare) {
            let head = match text("branch") {
                Some(branch) => vec!["checkout", "-B", branch, revision],
                None => vec!["checkout", "--detach", revision],
            };
            git.run_checked(dir, &head)?;
        }
        let mut without = None;
        for (name, value) in text("config").unwrap_or_default().split('\0').filter_map(|l| l.split_once('\n'))
        {
            // Keys with several values (`remote.*.fetch`) never change here.
            if name.ends_with(".url")
                || name.ends_with(".merge")
                || (name.starts_with("branch.") && name.ends_with(".remote"))
            {
                if value.contains("<redacted>@") {
                    without = Some(name);
                    continue;
                }
                git.run_checked(dir, &["config", name, value])?;
            }
        }
        match without {
            Some(name) => Err(StateError::new(format!("`{name}` had a password in it, which is not kept"))),
            None => Ok(()),
        }
    }

    fn simulate_restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        if to.is_null() { GitTarget::from_key(key).clear_dir(ctx) } else { Ok(()) }
    }

    fn removal_blocker(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Option<String>, StateError> {
        let target = GitTarget::from_key(key);
        if target.bare || target.dir_state(ctx)? != TargetDirState::Repository {
            return Ok(None);
        }
        let git = GitCli::new(ctx.tools(), target.user.as_deref())?;
        let held = git.run_checked(Some(&target.path), &["status", "--porcelain", "--ignored"])?;
        let file = held.lines().next().and_then(|l| l.get(3..));
        Ok(file.map(|file| format!("`{file}` there is not committed")))
    }
}
