//! `git.present` and `git.cloned`: a repository is there, wherever its head stands.

use std::collections::BTreeMap;

use zagent_compiler::Compat;
use zagent_config::Map;

use super::super::super::{Args, Done, Failure, Look, Resource, Scene, State, Veil};
use super::target::{Place, REPOSITORY, Target};
use super::{Access, moved};
use crate::host::git::{Git, redact};

pub(super) struct Present {
    target: Target,
    force: bool,
    template: Option<String>,
    separate: Option<String>,
    shared: Option<String>,
}

impl Present {
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        Ok(Self {
            target: Target::read(args, "name", args.flag("bare", true))?,
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

impl State for Present {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let name = self.target.path.display().to_string();
        let mut changes = Map::from_iter([("new", name.as_str())]);
        Ok(match self.target.place(scene)? {
            Place::Repository => Look::right(format!("Repository {name} is there")),
            Place::Full if self.force => {
                changes.insert("forced init", true);
                let would = format!(
                    "Target directory {name} exists. Since force=True, the contents of {name} would be deleted, and a \
                     {}repository would be initialized in its place.",
                    self.kind()
                );
                Look::drift(would, changes)
            }
            Place::Full => {
                return Err(Failure::new(format!(
                    "Target '{name}' exists, is non-empty, and is not a git repository. Set the 'force' option to True to remove \
                     this directory's contents and proceed with initializing a repository"
                )));
            }
            Place::Missing | Place::Empty => {
                Look::drift(format!("New {}repository would be created", self.kind()), changes)
            }
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let name = self.target.path.display().to_string();
        let mut changes = Map::from_iter([("new", name.as_str())]);
        if self.target.place(scene)? == Place::Full {
            self.target.empty(scene)?;
            changes.insert("forced init", true);
        }
        self.target.prepare(scene)?;
        let mut words: Vec<String> = vec!["init".into()];
        words.extend(self.target.bare.then(|| "--bare".into()));
        words.extend(self.template.iter().map(|t| format!("--template={t}")));
        words.extend(self.separate.iter().map(|t| format!("--separate-git-dir={t}")));
        words.extend(self.shared.iter().map(|t| format!("--shared={}", shared(t))));
        words.push(name.clone());
        let git = Git::new(scene.tools(), self.target.user.as_deref())?;
        scene.change(&REPOSITORY, self.target.key(), || Ok(git.must(None, &words)?))?;
        let mut comment = format!("Initialized {}repository in {name}", self.kind());
        let more = [("Template directory set to", &self.template), ("Gitdir set to", &self.separate)];
        for (what, value) in more.into_iter().filter_map(|(what, value)| Some((what, value.as_ref()?))) {
            comment += &format!(". {what} {value}.");
        }
        Ok(Done::new(comment, changes))
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT | Veil::PACKAGES | Veil::USERS
    }

    fn veils(&self) -> Veil {
        // A checkout may change any file below its target.
        Veil::FILES | Veil::BROUGHT
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.target.path.clone())]
    }
}

/// Who else may write, as git reads it; a mode has four digits.
fn shared(text: &str) -> String {
    match text {
        "True" => "true".into(),
        "False" => "false".into(),
        mode if mode.bytes().all(|b| b.is_ascii_digit()) => format!("{mode:0>4}"),
        word => word.to_owned(),
    }
}

pub(super) struct Cloned {
    access: Access,
    target: Target,
    branch: Option<String>,
}

impl Cloned {
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let branch = args.text("branch")?;
        if branch.as_deref() == Some("") {
            return Err(Failure::new("Invalid 'branch' argument"));
        }
        Ok(Self { access: Access::read(args)?, target: Target::read(args, "target", false)?, branch })
    }

    /// Refuses a remote repository that cannot be reached, and a branch that it has not; Salt finds out by the clone.
    fn verify(
        &self,
        scene: &Scene<'_>,
        has_branch: impl FnOnce(&Git<'_>) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        if scene.compat == Compat::Salt {
            return Ok(());
        }
        let git = self.access.git(scene)?;
        if has_branch(&git)? {
            return Ok(());
        }
        let refs = git.remote_refs(None, &self.access.url, &[]);
        let refs = refs.map_err(|e| Failure::new(format!("Failed to check remote refs: {}", e.words())))?;
        match &self.branch {
            Some(branch) if !is_there(&refs, branch) => {
                Err(Failure::new(format!("No branch or tag '{branch}' exists in the remote repository")))
            }
            _ => Ok(()),
        }
    }

    /// What differs: the words of a dry run, the changes, and the branch that is checked out.
    fn differs(&self, scene: &Scene<'_>) -> Result<Option<(String, Map)>, Failure> {
        let (name, path) = (redact(&self.access.url), self.target.path.display());
        let place = self.target.place(scene)?;
        let with = self.branch.as_ref().map_or_else(String::new, |b| format!(" with branch '{b}'"));
        match place {
            Place::Full => {
                Err(Failure::new(format!("Target '{path}' exists, is non-empty and is not a git repository")))
            }
            Place::Missing | Place::Empty => {
                self.verify(scene, |_| Ok(false))?;
                let changes = Map::from_iter([("new", format!("{name} => {path}"))]);
                Ok(Some((format!("{name} would be cloned to {path}{with}"), changes)))
            }
            Place::Repository => {
                let Some(branch) = &self.branch else { return Ok(None) };
                let now = self.access.git(scene)?.branch(&self.target.path)?;
                if now.as_ref() == Some(branch) {
                    return Ok(None);
                }
                self.verify(scene, |git| {
                    let dir = &self.target.path;
                    let has = |name: &str| git.line(dir, &["rev-parse", "--verify", "--quiet", name]);
                    Ok(has(branch)?.is_some() || has(&format!("origin/{branch}"))?.is_some())
                })?;
                let changes = Map::from_iter([("branch", moved(now.as_deref(), Some(branch)))]);
                Ok(Some((format!("Branch would be changed to '{branch}'"), changes)))
            }
        }
    }
}

/// True when a repository has a branch or tag of this name.
fn is_there(refs: &BTreeMap<String, String>, name: &str) -> bool {
    ["heads", "tags"].iter().any(|kind| refs.contains_key(&format!("refs/{kind}/{name}")))
}

impl State for Cloned {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        Ok(match self.differs(scene)? {
            Some((would, changes)) => Look::drift(would, changes),
            None => {
                let on = self.branch.as_ref().map_or_else(String::new, |b| format!(" with branch '{b}'"));
                Look::right(format!("Repository already exists at {}{on}", self.target.path.display()))
            }
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let Some((would, changes)) = self.differs(scene)? else { return Ok(Done::default()) };
        let git = self.access.git(scene)?;
        let path = self.target.path.display().to_string();
        self.target.prepare(scene)?;
        scene.change(&REPOSITORY, self.target.key(), || {
            if changes.contains("new") {
                let mut words = vec!["clone"];
                if let Some(branch) = &self.branch {
                    words.extend(["--branch", branch]);
                }
                words.extend(["--", &self.access.url, &path]);
                let cloned = git.must(None, &words);
                return cloned.map(|_| ()).map_err(|e| Failure::new(format!("Clone failed: {}", e.words())));
            }
            let branch = self.branch.as_deref().unwrap_or_default();
            let remote = format!("origin/{branch}");
            let dir = &self.target.path;
            let there = git.line(dir, &["rev-parse", "--verify", "--quiet", branch])?.is_some();
            if !there && git.line(dir, &["rev-parse", "--verify", "--quiet", &remote])?.is_none() {
                git.must(Some(dir), &["fetch", "origin"])?;
            }
            let words =
                if there { vec!["checkout", branch] } else { vec!["checkout", "-b", branch, &remote] };
            let switched = git.must(Some(dir), &words);
            switched
                .map_err(|e| Failure::new(format!("Failed to change branch to '{branch}': {}", e.words())))?;
            Ok(())
        })?;
        Ok(Done::new(
            would.replace("would be cloned", "cloned").replace("would be changed", "changed"),
            changes,
        ))
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT | Veil::PACKAGES | Veil::USERS
    }

    fn veils(&self) -> Veil {
        // A checkout may change any file below its target.
        Veil::FILES | Veil::BROUGHT
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.target.path.clone())]
    }
}
