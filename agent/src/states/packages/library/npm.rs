//! States of the module `npm`: libraries of Node.js.

use zagent_compiler::functions::Refusal;
use zagent_config::{Map, Value};

use super::{Shelf, Shelved};
use crate::host::command::shown;
use crate::host::refuse_option;
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil};

/// What `npm list --json` printed.
pub(super) fn listed(out: &str) -> Result<Shelved, Refusal> {
    let json =
        Value::from_json_str(out.trim()).map_err(|e| Refusal::failed(format!("npm lists no JSON: {e}")))?;
    let one = |(name, of): (&Value, &Value)| {
        Some((shown(name), vec![of.get("version").and_then(Value::as_str)?.to_owned()]))
    };
    Ok(json
        .get("dependencies")
        .and_then(Value::as_map)
        .into_iter()
        .flat_map(Map::iter)
        .filter_map(one)
        .collect())
}

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let act = match fun {
        "installed" => Act::Install,
        "removed" => Act::Remove,
        "bootstrap" => Act::Bootstrap,
        "cache_cleaned" => Act::Clean,
        _ => return None,
    };
    Some(read(act, args))
}

fn read(act: Act, args: &Args<'_>) -> Built {
    let mut shelf = Shelf::read("npm", args, &["dir"], "env")?;
    if act == Act::Bootstrap {
        shelf.place = Some(args.name());
    }
    read_registry(&mut shelf, args)?;
    let names = args.texts("pkgs")?.filter(|p| !p.is_empty()).unwrap_or_else(|| vec![args.name()]);
    names.iter().try_for_each(|name| refuse_option("package", name))?;
    Ok(Box::new(Npm {
        act,
        shelf,
        names,
        force: args.flag("force_reinstall", false) || args.flag("force", false),
    }))
}

/// Where packages come from; the address may hold a password.
fn read_registry(shelf: &mut Shelf, args: &Args<'_>) -> Result<(), Failure> {
    shelf.env.extend(args.text("registry")?.map(|registry| ("npm_config_registry".to_owned(), registry)));
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    Install,
    Remove,
    Bootstrap,
    Clean,
}

struct Npm {
    act: Act,
    shelf: Shelf,
    names: Vec<String>,
    force: bool,
}

/// A package and the version that is asked for: `name@1.0`, `@scope/name@1.0`.
fn cut(name: &str) -> (&str, Option<&str>) {
    match name.char_indices().skip(1).find(|(_, c)| *c == '@') {
        Some((at, _)) => (&name[..at], Some(&name[at + 1..])),
        None => (name, None),
    }
}

/// True when a package is there as asked for.
fn is_there(shelf: &Shelved, name: &str) -> bool {
    let (name, version) = cut(name);
    let have = shelf.get(name).and_then(|v| v.first());
    have.is_some_and(|have| version.is_none_or(|v| !v.starts_with(|c: char| c.is_ascii_digit()) || v == have))
}

impl Npm {
    /// Packages that need an act.
    fn targets(&self, scene: &Scene<'_>) -> Result<Vec<String>, Failure> {
        if matches!(self.act, Act::Bootstrap | Act::Clean) {
            return Ok(Vec::new());
        }
        let shelf = self.shelf.list(&scene.tools())?;
        let is_meant = |name: &&String| match self.act {
            Act::Install => self.force || !is_there(&shelf, name),
            _ => shelf.contains_key(cut(name).0),
        };
        Ok(self.names.iter().filter(is_meant).cloned().collect())
    }
}

impl State for Npm {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let targets = self.targets(scene)?;
        let list = targets.join(", ");
        let name = &self.names[0];
        let change = |what: &str| Map::from_iter([(name.as_str(), what)]);
        Ok(match self.act {
            Act::Install if targets.is_empty() => {
                Look::right(format!("Package(s) '{}' satisfied", self.names.join(", ")))
            }
            Act::Install => Look::drift(
                format!("NPM package(s) '{list}' are set to be installed"),
                Map::from_iter([("new", targets.iter().map(|t| Value::from(t.as_str())).collect::<Value>())]),
            ),
            Act::Remove if targets.is_empty() => Look::right(format!("Package '{name}' is not installed")),
            Act::Remove => Look::drift(format!("Package '{name}' is set to be removed"), change("Removed")),
            Act::Bootstrap => {
                let said = self.shelf.run(&scene.tools(), &["list".into(), "--depth=0".into()])?;
                if said.is_fine() {
                    Look::right("Directory is already bootstrapped")
                } else {
                    Look::drift("Directory is set to be bootstrapped", change("Bootstrapped"))
                }
            }
            Act::Clean => Look::drift("Cached packages set to be removed", change("Removed")),
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let tools = scene.tools();
        let targets = self.targets(scene)?;
        let mut words: Vec<String> = match self.act {
            Act::Install | Act::Bootstrap => vec!["install".into()],
            Act::Remove => vec!["uninstall".into()],
            Act::Clean => vec!["cache".into(), "clean".into(), "--force".into()],
        };
        if matches!(self.act, Act::Install | Act::Remove) && self.shelf.place.is_none() {
            words.push("--global".into());
        }
        words.extend(targets.first().map(|_| "--".to_owned()));
        words.extend(
            targets.iter().map(|t| if self.act == Act::Remove { cut(t).0.to_owned() } else { t.clone() }),
        );
        let names: Vec<String> = targets.iter().map(|t| cut(t).0.to_owned()).collect();
        self.shelf.change(scene, &names, &mut || Ok(self.shelf.must(&tools, &words)?))?;
        let name = self.names[0].as_str();
        let one = |what: &str| Map::from_iter([(name, what)]);
        let list = targets.join(", ");
        Ok(match self.act {
            Act::Install => {
                let new: Value = targets.iter().map(|t| Value::from(t.as_str())).collect();
                let changes = Map::from_iter([("old", Value::empty_list()), ("new", new)]);
                Done::new(format!("Package(s) '{list}' successfully installed"), changes)
            }
            Act::Remove => Done::new(format!("Package '{name}' was successfully removed"), one("Removed")),
            Act::Bootstrap => Done::new("Directory was successfully bootstrapped", one("Bootstrapped")),
            Act::Clean => Done::new("Cached package(s) successfully removed", one("Removed")),
        })
    }

    fn is_lasting(&self) -> bool {
        self.act != Act::Clean && !self.force
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
        matches!(self.act, Act::Bootstrap | Act::Clean).then_some("what npm fetches or forgets is not noted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_not_among_the_words() {
        let chunk = crate::states::stage::chunk("npm.installed", "x", r#"{"registry": "https://t@h/"}"#);
        let mut shelf = Shelf::default();
        read_registry(&mut shelf, &Args::new(&chunk)).unwrap();
        assert_eq!(shelf.env, [("npm_config_registry".to_owned(), "https://t@h/".to_owned())]);
    }

    #[test]
    fn names_are_cut_from_versions() {
        assert_eq!(cut("left-pad@1.3.0"), ("left-pad", Some("1.3.0")));
        assert_eq!(cut("@scope/x@2"), ("@scope/x", Some("2")));
        assert_eq!(cut("@scope/x"), ("@scope/x", None));
    }

    #[test]
    fn what_npm_lists_is_understood() {
        let shelf = listed(
            r#"{"name": "lib", "dependencies": {"x": {"version": "1.0.0", "overridden": false}, "gone": {}}}"#,
        );
        let shelf = shelf.unwrap_or_default();
        assert!(
            is_there(&shelf, "x")
                && is_there(&shelf, "x@1.0.0")
                && !is_there(&shelf, "x@2.0.0")
                && is_there(&shelf, "x@latest")
        );
        assert!(!is_there(&shelf, "gone"));
    }
}
