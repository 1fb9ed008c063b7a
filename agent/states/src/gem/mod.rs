//! States of the module `gem`: libraries of Ruby.

pub(crate) mod functions;

use zagent_config::{FunctionError, Value};

use crate::exec_function::string_list;
use crate::shared::lang_pkg::{
    InstalledVersions, LangPkgProgram, LangPkgProvider, LangPkgUndo, missing_program,
};
use crate::shared::lang_pkg_state::{
    ChangeReport, LangPkgAction, LangPkgFunction, LangPkgRequest, LangPkgState, LangPkgStates,
};
use crate::shared::pep440::satisfies;
use crate::shared::planned_state::to_strings;
use crate::{BuildResult, ChunkArgs, StateError, StateModule};
use zagent_config::sorted::CollectSorted;
use zagent_host::refuse_option;
use zagent_host::temp_file::PrivateTempFile;
use zagent_host::{Machine, Tools};

/// The program `gem`.
#[derive(Debug)]
pub(crate) struct Gem;

impl LangPkgProgram for Gem {
    fn name(&self) -> &'static str {
        "gem"
    }

    fn base_command(&self, location: Option<&str>, tools: &Tools<'_>) -> Result<Vec<String>, FunctionError> {
        let program = location.map(str::to_owned).or_else(|| tools.which("gem"));
        program.map(|program| vec![program]).ok_or_else(|| missing_program("gem"))
    }

    fn list(
        &self,
        provider: &LangPkgProvider,
        tools: &Tools<'_>,
    ) -> Result<InstalledVersions, FunctionError> {
        Ok(parse_list(&provider.run_checked(tools, &to_strings(&["list", "--local"]))?))
    }

    fn keeps_versions(&self) -> bool {
        true
    }

    fn install_args(&self, name: &str, version: &str, _: bool) -> Vec<String> {
        to_strings(&["install", name, "--version", version, "--no-document"])
    }

    fn uninstall_args(&self, name: &str, version: &str, _: bool) -> Vec<String> {
        to_strings(&["uninstall", name, "--version", version, "-x", "--force"])
    }

    fn version_value(&self, versions: Vec<String>) -> Value {
        string_list(versions)
    }
}

impl LangPkgStates for Gem {
    fn is_satisfied(&self, installed: &[String], version: &str) -> bool {
        is_satisfied(installed, version)
    }

    fn target_prefix(&self, _: bool) -> &'static [&'static str] {
        &[]
    }

    /// The source may hold a password: it stands in a private file.
    fn with_source(
        &self,
        machine: &Machine,
        provider: &LangPkgProvider,
        source: Option<&str>,
    ) -> Result<(LangPkgProvider, Option<PrivateTempFile>), StateError> {
        let mut provider = provider.clone();
        let Some(source) = source else { return Ok((provider, None)) };
        let owner = provider.run_as(machine)?.map(|account| account.ids.uid);
        let text = format!(":sources:\n- {}\n", serde_json::Value::from(source));
        let file = PrivateTempFile::new_secret(machine, text.as_bytes(), ".gemrc", owner)
            .map_err(|e| StateError::new(format!("cannot keep the source of the gem: {e}")))?;
        provider.env.push(("GEMRC".into(), file.path().display().to_string()));
        Ok((provider, Some(file)))
    }
}

/// What is common to functions of sources.
const SOURCE: LangPkgFunction = LangPkgFunction {
    name: "",
    action: LangPkgAction::Other { is_in_sync: |_, _, _| Ok(true), takes_name: true },
    head: &[],
    tail: &[],
    in_sync: "",
    preview: "",
    done: "",
    failed: "",
    changes: ChangeReport::ByName("Installed"),
    runs_always: false,
    irreversible: Some("the sources of gems are not noted"),
};

static FUNCTIONS: [LangPkgFunction; 4] = [
    LangPkgFunction {
        name: "installed",
        action: LangPkgAction::Install,
        head: &["install"],
        in_sync: "Gem is already installed.",
        preview: "The gem {name} would have been installed",
        done: "Gem was successfully installed",
        failed: "Could not install gem.",
        irreversible: None,
        ..SOURCE
    },
    LangPkgFunction {
        name: "removed",
        action: LangPkgAction::Remove,
        head: &["uninstall"],
        tail: &["--all", "--executables", "--force"],
        in_sync: "Gem is not installed.",
        preview: "The gem {name} would have been removed",
        done: "Gem was successfully removed.",
        failed: "Could not remove gem.",
        changes: ChangeReport::ByName("Removed"),
        irreversible: None,
        ..SOURCE
    },
    LangPkgFunction {
        name: "sources_add",
        action: LangPkgAction::Other { is_in_sync: has_source, takes_name: true },
        head: &["sources", "--add"],
        in_sync: "Gem is already added.",
        preview: "The gem source {name} would have been added.",
        done: "Gem source was successfully added.",
        failed: "Could not add gem source.",
        ..SOURCE
    },
    LangPkgFunction {
        name: "sources_remove",
        action: LangPkgAction::Other {
            is_in_sync: |provider, name, tools| Ok(!has_source(provider, name, tools)?),
            takes_name: true,
        },
        head: &["sources", "--remove"],
        in_sync: "Gem source is already removed.",
        preview: "The gem source would have been removed",
        done: "Gem source was successfully removed.",
        failed: "Could not remove gem source.",
        changes: ChangeReport::ByName("Removed"),
        ..SOURCE
    },
];

fn has_source(provider: &LangPkgProvider, name: &str, tools: &Tools<'_>) -> Result<bool, StateError> {
    let out = provider.run_checked(tools, &to_strings(&["sources", "--list"]))?;
    Ok(out.lines().any(|line| line.trim() == name))
}

/// What `gem list` printed: `name (2.0, default: 1.0)`.
pub(crate) fn parse_list(out: &str) -> InstalledVersions {
    let one = |line: &str| {
        let (name, rest) = line.split_once(" (")?;
        let versions = rest.trim_end().strip_suffix(')')?.split(',').map(|v| {
            let version = v.trim().trim_start_matches("default: ");
            version.split(' ').next().unwrap_or(version).to_owned()
        });
        Some((name.to_owned(), versions.collect()))
    };
    out.lines().filter_map(one).into_map()
}

/// The module `gem`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "gem",
    build,
    functions: functions::TABLE,
    undo: &[&LangPkgUndo(&Gem)],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let function = FUNCTIONS.iter().find(|function| function.name == fun)?;
    Some(state_from_args(function, args))
}

fn state_from_args(function: &'static LangPkgFunction, args: &ChunkArgs<'_>) -> BuildResult {
    let mut provider = LangPkgProvider::from_args(&Gem, args, &["gem_bin"], "env")?;
    let (name, version) = (args.name(), args.text("version")?);
    refuse_option("gem", &name)?;
    let mut options = Vec::new();
    let installs = matches!(function.action, LangPkgAction::Install);
    if installs {
        let docs = [("rdoc", args.flag("rdoc", false)), ("ri", args.flag("ri", false))];
        let docs: Vec<&str> = docs.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        options.push(if docs.is_empty() {
            "--no-document".into()
        } else {
            format!("--document={}", docs.join(","))
        });
        options.extend(args.flag("pre_releases", false).then(|| "--pre".to_owned()));
        options.extend(version.clone().into_iter().flat_map(|value| ["--version".to_owned(), value]));
        for proxy in args.text("proxy")?.iter().flat_map(|p| ["http_proxy", "https_proxy"].map(|k| (k, p))) {
            provider.env.push((proxy.0.to_owned(), proxy.1.clone()));
        }
    }
    Ok(Box::new(LangPkgState {
        program: &Gem,
        function,
        provider,
        source: args.text("source")?.filter(|_| installs),
        requests: vec![LangPkgRequest { text: name.clone(), name, version }],
        options,
        force: false,
    }))
}

/// True when one of the versions is as asked for.
fn is_satisfied(versions: &[String], asked: &str) -> bool {
    let operator: String = asked.chars().take_while(|c| "<>=!~".contains(*c)).collect();
    if operator.is_empty() {
        return versions.iter().any(|v| v == asked);
    }
    let wanted = asked[operator.len()..].trim();
    let operator = if operator == "~>" { "~=" } else { operator.as_str() };
    versions.iter().any(|v| satisfies(v, operator, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gem_lists_is_understood() {
        let provider =
            parse_list("\n*** LOCAL GEMS ***\n\nbigdecimal (default: 3.1.1)\nrake (13.0.6, 12.3.3 ruby)\n");
        assert_eq!(provider["rake"], ["13.0.6", "12.3.3"]);
        assert_eq!(provider["bigdecimal"], ["3.1.1"]);
    }

    #[test]
    fn a_source_is_not_among_the_words() {
        let test_bed = crate::testing::StateTestBed::new();
        let bin = test_bed.path("gem");
        let script = "#!/bin/sh\ntest \"$1\" = list && exit\necho \"$* with $http_proxy and `cat $GEMRC`\" > $0.said\n";
        std::fs::write(&bin, script).unwrap();
        std::fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let args = format!(r#"{{"gem_bin": "{bin}", "source": "https://t:s@h/", "proxy": "http://u:p@h"}}"#);
        let chunk = crate::testing::chunk("gem.installed", "rake", &args);
        let said = crate::testing::apply_chunk(&chunk, &test_bed.scene());
        assert!(said.starts_with("true"), "{said}");
        let called = std::fs::read_to_string(test_bed.path("gem.said")).unwrap();
        let want = "install rake --no-document with http://u:p@h and :sources:\n- \"https://t:s@h/\"\n";
        assert_eq!(called, want);
    }

    #[test]
    fn versions_are_as_asked_for() {
        let have = ["13.0.6".to_owned()];
        for (asked, expected) in
            [("13.0.6", true), ("13.0", false), (">= 12", true), ("~> 13.0", true), ("< 13", false)]
        {
            assert_eq!(is_satisfied(&have, asked), expected, "{asked}");
        }
    }
}
