//! A repository with a working copy and a revision of the remote in, the steps that bring it there out.

use zagent_config::mask::redact_logins;
use zagent_config::{Map, Value};
use zagent_host::git::GitCli;

use super::{ForceReset, GitLatest, GitPlan, GitProgress};
use crate::StateError;
use crate::git::local_repo::LocalRepo;
use crate::git::remote_rev::{RemoteRev, RevKind, is_at_rev};
use crate::git::{GitStep, failure_with_changes, old_new, short_rev};

impl GitLatest {
    /// What brings a repository with a working copy up to date.
    pub(super) fn plan_update(
        &self,
        git: &GitCli<'_>,
        wanted: &RemoteRev,
        progress: GitProgress,
        may_fetch: bool,
    ) -> Result<GitPlan, StateError> {
        let mut local = LocalRepo::inspect(self, git, wanted)?;
        local.fresh = progress == GitProgress::Cloned;
        // What a fetch has shown is looked at again: changes that may go do not make it less of a fast-forward.
        let discards = local.dirty && self.reset == ForceReset::Yes && progress == GitProgress::None;
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
        if !local.has_commit && !may_fetch {
            let url = redact_logins(&self.access.url);
            let words = format!("Fetch did not successfully retrieve rev '{}' from {url}", self.rev);
            return Err(StateError::new(words));
        }
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
        self.plan_checkout(&local, wanted, discards, &mut plan)?;
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
        discards: bool,
        plan: &mut GitPlan,
    ) -> Result<(), StateError> {
        let commit = wanted.commit.as_deref().unwrap_or_default();
        let forward = match local.has_commit {
            true => Some(!discards && (local.is_ahead || local.fresh)),
            false => None,
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
            Some(true) if !moves => discard_changes(local, plan),
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
                discard_changes(local, plan);
                let did = if local.fresh {
                    format!("Repository was reset to {}", wanted.shown)
                } else if matches!(wanted.kind, RevKind::Head | RevKind::Branch) {
                    format!("Repository was fast-forwarded to {}", wanted.shown)
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
        let did = format!("Repository was hard-reset to {}", wanted.shown);
        let mut would = would;
        if local.dirty && would.is_empty() {
            would = format!(
                "{} is up-to-date, but with uncommitted changes. Since 'force_reset' is set to True, these local \
                 changes would be reset. To only reset when there are changes in the remote repository, set \
                 'force_reset' to 'remote-changes'.",
                self.target.path.display()
            );
        }
        discard_changes(local, plan);
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

/// What was not committed goes, and is told apart from what comes.
fn discard_changes(local: &LocalRepo, plan: &mut GitPlan) {
    if local.dirty {
        plan.steps.push(GitStep::new(&["reset", "--hard"], "", "Uncommitted changes were discarded"));
    }
}
