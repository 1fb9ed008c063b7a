//! States of the module `gem`: libraries of Ruby.

use zagent_config::Map;

use crate::shared::lang_pkg::{InstalledVersions, LangPkgProvider, redact_logins};
use crate::shared::pep440::satisfies;
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
};
use zagent_host::Machine;
use zagent_host::refuse_option;
use zagent_host::temp_file::PrivateTempFile;

/// What `gem list` printed: `name (2.0, default: 1.0)`.
pub fn parse_list(out: &str) -> InstalledVersions {
    let one = |line: &str| {
        let (name, rest) = line.split_once(" (")?;
        let versions = rest.trim_end().strip_suffix(')')?.split(',').map(|v| {
            let version = v.trim().trim_start_matches("default: ");
            version.split(' ').next().unwrap_or(version).to_owned()
        });
        Some((name.to_owned(), versions.collect()))
    };
    out.lines().filter_map(one).collect()
}

/// The state that a function of this module makes; nothing when there is no such function.
pub fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let act = match fun {
        "installed" => GemFunction::Install,
        "removed" => GemFunction::Remove,
        "sources_add" => GemFunction::AddSource,
        "sources_remove" => GemFunction::RemoveSource,
        _ => return None,
    };
    Some(state_from_args(act, args))
}

fn state_from_args(act: GemFunction, args: &ChunkArgs<'_>) -> BuildResult {
    let mut provider = LangPkgProvider::from_args("gem", args, &["gem_bin"], "env")?;
    refuse_option("gem", &args.name())?;
    let mut words = Vec::new();
    if act == GemFunction::Install {
        let docs = [("rdoc", args.flag("rdoc", false)), ("ri", args.flag("ri", false))];
        let docs: Vec<&str> = docs.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        words.push(if docs.is_empty() {
            "--no-document".into()
        } else {
            format!("--document={}", docs.join(","))
        });
        words.extend(args.flag("pre_releases", false).then(|| "--pre".to_owned()));
        words.extend(args.text("version")?.into_iter().flat_map(|value| ["--version".to_owned(), value]));
        for proxy in args.text("proxy")?.iter().flat_map(|p| ["http_proxy", "https_proxy"].map(|k| (k, p))) {
            provider.env.push((proxy.0.to_owned(), proxy.1.clone()));
        }
    }
    let source = args.text("source")?.filter(|_| act == GemFunction::Install);
    Ok(Box::new(GemState {
        function: act,
        provider: provider,
        name: args.name(),
        version: args.text("version")?,
        options: words,
        source,
    }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum GemFunction {
    Install,
    Remove,
    AddSource,
    RemoveSource,
}

struct GemState {
    function: GemFunction,
    provider: LangPkgProvider,
    name: String,
    version: Option<String>,
    /// Options of an installation.
    options: Vec<String>,
    /// Where it comes from.
    source: Option<String>,
}

/// The shelf as an installation has it: the source stands in a file of our own, which must be there meanwhile.
struct SourcedProvider {
    provider: LangPkgProvider,
    _file: Option<PrivateTempFile>,
}

impl SourcedProvider {
    fn new(machine: &Machine, gem: &GemState) -> Result<Self, StateError> {
        let mut provider = gem.provider.clone();
        let Some(source) = &gem.source else { return Ok(Self { provider: provider, _file: None }) };
        let owner = provider.run_as(machine)?.map(|account| account.ids.uid);
        let text = format!(":sources:\n- {}\n", serde_json::Value::from(source.as_str()));
        let file = PrivateTempFile::new_secret(machine, text.as_bytes(), ".gemrc", owner)
            .map_err(|e| StateError::new(format!("cannot keep the source of the gem: {e}")))?;
        provider.env.push(("GEMRC".into(), file.path().display().to_string()));
        Ok(Self { provider: provider, _file: Some(file) })
    }
}

impl GemState {
    fn is_in_sync(&self, ctx: &StateCtx<'_>) -> Result<bool, StateError> {
        let tools = ctx.tools();
        if matches!(self.function, GemFunction::AddSource | GemFunction::RemoveSource) {
            let out = self.provider.run_checked(&tools, &["sources".into(), "--list".into()])?;
            let is_there = out.lines().any(|l| l.trim() == self.name);
            return Ok(is_there == (self.function == GemFunction::AddSource));
        }
        let provider = self.provider.list(&tools)?;
        let versions = provider.get(&self.name);
        Ok(match (self.function, versions) {
            (GemFunction::Install, Some(versions)) => {
                self.version.as_deref().is_none_or(|v| is_satisfied(versions, v))
            }
            (_, found) => (self.function == GemFunction::Install) == found.is_some(),
        })
    }

    fn install_changes(&self) -> Map {
        let is_new = matches!(self.function, GemFunction::Install | GemFunction::AddSource);
        Map::from_iter([(redact_logins(&self.name), if is_new { "Installed" } else { "Removed" })])
    }
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

impl State for GemState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let name = redact_logins(&self.name);
        let is_right = self.is_in_sync(ctx)?;
        let (right, would) = match self.function {
            GemFunction::Install => {
                ("Gem is already installed.", format!("The gem {name} would have been installed"))
            }
            GemFunction::Remove => {
                ("Gem is not installed.", format!("The gem {name} would have been removed"))
            }
            GemFunction::AddSource => {
                ("Gem is already added.", format!("The gem source {name} would have been added."))
            }
            GemFunction::RemoveSource => {
                ("Gem source is already removed.", "The gem source would have been removed".to_owned())
            }
        };
        Ok(if is_right {
            CheckResult::in_sync(right)
        } else {
            CheckResult::drifted(would, self.install_changes())
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let tools = ctx.tools();
        let mut words: Vec<String> = match self.function {
            GemFunction::Install => vec!["install".into(), self.name.clone()],
            GemFunction::Remove => vec![
                "uninstall".into(),
                self.name.clone(),
                "--all".into(),
                "--executables".into(),
                "--force".into(),
            ],
            GemFunction::AddSource => vec!["sources".into(), "--add".into(), self.name.clone()],
            GemFunction::RemoveSource => vec!["sources".into(), "--remove".into(), self.name.clone()],
        };
        words.extend(self.options.iter().cloned());
        let failed = |f: StateError| {
            let what = match self.function {
                GemFunction::Install => "Could not install gem.",
                GemFunction::Remove => "Could not remove gem.",
                GemFunction::AddSource => "Could not add gem source.",
                GemFunction::RemoveSource => "Could not remove gem source.",
            };
            StateError::new(format!("{what} {}", f.result.comment))
        };
        let names = match self.function {
            GemFunction::Install | GemFunction::Remove => vec![self.name.clone()],
            GemFunction::AddSource | GemFunction::RemoveSource => Vec::new(),
        };
        let sourced = SourcedProvider::new(ctx.machine, self)?;
        self.provider
            .change_packages(ctx, &names, &mut || Ok(sourced.provider.run_checked(&tools, &words)?))
            .map_err(failed)?;
        let comment = match self.function {
            GemFunction::Install => "Gem was successfully installed",
            GemFunction::Remove => "Gem was successfully removed.",
            GemFunction::AddSource => "Gem source was successfully added.",
            GemFunction::RemoveSource => "Gem source was successfully removed.",
        };
        Ok(ApplyResult::new(comment, self.install_changes()))
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
        matches!(self.function, GemFunction::AddSource | GemFunction::RemoveSource)
            .then_some("the sources of gems are not noted")
    }
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
