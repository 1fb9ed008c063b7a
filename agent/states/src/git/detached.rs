//! `git.detached`: a repository whose head is one commit, whatever branch that is on.

use zagent_config::{Map, Value};

use super::target::{GIT_REPO_UNDO, GitTarget, TargetDirState};
use super::{GitAccess, failure_with_changes, is_hash, join_sentences, old_new};
use crate::{ApplyResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError};
use zagent_config::mask::redact_logins;
use zagent_host::git::GitCli;

pub(crate) struct GitDetached {
    access: GitAccess,
    target: GitTarget,
    rev: String,
    remote: String,
    args: Map,
}

/// How things stand.
struct DetachedStatus {
    dir_state: TargetDirState,
    head: Option<String>,
    /// The commit that is asked for.
    wanted_commit: String,
    /// It has to be fetched first.
    absent: bool,
    url: Option<String>,
    dirty: bool,
}

impl GitDetached {
    pub(crate) fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let rev = args.text("rev")?.filter(|r| !r.is_empty());
        Ok(Self {
            access: GitAccess::from_args(args)?,
            target: GitTarget::from_args(args, "target", false)?,
            rev: rev.ok_or_else(|| StateError::new("'rev' argument is required"))?,
            remote: args.text("remote")?.unwrap_or_else(|| "origin".into()),
            args: args.chunk.args.clone(),
        })
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.args.get(key).filter(|v| !v.is_null()).map_or(default, Value::is_truthy)
    }

    /// The commit of a branch or tag: of the remote repository, or as it was fetched last.
    fn wanted_commit(&self, git: &GitCli<'_>, place: TargetDirState) -> Result<String, StateError> {
        if is_hash(&self.rev) {
            return Ok(self.rev.to_ascii_lowercase());
        }
        let missing = || StateError::new(format!("Revision '{}' does not exist", self.rev));
        let (branch, tag) = (format!("refs/heads/{}", self.rev), format!("refs/tags/{}", self.rev));
        if place == TargetDirState::Repository && !self.flag("fetch_remote", true) {
            for name in [format!("refs/remotes/{}/{}", self.remote, self.rev), tag] {
                let words = ["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")];
                if let Some(commit) = git.output_line(&self.target.path, &words)? {
                    return Ok(commit);
                }
            }
            return Err(missing());
        }
        let refs = git.remote_refs(None, &self.access.url, &[]);
        let refs = refs.map_err(|e| {
            StateError::new(format!("Failed to list refs for {}: {}", self.remote, e.message()))
        })?;
        let found = refs.get(&branch).or_else(|| refs.get(&format!("{tag}^{{}}"))).or_else(|| refs.get(&tag));
        found.cloned().ok_or_else(missing)
    }

    fn status(&self, ctx: &StateCtx<'_>) -> Result<DetachedStatus, StateError> {
        let git = self.access.git(ctx)?;
        let place = self.target.dir_state(ctx)?;
        if place == TargetDirState::NotEmpty && !self.flag("force_clone", false) {
            return Err(StateError::new(format!(
                "Target '{}' exists, is non-empty and is not a git repository. Set the 'force_clone' option to True to remove \
                 this directory's contents and proceed with cloning the remote repository",
                self.target.path.display()
            )));
        }
        let wanted = self.wanted_commit(&git, place)?;
        let mut stand = DetachedStatus {
            dir_state: place,
            head: None,
            wanted_commit: wanted,
            absent: true,
            url: None,
            dirty: false,
        };
        if place == TargetDirState::Repository {
            let dir = &self.target.path;
            stand.head = git.head_commit(dir)?;
            let commit = format!("{}^{{commit}}", stand.wanted_commit);
            stand.absent = git.output_line(dir, &["rev-parse", "--verify", "--quiet", &commit])?.is_none();
            stand.url = git.remote_url(dir, &self.remote)?;
            stand.dirty = self.flag("hard_reset", false)
                && !git
                    .run_checked(Some(dir), &["status", "--porcelain", "--untracked-files=no"])?
                    .trim()
                    .is_empty();
        }
        Ok(stand)
    }

    fn checkout_commit(
        &self,
        stand: &DetachedStatus,
        ctx: &StateCtx<'_>,
        made: &mut Vec<String>,
    ) -> Result<(), StateError> {
        let git = self.access.git(ctx)?;
        let dir = Some(self.target.path.as_path());
        let (path, name) = (self.target.path.display().to_string(), redact_logins(&self.access.url));
        if stand.dir_state != TargetDirState::Repository {
            git.run_checked(
                None,
                &["clone", "--no-checkout", "--origin", &self.remote, "--", &self.access.url, &path],
            )?;
            made.push(format!("{name} cloned to {path}"));
        } else {
            if stand.url.as_deref() != Some(&self.access.url) {
                let verb = if stand.url.is_some() { "set-url" } else { "add" };
                git.run_checked(dir, &["remote", verb, &self.remote, &self.access.url])?;
                let old = stand.url.as_deref().map_or_else(|| "None".into(), redact_logins);
                made.push(format!("Remote {} updated from '{old}' to '{name}'", self.remote));
            }
            if stand.absent && self.flag("fetch_remote", true) {
                let heads = format!("refs/heads/*:refs/remotes/{}/*", self.remote);
                git.run_checked(
                    dir,
                    &["fetch", "--force", &self.remote, &heads, "+refs/tags/*:refs/tags/*"],
                )?;
                made.push(format!("Remote {} was fetched, resulting in updated refs", self.remote));
            }
            if stand.dirty {
                git.run_checked(dir, &["reset", "--hard", "HEAD"])?;
                made.push("Repository was reset to HEAD before checking out revision".into());
            }
        }
        if !stand.is_at_commit() || stand.dir_state != TargetDirState::Repository {
            let mut words = vec!["checkout", "--detach"];
            if self.flag("force_checkout", false) {
                words.push("--force");
            }
            words.push(&stand.wanted_commit);
            git.run_checked(dir, &words)?;
            made.push(format!("Commit ID {} was checked out at {path}", stand.wanted_commit));
        }
        if self.flag("submodules", false) {
            git.run_checked(dir, &["submodule", "update", "--init", "--recursive"])?;
            made.push("Submodules were updated".into());
        }
        Ok(())
    }
}

impl DetachedStatus {
    fn is_at_commit(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.starts_with(&self.wanted_commit))
    }

    fn changes(&self, access: &GitAccess) -> Map {
        let mut changes = Map::new();
        if self.dir_state == TargetDirState::NotEmpty {
            changes.insert("forced clone", true);
        }
        if !self.is_at_commit() {
            changes.insert("HEAD", old_new(self.head.as_deref(), Some(&self.wanted_commit)));
        }
        if self.dirty {
            changes.insert("hard reset", true);
        }
        if self.dir_state == TargetDirState::Repository && self.url.as_deref() != Some(&access.url) {
            let old = self.url.as_deref().map(redact_logins);
            changes.insert("remote", old_new(old.as_deref(), Some(&redact_logins(&access.url))));
        }
        changes
    }
}

impl State for GitDetached {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let stand = self.status(ctx)?;
        let changes = stand.changes(&self.access);
        if changes.is_empty() {
            return Ok(CheckResult::in_sync("Already checked out at correct revision"));
        }
        let (path, name) = (self.target.path.display(), redact_logins(&self.access.url));
        let would = match stand.dir_state {
            TargetDirState::NotEmpty => format!(
                "Target directory {path} exists. Since force_clone=True, the contents of {path} would be deleted, and {name} would \
                 be cloned into this directory."
            ),
            TargetDirState::Missing | TargetDirState::Empty => {
                format!("Repository {name} would be cloned to {path}")
            }
            TargetDirState::Repository if changes.contains("HEAD") => {
                format!("Commit ID {} would be checked out at {path}", stand.wanted_commit)
            }
            TargetDirState::Repository if changes.contains("remote") => {
                format!("Remote {} would be set to {name}", self.remote)
            }
            TargetDirState::Repository => format!("Hard reset to HEAD would be performed on {path}"),
        };
        Ok(CheckResult::drifted(would, changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let stand = self.status(ctx)?;
        let changes = stand.changes(&self.access);
        if stand.dir_state == TargetDirState::NotEmpty {
            self.target.clear_dir(ctx)?;
        }
        self.target.prepare_dir(ctx)?;
        let mut made = Vec::new();
        let acted = ctx.with_undo(&GIT_REPO_UNDO, self.target.undo_key(), || {
            self.checkout_commit(&stand, ctx, &mut made)
        });
        acted.map_err(|f| failure_with_changes(&f.result.comment, &made, Map::new()))?;
        Ok(ApplyResult::new(join_sentences(&made), changes))
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::PACKAGE_FILES | Effects::PACKAGES | Effects::USERS
    }

    fn writes(&self) -> Effects {
        // A checkout may change any file below its target.
        Effects::FILES | Effects::PACKAGE_FILES
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.target.path.clone())]
    }
}
