//! `git.present` and `git.cloned`: a repository is there, wherever its head stands.

use std::collections::BTreeMap;

use zagent_compiler::Compat;
use zagent_config::Map;

use super::target::{GIT_REPO_UNDO, GitTarget, TargetDirState};
use super::{GitAccess, old_new};
use crate::{ApplyResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError};
use zagent_config::mask::redact_logins;
use zagent_host::git::GitCli;

pub(crate) struct GitPresent {
    target: GitTarget,
    force: bool,
    template: Option<String>,
    separate: Option<String>,
    shared: Option<String>,
}

impl GitPresent {
    pub(crate) fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        Ok(Self {
            target: GitTarget::from_args(args, "name", args.flag("bare", true))?,
            force: args.flag("force", false),
            template: args.text("template")?,
            separate: args.text("separate_git_dir")?,
            shared: args.text("shared")?,
        })
    }

    fn kind(&self) -> &'static str {
        if self.target.bare { "bare " } else { "" }
    }
}

impl State for GitPresent {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let name = self.target.path.display().to_string();
        let mut changes = Map::from_iter([("new", name.as_str())]);
        Ok(match self.target.dir_state(ctx)? {
            TargetDirState::Repository if ctx.compat == Compat::Salt => CheckResult::in_sync(""),
            TargetDirState::Repository => CheckResult::in_sync(format!("Repository {name} is there")),
            TargetDirState::NotEmpty if self.force => {
                changes.insert("forced init", true);
                let would = format!(
                    "Target directory {name} exists. Since force=True, the contents of {name} would be deleted, and a \
                     {}repository would be initialized in its place.",
                    self.kind()
                );
                CheckResult::drifted(would, changes)
            }
            TargetDirState::NotEmpty => {
                return Err(StateError::new(format!(
                    "Target '{name}' exists, is non-empty, and is not a git repository. Set the 'force' option to True to remove \
                     this directory's contents and proceed with initializing a repository"
                )));
            }
            TargetDirState::Missing | TargetDirState::Empty => {
                CheckResult::drifted(format!("New {}repository would be created", self.kind()), changes)
            }
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let name = self.target.path.display().to_string();
        let mut changes = Map::from_iter([("new", name.as_str())]);
        if self.target.dir_state(ctx)? == TargetDirState::NotEmpty {
            self.target.clear_dir(ctx)?;
            changes.insert("forced init", true);
        }
        self.target.prepare_dir(ctx)?;
        let mut words: Vec<String> = vec!["init".into()];
        words.extend(self.target.bare.then(|| "--bare".into()));
        words.extend(self.template.iter().map(|t| format!("--template={t}")));
        words.extend(self.separate.iter().map(|t| format!("--separate-git-dir={t}")));
        words.extend(self.shared.iter().map(|t| format!("--shared={}", shared_mode(t))));
        words.push(name.clone());
        let git = GitCli::new(ctx.tools(), self.target.user.as_deref())?;
        ctx.with_undo(&GIT_REPO_UNDO, self.target.undo_key(), || Ok(git.run_checked(None, &words)?))?;
        let mut comment = format!("Initialized {}repository in {name}", self.kind());
        let more = [("Template directory set to", &self.template), ("Gitdir set to", &self.separate)];
        for (what, value) in more.into_iter().filter_map(|(what, value)| Some((what, value.as_ref()?))) {
            comment += &format!(". {what} {value}.");
        }
        Ok(ApplyResult::new(comment, changes))
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

/// Who else may write, as git reads it; a mode has four digits.
fn shared_mode(text: &str) -> String {
    match text {
        "True" => "true".into(),
        "False" => "false".into(),
        mode if mode.bytes().all(|b| b.is_ascii_digit()) => format!("{mode:0>4}"),
        word => word.to_owned(),
    }
}

pub(crate) struct GitCloned {
    access: GitAccess,
    target: GitTarget,
    branch: Option<String>,
}

impl GitCloned {
    pub(crate) fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let branch = args.text("branch")?;
        if branch.as_deref() == Some("") {
            return Err(StateError::new("Invalid 'branch' argument"));
        }
        Ok(Self {
            access: GitAccess::from_args(args)?,
            target: GitTarget::from_args(args, "target", false)?,
            branch,
        })
    }

    /// Refuses a remote repository that cannot be reached, and a branch that it has not; Salt finds out by the clone.
    fn verify_remote(
        &self,
        ctx: &StateCtx<'_>,
        has_branch: impl FnOnce(&GitCli<'_>) -> Result<bool, StateError>,
    ) -> Result<(), StateError> {
        if ctx.compat == Compat::Salt {
            return Ok(());
        }
        let git = self.access.git(ctx)?;
        if has_branch(&git)? {
            return Ok(());
        }
        let refs = git.remote_refs(None, &self.access.url, &[]);
        let refs =
            refs.map_err(|e| StateError::new(format!("Failed to check remote refs: {}", e.message())))?;
        match &self.branch {
            Some(branch) if !has_ref(&refs, branch) => {
                Err(StateError::new(format!("No branch or tag '{branch}' exists in the remote repository")))
            }
            _ => Ok(()),
        }
    }

    /// What differs: the words of a dry run, the changes, and the branch that is checked out.
    fn find_drift(&self, ctx: &StateCtx<'_>) -> Result<Option<(String, Map)>, StateError> {
        let (name, path) = (redact_logins(&self.access.url), self.target.path.display());
        let place = self.target.dir_state(ctx)?;
        let with = self.branch.as_ref().map_or_else(String::new, |b| format!(" with branch '{b}'"));
        match place {
            TargetDirState::NotEmpty => Err(StateError::new(format!(
                "Target '{path}' exists, is non-empty and is not a git repository"
            ))),
            TargetDirState::Missing | TargetDirState::Empty => {
                self.verify_remote(ctx, |_| Ok(false))?;
                let changes = Map::from_iter([("new", format!("{name} => {path}"))]);
                Ok(Some((format!("{name} would be cloned to {path}{with}"), changes)))
            }
            TargetDirState::Repository => {
                let Some(branch) = &self.branch else { return Ok(None) };
                let now = self.access.git(ctx)?.head_branch(&self.target.path)?;
                if now.as_ref() == Some(branch) {
                    return Ok(None);
                }
                self.verify_remote(ctx, |git| {
                    let dir = &self.target.path;
                    let has = |name: &str| git.output_line(dir, &["rev-parse", "--verify", "--quiet", name]);
                    Ok(has(branch)?.is_some() || has(&format!("origin/{branch}"))?.is_some())
                })?;
                let changes = Map::from_iter([("branch", old_new(now.as_deref(), Some(branch)))]);
                Ok(Some((format!("Branch would be changed to '{branch}'"), changes)))
            }
        }
    }
}

/// True when a repository has a branch or tag of this name.
fn has_ref(refs: &BTreeMap<String, String>, name: &str) -> bool {
    ["heads", "tags"].iter().any(|kind| refs.contains_key(&format!("refs/{kind}/{name}")))
}

impl State for GitCloned {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        Ok(match self.find_drift(ctx)? {
            Some((would, changes)) => CheckResult::drifted(would, changes),
            None => {
                let on = |b: &String| format!(" and is checked out to branch '{b}'");
                let on = self.branch.as_ref().map_or_else(String::new, on);
                CheckResult::in_sync(format!(
                    "Repository already exists at {}{on}",
                    self.target.path.display()
                ))
            }
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let Some((would, changes)) = self.find_drift(ctx)? else { return Ok(ApplyResult::default()) };
        let git = self.access.git(ctx)?;
        let path = self.target.path.display().to_string();
        self.target.prepare_dir(ctx)?;
        ctx.with_undo(&GIT_REPO_UNDO, self.target.undo_key(), || {
            if changes.contains("new") {
                let mut words = vec!["clone"];
                if let Some(branch) = &self.branch {
                    words.extend(["--branch", branch]);
                }
                words.extend(["--", &self.access.url, &path]);
                let cloned = git.run_checked(None, &words);
                return cloned
                    .map(|_| ())
                    .map_err(|e| StateError::new(format!("Clone failed: {}", e.message())));
            }
            let branch = self.branch.as_deref().unwrap_or_default();
            let remote = format!("origin/{branch}");
            let dir = &self.target.path;
            let there = git.output_line(dir, &["rev-parse", "--verify", "--quiet", branch])?.is_some();
            if !there && git.output_line(dir, &["rev-parse", "--verify", "--quiet", &remote])?.is_none() {
                git.run_checked(Some(dir), &["fetch", "origin"])?;
            }
            let words =
                if there { vec!["checkout", branch] } else { vec!["checkout", "-b", branch, &remote] };
            let switched = git.run_checked(Some(dir), &words);
            switched.map_err(|e| {
                StateError::new(format!("Failed to change branch to '{branch}': {}", e.message()))
            })?;
            Ok(())
        })?;
        Ok(ApplyResult::new(
            would.replace("would be cloned", "cloned").replace("would be changed", "changed"),
            changes,
        ))
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
