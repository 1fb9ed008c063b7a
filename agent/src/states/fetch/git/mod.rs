//! States of the module `git`: repositories and their configuration, by the program `git`.
//!
//! Law: a look asks the remote repository what it has and the local one where it stands, and changes neither.

mod config;
mod detached;
mod latest;
mod local;
mod present;
mod target;
mod wanted;

pub(super) use config::CONFIG;
pub(super) use target::REPOSITORY;

use std::sync::Arc;

use zagent_config::{Map, Value};

use super::super::{Args, Built, Failure, Scene, State};
use crate::host::git::{Git, cut_login};
use crate::host::scratch::Scratch;
use crate::states::file::source::Sources;

/// How files of the tree are named.
const TREE: &str = "salt://";

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    Some(match fun {
        "latest" => latest::Latest::read(args).map(|s| Box::new(s) as Box<dyn State>),
        "detached" => detached::Detached::read(args).map(|s| Box::new(s) as _),
        "cloned" => present::Cloned::read(args).map(|s| Box::new(s) as _),
        "present" => present::Present::read(args).map(|s| Box::new(s) as _),
        "config_set" => config::Set::read(args).map(|s| Box::new(s) as _),
        "config_unset" => config::Unset::read(args).map(|s| Box::new(s) as _),
        _ => return None,
    })
}

/// Who reaches a repository, and with what.
#[derive(Clone, Debug, Default)]
struct Access {
    url: String,
    user: Option<String>,
    /// Paths, and keys that the tree holds.
    keys: Vec<String>,
    env: Arc<str>,
    login: Option<String>,
    password: Option<String>,
    /// What stood in the address.
    cut: Option<(String, String)>,
}

impl Access {
    fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let keys = args.texts("identity")?.unwrap_or_default();
        if let Some(key) = keys.iter().find(|k| !k.starts_with(['/', '~']) && !k.starts_with(TREE)) {
            return Err(Failure::new(format!("identity '{key}' is not an absolute path")));
        }
        let (url, cut) = cut_login(&args.name());
        Ok(Self {
            url,
            cut,
            user: args.text("user")?,
            keys,
            env: args.chunk.env.clone(),
            login: args.text("https_user")?,
            password: args.text("https_pass")?,
        })
    }

    fn git<'s>(&self, scene: &'s Scene<'_>) -> Result<Git<'s>, Failure> {
        let git = Git::new(scene.tools(), self.user.as_deref())?;
        let (mut keys, mut kept) = (Vec::new(), Vec::new());
        for key in &self.keys {
            if !key.starts_with(TREE) {
                keys.push(key.clone());
                continue;
            }
            let found = Sources::unverified(key.as_str().into()).find(scene, &self.env, key);
            let file = Scratch::secret(&found.map_err(Failure::new)?.bytes, ".key", git.uid());
            let file = file.map_err(|e| Failure::new(format!("cannot keep the key `{key}`: {e}")))?;
            keys.push(file.path().display().to_string());
            kept.push(file);
        }
        let git = git.with_keys(&keys).keeping(kept);
        if self.login.is_none() && self.password.is_none() {
            return Ok(git.with_cut(&self.url, self.cut.as_ref()));
        }
        Ok(git.with_login(&self.url, self.login.as_deref(), self.password.as_deref())?)
    }
}

/// One act on a repository.
struct Step {
    args: Vec<String>,
    /// What a dry run says of it.
    would: String,
    /// What is said once it was done; nothing for what goes without saying.
    did: String,
}

impl Step {
    fn new(args: &[&str], would: impl Into<String>, did: impl Into<String>) -> Self {
        let args = args.iter().map(|a| (*a).to_owned()).collect();
        Self { args, would: would.into(), did: did.into() }
    }
}

/// Sentences as Salt joins them: one stands alone, several end with a full stop.
fn sentences(parts: &[String]) -> String {
    let all = parts.iter().filter(|p| !p.is_empty()).map(String::as_str).collect::<Vec<_>>();
    let end = if all.len() > 1 { "." } else { "" };
    all.join(". ") + end
}

fn failed(words: &str, made: &[String], changes: Map) -> Failure {
    let mut failure = Failure::new(words);
    if !made.is_empty() {
        failure.done.comment += "\n\nChanges already made: ";
        failure.done.comment += &sentences(made);
    }
    failure.done.changes = changes;
    failure
}

/// `{"old": …, "new": …}`.
fn moved(old: Option<&str>, new: Option<&str>) -> Value {
    let text = |t: Option<&str>| t.map_or(Value::Null, Value::from);
    Value::from(Map::from_iter([("old", text(old)), ("new", text(new))]))
}

fn short(rev: &str) -> &str {
    rev.get(..7).unwrap_or(rev)
}

/// True for what can be the beginning of a commit's name.
fn is_hash(rev: &str) -> bool {
    rev.len() <= 40 && rev.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
