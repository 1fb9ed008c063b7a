//! `file.cached` and `file.not_cached`: copies of files from elsewhere, kept in the cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_config::{Map, Value};

use super::asked::{env, once_more, refuse_signatures};
use super::download::Fetch;
use super::hash::{Algorithm, Sum};
use super::parents;
use super::source::{self, Names, Place, cached_path, place, redact};
use crate::fs::{Kind, Meta};
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State};

/// A copy that should be kept.
#[derive(Debug)]
struct Cached {
    name: String,
    env: Arc<str>,
    hash: Option<String>,
    hash_name: Option<String>,
    skip_verify: bool,
    fetch: Fetch,
}

/// A copy that should not be kept.
#[derive(Debug)]
struct NotCached {
    name: String,
    env: Arc<str>,
}

/// Makes `file.cached`.
pub(super) fn cached(args: &Args<'_>) -> Built {
    refuse_signatures(args)?;
    Ok(Box::new(Cached {
        name: args.name(),
        env: env(args)?,
        hash: args.text("source_hash")?.filter(|h| !h.is_empty()),
        hash_name: args.text("source_hash_name")?,
        skip_verify: args.flag("skip_verify", false),
        fetch: Fetch::read(args),
    }))
}

/// Makes `file.not_cached`.
pub(super) fn not_cached(args: &Args<'_>) -> Built {
    Ok(Box::new(NotCached { name: args.name(), env: env(args)? }))
}

impl Cached {
    fn sum(&self, scene: &Scene<'_>) -> Result<Option<Sum>, Failure> {
        let is_web = matches!(place(&self.name), Place::Web(_) | Place::Foreign(_));
        if is_web && !self.skip_verify && self.hash.is_none() && !self.fetch.use_etag {
            return Err(Failure::new(format!(
                "Unable to verify upstream hash of source file {}, please set source_hash or set skip_verify or \
                 use_etag to True",
                redact(&self.name)
            )));
        }
        let Some(hash) = self.hash.as_deref().filter(|_| !self.skip_verify) else { return Ok(None) };
        let names = Names { hash_name: self.hash_name.as_deref(), file: "", source: &self.name };
        source::sum(scene, &self.env, &self.fetch, hash, &names).map(Some).map_err(Failure::new)
    }

    fn local(scene: &Scene<'_>, path: &Path, sum: Option<&Sum>) -> Result<Look, Failure> {
        let shown = path.display();
        if scene.fs.stat(path)?.is_none() {
            return Err(Failure::new(format!("File {shown} is not present on the minion")));
        }
        let Some(sum) = sum else {
            return Ok(Look::right(format!("File {shown} is present on the minion")));
        };
        let content = scene.fs.read(path)?;
        let (found, wanted) = (sum.algorithm.digest(&content), &sum.digits);
        if found == *wanted {
            return Ok(Look::right(format!("File {shown} is present on the minion and has hash {found}")));
        }
        Err(Failure::new(format!(
            "File {shown} is present on the minion, but the hash ({found}) does not match the specified hash ({wanted})"
        )))
    }

    fn copy(&self, scene: &Scene<'_>) -> Result<PathBuf, Failure> {
        cached_path(scene, &self.env, &self.name).ok_or_else(|| self.failed())
    }

    fn failed(&self) -> Failure {
        let name = redact(&self.name);
        Failure::new(format!("Failed to cache {name}, check minion log for more information"))
    }

    /// The content of a file of the tree.
    fn of_tree(&self, scene: &Scene<'_>) -> Result<Arc<[u8]>, Failure> {
        let Place::Tree(own, path) = place(&self.name) else { return Err(self.failed()) };
        let read = scene.files.read(own.unwrap_or(&self.env), path).map_err(Failure::new)?;
        read.ok_or_else(|| self.failed())
    }

    fn kept(scene: &Scene<'_>, copy: &Path) -> Result<Option<Vec<u8>>, Failure> {
        match scene.fs.stat(copy)? {
            Some(found) if found.kind == Kind::File => Ok(Some(scene.fs.read(copy)?)),
            _ => Ok(None),
        }
    }

    fn right(copy: &Path, sum: Option<&Sum>) -> String {
        let copy = copy.display();
        match sum {
            Some(sum) => format!("File is already cached to {copy} with hash {}", sum.digits),
            None => format!("File is cached to {copy}"),
        }
    }

    fn announced(&self, is_kept: bool, sum: Option<&Sum>) -> String {
        let why = match (is_kept, sum) {
            (false, _) => "",
            (true, Some(_)) => "Hashes don't match.\n",
            (true, None) => "No hash found. ",
        };
        format!("{why}File will be cached: {}", redact(&self.name))
    }

    fn fetched(&self, scene: &Scene<'_>, copy: &Path, sum: Option<&Sum>) -> Result<Vec<u8>, Failure> {
        if let Place::Web(url) = place(&self.name) {
            let fetch = Fetch { use_etag: true, ..self.fetch };
            return fetch.bytes(scene, &self.env, url, sum).map_err(Failure::new);
        }
        let content = self.of_tree(scene)?;
        parents::make(scene, copy, Meta { mode: Some(0o700), ..Meta::default() })?;
        scene.fs.write(copy, &content, Meta { mode: Some(0o600), ..Meta::default() })?;
        Ok(content.to_vec())
    }
}

impl State for Cached {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let sum = self.sum(scene)?;
        let is_right = match place(&self.name) {
            Place::Local(path) => return Self::local(scene, Path::new(path), sum.as_ref()),
            Place::Foreign(url) => {
                return Err(Failure::new(format!("the protocol of `{}` is not supported here", redact(url))));
            }
            Place::Tree(..) => {
                let content = self.of_tree(scene)?;
                scene.fs.compare(&self.copy(scene)?, &content)?.is_some_and(|(_, is_same)| is_same)
            }
            Place::Web(_) => {
                let kept = Self::kept(scene, &self.copy(scene)?)?;
                match (&sum, kept) {
                    (Some(sum), Some(kept)) => sum.fits(&kept),
                    (None, Some(_)) => {
                        return Ok(Look::unknown("only fetching it again tells whether it has changed"));
                    }
                    (_, None) => false,
                }
            }
        };
        let copy = self.copy(scene)?;
        if is_right {
            return Ok(Look::right(Self::right(&copy, sum.as_ref())));
        }
        let is_kept = scene.fs.stat(&copy)?.is_some();
        Ok(Look::drift(self.announced(is_kept, sum.as_ref()), Map::new()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let (sum, copy) = (self.sum(scene)?, self.copy(scene)?);
        let algorithm = sum.as_ref().map_or(Algorithm::Sha256, |sum| sum.algorithm);
        let old = Self::kept(scene, &copy)?.map(|kept| algorithm.digest(&kept));
        let new = algorithm.digest(&self.fetched(scene, &copy, sum.as_ref())?);
        let mut changes = Map::new();
        if old.as_ref() != Some(&new) {
            let change: Map =
                [("old", Value::from(old)), ("new", Value::from(new.as_str()))].into_iter().collect();
            changes.insert("hash", change);
        }
        match &sum {
            Some(sum) if sum.digits != new => {
                let comment = format!(
                    "File is cached to {}, but the hash ({new}) does not match the specified hash ({})",
                    copy.display(),
                    sum.digits
                );
                Err(Done::new(comment, changes).into())
            }
            sum => Ok(Done::new(Self::right(&copy, sum.as_ref()), changes)),
        }
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        once_more(self, scene)
    }

    fn is_foreseeable(&self) -> bool {
        let is_web = |text: &str| matches!(place(text), Place::Web(_));
        !is_web(&self.name) && !self.hash.as_deref().is_some_and(is_web)
    }

    fn cost(&self) -> Cost {
        if self.is_foreseeable() { Cost::Light } else { Cost::Heavy }
    }

    fn resources(&self) -> Vec<Resource> {
        // The copy is known by where it comes from.
        vec![Resource::Path(self.name.clone().into())]
    }
}

impl State for NotCached {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let name = &self.name;
        let Some(copy) = cached_path(scene, &self.env, name) else {
            let path = name.strip_prefix("file://").unwrap_or(name);
            return Ok(Look::right(format!("File {path} is a local path, no action taken")));
        };
        if scene.fs.lstat(&copy)?.is_none() {
            return Ok(Look::right(format!("{} is not cached", redact(name))));
        }
        let changes = [("deleted", true)].into_iter().collect();
        Ok(Look::drift(format!("{} is set to be deleted", copy.display()), changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let Some(copy) = cached_path(scene, &self.env, &self.name) else { return Ok(Done::default()) };
        scene.fs.remove(&copy)?;
        let changes = [("deleted", true)].into_iter().collect();
        Ok(Done::new(format!("{} was deleted", copy.display()), changes))
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        once_more(self, scene)
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }

    fn resources(&self) -> Vec<Resource> {
        // The copy is known by where it comes from.
        vec![Resource::Path(self.name.clone().into())]
    }
}
