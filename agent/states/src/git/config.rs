//! `git.config_set` and `git.config_unset`: values of a repository's configuration, or of a user's.

use std::path::{Path, PathBuf};

use zagent_config::{Map, Value};

use crate::{ApplyResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError, Undoable};
use zagent_host::git::GitCli;

/// Whose configuration.
#[derive(Clone, Debug)]
struct GitConfigScope {
    repo: Option<PathBuf>,
    user: Option<String>,
}

impl GitConfigScope {
    fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let repo = args.path("repo")?;
        let global = args.flag("global", false);
        if !global && repo.is_none() {
            return Err(StateError::new("Non-global config options require the 'repo' argument to be set"));
        }
        Ok(Self { repo: repo.filter(|_| !global), user: args.text("user")? })
    }

    fn git<'s>(&self, ctx: &'s StateCtx<'_>) -> Result<GitCli<'s>, StateError> {
        Ok(GitCli::new(ctx.tools(), self.user.as_deref())?)
    }

    fn dir(&self) -> Option<&Path> {
        self.repo.as_deref()
    }

    fn undo_key(&self, name: &str) -> Value {
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
    fn resources(&self) -> Vec<LockKey> {
        vec![self.repo.clone().map_or(LockKey::Users, LockKey::Path)]
    }

    /// How its keys are called in a comment.
    fn key_label(&self, name: &str) -> String {
        let global = if self.repo.is_none() { "Global key " } else { "" };
        format!("{global}'{name}'")
    }
}

fn values_list(values: &[String]) -> Value {
    if values.is_empty() { Value::Null } else { values.iter().map(|v| Value::from(v.as_str())).collect() }
}

/// The values of a key.
pub(crate) struct GitConfigUndo;
pub(crate) static GIT_CONFIG_UNDO: GitConfigUndo = GitConfigUndo;

impl GitConfigUndo {
    fn parse_key(key: &Value) -> (GitConfigScope, &str) {
        let text = |name: &str| key.get(name).and_then(Value::as_str);
        let place =
            GitConfigScope { repo: text("repo").map(PathBuf::from), user: text("user").map(str::to_owned) };
        (place, text("name").unwrap_or_default())
    }
}

impl Undoable for GitConfigUndo {
    fn kind(&self) -> &'static str {
        "git_config"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let (place, name) = Self::parse_key(key);
        Ok(values_list(&place.git(ctx)?.config_values(place.dir(), name)?))
    }

    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let (place, name) = Self::parse_key(key);
        let values =
            to.as_list().map(|l| l.iter().filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>());
        Ok(place.git(ctx)?.set_config(place.dir(), name, &values.unwrap_or_default())?)
    }
}

pub(crate) struct GitConfigSet {
    scope: GitConfigScope,
    name: String,
    values: Vec<String>,
    shown: String,
}

impl GitConfigSet {
    pub(crate) fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let (value, multivar) = (args.text("value")?, args.get("multivar"));
        let (values, shown) = match (value, multivar) {
            (Some(_), Some(_)) => {
                return Err(StateError::new("Only one of 'value' and 'multivar' is permitted"));
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
            (None, None) => return Err(StateError::new("One of 'value' and 'multivar' is required")),
        };
        Ok(Self { scope: GitConfigScope::from_args(args)?, name: args.name(), values, shown })
    }
}

impl State for GitConfigSet {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let now = self.scope.git(ctx)?.config_values(self.scope.dir(), &self.name)?;
        let name = self.scope.key_label(&self.name);
        if now == self.values {
            return Ok(CheckResult::in_sync(format!("{name} is already set to {}", self.shown)));
        }
        let how = if now.is_empty() { "added as" } else { "set to" };
        let change = Map::from_iter([("old", values_list(&now)), ("new", values_list(&self.values))]);
        let changes = Map::from_iter([(self.name.as_str(), Value::from(change))]);
        Ok(CheckResult::drifted(format!("{name} would be {how} {}", self.shown), changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let look = self.check(ctx)?;
        let git = self.scope.git(ctx)?;
        ctx.with_undo(&GIT_CONFIG_UNDO, self.scope.undo_key(&self.name), || {
            let set = git.set_config(self.scope.dir(), &self.name, &self.values);
            set.map_err(|e| {
                let name = self.scope.key_label(&self.name).replace("Global", "global");
                StateError::new(format!("Failed to set {name} to {}: {}", self.shown, e.message()))
            })
        })?;
        Ok(ApplyResult::new(look.comment.replacen(" would be ", " was ", 1), look.changes))
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        self.scope.resources()
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::PACKAGE_FILES | Effects::PACKAGES | Effects::USERS
    }

    fn writes(&self) -> Effects {
        Effects::NONE
    }
}

pub(crate) struct GitConfigUnset {
    scope: GitConfigScope,
    name: String,
    value: Option<fancy_regex::Regex>,
    all: bool,
}

/// A key, the values that go and those that stay.
type GitConfigMatch = (String, Vec<String>, Vec<String>);

impl GitConfigUnset {
    pub(crate) fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let value = args.text("value_regex")?.map(|r| fancy_regex::Regex::new(&r)).transpose();
        let value =
            value.map_err(|e| StateError::new(format!("`value_regex` is no regular expression: {e}")))?;
        Ok(Self {
            scope: GitConfigScope::from_args(args)?,
            name: args.name(),
            value,
            all: args.flag("all", false),
        })
    }

    /// The keys that match.
    fn matching_keys(&self, ctx: &StateCtx<'_>) -> Result<Vec<GitConfigMatch>, StateError> {
        let git = self.scope.git(ctx)?;
        let scope = if self.scope.repo.is_some() { "--local" } else { "--global" };
        let key = format!("^{}$", self.name.trim_start_matches('^').trim_end_matches('$'));
        let said =
            git.run(self.scope.dir(), &["config", scope, "--null", "--name-only", "--get-regexp", &key])?;
        if said.code > 1 {
            return Err(StateError::new(said.message()));
        }
        let mut names: Vec<&str> = said.stdout.split_terminator('\0').collect();
        names.dedup();
        let mut found = Vec::new();
        for name in names {
            let values = git.config_values(self.scope.dir(), name)?;
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

impl State for GitConfigUnset {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let found = self.matching_keys(ctx)?;
        if found.is_empty() {
            return Ok(CheckResult::in_sync("No matching keys are set"));
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
            return Err(StateError::new(words));
        }
        let changes: Map =
            found.iter().map(|(name, gone, _)| (Value::from(name.as_str()), values_list(gone))).collect();
        Ok(CheckResult::drifted(format!("{} key(s) would have value(s) unset", found.len()), changes))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let look = self.check(ctx)?;
        let git = self.scope.git(ctx)?;
        for (name, _, kept) in self.matching_keys(ctx)? {
            ctx.with_undo(&GIT_CONFIG_UNDO, self.scope.undo_key(&name), || {
                Ok(git.set_config(self.scope.dir(), &name, &kept)?)
            })?;
        }
        Ok(ApplyResult::new("Value(s) successfully unset", look.changes))
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        self.scope.resources()
    }

    fn reads(&self) -> Effects {
        Effects::FILES | Effects::PACKAGE_FILES | Effects::PACKAGES | Effects::USERS
    }

    fn writes(&self) -> Effects {
        Effects::NONE
    }
}
