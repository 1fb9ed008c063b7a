//! States of the module `pip`: libraries of Python.

pub(crate) mod functions;

mod program;
#[cfg(test)]
mod tests;

use zagent_compiler::Chunk;
use zagent_config::FunctionError;
use zagent_config::{Map, Value};

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
use zagent_config::mask::{has_login, redact_logins};
use zagent_host::command_options::value_text;
use zagent_host::refuse_option;
use zagent_host::temp_file::PrivateTempFile;

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

    /// What pip is told besides what to install.
    fn cli_options(&self) -> Result<Vec<String>, StateError> {
        let args = ChunkArgs::new(&self.chunk);
        let mut words = Vec::new();
        for (key, option) in FLAGS {
            words.extend(self.flag(key).then(|| option.to_owned()));
        }
        for (key, option) in VALUE_OPTIONS {
            for value in args.texts(key)?.unwrap_or_default() {
                words.extend([option.to_owned(), value]);
            }
        }
        if let Some(Value::List(extra)) = args.get("extra_args") {
            for item in extra.iter() {
                match item {
                    Value::Map(map) => {
                        words.extend(map.iter().flat_map(|(k, v)| [value_text(k), value_text(v)]));
                    }
                    other => words.push(value_text(other)),
                }
            }
        } else {
            words.extend(args.texts("extra_args")?.unwrap_or_default());
        }
        Ok(words)
    }

    #[expect(clippy::too_many_lines, reason = "one decision, read from top to bottom")]
    fn install(&self, ctx: &StateCtx<'_>, found: &PipCheck) -> Result<ApplyResult, StateError> {
        let tools = ctx.tools();
        let args = ChunkArgs::new(&self.chunk);
        let mut words = vec!["install".to_owned()];
        words.extend(self.cli_options()?);
        let files = args.texts("requirements")?.unwrap_or_default();
        let by_name = files.is_empty() && args.get("editable").is_none();
        let mut kept = Vec::new();
        let owner = self.provider.run_as(ctx.machine)?.map(|account| account.ids.uid);
        for file in &files {
            // A file of this host may name others beside it.
            if let Some(path) = self.local_path(file) {
                words.extend(["--requirement".into(), path]);
                continue;
            }
            let text = self.read_requirements(ctx, file)?;
            let scratch = PrivateTempFile::new_secret(ctx.machine, text.as_bytes(), ".txt", owner);
            let scratch = scratch.map_err(|e| StateError::new(format!("cannot keep {file}: {e}")))?;
            words.extend(["--requirement".into(), scratch.path().display().to_string()]);
            kept.push(scratch);
        }
        for path in args.texts("editable")?.unwrap_or_default() {
            words.extend(["--editable".into(), path]);
        }
        if by_name {
            let plain = |t: &String| t.split(';').next().unwrap_or(t).replace(' ', "");
            let (secret, open): (Vec<String>, Vec<String>) =
                found.targets.iter().map(plain).partition(|t| has_login(t));
            words.extend(open);
            if !secret.is_empty() {
                let file = PrivateTempFile::new_secret(
                    ctx.machine,
                    (secret.join("\n") + "\n").as_bytes(),
                    ".txt",
                    owner,
                );
                let file = file.map_err(|e| StateError::new(format!("cannot keep what to install: {e}")))?;
                words.extend(["--requirement".into(), file.path().display().to_string()]);
                kept.push(file);
            }
        }
        let before = self.provider.list(&tools)?;
        let told = self
            .provider
            .change_packages(ctx, &found.names, &mut || Ok(self.provider.run_checked(&tools, &words)?));
        told.map_err(|f| {
            let what = if by_name {
                format!("Failed to install packages: {}.", found.targets.join(", "))
            } else {
                format!("Unable to process requirements file \"{}\"", files.join(", "))
            };
            StateError::new(redact_logins(&format!("{what} Error: {}", f.result.comment)))
        })?;
        let after = self.provider.list(&tools)?;
        let is_forced = self.flag("force_reinstall") || self.flag("ignore_installed");
        let mut changes = Map::new();
        for (name, versions) in &after {
            let is_new = before.get(name) != Some(versions);
            let is_meant = !by_name || found.names.contains(name);
            if is_meant && (is_new || (is_forced && by_name)) {
                changes.insert(format!("{name}=={}", versions.join(",")), "Installed");
            }
        }
        if by_name && found.names.len() < found.targets.len() && after != before {
            changes.insert(redact_logins(&format!("{}==???", found.targets.join(","))), "Installed");
        }
        let last = match (by_name, changes.is_empty()) {
            (true, _) => "All packages were successfully installed".to_owned(),
            (false, false) => format!("Successfully processed requirements file {}.", files.join(", ")),
            (false, true) => "Requirements were already installed.".to_owned(),
        };
        let already = if by_name { found.in_sync_comments.clone() } else { Vec::new() };
        let words = already.into_iter().chain([last]).collect::<Vec<_>>().join("\n");
        Ok(ApplyResult::new(redact_logins(&words), changes))
    }
}

/// Arguments that switch an option of pip on.
const FLAGS: [(&str, &str); 9] = [
    ("upgrade", "--upgrade"),
    ("force_reinstall", "--force-reinstall"),
    ("ignore_installed", "--ignore-installed"),
    ("no_deps", "--no-deps"),
    ("no_index", "--no-index"),
    ("pre_releases", "--pre"),
    ("no_cache_dir", "--no-cache-dir"),
    ("no_install", "--no-install"),
    ("no_download", "--no-download"),
];

/// Arguments that are addresses, and the variables by which pip gets them.
const ADDRESS_VARIABLES: [(&str, &str); 4] = [
    ("proxy", "PIP_PROXY"),
    ("find_links", "PIP_FIND_LINKS"),
    ("index_url", "PIP_INDEX_URL"),
    ("extra_index_url", "PIP_EXTRA_INDEX_URL"),
];

/// Arguments that are the value of an option of pip.
const VALUE_OPTIONS: [(&str, &str); 10] = [
    ("log", "--log"),
    ("timeout", "--timeout"),
    ("target", "--target"),
    ("source", "--source"),
    ("exists_action", "--exists-action"),
    ("global_options", "--global-option"),
    ("cert", "--cert"),
    ("trusted_host", "--trusted-host"),
    ("no_binary", "--no-binary"),
    ("cache_dir", "--cache-dir"),
];

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
