//! States of the module `gem`: libraries of Ruby.

use zagent_config::Map;

use super::version::fulfils;
use super::{Shelf, Shelved, redact};
use crate::host::refuse_option;
use crate::host::scratch::Scratch;
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil};

/// What `gem list` printed: `name (2.0, default: 1.0)`.
pub(super) fn listed(out: &str) -> Shelved {
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
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let act = match fun {
        "installed" => Act::Install,
        "removed" => Act::Remove,
        "sources_add" => Act::AddSource,
        "sources_remove" => Act::RemoveSource,
        _ => return None,
    };
    Some(read(act, args))
}

fn read(act: Act, args: &Args<'_>) -> Built {
    let mut shelf = Shelf::read("gem", args, &["gem_bin"], "env")?;
    refuse_option("gem", &args.name())?;
    let mut words = Vec::new();
    if act == Act::Install {
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
            shelf.env.push((proxy.0.to_owned(), proxy.1.clone()));
        }
    }
    let source = args.text("source")?.filter(|_| act == Act::Install);
    Ok(Box::new(Gem { act, shelf, name: args.name(), version: args.text("version")?, words, source }))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Install,
    Remove,
    AddSource,
    RemoveSource,
}

struct Gem {
    act: Act,
    shelf: Shelf,
    name: String,
    version: Option<String>,
    /// Options of an installation.
    words: Vec<String>,
    /// Where it comes from.
    source: Option<String>,
}

/// The shelf as an installation has it: the source stands in a file of our own, which must be there meanwhile.
struct Sourced {
    shelf: Shelf,
    _file: Option<Scratch>,
}

impl Sourced {
    fn new(gem: &Gem) -> Result<Self, Failure> {
        let mut shelf = gem.shelf.clone();
        let Some(source) = &gem.source else { return Ok(Self { shelf, _file: None }) };
        let owner = shelf.account()?.map(|account| account.user.uid);
        let text = format!(":sources:\n- {}\n", serde_json::Value::from(source.as_str()));
        let file = Scratch::secret(text.as_bytes(), ".gemrc", owner)
            .map_err(|e| Failure::new(format!("cannot keep the source of the gem: {e}")))?;
        shelf.env.push(("GEMRC".into(), file.path().display().to_string()));
        Ok(Self { shelf, _file: Some(file) })
    }
}

impl Gem {
    fn is_right(&self, scene: &Scene<'_>) -> Result<bool, Failure> {
        let tools = scene.tools();
        if matches!(self.act, Act::AddSource | Act::RemoveSource) {
            let out = self.shelf.must(&tools, &["sources".into(), "--list".into()])?;
            let is_there = out.lines().any(|l| l.trim() == self.name);
            return Ok(is_there == (self.act == Act::AddSource));
        }
        let shelf = self.shelf.list(&tools)?;
        let versions = shelf.get(&self.name);
        Ok(match (self.act, versions) {
            (Act::Install, Some(versions)) => self.version.as_deref().is_none_or(|v| is_met(versions, v)),
            (_, found) => (self.act == Act::Install) == found.is_some(),
        })
    }

    fn told(&self) -> Map {
        let is_new = matches!(self.act, Act::Install | Act::AddSource);
        Map::from_iter([(redact(&self.name), if is_new { "Installed" } else { "Removed" })])
    }
}

/// True when one of the versions is as asked for.
fn is_met(versions: &[String], asked: &str) -> bool {
    let operator: String = asked.chars().take_while(|c| "<>=!~".contains(*c)).collect();
    if operator.is_empty() {
        return versions.iter().any(|v| v == asked);
    }
    let wanted = asked[operator.len()..].trim();
    let operator = if operator == "~>" { "~=" } else { operator.as_str() };
    versions.iter().any(|v| fulfils(v, operator, wanted))
}

impl State for Gem {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let name = redact(&self.name);
        let is_right = self.is_right(scene)?;
        let (right, would) = match self.act {
            Act::Install => {
                ("Gem is already installed.", format!("The gem {name} would have been installed"))
            }
            Act::Remove => ("Gem is not installed.", format!("The gem {name} would have been removed")),
            Act::AddSource => {
                ("Gem is already added.", format!("The gem source {name} would have been added."))
            }
            Act::RemoveSource => {
                ("Gem source is already removed.", "The gem source would have been removed".to_owned())
            }
        };
        Ok(if is_right { Look::right(right) } else { Look::drift(would, self.told()) })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let tools = scene.tools();
        let mut words: Vec<String> = match self.act {
            Act::Install => vec!["install".into(), self.name.clone()],
            Act::Remove => vec![
                "uninstall".into(),
                self.name.clone(),
                "--all".into(),
                "--executables".into(),
                "--force".into(),
            ],
            Act::AddSource => vec!["sources".into(), "--add".into(), self.name.clone()],
            Act::RemoveSource => vec!["sources".into(), "--remove".into(), self.name.clone()],
        };
        words.extend(self.words.iter().cloned());
        let failed = |f: Failure| {
            let what = match self.act {
                Act::Install => "Could not install gem.",
                Act::Remove => "Could not remove gem.",
                Act::AddSource => "Could not add gem source.",
                Act::RemoveSource => "Could not remove gem source.",
            };
            Failure::new(format!("{what} {}", f.done.comment))
        };
        let names = match self.act {
            Act::Install | Act::Remove => vec![self.name.clone()],
            Act::AddSource | Act::RemoveSource => Vec::new(),
        };
        let sourced = Sourced::new(self)?;
        self.shelf.change(scene, &names, &mut || Ok(sourced.shelf.must(&tools, &words)?)).map_err(failed)?;
        let comment = match self.act {
            Act::Install => "Gem was successfully installed",
            Act::Remove => "Gem was successfully removed.",
            Act::AddSource => "Gem source was successfully added.",
            Act::RemoveSource => "Gem source was successfully removed.",
        };
        Ok(Done::new(comment, self.told()))
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Stores]
    }

    fn sees(&self) -> Veil {
        Veil::STORES
    }

    fn veils(&self) -> Veil {
        Veil::STORES | Veil::BROUGHT
    }

    fn irreversible(&self) -> Option<&'static str> {
        matches!(self.act, Act::AddSource | Act::RemoveSource).then_some("the sources of gems are not noted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gem_lists_is_understood() {
        let shelf =
            listed("\n*** LOCAL GEMS ***\n\nbigdecimal (default: 3.1.1)\nrake (13.0.6, 12.3.3 ruby)\n");
        assert_eq!(shelf["rake"], ["13.0.6", "12.3.3"]);
        assert_eq!(shelf["bigdecimal"], ["3.1.1"]);
    }

    #[test]
    fn a_source_is_not_among_the_words() {
        let stage = crate::states::stage::Stage::new();
        let bin = stage.path("gem");
        let script = "#!/bin/sh\ntest \"$1\" = list && exit\necho \"$* with $http_proxy and `cat $GEMRC`\" > $0.said\n";
        std::fs::write(&bin, script).unwrap();
        std::fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let args = format!(r#"{{"gem_bin": "{bin}", "source": "https://t:s@h/", "proxy": "http://u:p@h"}}"#);
        let chunk = crate::states::stage::chunk("gem.installed", "rake", &args);
        let said = crate::states::stage::apply(&chunk, &stage.scene());
        assert!(said.starts_with("true"), "{said}");
        let called = std::fs::read_to_string(stage.path("gem.said")).unwrap();
        let want = "install rake --no-document with http://u:p@h and :sources:\n- \"https://t:s@h/\"\n";
        assert_eq!(called, want);
    }

    #[test]
    fn versions_are_as_asked_for() {
        let have = ["13.0.6".to_owned()];
        for (asked, expected) in
            [("13.0.6", true), ("13.0", false), (">= 12", true), ("~> 13.0", true), ("< 13", false)]
        {
            assert_eq!(is_met(&have, asked), expected, "{asked}");
        }
    }
}
