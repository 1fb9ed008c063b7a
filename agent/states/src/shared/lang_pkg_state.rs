//! Libraries that are to be installed or removed in, a state that does it out: the logic that `gem` and `npm` share.
//!
//! Law: what differs between the programs is data (a [`LangPkgFunction`]) or a method of [`LangPkgStates`] (held by
//! `LangPkgFunction`, `LangPkgStates`).

use zagent_config::{Map, Value};

use super::lang_pkg::{InstalledVersions, LangPkgProgram, LangPkgProvider};
use crate::{ApplyResult, CheckResult, Effects, LockKey, State, StateCtx, StateError};
use zagent_config::mask::redact_logins;
use zagent_host::Tools;
use zagent_host::temp_file::PrivateTempFile;

/// What the states of a program need to know.
pub(crate) trait LangPkgStates: LangPkgProgram {
    /// True when one of the installed versions is as asked for.
    fn is_satisfied(&self, installed: &[String], version: &str) -> bool;

    /// The words before the libraries that are installed or removed; `is_global` when no location is given.
    fn target_prefix(&self, is_global: bool) -> &'static [&'static str];

    /// The provider for an installation from a source, and the file that must be there meanwhile.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    fn with_source(
        &self,
        machine: &zagent_host::Machine,
        provider: &LangPkgProvider,
        source: Option<&str>,
    ) -> Result<(LangPkgProvider, Option<PrivateTempFile>), StateError> {
        let _ = (machine, source);
        Ok((provider.clone(), None))
    }
}

/// What a function is about.
#[derive(Clone, Copy)]
pub(crate) enum LangPkgAction {
    Install,
    Remove,
    /// Something else: how to find that nothing is to be done, and whether the program is told the name.
    Other {
        is_in_sync: fn(&LangPkgProvider, &str, &Tools<'_>) -> Result<bool, StateError>,
        takes_name: bool,
    },
}

/// How changes are reported.
#[derive(Clone, Copy)]
pub(crate) enum ChangeReport {
    /// What happened to the name.
    ByName(&'static str),
    /// Lists of old and new libraries.
    Lists,
}

/// A state function. Comments may hold `{name}` (the first library), `{names}` (all) and `{targets}` (those that change).
pub(crate) struct LangPkgFunction {
    /// Salt's name.
    pub(crate) name: &'static str,
    pub(crate) action: LangPkgAction,
    /// The words before the libraries.
    pub(crate) head: &'static [&'static str],
    /// The words after them.
    pub(crate) tail: &'static [&'static str],
    pub(crate) in_sync: &'static str,
    pub(crate) preview: &'static str,
    pub(crate) done: &'static str,
    /// What is said before the reason of a failure; when empty, the reason stands alone.
    pub(crate) failed: &'static str,
    pub(crate) changes: ChangeReport,
    /// It runs whatever a check finds.
    pub(crate) runs_always: bool,
    pub(crate) irreversible: Option<&'static str>,
}

/// A library that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LangPkgRequest {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// As it is written and as the program is told to install it.
    pub(crate) text: String,
}

/// A state of a library, or of what belongs to its program.
pub(crate) struct LangPkgState {
    pub(crate) program: &'static dyn LangPkgStates,
    pub(crate) function: &'static LangPkgFunction,
    pub(crate) provider: LangPkgProvider,
    pub(crate) requests: Vec<LangPkgRequest>,
    /// More words of an installation.
    pub(crate) options: Vec<String>,
    /// Where a library comes from.
    pub(crate) source: Option<String>,
    /// Install what is there once more.
    pub(crate) force: bool,
}

/// True when a library is installed as it is asked for.
pub(crate) fn is_installed(
    program: &dyn LangPkgStates,
    installed: &InstalledVersions,
    request: &LangPkgRequest,
) -> bool {
    let version = request.version.as_deref();
    let found = installed.get(&request.name);
    found.is_some_and(|have| version.is_none_or(|version| program.is_satisfied(have, version)))
}

impl LangPkgState {
    /// What has to change; empty when nothing has to.
    fn find_targets(&self, ctx: &StateCtx<'_>) -> Result<Vec<&LangPkgRequest>, StateError> {
        let tools = ctx.tools();
        if let LangPkgAction::Other { is_in_sync, .. } = self.function.action {
            let name = self.requests.first().map_or("", |request| request.text.as_str());
            let is_right = is_in_sync(&self.provider, name, &tools)?;
            return Ok(if is_right { Vec::new() } else { self.requests.iter().collect() });
        }
        let installed = self.provider.list(&tools)?;
        let has_to_change = |request: &&LangPkgRequest| match self.function.action {
            LangPkgAction::Install => self.force || !is_installed(self.program, &installed, request),
            _ => installed.contains_key(&request.name),
        };
        Ok(self.requests.iter().filter(has_to_change).collect())
    }

    fn comment(&self, template: &str, targets: &[&LangPkgRequest]) -> String {
        let texts = |all: Vec<&LangPkgRequest>| {
            all.iter().map(|request| request.text.as_str()).collect::<Vec<_>>().join(", ")
        };
        let filled = [
            ("{name}", texts(self.requests.iter().take(1).collect())),
            ("{names}", texts(self.requests.iter().collect())),
            ("{targets}", texts(targets.to_vec())),
        ];
        let found = filled.iter().find(|(place, _)| template.contains(place));
        found.map_or_else(
            || template.to_owned(),
            |(place, value)| template.replace(place, &redact_logins(value)),
        )
    }

    fn changes(&self, targets: &[&LangPkgRequest]) -> Map {
        match self.function.changes {
            ChangeReport::ByName(what) => {
                let name = self.requests.first().map_or("", |request| request.text.as_str());
                Map::from_iter([(redact_logins(name), what)])
            }
            ChangeReport::Lists => {
                let new = targets.iter().map(|request| Value::from(redact_logins(&request.text)));
                Map::from_iter([("new", new.collect::<Value>())])
            }
        }
    }

    /// The words that the program is told.
    fn command_words(&self, targets: &[&LangPkgRequest]) -> Vec<String> {
        let prefix: &[&str] = match self.function.action {
            LangPkgAction::Other { .. } => &[],
            _ => self.program.target_prefix(self.provider.location.is_none()),
        };
        let names = targets.iter().filter_map(|request| match self.function.action {
            LangPkgAction::Install | LangPkgAction::Other { takes_name: true, .. } => {
                Some(request.text.as_str())
            }
            LangPkgAction::Remove => Some(request.name.as_str()),
            LangPkgAction::Other { takes_name: false, .. } => None,
        });
        let head = self.function.head.iter().chain(prefix).copied();
        let words = head.chain(names).chain(self.function.tail.iter().copied()).map(str::to_owned);
        words.chain(self.options.iter().cloned()).collect()
    }
}

impl State for LangPkgState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let targets = self.find_targets(ctx)?;
        Ok(if targets.is_empty() {
            CheckResult::in_sync(self.comment(self.function.in_sync, &targets))
        } else {
            CheckResult::drifted(self.comment(self.function.preview, &targets), self.changes(&targets))
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let tools = ctx.tools();
        let targets = self.find_targets(ctx)?;
        if targets.is_empty() {
            return Ok(ApplyResult::new(self.comment(self.function.in_sync, &targets), Map::new()));
        }
        let words = self.command_words(&targets);
        let names: Vec<String> = match self.function.action {
            LangPkgAction::Other { .. } => Vec::new(),
            _ => targets.iter().map(|request| request.name.clone()).collect(),
        };
        let (provider, _file) =
            self.program.with_source(ctx.machine, &self.provider, self.source.as_deref())?;
        let result =
            self.provider.change_packages(ctx, &names, &mut || Ok(provider.run_checked(&tools, &words)?));
        result.map_err(|failure| match self.function.failed {
            "" => failure,
            failed => StateError::new(format!("{failed} {}", failure.result.comment)),
        })?;
        let mut changes = self.changes(&targets);
        if matches!(self.function.changes, ChangeReport::Lists) {
            changes = [("old", Value::empty_list())]
                .into_iter()
                .map(|(k, v)| (Value::from(k), v))
                .chain(changes.iter().map(|(k, v)| (k.clone(), v.clone())))
                .collect();
        }
        Ok(ApplyResult::new(self.comment(self.function.done, &targets), changes))
    }

    fn is_convergent(&self) -> bool {
        !self.function.runs_always && !self.force
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Stores]
    }

    fn reads(&self) -> Effects {
        Effects::STORES
    }

    fn writes(&self) -> Effects {
        Effects::STORES | Effects::PACKAGE_FILES
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        self.function.irreversible
    }
}
