//! `git.detached`: a repository whose head is one commit, whatever branch that is on.

use zagent_config::{Map, Value};

use super::super::super::{Args, Done, Failure, Look, Resource, Scene, State, Veil};
use super::target::{Place, REPOSITORY, Target};
use super::{Access, failed, is_hash, moved, sentences};
use crate::host::git::{Git, redact};

pub(super) struct Detached {
    access: Access,
    target: Target,
    rev: String,
    remote: String,
    args: Map,
}

/// How things stand.
struct Stand {
    place: Place,
    head: Option<String>,
    /// The commit that is asked for.
    wanted: String,
    /// It has to be fetched first.
    absent: bool,
    url: Option<String>,
    dirty: bool,
}

impl Detached {
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let rev = args.text("rev")?.filter(|r| !r.is_empty());
        Ok(Self {
            access: Access::read(args)?,
            target: Target::read(args, "target", false)?,
            rev: rev.ok_or_else(|| Failure::new("'rev' argument is required"))?,
            remote: args.text("remote")?.unwrap_or_else(|| "origin".into()),
            args: args.chunk.args.clone(),
        })
    }

    fn flag(&self, key: &str, default: bool) -> bool {
        self.args.get(key).filter(|v| !v.is_null()).map_or(default, Value::is_truthy)
    }

    /// The commit of a branch or tag: of the remote repository, or as it was fetched last.
    fn commit(&self, git: &Git<'_>, place: Place) -> Result<String, Failure> {
        if is_hash(&self.rev) {
            return Ok(self.rev.to_ascii_lowercase());
        }
        let missing = || Failure::new(format!("Revision '{}' does not exist", self.rev));
        let (branch, tag) = (format!("refs/heads/{}", self.rev), format!("refs/tags/{}", self.rev));
        if place == Place::Repository && !self.flag("fetch_remote", true) {
            for name in [format!("refs/remotes/{}/{}", self.remote, self.rev), tag] {
                let words = ["rev-parse", "--verify", "--quiet", &format!("{name}^{{commit}}")];
                if let Some(commit) = git.line(&self.target.path, &words)? {
                    return Ok(commit);
                }
            }
            return Err(missing());
        }
        let refs = git.remote_refs(None, &self.access.url, &[]);
        let refs = refs
            .map_err(|e| Failure::new(format!("Failed to list refs for {}: {}", self.remote, e.words())))?;
        let found = refs.get(&branch).or_else(|| refs.get(&format!("{tag}^{{}}"))).or_else(|| refs.get(&tag));
        found.cloned().ok_or_else(missing)
    }

    fn stand(&self, scene: &Scene<'_>) -> Result<Stand, Failure> {
        let git = self.access.git(scene)?;
        let place = self.target.place(scene)?;
        if place == Place::Full && !self.flag("force_clone", false) {
            return Err(Failure::new(format!(
                "Target '{}' exists, is non-empty and is not a git repository. Set the 'force_clone' option to True to remove \
                 this directory's contents and proceed with cloning the remote repository",
                self.target.path.display()
            )));
        }
        let wanted = self.commit(&git, place)?;
        let mut stand = Stand { place, head: None, wanted, absent: true, url: None, dirty: false };
        if place == Place::Repository {
            let dir = &self.target.path;
            stand.head = git.revision(dir)?;
            let commit = format!("{}^{{commit}}", stand.wanted);
            stand.absent = git.line(dir, &["rev-parse", "--verify", "--quiet", &commit])?.is_none();
            stand.url = git.remote_url(dir, &self.remote)?;
            stand.dirty = self.flag("hard_reset", false)
                && !git
                    .must(Some(dir), &["status", "--porcelain", "--untracked-files=no"])?
                    .trim()
                    .is_empty();
        }
        Ok(stand)
    }

    fn act(&self, stand: &Stand, scene: &Scene<'_>, made: &mut Vec<String>) -> Result<(), Failure> {
        let git = self.access.git(scene)?;
        let dir = Some(self.target.path.as_path());
        let (path, name) = (self.target.path.display().to_string(), redact(&self.access.url));
        if stand.place != Place::Repository {
            git.must(
                None,
                &["clone", "--no-checkout", "--origin", &self.remote, "--", &self.access.url, &path],
            )?;
            made.push(format!("{name} cloned to {path}"));
        } else {
            if stand.url.as_deref() != Some(&self.access.url) {
                let verb = if stand.url.is_some() { "set-url" } else { "add" };
                git.must(dir, &["remote", verb, &self.remote, &self.access.url])?;
                let old = stand.url.as_deref().map_or_else(|| "None".into(), redact);
                made.push(format!("Remote {} updated from '{old}' to '{name}'", self.remote));
            }
            if stand.absent && self.flag("fetch_remote", true) {
                let heads = format!("refs/heads/*:refs/remotes/{}/*", self.remote);
                git.must(dir, &["fetch", "--force", &self.remote, &heads, "+refs/tags/*:refs/tags/*"])?;
                made.push(format!("Remote {} was fetched, resulting in updated refs", self.remote));
            }
            if stand.dirty {
                git.must(dir, &["reset", "--hard", "HEAD"])?;
                made.push("Repository was reset to HEAD before checking out revision".into());
            }
        }
        if !stand.is_there() || stand.place != Place::Repository {
            let mut words = vec!["checkout", "--detach"];
            if self.flag("force_checkout", false) {
                words.push("--force");
            }
            words.push(&stand.wanted);
            git.must(dir, &words)?;
            made.push(format!("Commit ID {} was checked out at {path}", stand.wanted));
        }
        if self.flag("submodules", false) {
            git.must(dir, &["submodule", "update", "--init", "--recursive"])?;
            made.push("Submodules were updated".into());
        }
        Ok(())
    }
}

impl Stand {
    fn is_there(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.starts_with(&self.wanted))
    }

    fn changes(&self, access: &Access) -> Map {
        let mut changes = Map::new();
        if self.place == Place::Full {
            changes.insert("forced clone", true);
        }
        if !self.is_there() {
            changes.insert("HEAD", moved(self.head.as_deref(), Some(&self.wanted)));
        }
        if self.dirty {
            changes.insert("hard reset", true);
        }
        if self.place == Place::Repository && self.url.as_deref() != Some(&access.url) {
            let old = self.url.as_deref().map(redact);
            changes.insert("remote", moved(old.as_deref(), Some(&redact(&access.url))));
        }
        changes
    }
}

impl State for Detached {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let stand = self.stand(scene)?;
        let changes = stand.changes(&self.access);
        if changes.is_empty() {
            return Ok(Look::right("Already checked out at correct revision"));
        }
        let (path, name) = (self.target.path.display(), redact(&self.access.url));
        let would = match stand.place {
            Place::Full => format!(
                "Target directory {path} exists. Since force_clone=True, the contents of {path} would be deleted, and {name} would \
                 be cloned into this directory."
            ),
            Place::Missing | Place::Empty => format!("Repository {name} would be cloned to {path}"),
            Place::Repository if changes.contains("HEAD") => {
                format!("Commit ID {} would be checked out at {path}", stand.wanted)
            }
            Place::Repository if changes.contains("remote") => {
                format!("Remote {} would be set to {name}", self.remote)
            }
            Place::Repository => format!("Hard reset to HEAD would be performed on {path}"),
        };
        Ok(Look::drift(would, changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let stand = self.stand(scene)?;
        let changes = stand.changes(&self.access);
        if stand.place == Place::Full {
            self.target.empty(scene)?;
        }
        self.target.prepare(scene)?;
        let mut made = Vec::new();
        let acted = scene.change(&REPOSITORY, self.target.key(), || self.act(&stand, scene, &mut made));
        acted.map_err(|f| failed(&f.done.comment, &made, Map::new()))?;
        Ok(Done::new(sentences(&made), changes))
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
