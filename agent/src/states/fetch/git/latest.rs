//! `git.latest`: a repository cloned, and at the newest commit of a branch, tag or the remote head.

use zagent_config::{Map, Value};

use super::super::super::{Args, Done, Failure, Look, Scene, State, Veil};
use super::local::Local;
use super::target::{Place, REPOSITORY, Target};
use super::wanted::{Sort, Wanted, equal, pick};
use super::{Access, Step, failed, moved, sentences, short};
use crate::host::git::{Git, redact};

/// Which changes of the local repository may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reset {
    No,
    /// Those in the way of what is new.
    Remote,
    Yes,
}

pub(super) struct Latest {
    access: Access,
    pub(super) target: Target,
    pub(super) rev: String,
    pub(super) branch: Option<String>,
    pub(super) remote: String,
    pub(super) reset: Reset,
    mirror: bool,
    depth: Option<i64>,
    args: Map,
}

/// What there is to do.
#[derive(Default)]
struct Plan {
    steps: Vec<Step>,
    changes: Map,
    /// What is said when there is nothing to do.
    right: String,
    /// More can be told only once these steps are done.
    again: bool,
}

impl Latest {
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let mirror = args.flag("mirror", false);
        let bare = mirror || args.flag("bare", false);
        let rev = args.text("rev")?.unwrap_or_else(|| "HEAD".into());
        if rev.is_empty() {
            return Err(Failure::new("'' is not a valid value for the 'rev' argument"));
        }
        if rev != "HEAD" && bare {
            return Err(Failure::new("'rev' is not compatible with the 'mirror' and 'bare' arguments"));
        }
        let reset = match args.get("force_reset") {
            None | Some(Value::Bool(false)) => Reset::No,
            Some(Value::Bool(true)) => Reset::Yes,
            Some(Value::Str(s)) if &**s == "remote-changes" => Reset::Remote,
            Some(_) => {
                return Err(Failure::new("'force_reset' must be one of True, False, or 'remote-changes'"));
            }
        };
        Ok(Self {
            access: Access::read(args)?,
            target: Target::read(args, "target", bare)?,
            branch: args.text("branch")?,
            remote: args.text("remote")?.unwrap_or_else(|| "origin".into()),
            depth: args.int("depth")?,
            args: args.chunk.args.clone(),
            rev,
            reset,
            mirror,
        })
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> bool {
        self.args.get(key).filter(|v| !v.is_null()).map_or(default, Value::is_truthy)
    }

    fn word(&self, key: &str) -> &str {
        self.args.get(key).and_then(Value::as_str).unwrap_or("*")
    }

    /// What the remote repository has.
    fn wanted(&self, git: &Git<'_>) -> Result<Wanted, Failure> {
        let refs = git.remote_refs(None, &self.access.url, &[]);
        let refs = refs.map_err(|e| Failure::new(format!("Failed to check remote refs: {}", e.words())))?;
        let wanted = pick(&refs, &self.rev, &self.remote);
        if self.depth.is_some() && !matches!(wanted.kind, Sort::Branch | Sort::Tag) {
            return Err(Failure::new(
                "When 'depth' is used, 'rev' must be set to the name of a branch or tag on the remote repository",
            ));
        }
        if wanted.commit.is_none() && self.rev != "HEAD" && !self.target.bare {
            let words = format!("No revision matching '{}' exists in the remote repository", self.rev);
            return Err(Failure::new(words));
        }
        Ok(wanted)
    }

    /// What there is to do; in a fresh clone there is nothing that could be lost.
    fn plan(&self, scene: &Scene<'_>, fresh: bool) -> Result<Plan, Failure> {
        let git = self.access.git(scene)?;
        let place = self.target.place(scene)?;
        let wanted = self.wanted(&git)?;
        match place {
            Place::Repository if self.target.bare => self.refresh(&git, &wanted),
            Place::Repository => self.update(&git, &wanted, fresh),
            place => self.clone(place, &wanted),
        }
    }

    fn clone(&self, place: Place, wanted: &Wanted) -> Result<Plan, Failure> {
        let (name, path) = (redact(&self.access.url), self.target.path.display().to_string());
        let mut plan = Plan::default();
        let mut would = format!("Repository {name} would be cloned to {path}");
        if place == Place::Full {
            if !self.flag("force_clone", false) {
                return Err(Failure::new(format!(
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
        plan.steps.push(Step { args, would, did: format!("{name} cloned to {path}{kind}") });
        plan.changes.insert("new", format!("{name} => {path}"));
        if let Some(commit) = &wanted.commit {
            plan.changes.insert("revision", moved(None, Some(commit)));
        }
        plan.again = !self.target.bare;
        Ok(plan)
    }

    /// What a bare repository lacks.
    fn refresh(&self, git: &Git<'_>, wanted: &Wanted) -> Result<Plan, Failure> {
        let dir = &self.target.path;
        let own = git.must(Some(dir), &["for-each-ref", "--format=%(objectname)\t%(refname)"])?;
        let own = crate::host::git::refs(&own);
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
        let mut plan = Plan { right: format!("Repository {path} is up-to-date"), ..Plan::default() };
        if stale.is_empty() {
            return Ok(plan);
        }
        let mut args = self.fetch();
        if self.mirror {
            args = vec!["fetch".into(), "--prune".into(), self.remote.clone()];
        }
        plan.changes.insert("refs", stale.iter().map(|r| Value::from(r.as_str())).collect::<Value>());
        plan.steps.push(Step {
            args,
            would: format!("Bare repository at {path} would be fetched"),
            did: format!("Bare repository at {path} was fetched, resulting in updated refs"),
        });
        Ok(plan)
    }

    fn fetch(&self) -> Vec<String> {
        let mut args: Vec<String> = vec!["fetch".into()];
        if self.flag("force_fetch", false) {
            args.push("--force".into());
        }
        if let Some(depth) = self.depth {
            args.extend(["--depth".into(), depth.to_string()]);
        }
        args.push(self.remote.clone());
        if self.flag("fetch_tags", true) {
            let (branch, tag) = (self.word("refspec_branch"), self.word("refspec_tag"));
            args.push(format!("refs/heads/{branch}:refs/remotes/{}/{branch}", self.remote));
            args.push(format!("+refs/tags/{tag}:refs/tags/{tag}"));
        }
        args
    }

    /// What brings a repository with a working copy up to date.
    fn update(&self, git: &Git<'_>, wanted: &Wanted, fresh: bool) -> Result<Plan, Failure> {
        let mut local = Local::look(self, git, wanted)?;
        local.fresh = fresh;
        let path = self.target.path.display();
        let mut plan = Plan { right: format!("Repository {path} is up-to-date"), ..Plan::default() };
        let Some(commit) = wanted.commit.as_deref() else {
            if local.revision.is_none() {
                return Ok(plan);
            }
            return Err(Failure::new(
                "Remote repository is empty, cannot update from a non-empty to an empty repository",
            ));
        };
        let matches = equal(local.revision.as_deref(), wanted);
        if local.dirty && matches && self.reset != Reset::Yes {
            plan.right +=
                ", but with uncommitted changes. Set 'force_reset' to True to purge uncommitted changes.";
            return Ok(plan);
        }
        self.follow(&local, &mut plan);
        self.tags(&local, wanted, &mut plan);
        let switches = local.switches.is_some();
        if !local.has_commit || plan.changes.contains("new_tags") {
            plan.steps.push(Step {
                args: self.fetch(),
                would: format!("Remote '{}' would be fetched", self.remote),
                did: format!("{} was fetched, resulting in updated refs", redact(&self.access.url)),
            });
            plan.again = !local.has_commit;
        }
        if !matches && !self.flag("update_head", true) && !switches {
            let head = local.revision.as_deref().map_or("none", short);
            plan.right = format!(
                "{} is already present and local HEAD ({head}) does not match, but update_head=False. HEAD has not been updated \
                 locally.",
                wanted.shown
            );
            plan.again = false;
            return Ok(plan);
        }
        if !matches {
            plan.changes.insert("revision", moved(local.revision.as_deref(), Some(commit)));
        }
        self.advance(&local, wanted, commit, &mut plan)?;
        Ok(plan)
    }

    /// The remote's address.
    fn follow(&self, local: &Local, plan: &mut Plan) {
        if local.url.as_deref() == Some(&self.access.url) {
            return;
        }
        let (remote, new) = (&self.remote, redact(&self.access.url));
        let step = match &local.url {
            Some(old) => {
                plan.changes.insert("remote", moved(Some(&redact(old)), Some(&new)));
                let how = format!("from {} to {new}", redact(old));
                Step::new(
                    &["remote", "set-url", remote, &self.access.url],
                    format!("Remote '{remote}' would be changed {how}"),
                    format!("Remote '{remote}' changed {how}"),
                )
            }
            None => {
                plan.changes.insert("new", format!("{new} => {remote}"));
                let words = ["remote", "add", remote, &self.access.url];
                Step::new(
                    &words,
                    format!("Remote '{remote}' would be set to {new}"),
                    format!("Remote '{remote}' set to {new}"),
                )
            }
        };
        plan.steps.push(step);
    }

    fn tags(&self, local: &Local, wanted: &Wanted, plan: &mut Plan) {
        // A shallow clone and a chosen tag know only some of them.
        if !self.flag("fetch_tags", true) || self.depth.is_some() || self.word("refspec_tag") != "*" {
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
            plan.steps.push(Step::new(&words, say("would be"), say("were")));
            plan.changes.insert("deleted_tags", list(&gone));
        }
        let new: Vec<&String> = wanted.tags.difference(&local.tags).collect();
        if !new.is_empty() {
            plan.changes.insert("new_tags", list(&new));
        }
    }

    /// The branch and the commit at the head.
    fn advance(&self, local: &Local, wanted: &Wanted, commit: &str, plan: &mut Plan) -> Result<(), Failure> {
        let forward = match (local.dirty && self.reset != Reset::Remote, local.has_commit) {
            (true, _) => Some(false),
            (false, true) => Some(local.is_ahead || local.fresh),
            (false, false) => None,
        };
        if (forward == Some(false) || local.dirty) && self.reset == Reset::No {
            return Err(self.refuse(local, wanted, commit));
        }
        let merge = match forward {
            Some(true) => "fast-forwarded",
            Some(false) => "hard-reset",
            None => "updated",
        };
        if let Some(branch) = &local.switches {
            self.switch(branch, local, wanted, merge, plan)?;
        }
        let moves = !equal(local.base.as_deref(), wanted);
        let from = local.revision.as_deref().map_or("none", short);
        let would = if moves && local.switches.is_none() {
            format!("Repository would be {merge} from {from} to {}", short(commit))
        } else {
            String::new()
        };
        match forward {
            // What comes after the fetch is told by the next plan.
            None => plan.steps.push(Step::new(&[], would, "")),
            Some(true) if !moves && !local.dirty => {}
            Some(true)
                if local.branch.is_none()
                    && local.switches.is_none()
                    && wanted.kind != Sort::Tag
                    && wanted.kind != Sort::Hash =>
            {
                return Err(failed("Unable to fast-forward, HEAD is detached", &[], Map::new()));
            }
            Some(true) => {
                let did = if matches!(wanted.kind, Sort::Head | Sort::Branch) {
                    format!("Repository was fast-forwarded to {}", wanted.shown)
                } else if local.fresh {
                    format!("Repository was reset to {}", wanted.shown)
                } else {
                    format!("Repository was reset to {} (fast-forward)", self.rev)
                };
                // A merge never writes over a file that git does not know.
                let words =
                    if local.fresh || local.dirty { ["reset", "--hard"] } else { ["merge", "--ff-only"] };
                plan.steps.push(Step::new(&[words[0], words[1], commit], would, did));
            }
            Some(false) => self.discard(local, wanted, would, commit, plan),
        }
        self.track(local, wanted, plan);
        self.modules(local, plan);
        Ok(())
    }

    /// What was not committed, or is not in the remote repository, goes.
    fn discard(&self, local: &Local, wanted: &Wanted, would: String, commit: &str, plan: &mut Plan) {
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
        plan.steps.push(Step::new(&["reset", "--hard", commit], would, did));
    }

    fn modules(&self, local: &Local, plan: &mut Plan) {
        if self.flag("submodules", false) && (plan.changes.contains("revision") || local.modules) {
            if !plan.changes.contains("revision") {
                plan.changes.insert("submodules", true);
            }
            let words = ["submodule", "update", "--init", "--recursive"];
            plan.steps.push(Step::new(&words, "Submodules would be updated", "Submodules were updated"));
        }
    }

    fn switch(
        &self,
        branch: &str,
        local: &Local,
        wanted: &Wanted,
        merge: &str,
        plan: &mut Plan,
    ) -> Result<(), Failure> {
        let force = self.flag("force_checkout", false);
        if local.dirty && !force {
            return Err(Failure::new(format!(
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
            let would = format!("Branch '{branch}' would be checked out and {merge} to {}", short(&commit));
            plan.steps.push(Step::new(&words, would, format!("'{branch}' was checked out")));
        } else {
            let start = wanted.upstream.as_ref().unwrap_or(&commit);
            words.extend(["-b", branch, start]);
            let how = format!("checked out, with {} as a starting point", wanted.shown);
            let would = format!("New branch '{branch}' would be {how}");
            plan.steps.push(Step::new(&words, would, format!("New branch '{branch}' was {how}")));
        }
        plan.changes.insert("branch", moved(local.branch.as_deref(), Some(branch)));
        Ok(())
    }

    /// Which branch of the remote the local one follows; a tag and a commit leave nothing to follow, the head leaves it open.
    fn track(&self, local: &Local, wanted: &Wanted, plan: &mut Plan) {
        let on_branch = local.branch.is_some() || local.switches.is_some();
        let step = match (&local.upstream, &wanted.upstream) {
            (Some(have), Some(want)) if have != want => Step::new(
                &["branch", "--set-upstream-to", want],
                format!("Tracking branch would be updated to {want}"),
                format!("Tracking branch was updated to {want}"),
            ),
            (None, Some(want)) if on_branch => Step::new(
                &["branch", "--set-upstream-to", want],
                format!("Tracking branch would be set to {want}"),
                format!("Tracking branch was set to {want}"),
            ),
            (Some(_), None) if wanted.kind != Sort::Head => Step::new(
                &["branch", "--unset-upstream"],
                "Tracking branch would be unset",
                "Tracking branch was unset",
            ),
            _ => return,
        };
        plan.changes.insert("upstream", moved(local.upstream.as_deref(), wanted.upstream.as_deref()));
        plan.steps.push(step);
    }

    fn refuse(&self, local: &Local, wanted: &Wanted, commit: &str) -> Failure {
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
            format!("from {} to {}", short(base), short(commit))
        } else {
            format!("to {}", short(commit))
        };
        let after = local
            .switches
            .as_ref()
            .map_or_else(String::new, |b| format!(" (after checking out local branch '{b}')"));
        Failure::new(format!(
            "Repository would be updated {range}{after}, but {}. Set 'force_reset' to True{} to force this update{}.{hint}",
            if dirty { "there are uncommitted changes" } else { "this is not a fast-forward merge" },
            if dirty { " (or 'remote-changes')" } else { "" },
            if dirty { " and discard these changes" } else { "" },
        ))
    }
}

impl State for Latest {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let plan = self.plan(scene, false)?;
        if plan.changes.is_empty() {
            return Ok(Look::right(plan.right));
        }
        let would: Vec<String> = plan.steps.into_iter().map(|s| s.would).collect();
        Ok(Look::drift(sentences(&would), plan.changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let git = self.access.git(scene)?;
        let mut made: Vec<String> = Vec::new();
        let mut changes = Map::new();
        let forced = self.target.place(scene)? == Place::Full && self.flag("force_clone", false);
        if forced {
            self.target.empty(scene)?;
            changes.insert("forced clone", true);
        }
        self.target.prepare(scene)?;
        scene.change(&REPOSITORY, self.target.key(), || {
            // A clone or a fetch shows the rest of the way; then what is left is done.
            let mut fresh = false;
            for _ in 0..3 {
                let plan =
                    self.plan(scene, fresh).map_err(|f| failed(&f.done.comment, &made, changes.clone()))?;
                for step in plan.steps.iter().filter(|s| !s.args.is_empty()) {
                    let dir = (step.args[0] != "clone").then_some(self.target.path.as_path());
                    if let Err(refusal) = git.must(dir, &step.args) {
                        let what = match step.args[0].as_str() {
                            "clone" => "Clone failed: ",
                            "fetch" => "Fetch failed: ",
                            _ => "",
                        };
                        return Err(failed(&format!("{what}{}", refusal.words()), &made, changes.clone()));
                    }
                    made.push(step.did.clone());
                }
                if !fresh {
                    note(&mut changes, plan.changes);
                }
                fresh |= plan.steps.first().is_some_and(|s| s.args.first().is_some_and(|a| a == "clone"));
                if !plan.again {
                    break;
                }
            }
            Ok(())
        })?;
        Ok(Done::new(sentences(&made), changes))
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT | Veil::PACKAGES | Veil::USERS
    }

    fn veils(&self) -> Veil {
        // A checkout may change any file below its target.
        Veil::FILES | Veil::BROUGHT
    }

    fn resources(&self) -> Vec<super::super::super::Resource> {
        vec![super::super::super::Resource::Path(self.target.path.clone())]
    }
}

/// Adds what a later plan changes; how it was at first stays.
fn note(all: &mut Map, more: Map) {
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
