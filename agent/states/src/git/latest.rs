//! `git.latest`: a repository cloned, and at the newest commit of a branch, tag or the remote head.

use zagent_config::{Map, Value};

use super::local_repo::LocalRepo;
use super::remote_rev::{RemoteRev, RevKind, is_at_rev, resolve_rev};
use super::target::{GIT_REPO_UNDO, GitTarget, TargetDirState};
use super::{GitAccess, GitStep, failure_with_changes, join_sentences, old_new, short_rev};
use crate::{ApplyResult, CheckResult, ChunkArgs, Effects, State, StateCtx, StateError};
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

    /// What there is to do; in a fresh clone there is nothing that could be lost.
    fn plan(&self, ctx: &StateCtx<'_>, fresh: bool) -> Result<GitPlan, StateError> {
        let git = self.access.git(ctx)?;
        let place = self.target.dir_state(ctx)?;
        let wanted = self.remote_rev(&git)?;
        match place {
            TargetDirState::Repository if self.target.bare => self.plan_bare_update(&git, &wanted),
            TargetDirState::Repository => self.plan_update(&git, &wanted, fresh),
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

    /// What brings a repository with a working copy up to date.
    fn plan_update(&self, git: &GitCli<'_>, wanted: &RemoteRev, fresh: bool) -> Result<GitPlan, StateError> {
        let mut local = LocalRepo::inspect(self, git, wanted)?;
        local.fresh = fresh;
        let path = self.target.path.display();
        let mut plan =
            GitPlan { in_sync_comment: format!("Repository {path} is up-to-date"), ..GitPlan::default() };
        let Some(commit) = wanted.commit.as_deref() else {
            if local.revision.is_none() {
                return Ok(plan);
            }
            return Err(StateError::new(
                "Remote repository is empty, cannot update from a non-empty to an empty repository",
            ));
        };
        let matches = is_at_rev(local.revision.as_deref(), wanted);
        if local.dirty && matches && self.reset != ForceReset::Yes {
            plan.in_sync_comment +=
                ", but with uncommitted changes. Set 'force_reset' to True to purge uncommitted changes.";
            return Ok(plan);
        }
        self.plan_remote_url(&local, &mut plan);
        self.plan_tags(&local, wanted, &mut plan);
        let switches = local.switches.is_some();
        if !local.has_commit || plan.changes.contains("new_tags") {
            plan.steps.push(GitStep {
                args: self.fetch_args(),
                preview_comment: format!("Remote '{}' would be fetched", self.remote),
                done_comment: format!(
                    "{} was fetched, resulting in updated refs",
                    redact_logins(&self.access.url)
                ),
            });
            plan.plan_again = !local.has_commit;
        }
        if !matches && !self.flag("update_head", true) && !switches {
            let head = local.revision.as_deref().map_or("none", short_rev);
            plan.in_sync_comment = format!(
                "{} is already present and local HEAD ({head}) does not match, but update_head=False. HEAD has not been updated \
                 locally.",
                wanted.shown
            );
            plan.plan_again = false;
            return Ok(plan);
        }
        if !matches {
            plan.changes.insert("revision", old_new(local.revision.as_deref(), Some(commit)));
        }
        self.plan_checkout(&local, wanted, commit, &mut plan)?;
        Ok(plan)
    }

    /// The remote's address.
    fn plan_remote_url(&self, local: &LocalRepo, plan: &mut GitPlan) {
        if local.url.as_deref() == Some(&self.access.url) {
            return;
        }
        let (remote, new) = (&self.remote, redact_logins(&self.access.url));
        let step = match &local.url {
            Some(old) => {
                plan.changes.insert("remote", old_new(Some(&redact_logins(old)), Some(&new)));
                let how = format!("from {} to {new}", redact_logins(old));
                GitStep::new(
                    &["remote", "set-url", remote, &self.access.url],
                    format!("Remote '{remote}' would be changed {how}"),
                    format!("Remote '{remote}' changed {how}"),
                )
            }
            None => {
                plan.changes.insert("new", format!("{new} => {remote}"));
                let words = ["remote", "add", remote, &self.access.url];
                GitStep::new(
                    &words,
                    format!("Remote '{remote}' would be set to {new}"),
                    format!("Remote '{remote}' set to {new}"),
                )
            }
        };
        plan.steps.push(step);
    }

    fn plan_tags(&self, local: &LocalRepo, wanted: &RemoteRev, plan: &mut GitPlan) {
        // A shallow clone and a chosen tag know only some of them.
        if !self.flag("fetch_tags", true) || self.depth.is_some() || self.text_arg("refspec_tag") != "*" {
            return;
        }
        let list = |tags: &[&String]| tags.iter().map(|t| Value::from(t.as_str())).collect::<Value>();
        let gone: Vec<&String> = local.tags.difference(&wanted.tags).collect();
        if self.flag("sync_tags", true) && !gone.is_empty() {
            let names = gone.iter().map(|t| t.as_str()).collect::<Vec<_>>();
            let words: Vec<&str> = ["tag", "-d"].into_iter().chain(names.iter().copied()).collect();
            let say = |how: &str| {
                format!("The following tags {how} removed from the local checkout: {}", names.join(", "))
            };
            plan.steps.push(GitStep::new(&words, say("would be"), say("were")));
            plan.changes.insert("deleted_tags", list(&gone));
        }
        let new: Vec<&String> = wanted.tags.difference(&local.tags).collect();
        if !new.is_empty() {
            plan.changes.insert("new_tags", list(&new));
        }
    }

    /// The branch and the commit at the head.
    fn plan_checkout(
        &self,
        local: &LocalRepo,
        wanted: &RemoteRev,
        commit: &str,
        plan: &mut GitPlan,
    ) -> Result<(), StateError> {
        let forward = match (local.dirty && self.reset != ForceReset::Remote, local.has_commit) {
            (true, _) => Some(false),
            (false, true) => Some(local.is_ahead || local.fresh),
            (false, false) => None,
        };
        if (forward == Some(false) || local.dirty) && self.reset == ForceReset::No {
            return Err(self.refusal(local, wanted, commit));
        }
        let merge = match forward {
            Some(true) => "fast-forwarded",
            Some(false) => "hard-reset",
            None => "updated",
        };
        if let Some(branch) = &local.switches {
            self.plan_branch_switch(branch, local, wanted, merge, plan)?;
        }
        let moves = !is_at_rev(local.base.as_deref(), wanted);
        let from = local.revision.as_deref().map_or("none", short_rev);
        let would = if moves && local.switches.is_none() {
            format!("Repository would be {merge} from {from} to {}", short_rev(commit))
        } else {
            String::new()
        };
        match forward {
            // What comes after the fetch is told by the next plan.
            None => plan.steps.push(GitStep::new(&[], would, "")),
            Some(true) if !moves && !local.dirty => {}
            Some(true)
                if local.branch.is_none()
                    && local.switches.is_none()
                    && wanted.kind != RevKind::Tag
                    && wanted.kind != RevKind::Hash =>
            {
                return Err(failure_with_changes(
                    "Unable to fast-forward, HEAD is detached",
                    &[],
                    Map::new(),
                ));
            }
            Some(true) => {
                let did = if matches!(wanted.kind, RevKind::Head | RevKind::Branch) {
                    format!("Repository was fast-forwarded to {}", wanted.shown)
                } else if local.fresh {
                    format!("Repository was reset to {}", wanted.shown)
                } else {
                    format!("Repository was reset to {} (fast-forward)", self.rev)
                };
                // A merge never writes over a file that git does not know.
                let words =
                    if local.fresh || local.dirty { ["reset", "--hard"] } else { ["merge", "--ff-only"] };
                plan.steps.push(GitStep::new(&[words[0], words[1], commit], would, did));
            }
            Some(false) => self.plan_reset(local, wanted, would, commit, plan),
        }
        self.plan_upstream(local, wanted, plan);
        self.plan_submodules(local, plan);
        Ok(())
    }

    /// What was not committed, or is not in the remote repository, goes.
    fn plan_reset(
        &self,
        local: &LocalRepo,
        wanted: &RemoteRev,
        would: String,
        commit: &str,
        plan: &mut GitPlan,
    ) {
        let mut did = format!("Repository was hard-reset to {}", wanted.shown);
        let mut would = would;
        if local.dirty {
            did = format!("Uncommitted changes were discarded. {did}");
            if would.is_empty() {
                would = format!(
                    "{} is up-to-date, but with uncommitted changes. Since 'force_reset' is set to True, these local \
                     changes would be reset. To only reset when there are changes in the remote repository, set \
                     'force_reset' to 'remote-changes'.",
                    self.target.path.display()
                );
            }
        }
        plan.changes.insert("forced update", true);
        plan.steps.push(GitStep::new(&["reset", "--hard", commit], would, did));
    }

    fn plan_submodules(&self, local: &LocalRepo, plan: &mut GitPlan) {
        if self.flag("submodules", false) && (plan.changes.contains("revision") || local.modules) {
            if !plan.changes.contains("revision") {
                plan.changes.insert("submodules", true);
            }
            let words = ["submodule", "update", "--init", "--recursive"];
            plan.steps.push(GitStep::new(&words, "Submodules would be updated", "Submodules were updated"));
        }
    }

    fn plan_branch_switch(
        &self,
        branch: &str,
        local: &LocalRepo,
        wanted: &RemoteRev,
        merge: &str,
        plan: &mut GitPlan,
    ) -> Result<(), StateError> {
        let force = self.flag("force_checkout", false);
        if local.dirty && !force {
            return Err(StateError::new(format!(
                "Local branch '{}' has uncommitted changes. Set 'force_checkout' to True to discard them and proceed.",
                local.branch.as_deref().unwrap_or("HEAD")
            )));
        }
        let mut words = vec!["checkout"];
        if force {
            words.push("--force");
        }
        let commit = wanted.commit.clone().unwrap_or_default();
        if local.has_branch {
            words.push(branch);
            let would =
                format!("Branch '{branch}' would be checked out and {merge} to {}", short_rev(&commit));
            plan.steps.push(GitStep::new(&words, would, format!("'{branch}' was checked out")));
        } else {
            let start = wanted.upstream.as_ref().unwrap_or(&commit);
            words.extend(["-b", branch, start]);
            let how = format!("checked out, with {} as a starting point", wanted.shown);
            let would = format!("New branch '{branch}' would be {how}");
            plan.steps.push(GitStep::new(&words, would, format!("New branch '{branch}' was {how}")));
        }
        plan.changes.insert("branch", old_new(local.branch.as_deref(), Some(branch)));
        Ok(())
    }

    /// Which branch of the remote the local one follows; a tag and a commit leave nothing to follow, the head leaves it open.
    fn plan_upstream(&self, local: &LocalRepo, wanted: &RemoteRev, plan: &mut GitPlan) {
        let on_branch = local.branch.is_some() || local.switches.is_some();
        let step = match (&local.upstream, &wanted.upstream) {
            (Some(have), Some(want)) if have != want => GitStep::new(
                &["branch", "--set-upstream-to", want],
                format!("Tracking branch would be updated to {want}"),
                format!("Tracking branch was updated to {want}"),
            ),
            (None, Some(want)) if on_branch => GitStep::new(
                &["branch", "--set-upstream-to", want],
                format!("Tracking branch would be set to {want}"),
                format!("Tracking branch was set to {want}"),
            ),
            (Some(_), None) if wanted.kind != RevKind::Head => GitStep::new(
                &["branch", "--unset-upstream"],
                "Tracking branch would be unset",
                "Tracking branch was unset",
            ),
            _ => return,
        };
        plan.changes.insert("upstream", old_new(local.upstream.as_deref(), wanted.upstream.as_deref()));
        plan.steps.push(step);
    }

    fn refusal(&self, local: &LocalRepo, wanted: &RemoteRev, commit: &str) -> StateError {
        let (dirty, rev) = (local.dirty, &self.rev);
        let here = local.branch.as_deref().unwrap_or("None");
        let mut hint = String::new();
        if self.branch.is_none() && rev != "HEAD" && here != rev {
            hint = format!(
                " The desired rev ({rev}) differs from the name of the local branch ({here}), if the desired rev is a branch name \
                 then a forced update could possibly be avoided by setting the 'branch' argument to '{rev}' instead."
            );
        } else if let (None, "HEAD", Some(default)) = (&self.branch, rev.as_str(), &wanted.default_branch)
            && here != default
        {
            hint = format!(
                " The default remote branch ({default}) differs from the local branch ({here}); setting the 'branch' argument to \
                 '{default}' may avoid a forced update."
            );
        }
        let base = local.base.as_deref().unwrap_or_default();
        let range = if dirty && base != commit {
            format!("from {} to {}", short_rev(base), short_rev(commit))
        } else {
            format!("to {}", short_rev(commit))
        };
        let after = local
            .switches
            .as_ref()
            .map_or_else(String::new, |b| format!(" (after checking out local branch '{b}')"));
        StateError::new(format!(
            "Repository would be updated {range}{after}, but {}. Set 'force_reset' to True{} to force this update{}.{hint}",
            if dirty { "there are uncommitted changes" } else { "this is not a fast-forward merge" },
            if dirty { " (or 'remote-changes')" } else { "" },
            if dirty { " and discard these changes" } else { "" },
        ))
    }
}

impl State for GitLatest {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let plan = self.plan(ctx, false)?;
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
        ctx.with_undo(&GIT_REPO_UNDO, self.target.undo_key(), || {
            // A clone or a fetch shows the rest of the way; then what is left is done.
            let mut fresh = false;
            for _ in 0..3 {
                let plan = self
                    .plan(ctx, fresh)
                    .map_err(|f| failure_with_changes(&f.result.comment, &made, changes.clone()))?;
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
                    made.push(step.done_comment.clone());
                }
                if !fresh {
                    merge_changes(&mut changes, plan.changes);
                }
                fresh |= plan.steps.first().is_some_and(|s| s.args.first().is_some_and(|a| a == "clone"));
                if !plan.plan_again {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(ApplyResult::new(join_sentences(&made), changes))
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
