//! States of the module `npm`: libraries of Node.js.

pub(crate) mod functions;

use std::path::Path;

use zagent_config::FunctionError;
use zagent_config::{Map, Value};

use crate::shared::lang_pkg::{
    InstalledVersions, LangPkgProgram, LangPkgProvider, LangPkgUndo, missing_program,
};
use crate::shared::lang_pkg_state::{
    ChangeReport, LangPkgAction, LangPkgFunction, LangPkgRequest, LangPkgState, LangPkgStates,
};
use crate::shared::planned_state::to_strings;
use crate::{BuildResult, ChunkArgs, StateError, StateModule};
use zagent_config::sorted::CollectSorted;
use zagent_host::Tools;
use zagent_host::command_options::value_text;
use zagent_host::refuse_option;

/// The program `npm`.
#[derive(Debug)]
pub(crate) struct Npm;

impl LangPkgProgram for Npm {
    fn name(&self) -> &'static str {
        "npm"
    }

    fn base_command(&self, _: Option<&str>, tools: &Tools<'_>) -> Result<Vec<String>, FunctionError> {
        tools.which("npm").map(|program| vec![program]).ok_or_else(|| missing_program("npm"))
    }

    fn work_dir(&self, location: Option<&str>) -> Option<String> {
        location.filter(|dir| Path::new(dir).is_dir()).map(str::to_owned)
    }

    fn list(
        &self,
        provider: &LangPkgProvider,
        tools: &Tools<'_>,
    ) -> Result<InstalledVersions, FunctionError> {
        let mut words = to_strings(&["list", "--json", "--depth=0"]);
        words.extend(provider.location.is_none().then(|| "--global".to_owned()));
        // It also fails when a dependency is missing; what is there is listed all the same.
        parse_list(&provider.run_command(tools, &words)?.stdout)
    }

    fn install_args(&self, name: &str, version: &str, is_global: bool) -> Vec<String> {
        let mut words = to_strings(&["install", &format!("{name}@{version}")]);
        words.extend(is_global.then(|| "--global".to_owned()));
        words
    }

    fn uninstall_args(&self, name: &str, _: &str, is_global: bool) -> Vec<String> {
        let mut words = to_strings(&["uninstall", name]);
        words.extend(is_global.then(|| "--global".to_owned()));
        words
    }

    fn version_value(&self, versions: Vec<String>) -> Value {
        Map::from_iter([("version", versions.join(", "))]).into()
    }
}

impl LangPkgStates for Npm {
    /// A tag such as `latest` is satisfied by any version.
    fn is_satisfied(&self, installed: &[String], version: &str) -> bool {
        let have = installed.first();
        have.is_some_and(|have| !version.starts_with(|c: char| c.is_ascii_digit()) || version == have)
    }

    fn target_prefix(&self, is_global: bool) -> &'static [&'static str] {
        if is_global { &["--global", "--"] } else { &["--"] }
    }
}

const NOT_NOTED: Option<&str> = Some("what npm fetches or forgets is not noted");

static FUNCTIONS: [LangPkgFunction; 4] = [
    LangPkgFunction {
        name: "installed",
        action: LangPkgAction::Install,
        head: &["install"],
        tail: &[],
        in_sync: "Package(s) '{names}' satisfied",
        preview: "NPM package(s) '{targets}' are set to be installed",
        done: "Package(s) '{targets}' successfully installed",
        failed: "",
        changes: ChangeReport::Lists,
        runs_always: false,
        irreversible: None,
    },
    LangPkgFunction {
        name: "removed",
        action: LangPkgAction::Remove,
        head: &["uninstall"],
        tail: &[],
        in_sync: "Package '{name}' is not installed",
        preview: "Package '{name}' is set to be removed",
        done: "Package '{name}' was successfully removed",
        failed: "",
        changes: ChangeReport::ByName("Removed"),
        runs_always: false,
        irreversible: None,
    },
    LangPkgFunction {
        name: "bootstrap",
        action: LangPkgAction::Other { is_in_sync: is_bootstrapped, takes_name: false },
        head: &["install"],
        tail: &[],
        in_sync: "Directory is already bootstrapped",
        preview: "Directory is set to be bootstrapped",
        done: "Directory was successfully bootstrapped",
        failed: "",
        changes: ChangeReport::ByName("Bootstrapped"),
        runs_always: false,
        irreversible: NOT_NOTED,
    },
    LangPkgFunction {
        name: "cache_cleaned",
        action: LangPkgAction::Other { is_in_sync: |_, _, _| Ok(false), takes_name: false },
        head: &["cache", "clean", "--force"],
        tail: &[],
        in_sync: "",
        preview: "Cached packages set to be removed",
        done: "Cached package(s) successfully removed",
        failed: "",
        changes: ChangeReport::ByName("Removed"),
        runs_always: true,
        irreversible: NOT_NOTED,
    },
];

fn is_bootstrapped(provider: &LangPkgProvider, _: &str, tools: &Tools<'_>) -> Result<bool, StateError> {
    Ok(provider.run_command(tools, &to_strings(&["list", "--depth=0"]))?.is_success())
}

/// What `npm list --json` printed.
pub(crate) fn parse_list(out: &str) -> Result<InstalledVersions, FunctionError> {
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
        .into_map())
}

/// The module `npm`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "npm",
    build,
    functions: functions::TABLE,
    undo: &[&LangPkgUndo(&Npm)],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let function = FUNCTIONS.iter().find(|function| function.name == fun)?;
    Some(state_from_args(function, args))
}

fn state_from_args(function: &'static LangPkgFunction, args: &ChunkArgs<'_>) -> BuildResult {
    let mut provider = LangPkgProvider::from_args(&Npm, args, &["dir"], "env")?;
    if function.name == "bootstrap" {
        provider.location = Some(args.name());
    }
    read_registry(&mut provider, args)?;
    let names = args.texts("pkgs")?.filter(|p| !p.is_empty()).unwrap_or_else(|| vec![args.name()]);
    names.iter().try_for_each(|name| refuse_option("package", name))?;
    Ok(Box::new(LangPkgState {
        program: &Npm,
        function,
        provider,
        requests: names.iter().map(|name| request(name)).collect(),
        options: Vec::new(),
        source: None,
        force: args.flag("force_reinstall", false) || args.flag("force", false),
    }))
}

fn request(text: &str) -> LangPkgRequest {
    let (name, version) = split_version(text);
    LangPkgRequest { name: name.to_owned(), version: version.map(str::to_owned), text: text.to_owned() }
}

/// Where packages come from; the address may hold a password.
fn read_registry(provider: &mut LangPkgProvider, args: &ChunkArgs<'_>) -> Result<(), StateError> {
    provider.env.extend(args.text("registry")?.map(|registry| ("npm_config_registry".to_owned(), registry)));
    Ok(())
}

/// A package and the version that is asked for: `name@1.0`, `@scope/name@1.0`.
fn split_version(name: &str) -> (&str, Option<&str>) {
    match name.char_indices().skip(1).find(|(_, c)| *c == '@') {
        Some((at, _)) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::lang_pkg_state;

    #[test]
    fn a_registry_is_not_among_the_words() {
        let chunk = crate::testing::chunk("npm.installed", "x", r#"{"registry": "https://t@h/"}"#);
        let mut provider = LangPkgProvider::new(&Npm);
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
        let listed = provider.unwrap_or_default();
        let is_installed = |text: &str| lang_pkg_state::is_installed(&Npm, &listed, &request(text));
        assert!(
            is_installed("x")
                && is_installed("x@1.0.0")
                && !is_installed("x@2.0.0")
                && is_installed("x@latest")
        );
        assert!(!is_installed("gone"));
    }
}
