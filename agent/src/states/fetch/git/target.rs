//! The directory of a repository: what stands there in, the way to a fresh clone or back out.

use std::path::PathBuf;

use zagent_config::{Map, Value};

use super::super::super::{Args, Failure, Scene, Thing};
use crate::fs::{Kind, Meta};
use crate::host::git::{Git, redact};
use crate::states::file::parents;

/// Where a repository is or will be.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) bare: bool,
    pub(super) user: Option<String>,
}

/// What stands at a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Missing,
    Empty,
    Full,
    Repository,
}

impl Target {
    pub(super) fn read(args: &Args<'_>, key: &str, bare: bool) -> Result<Self, Failure> {
        let text = args.text(key)?.filter(|t| !t.is_empty());
        let text = text.ok_or_else(|| Failure::new(format!("'{key}' argument is required")))?;
        if !text.starts_with('/') {
            return Err(Failure::new(format!("{key} '{text}' is not an absolute path")));
        }
        Ok(Self { path: text.into(), bare, user: args.text("user")? })
    }

    pub(super) fn place(&self, scene: &Scene<'_>) -> Result<Place, Failure> {
        let Some(stat) = scene.fs.stat(&self.path)? else { return Ok(Place::Missing) };
        if stat.kind != Kind::Dir {
            let words =
                format!("Target '{}' exists and is a regular file, cannot proceed", self.path.display());
            return Err(Failure::new(words));
        }
        let mark = self.path.join(if self.bare { "refs" } else { ".git" });
        if scene.fs.lstat(&mark)?.is_some() {
            return Ok(Place::Repository);
        }
        Ok(if scene.fs.read_dir(&self.path)?.is_empty() { Place::Empty } else { Place::Full })
    }

    /// Takes away what is in the directory, so that it can be put back.
    pub(super) fn empty(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        for (name, _) in scene.fs.read_dir(&self.path)? {
            scene.fs.remove(&self.path.join(name))?;
        }
        Ok(())
    }

    /// Makes the directory ready for a clone: parents as who runs the agent, the directory itself as the user.
    pub(super) fn prepare(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        if scene.fs.stat(&self.path)?.is_some() {
            return Ok(());
        }
        let account = self.user.as_deref().map(crate::host::command::Account::find).transpose();
        let account = account.map_err(Failure::new)?;
        let mut meta = Meta { mode: Some(0o755), ..Meta::default() };
        parents::make(scene, &self.path, meta)?;
        if let Some(account) = account {
            (meta.uid, meta.gid) = (Some(account.user.uid), Some(account.user.gid));
        }
        Ok(scene.fs.make_dir(&self.path, meta)?)
    }

    /// The name under which the journal knows it.
    pub(super) fn key(&self) -> Value {
        let mut key = Map::from_iter([("path", Value::from(self.path.display().to_string()))]);
        if let Some(user) = &self.user {
            key.insert("user", user.as_str());
        }
        if self.bare {
            key.insert("bare", true);
        }
        key.into()
    }

    fn of_key(key: &Value) -> Self {
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
pub(in super::super) struct Repository;
pub(in super::super) static REPOSITORY: Repository = Repository;

impl Thing for Repository {
    fn kind(&self) -> &'static str {
        "git_repository"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let target = Target::of_key(key);
        if target.place(scene)? != Place::Repository {
            return Ok(Value::Null);
        }
        let git = Git::new(scene.tools(), target.user.as_deref())?;
        let text = |t: Option<String>| t.map_or(Value::Null, Value::from);
        // What is not committed; a repository without files has nothing of that.
        let tree = match target.bare {
            true => String::new(),
            false => git.must(Some(&target.path), &["status", "--porcelain"])?,
        };
        let remotes =
            git.ask(Some(&target.path), &["config", "--null", "--get-regexp", r"^(remote|branch)\..*"])?;
        Ok(Map::from_iter([
            ("revision", text(git.revision(&target.path)?)),
            ("branch", text(git.branch(&target.path)?)),
            // A password in an address is nothing for a journal.
            ("config", redact(&remotes.out).into()),
            ("tree", tree.into()),
        ])
        .into())
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let target = Target::of_key(key);
        if to.is_null() {
            return target.empty(scene);
        }
        let git = Git::new(scene.tools(), target.user.as_deref())?;
        let dir = Some(target.path.as_path());
        let text = |name: &str| to.get(name).and_then(Value::as_str);
        if let (Some(revision), false) = (text("revision"), target.bare) {
            let head = match text("branch") {
                Some(branch) => vec!["checkout", "-B", branch, revision],
                None => vec!["checkout", "--detach", revision],
            };
            git.must(dir, &head)?;
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
                git.must(dir, &["config", name, value])?;
            }
        }
        match without {
            Some(name) => Err(Failure::new(format!("`{name}` had a password in it, which is not kept"))),
            None => Ok(()),
        }
    }

    fn imagine(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        if to.is_null() { Target::of_key(key).empty(scene) } else { Ok(()) }
    }

    fn full(&self, key: &Value, scene: &Scene<'_>) -> Result<Option<String>, Failure> {
        let target = Target::of_key(key);
        if target.bare || target.place(scene)? != Place::Repository {
            return Ok(None);
        }
        let git = Git::new(scene.tools(), target.user.as_deref())?;
        let held = git.must(Some(&target.path), &["status", "--porcelain", "--ignored"])?;
        let file = held.lines().next().and_then(|l| l.get(3..));
        Ok(file.map(|file| format!("`{file}` there is not committed")))
    }
}
