//! States of the module `pip`: libraries of Python.

pub(crate) mod functions;

mod install;
mod program;
#[cfg(test)]
mod tests;

use zagent_compiler::Chunk;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use self::install::ADDRESS_VARIABLES;
pub(crate) use self::program::Pip;
use self::program::parse_list;
use crate::file::sources;
use crate::file::sources::ContentLocation;
use crate::shared::lang_pkg::{InstalledVersions, LangPkgProvider, LangPkgUndo};
use crate::shared::pep440::{PipRequirement, normalize_name};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule,
};
use zagent_config::mask::redact_logins;
use zagent_host::command_options::value_text;
use zagent_host::refuse_option;

/// The module `pip`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "pip",
    build,
    functions: functions::TABLE,
    undo: &[&LangPkgUndo(&Pip)],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let act = match fun {
        "installed" => PipFunction::Install,
        "removed" => PipFunction::Remove,
        "uptodate" => PipFunction::Update,
        _ => return None,
    };
    Some(state_from_args(act, args))
}

fn state_from_args(act: PipFunction, args: &ChunkArgs<'_>) -> BuildResult {
    let mut provider = LangPkgProvider::from_args(&Pip, args, &["bin_env", "pip_bin"], "env_vars")?;
    for (key, variable) in ADDRESS_VARIABLES {
        let given = args.texts(key)?.filter(|all| !all.is_empty());
        provider.env.extend(given.map(|all| (variable.to_owned(), all.join(" "))));
    }
    let names = match args.get("pkgs").filter(|_| act == PipFunction::Install) {
        None => vec![args.name()],
        Some(Value::List(items)) => items.iter().map(package_text).collect(),
        Some(_) => return Err(StateError::new("pkgs argument must be formatted as a list")),
    };
    // What is worked on may stand in the place of a name.
    let is_option =
        |name: &&String| !["-e ", "--editable "].iter().any(|editable| name.starts_with(editable));
    names.iter().filter(is_option).try_for_each(|name| refuse_option("package", name))?;
    let by_name = args.get("requirements").is_none() && args.get("editable").is_none();
    if by_name && act == PipFunction::Install {
        let wrong: Vec<String> = names.iter().filter_map(|n| PipRequirement::parse(n).err()).collect();
        if !wrong.is_empty() {
            return Err(StateError::new(wrong.join("\n")));
        }
    }
    Ok(Box::new(PipState { function: act, provider, names, chunk: args.chunk.clone() }))
}

/// One of several packages: a text, or a mapping of a name and a version.
fn package_text(value: &Value) -> String {
    match value {
        Value::Map(map) => map
            .iter()
            .map(|(k, v)| format!("{} {}", value_text(k), value_text(v)))
            .collect::<Vec<_>>()
            .join(" "),
        other => value_text(other),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PipFunction {
    Install,
    Remove,
    Update,
}

struct PipState {
    function: PipFunction,
    provider: LangPkgProvider,
    names: Vec<String>,
    chunk: Chunk,
}

/// What a look found.
struct PipCheck {
    /// What has to be told to pip.
    targets: Vec<String>,
    /// Their names as they are compared.
    names: Vec<String>,
    /// What is right already, in words.
    in_sync_comments: Vec<String>,
    /// Something surely has to be done.
    needs_install: bool,
    /// Nobody but pip can tell whether there is something to do.
    is_unknown: bool,
}

impl PipState {
    fn flag(&self, key: &str) -> bool {
        ChunkArgs::new(&self.chunk).flag(key, false)
    }

    fn inspect(&self, ctx: &StateCtx<'_>) -> Result<PipCheck, StateError> {
        let failed = |e: FunctionError| {
            let act = if self.function == PipFunction::Remove { "uninstalling" } else { "installing" };
            StateError::new(format!("Error {act} '{}': {}", self.names.join(";"), e.message()))
        };
        let provider = self.provider.list(&ctx.tools()).map_err(failed)?;
        let mut found = PipCheck {
            targets: Vec::new(),
            names: Vec::new(),
            in_sync_comments: Vec::new(),
            needs_install: self.function != PipFunction::Install,
            is_unknown: false,
        };
        match self.function {
            PipFunction::Remove => {
                let name = normalize_name(&self.names[0]);
                if provider.contains_key(&name) {
                    found.targets.push(self.names[0].clone());
                    found.names.push(name);
                }
            }
            PipFunction::Update => {
                let words = ["list", "--outdated", "--format=json"].map(str::to_owned);
                let old = parse_list(&self.provider.run_checked(&ctx.tools(), &words)?)?;
                found.names = old.into_keys().collect();
                found.targets.clone_from(&found.names);
            }
            PipFunction::Install => {
                for name in self.requested_packages(ctx)? {
                    self.classify_package(&name, &provider, &mut found);
                }
            }
        }
        Ok(found)
    }

    /// All that is asked for: by name, in files of requirements, and what is worked on.
    fn requested_packages(&self, ctx: &StateCtx<'_>) -> Result<Vec<String>, StateError> {
        let args = ChunkArgs::new(&self.chunk);
        let files = args.texts("requirements")?.unwrap_or_default();
        let worked_on = args.texts("editable")?.unwrap_or_default();
        let mut all: Vec<String> = worked_on.iter().map(|path| format!("-e {path}")).collect();
        for file in &files {
            let text = self.read_requirements(ctx, file)?;
            let lines = text.lines().map(|l| l.split(" #").next().unwrap_or(l).trim().to_owned());
            all.extend(lines.filter(|l| !l.is_empty() && !l.starts_with('#')));
        }
        if files.is_empty() && worked_on.is_empty() {
            all.clone_from(&self.names);
        }
        Ok(all)
    }

    /// Where a file of this host is; nothing for one that has to be brought.
    fn local_path(&self, file: &str) -> Option<String> {
        let ContentLocation::Local(path) = sources::parse_location(file) else { return None };
        let cwd = self.provider.cwd.as_deref().filter(|_| !path.starts_with('/'));
        Some(cwd.map_or_else(|| path.to_owned(), |cwd| format!("{cwd}/{path}")))
    }

    fn read_requirements(&self, ctx: &StateCtx<'_>, file: &str) -> Result<String, StateError> {
        let path = self.local_path(file).unwrap_or_else(|| file.to_owned());
        let found = sources::FileSources::without_verification(path.as_str().into()).find_source(
            ctx,
            &self.chunk.env,
            &path,
        );
        Ok(String::from_utf8_lossy(&found.map_err(StateError::new)?.bytes).into_owned())
    }

    fn classify_package(&self, name: &str, provider: &InstalledVersions, found: &mut PipCheck) {
        let worked_on = name.strip_prefix("-e ").or_else(|| name.strip_prefix("--editable "));
        if name.starts_with('-') && worked_on.is_none() {
            // An option of a file of requirements; only more files may ask for more.
            found.is_unknown |= name.starts_with("-r") || name.starts_with("--req");
            return;
        }
        let egg = name.split_once("#egg=").map(|(_, egg)| egg.split('&').next().unwrap_or(egg));
        let wanted = match (worked_on, egg) {
            (_, Some(egg)) => Some(PipRequirement { name: normalize_name(egg), specs: Vec::new() }),
            (Some(_), None) => None,
            (None, None) => PipRequirement::parse(name).ok().flatten(),
        };
        let force = self.flag("force_reinstall") || self.flag("ignore_installed");
        let Some(wanted) = wanted else {
            found.is_unknown = true;
            found.targets.push(name.to_owned());
            return;
        };
        let now = provider.get(&wanted.name).and_then(|v| v.first());
        match now.filter(|v| wanted.accepts_version(v) && !force) {
            Some(_) if !self.flag("upgrade") => {
                found.in_sync_comments.push(format!("Python package {name} was already installed"));
            }
            is_there => {
                // Only pip knows whether there is a newer one.
                found.is_unknown |= is_there.is_some();
                found.needs_install |= is_there.is_none();
                found.targets.push(name.to_owned());
                found.names.push(wanted.name);
            }
        }
    }
}

impl State for PipState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let found = self.inspect(ctx)?;
        if found.targets.is_empty() && !found.is_unknown {
            return Ok(CheckResult::in_sync(match self.function {
                PipFunction::Remove => "Package is not installed.".to_owned(),
                PipFunction::Update => "System is already up-to-date.".to_owned(),
                PipFunction::Install => {
                    let last = "All specified packages are already installed".to_owned();
                    redact_logins(
                        &found.in_sync_comments.into_iter().chain([last]).collect::<Vec<_>>().join("\n"),
                    )
                }
            }));
        }
        if found.is_unknown && !found.needs_install {
            return Ok(CheckResult::unknown("only pip can tell what is newer, or what an address holds"));
        }
        let words = match (self.function, found.targets.as_slice()) {
            (PipFunction::Remove, _) => format!("Package {} is set to be removed", self.names[0]),
            (PipFunction::Update, _) => "System update will be performed".to_owned(),
            (PipFunction::Install, [one]) => format!("Python package {one} is set to be installed"),
            (PipFunction::Install, all) => {
                format!("Python package(s) set to be installed:\n{}", all.join("\n"))
            }
        };
        let change = if self.function == PipFunction::Remove { "Removed" } else { "Installed" };
        Ok(CheckResult::drifted(
            redact_logins(&words),
            found.targets.iter().map(|t| (redact_logins(t), change)).collect(),
        ))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let found = self.inspect(ctx)?;
        let tools = ctx.tools();
        let told = |first: &[&str]| -> Vec<String> {
            first.iter().map(|w| (*w).to_owned()).chain(found.targets.iter().cloned()).collect()
        };
        match self.function {
            PipFunction::Install => self.install(ctx, &found),
            PipFunction::Remove => {
                let mut words = told(&["uninstall", "-y"]);
                words.extend(self.cli_options()?);
                self.provider.change_packages(ctx, &found.names, &mut || {
                    Ok(self.provider.run_checked(&tools, &words)?)
                })?;
                let changes = Map::from_iter([(self.names[0].as_str(), "Removed")]);
                Ok(ApplyResult::new("Package was successfully removed.", changes))
            }
            PipFunction::Update => {
                let words = told(&["install", "--upgrade"]);
                self.provider.change_packages(ctx, &found.names, &mut || {
                    Ok(self.provider.run_checked(&tools, &words)?)
                })?;
                Ok(ApplyResult::new(
                    "Upgrade successful.",
                    found.names.iter().map(|n| (n.as_str(), "Updated")).collect(),
                ))
            }
        }
    }

    fn is_convergent(&self) -> bool {
        let asks = ["upgrade", "force_reinstall", "ignore_installed", "requirements", "editable", "target"];
        self.function == PipFunction::Remove
            || (self.function == PipFunction::Install
                && !asks.iter().any(|k| self.flag(k))
                && self.names.iter().all(|n| matches!(PipRequirement::parse(n), Ok(Some(_)))))
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
}
