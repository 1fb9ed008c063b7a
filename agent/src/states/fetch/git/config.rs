//! `git.config_set` and `git.config_unset`: values of a repository's configuration, or of a user's.

use std::path::{Path, PathBuf};

use zagent_config::{Map, Value};

use super::super::super::{Args, Done, Failure, Look, Resource, Scene, State, Thing, Veil};
use crate::host::git::Git;

/// Whose configuration.
#[derive(Clone, Debug)]
struct Where {
    repo: Option<PathBuf>,
    user: Option<String>,
}

impl Where {
    fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let repo = args.path("repo")?;
        let global = args.flag("global", false);
        if !global && repo.is_none() {
            return Err(Failure::new("Non-global config options require the 'repo' argument to be set"));
        }
        Ok(Self { repo: repo.filter(|_| !global), user: args.text("user")? })
    }

    fn git<'s>(&self, scene: &'s Scene<'_>) -> Result<Git<'s>, Failure> {
        Ok(Git::new(scene.tools(), self.user.as_deref())?)
    }

    fn dir(&self) -> Option<&Path> {
        self.repo.as_deref()
    }

    fn key(&self, name: &str) -> Value {
        let mut key = Map::from_iter([("name", Value::from(name))]);
        if let Some(repo) = &self.repo {
            key.insert("repo", repo.display().to_string());
        }
        if let Some(user) = &self.user {
            key.insert("user", user.as_str());
        }
        key.into()
    }

    /// One at a time: git refuses to wait for another that writes the same file.
    fn resources(&self) -> Vec<Resource> {
        vec![self.repo.clone().map_or(Resource::Users, Resource::Path)]
    }

    /// How its keys are called in a comment.
    fn called(&self, name: &str) -> String {
        let global = if self.repo.is_none() { "Global key " } else { "" };
        format!("{global}'{name}'")
    }
}

fn list(values: &[String]) -> Value {
    if values.is_empty() { Value::Null } else { values.iter().map(|v| Value::from(v.as_str())).collect() }
}

/// The values of a key.
pub(in super::super) struct Config;
pub(in super::super) static CONFIG: Config = Config;

impl Config {
    fn of_key(key: &Value) -> (Where, &str) {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let place = Where { repo: text("repo").map(PathBuf::from), user: text("user").map(str::to_owned) };
        (place, text("name").unwrap_or_default())
    }
}

impl Thing for Config {
    fn kind(&self) -> &'static str {
        "git_config"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let (place, name) = Self::of_key(key);
        Ok(list(&place.git(scene)?.config(place.dir(), name)?))
    }

    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let (place, name) = Self::of_key(key);
        let values =
            to.as_list().map(|l| l.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>());
        Ok(place.git(scene)?.set_config(place.dir(), name, &values.unwrap_or_default())?)
    }
}

pub(super) struct Set {
    place: Where,
    name: String,
    values: Vec<String>,
    shown: String,
}

impl Set {
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let (value, multivar) = (args.text("value")?, args.get("multivar"));
        let (values, shown) = match (value, multivar) {
            (Some(_), Some(_)) => {
                return Err(Failure::new("Only one of 'value' and 'multivar' is permitted"));
            }
            (Some(value), None) => (vec![value.clone()], format!("'{value}'")),
            (None, Some(Value::Str(text))) => {
                let values: Vec<String> = text.split(',').map(str::to_owned).collect();
                let shown = format!("{values:?}").replace('"', "'");
                (values, shown)
            }
            (None, Some(_)) => {
                let values = args.texts("multivar")?.unwrap_or_default();
                let shown = format!("{values:?}").replace('"', "'");
                (values, shown)
            }
            (None, None) => return Err(Failure::new("One of 'value' and 'multivar' is required")),
        };
        Ok(Self { place: Where::read(args)?, name: args.name(), values, shown })
    }
}

impl State for Set {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let now = self.place.git(scene)?.config(self.place.dir(), &self.name)?;
        let name = self.place.called(&self.name);
        if now == self.values {
            return Ok(Look::right(format!("{name} is already set to {}", self.shown)));
        }
        let how = if now.is_empty() { "added as" } else { "set to" };
        let change = Map::from_iter([("old", list(&now)), ("new", list(&self.values))]);
        let changes = Map::from_iter([(self.name.as_str(), Value::from(change))]);
        Ok(Look::drift(format!("{name} would be {how} {}", self.shown), changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let look = self.check(scene)?;
        let git = self.place.git(scene)?;
        scene.change(&CONFIG, self.place.key(&self.name), || {
            let set = git.set_config(self.place.dir(), &self.name, &self.values);
            set.map_err(|e| {
                let name = self.place.called(&self.name).replace("Global", "global");
                Failure::new(format!("Failed to set {name} to {}: {}", self.shown, e.words()))
            })
        })?;
        Ok(Done::new(look.comment.replacen(" would be ", " was ", 1), look.changes))
    }

    fn resources(&self) -> Vec<Resource> {
        self.place.resources()
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT | Veil::PACKAGES | Veil::USERS
    }

    fn veils(&self) -> Veil {
        Veil::NONE
    }
}

pub(super) struct Unset {
    place: Where,
    name: String,
    value: Option<fancy_regex::Regex>,
    all: bool,
}

/// A key, the values that go and those that stay.
type Match = (String, Vec<String>, Vec<String>);

impl Unset {
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let value = args.text("value_regex")?.map(|r| fancy_regex::Regex::new(&r)).transpose();
        let value =
            value.map_err(|e| Failure::new(format!("`value_regex` is no regular expression: {e}")))?;
        Ok(Self { place: Where::read(args)?, name: args.name(), value, all: args.flag("all", false) })
    }

    /// The keys that match.
    fn matches(&self, scene: &Scene<'_>) -> Result<Vec<Match>, Failure> {
        let git = self.place.git(scene)?;
        let scope = if self.place.repo.is_some() { "--local" } else { "--global" };
        let key = format!("^{}$", self.name.trim_start_matches('^').trim_end_matches('$'));
        let said =
            git.ask(self.place.dir(), &["config", scope, "--null", "--name-only", "--get-regexp", &key])?;
        if said.code > 1 {
            return Err(Failure::new(said.words()));
        }
        let mut names: Vec<&str> = said.out.split_terminator('\0').collect();
        names.dedup();
        let mut found = Vec::new();
        for name in names {
            let values = git.config(self.place.dir(), name)?;
            let (gone, kept): (Vec<_>, Vec<_>) = values
                .into_iter()
                .partition(|v| self.value.as_ref().is_none_or(|r| r.is_match(v).unwrap_or(false)));
            if !gone.is_empty() {
                found.push((name.to_owned(), gone, kept));
            }
        }
        Ok(found)
    }
}

impl State for Unset {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let found = self.matches(scene)?;
        if found.is_empty() {
            return Ok(Look::right("No matching keys are set"));
        }
        let greedy: Vec<String> = found
            .iter()
            .filter(|(_, gone, _)| gone.len() > 1 && !self.all)
            .map(|(name, gone, _)| format!("{name} ({})", gone.join(", ")))
            .collect();
        if !greedy.is_empty() {
            let what = match self.value {
                Some(_) => "Multiple values are matched by value_regex for the following keys",
                None => "Multivar(s) matched by the key expression",
            };
            let words = format!("{what} (set 'all' to True to force removal): {}", greedy.join("; "));
            return Err(Failure::new(words));
        }
        let changes: Map =
            found.iter().map(|(name, gone, _)| (Value::from(name.as_str()), list(gone))).collect();
        Ok(Look::drift(format!("{} key(s) would have value(s) unset", found.len()), changes))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let look = self.check(scene)?;
        let git = self.place.git(scene)?;
        for (name, _, kept) in self.matches(scene)? {
            scene.change(&CONFIG, self.place.key(&name), || {
                Ok(git.set_config(self.place.dir(), &name, &kept)?)
            })?;
        }
        Ok(Done::new("Value(s) successfully unset", look.changes))
    }

    fn resources(&self) -> Vec<Resource> {
        self.place.resources()
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT | Veil::PACKAGES | Veil::USERS
    }

    fn veils(&self) -> Veil {
        Veil::NONE
    }
}
