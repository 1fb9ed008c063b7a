//! States of the module `npm`: libraries of Node.js.

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::shared::lang_pkg::{InstalledVersions, LANG_PKG_UNDO, LangPkgProvider};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule,
};
use zagent_host::exec::command_options::value_text;
use zagent_host::refuse_option;

/// What `npm list --json` printed.
pub fn parse_list(out: &str) -> Result<InstalledVersions, FunctionError> {
    let json = Value::from_json_str(out.trim())
        .map_err(|e| FunctionError::failed(format!("npm lists no JSON: {e}")))?;
    let one = |(name, of): (&Value, &Value)| {
        Some((value_text(name), vec![of.get("version").and_then(Value::as_str)?.to_owned()]))
    };
    Ok(json
        .get("dependencies")
        .and_then(Value::as_map)
        .into_iter()
        .flat_map(Map::iter)
        .filter_map(one)
        .collect())
}

/// The module `npm`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "npm",
    build,
    functions: &[],
    undo: &[&LANG_PKG_UNDO],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let act = match fun {
        "installed" => NpmFunction::Install,
        "removed" => NpmFunction::Remove,
        "bootstrap" => NpmFunction::Bootstrap,
        "cache_cleaned" => NpmFunction::Clean,
        _ => return None,
    };
    Some(state_from_args(act, args))
}

fn state_from_args(act: NpmFunction, args: &ChunkArgs<'_>) -> BuildResult {
    let mut provider = LangPkgProvider::from_args("npm", args, &["dir"], "env")?;
    if act == NpmFunction::Bootstrap {
        provider.location = Some(args.name());
    }
    read_registry(&mut provider, args)?;
    let names = args.texts("pkgs")?.filter(|p| !p.is_empty()).unwrap_or_else(|| vec![args.name()]);
    names.iter().try_for_each(|name| refuse_option("package", name))?;
    Ok(Box::new(NpmState {
        function: act,
        provider: provider,
        names,
        force: args.flag("force_reinstall", false) || args.flag("force", false),
    }))
}

/// Where packages come from; the address may hold a password.
fn read_registry(provider: &mut LangPkgProvider, args: &ChunkArgs<'_>) -> Result<(), StateError> {
    provider.env.extend(args.text("registry")?.map(|registry| ("npm_config_registry".to_owned(), registry)));
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NpmFunction {
    Install,
    Remove,
    Bootstrap,
    Clean,
}

struct NpmState {
    function: NpmFunction,
    provider: LangPkgProvider,
    names: Vec<String>,
    force: bool,
}

/// A package and the version that is asked for: `name@1.0`, `@scope/name@1.0`.
fn split_version(name: &str) -> (&str, Option<&str>) {
    match name.char_indices().skip(1).find(|(_, c)| *c == '@') {
        Some((at, _)) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    }
}

/// True when a package is there as asked for.
fn is_installed(provider: &InstalledVersions, name: &str) -> bool {
    let (name, version) = split_version(name);
    let have = provider.get(name).and_then(|v| v.first());
    have.is_some_and(|have| version.is_none_or(|v| !v.starts_with(|c: char| c.is_ascii_digit()) || v == have))
}

impl NpmState {
    /// Packages that need an act.
    fn targets(&self, ctx: &StateCtx<'_>) -> Result<Vec<String>, StateError> {
        if matches!(self.function, NpmFunction::Bootstrap | NpmFunction::Clean) {
            return Ok(Vec::new());
        }
        let provider = self.provider.list(&ctx.tools())?;
        let is_meant = |name: &&String| match self.function {
            NpmFunction::Install => self.force || !is_installed(&provider, name),
            _ => provider.contains_key(split_version(name).0),
        };
        Ok(self.names.iter().filter(is_meant).cloned().collect())
    }
}

impl State for NpmState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let targets = self.targets(ctx)?;
        let list = targets.join(", ");
        let name = &self.names[0];
        let change = |what: &str| Map::from_iter([(name.as_str(), what)]);
        Ok(match self.function {
            NpmFunction::Install if targets.is_empty() => {
                CheckResult::in_sync(format!("Package(s) '{}' satisfied", self.names.join(", ")))
            }
            NpmFunction::Install => CheckResult::drifted(
                format!("NPM package(s) '{list}' are set to be installed"),
                Map::from_iter([("new", targets.iter().map(|t| Value::from(t.as_str())).collect::<Value>())]),
            ),
            NpmFunction::Remove if targets.is_empty() => {
                CheckResult::in_sync(format!("Package '{name}' is not installed"))
            }
            NpmFunction::Remove => {
                CheckResult::drifted(format!("Package '{name}' is set to be removed"), change("Removed"))
            }
            NpmFunction::Bootstrap => {
                let said = self.provider.run_command(&ctx.tools(), &["list".into(), "--depth=0".into()])?;
                if said.is_success() {
                    CheckResult::in_sync("Directory is already bootstrapped")
                } else {
                    CheckResult::drifted("Directory is set to be bootstrapped", change("Bootstrapped"))
                }
            }
            NpmFunction::Clean => {
                CheckResult::drifted("Cached packages set to be removed", change("Removed"))
            }
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let tools = ctx.tools();
        let targets = self.targets(ctx)?;
        let mut words: Vec<String> = match self.function {
            NpmFunction::Install | NpmFunction::Bootstrap => vec!["install".into()],
            NpmFunction::Remove => vec!["uninstall".into()],
            NpmFunction::Clean => vec!["cache".into(), "clean".into(), "--force".into()],
        };
        if matches!(self.function, NpmFunction::Install | NpmFunction::Remove)
            && self.provider.location.is_none()
        {
            words.push("--global".into());
        }
        words.extend(targets.first().map(|_| "--".to_owned()));
        words.extend(targets.iter().map(|t| {
            if self.function == NpmFunction::Remove { split_version(t).0.to_owned() } else { t.clone() }
        }));
        let names: Vec<String> = targets.iter().map(|t| split_version(t).0.to_owned()).collect();
        self.provider
            .change_packages(ctx, &names, &mut || Ok(self.provider.run_checked(&tools, &words)?))?;
        let name = self.names[0].as_str();
        let one = |what: &str| Map::from_iter([(name, what)]);
        let list = targets.join(", ");
        Ok(match self.function {
            NpmFunction::Install => {
                let new: Value = targets.iter().map(|t| Value::from(t.as_str())).collect();
                let changes = Map::from_iter([("old", Value::empty_list()), ("new", new)]);
                ApplyResult::new(format!("Package(s) '{list}' successfully installed"), changes)
            }
            NpmFunction::Remove => {
                ApplyResult::new(format!("Package '{name}' was successfully removed"), one("Removed"))
            }
            NpmFunction::Bootstrap => {
                ApplyResult::new("Directory was successfully bootstrapped", one("Bootstrapped"))
            }
            NpmFunction::Clean => ApplyResult::new("Cached package(s) successfully removed", one("Removed")),
        })
    }

    fn is_convergent(&self) -> bool {
        self.function != NpmFunction::Clean && !self.force
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
        matches!(self.function, NpmFunction::Bootstrap | NpmFunction::Clean)
            .then_some("what npm fetches or forgets is not noted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_not_among_the_words() {
        let chunk = crate::testing::chunk("npm.installed", "x", r#"{"registry": "https://t@h/"}"#);
        let mut provider = LangPkgProvider::default();
        read_registry(&mut provider, &ChunkArgs::new(&chunk)).unwrap();
        assert_eq!(provider.env, [("npm_config_registry".to_owned(), "https://t@h/".to_owned())]);
    }

    #[test]
    fn names_are_cut_from_versions() {
        assert_eq!(split_version("left-pad@1.3.0"), ("left-pad", Some("1.3.0")));
        assert_eq!(split_version("@scope/x@2"), ("@scope/x", Some("2")));
        assert_eq!(split_version("@scope/x"), ("@scope/x", None));
    }

    #[test]
    fn what_npm_lists_is_understood() {
        let provider = parse_list(
            r#"{"name": "lib", "dependencies": {"x": {"version": "1.0.0", "overridden": false}, "gone": {}}}"#,
        );
        let provider = provider.unwrap_or_default();
        assert!(
            is_installed(&provider, "x")
                && is_installed(&provider, "x@1.0.0")
                && !is_installed(&provider, "x@2.0.0")
                && is_installed(&provider, "x@latest")
        );
        assert!(!is_installed(&provider, "gone"));
    }
}
