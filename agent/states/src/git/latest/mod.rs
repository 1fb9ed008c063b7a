//! `git.latest`: a repository cloned, and at the newest commit of a branch, tag or the remote head.

mod update;

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::remote_rev::{RemoteRev, RevKind, resolve_rev};
use super::target::{GIT_REPO_UNDO, GitTarget, TargetDirState};
use super::{GitAccess, GitStep, failure_with_changes, join_sentences, old_new};
use crate::{ApplyResult, CheckResult, ChunkArgs, Effects, State, StateCtx, StateError, Verdict};
use zagent_config::mask::redact_logins;
use zagent_host::git::GitCli;

/// Which changes of the local repository may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForceReset {
    No,
    /// Those in the way of what is new.
    Remote,
    Yes,
}

pub(crate) struct GitLatest {
    access: GitAccess,
    pub target: GitTarget,
    pub rev: String,
    pub branch: Option<String>,
    pub remote: String,
    pub reset: ForceReset,
    mirror: bool,
    depth: Option<i64>,
    args: Map,
}

/// What this run already did to the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GitProgress {
    None,
    /// It was fetched into.
    Fetched,
    /// It is a fresh clone: there is nothing that could be lost.
    Cloned,
}

/// What there is to do.
#[derive(Default)]
struct GitPlan {
    steps: Vec<GitStep>,
    changes: Map,
    /// What is said when there is nothing to do.
    in_sync_comment: String,
    /// More can be told only once these steps are done.
    plan_again: bool,
}

impl GitLatest {
    pub(crate) fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let mirror = args.flag("mirror", false);
        let bare = mirror || args.flag("bare", false);
        let rev = args.text("rev")?.unwrap_or_else(|| "HEAD".into());
        if rev.is_empty() {
            return Err(StateError::new("'' is not a valid value for the 'rev' argument"));
        }
        if rev != "HEAD" && bare {
            return Err(StateError::new("'rev' is not compatible with the 'mirror' and 'bare' arguments"));
        }
        let reset = match args.get("force_reset") {
            None | Some(Value::Bool(false)) => ForceReset::No,
            Some(Value::Bool(true)) => ForceReset::Yes,
            Some(Value::Str(s)) if &**s == "remote-changes" => ForceReset::Remote,
            Some(_) => {
                return Err(StateError::new("'force_reset' must be one of True, False, or 'remote-changes'"));
            }
        };
        Ok(Self {
            access: GitAccess::from_args(args)?,
            target: GitTarget::from_args(args, "target", bare)?,
            branch: args.text("branch")?,
            remote: args.text("remote")?.unwrap_or_else(|| "origin".into()),
            depth: args.int("depth")?,
            args: args.chunk.args.clone(),
            rev,
            reset,
            mirror,
        })
    }

    pub(crate) fn flag(&self, key: &str, default: bool) -> bool {
        self.args.get(key).filter(|v| !v.is_null()).map_or(default, Value::is_truthy)
    }

    fn text_arg(&self, key: &str) -> &str {
        self.args.get(key).and_then(Value::as_str).unwrap_or("*")
    }

    /// What the remote repository has.
    fn remote_rev(&self, git: &GitCli<'_>) -> Result<RemoteRev, StateError> {
        let refs = git.remote_refs(None, &self.access.url, &[]);
        let refs =
            refs.map_err(|e| StateError::new(format!("Failed to check remote refs: {}", e.message())))?;
        let wanted = resolve_rev(&refs, &self.rev, &self.remote);
        if self.depth.is_some() && !matches!(wanted.kind, RevKind::Branch | RevKind::Tag) {
            return Err(StateError::new(
                "When 'depth' is used, 'rev' must be set to the name of a branch or tag on the remote repository",
            ));
        }
        if wanted.commit.is_none() && self.rev != "HEAD" && !self.target.bare {
            let words = format!("No revision matching '{}' exists in the remote repository", self.rev);
            return Err(StateError::new(words));
        }
        Ok(wanted)
    }

    /// What there is to do after what was done; without `may_fetch` a revision that is still not there is a failure.
    fn plan(
        &self,
        ctx: &StateCtx<'_>,
        progress: GitProgress,
        may_fetch: bool,
    ) -> Result<GitPlan, StateError> {
        let git = self.access.git(ctx)?;
        let place = self.target.dir_state(ctx)?;
        let wanted = self.remote_rev(&git)?;
        match place {
            TargetDirState::Repository if self.target.bare => self.plan_bare_update(&git, &wanted),
            TargetDirState::Repository => self.plan_update(&git, &wanted, progress, may_fetch),
            place => self.plan_clone(place, &wanted),
        }
    }

    fn plan_clone(&self, place: TargetDirState, wanted: &RemoteRev) -> Result<GitPlan, StateError> {
        let (name, path) = (redact_logins(&self.access.url), self.target.path.display().to_string());
        let mut plan = GitPlan::default();
        let mut would = format!("Repository {name} would be cloned to {path}");
        if place == TargetDirState::NotEmpty {
            if !self.flag("force_clone", false) {
                return Err(StateError::new(format!(
                    "Target '{path}' exists, is non-empty and is not a git repository. Set the 'force_clone' option to True to \
                     remove this directory's contents and proceed with cloning the remote repository"
                )));
            }
            would = format!(
                "Target directory {path} exists. Since force_clone=True, the contents of {path} would be deleted, and {name} \
                 would be cloned into this directory."
            );
            plan.changes.insert("forced clone", true);
        }
        let mut args: Vec<String> = vec!["clone".into()];
        args.extend(if self.mirror {
            Some("--mirror".into())
        } else {
            self.target.bare.then(|| "--bare".into())
        });
        if self.remote != "origin" {
            args.extend(["--origin".into(), self.remote.clone()]);
        }
        if let Some(depth) = self.depth {
            args.extend(["--depth".into(), depth.to_string(), "--branch".into(), self.rev.clone()]);
        }
        args.extend(["--".into(), self.access.url.clone(), path.clone()]);
        let kind = if self.mirror {
            " as mirror"
        } else if self.target.bare {
            " as bare repository"
        } else {
            ""
        };
        plan.steps.push(GitStep {
            args,
            preview_comment: would,
            done_comment: format!("{name} cloned to {path}{kind}"),
        });
        plan.changes.insert("new", format!("{name} => {path}"));
        if let Some(commit) = &wanted.commit {
            plan.changes.insert("revision", old_new(None, Some(commit)));
        }
        plan.plan_again = !self.target.bare;
        Ok(plan)
    }

    /// What a bare repository lacks.
    fn plan_bare_update(&self, git: &GitCli<'_>, wanted: &RemoteRev) -> Result<GitPlan, StateError> {
        let dir = &self.target.path;
        let own = git.run_checked(Some(dir), &["for-each-ref", "--format=%(objectname)\t%(refname)"])?;
        let own = zagent_host::git::parse_refs(&own);
        let followed = |head: &str| {
            let name = head.strip_prefix("refs/heads/").unwrap_or(head);
            let tracked = own.get(&format!("refs/remotes/{}/{name}", self.remote));
            if self.mirror { own.get(head) } else { tracked.or_else(|| own.get(head)) }
        };
        let stale: Vec<&String> = wanted
            .heads
            .iter()
            .filter(|(head, commit)| followed(head) != Some(*commit))
            .map(|(head, _)| head)
            .collect();
        let path = dir.display();
        let mut plan =
            GitPlan { in_sync_comment: format!("Repository {path} is up-to-date"), ..GitPlan::default() };
        if stale.is_empty() {
            return Ok(plan);
        }
        let mut args = self.fetch_args();
        if self.mirror {
            args = vec!["fetch".into(), "--prune".into(), self.remote.clone()];
        }
        plan.changes.insert("refs", stale.iter().map(|r| Value::from(r.as_str())).collect::<Value>());
        plan.steps.push(GitStep {
            args,
            preview_comment: format!("Bare repository at {path} would be fetched"),
            done_comment: format!("Bare repository at {path} was fetched, resulting in updated refs"),
        });
        Ok(plan)
    }

    /// Puts right what the changes say of the revision when what should follow a clone or a fetch fails.
    fn note_real_head(&self, git: &GitCli<'_>, progress: GitProgress, changes: &mut Map) {
        // Where it was only fetched into, the head is where it was.
        let had = changes.remove("revision").filter(|_| progress == GitProgress::Cloned);
        let head = git.run_checked(Some(&self.target.path), &["rev-parse", "--verify", "--quiet", "HEAD"]);
        if let (Some(_), Ok(head)) = (had, head) {
            changes.insert("revision", old_new(None, Some(head.trim())));
        }
    }

    fn up_to_date(&self) -> String {
        format!("Repository {} is up-to-date", self.target.path.display())
    }

    fn fetch_args(&self) -> Vec<String> {
        let mut args: Vec<String> = vec!["fetch".into()];
        if self.flag("force_fetch", false) {
            args.push("--force".into());
        }
        if let Some(depth) = self.depth {
            args.extend(["--depth".into(), depth.to_string()]);
        }
        args.push(self.remote.clone());
        if self.flag("fetch_tags", true) {
            let (branch, tag) = (self.text_arg("refspec_branch"), self.text_arg("refspec_tag"));
            args.push(format!("refs/heads/{branch}:refs/remotes/{}/{branch}", self.remote));
            args.push(format!("+refs/tags/{tag}:refs/tags/{tag}"));
        }
        args
    }
}

impl State for GitLatest {
    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let mut checked = self.check(ctx)?;
        if ctx.compat == Compat::Strict || checked.verdict == Verdict::InSync {
            return Ok(checked);
        }
        hide_from_salt(&mut checked.changes);
        if self.target.dir_state(ctx)? != TargetDirState::Repository {
            checked.changes.remove("revision");
        }
        if checked.changes.is_empty() {
            let words = format!("{}\n\nChanges that would be made: {}", self.up_to_date(), checked.comment);
            return Ok(CheckResult::in_sync(words));
        }
        Ok(checked)
    }

    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let plan = self.plan(ctx, GitProgress::None, true)?;
        if plan.changes.is_empty() {
            return Ok(CheckResult::in_sync(plan.in_sync_comment));
        }
        let would: Vec<String> = plan.steps.into_iter().map(|s| s.preview_comment).collect();
        Ok(CheckResult::drifted(join_sentences(&would), plan.changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let git = self.access.git(ctx)?;
        let mut made: Vec<String> = Vec::new();
        let mut changes = Map::new();
        let forced =
            self.target.dir_state(ctx)? == TargetDirState::NotEmpty && self.flag("force_clone", false);
        if forced {
            self.target.clear_dir(ctx)?;
            changes.insert("forced clone", true);
        }
        self.target.prepare_dir(ctx)?;
        let mut cloned = false;
        ctx.with_undo(&GIT_REPO_UNDO, self.target.undo_key(), || {
            // A clone or a fetch shows the rest of the way; then what is left is done.
            let mut progress = GitProgress::None;
            // Somebody may push between a fetch and the look after it: a second fetch brings that, too.
            for may_fetch in [true, true, false] {
                let plan = self.plan(ctx, progress, may_fetch).map_err(|f| {
                    self.note_real_head(&git, progress, &mut changes);
                    failure_with_changes(&f.result.comment, &made, changes.clone())
                })?;
                for step in plan.steps.iter().filter(|s| !s.args.is_empty()) {
                    let dir = (step.args[0] != "clone").then_some(self.target.path.as_path());
                    if let Err(refusal) = git.run_checked(dir, &step.args) {
                        let what = match step.args[0].as_str() {
                            "clone" => "Clone failed: ",
                            "fetch" => "Fetch failed: ",
                            _ => "",
                        };
                        return Err(failure_with_changes(
                            &format!("{what}{}", refusal.message()),
                            &made,
                            changes.clone(),
                        ));
                    }
                    if made.last() != Some(&step.done_comment) {
                        made.push(step.done_comment.clone());
                    }
                }
                let clones = plan.steps.first().is_some_and(|s| s.args.first().is_some_and(|a| a == "clone"));
                if progress != GitProgress::Cloned {
                    progress = if clones { GitProgress::Cloned } else { GitProgress::Fetched };
                    cloned |= clones;
                    merge_changes(&mut changes, plan.changes);
                }
                if !plan.plan_again {
                    break;
                }
            }
            Ok(())
        })?;
        let mut comment = join_sentences(&made);
        if ctx.compat == Compat::Salt {
            hide_from_salt(&mut changes);
            if !self.target.bare && !cloned && !changes.contains("revision") {
                comment = format!("{}\n\nChanges made: {comment}", self.up_to_date());
            }
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

    fn lock_keys(&self) -> Vec<crate::LockKey> {
        vec![crate::LockKey::Path(self.target.path.clone())]
    }
}

/// Salt tells of branches and of the remote's address in words alone.
fn hide_from_salt(changes: &mut Map) {
    changes.remove("branch");
    changes.remove("remote");
    changes.remove("upstream");
}

/// Adds what a later plan changes; how it was at first stays.
fn merge_changes(all: &mut Map, more: Map) {
    for (key, value) in more.iter() {
        match all.get(&key.json_key()).and_then(|v| v.get("old")).cloned() {
            Some(old) => {
                let new = value.get("new").cloned().unwrap_or(Value::Null);
                all.insert(key.clone(), Value::from(Map::from_iter([("old", old), ("new", new)])));
            }
            None => {
                all.insert(key.clone(), value.clone());
            }
        }
    }
}
