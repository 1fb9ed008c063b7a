//! `pkg.downloaded` and `pkg.group_installed`.

use std::collections::BTreeMap;

use zagent_config::Value;

use super::asked::{Asked, Wanted};
use super::desk::{Desk, changes, refused};
use crate::host::packages::{Act, Group, Step, Target, fulfils, shown_spec};
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil};

/// Makes `pkg.downloaded`.
pub(super) fn build(args: &Args<'_>) -> Built {
    let mut asked = Asked::read(args)?;
    asked.options.download = true;
    Ok(Box::new(Downloaded { asked }))
}

/// Makes `pkg.group_installed`.
pub(super) fn group(args: &Args<'_>) -> Built {
    let list = |key: &str| match args.get(key) {
        None => Ok(Vec::new()),
        Some(Value::List(_)) => Ok(args.texts(key)?.unwrap_or_default()),
        Some(_) => Err(Failure::new(format!("{key} must be formatted as a list"))),
    };
    Ok(Box::new(GroupInstalled {
        name: args.name(),
        skip: list("skip")?,
        include: list("include")?,
        asked: Asked::read(args)?,
    }))
}

struct Downloaded {
    asked: Asked,
}

/// The packages in apt's cache: `vim_2%3a9.0-1_amd64.deb`.
fn cached(names: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in names.iter().filter_map(|n| n.strip_suffix(".deb")) {
        if let [name, version, _] = file.split('_').collect::<Vec<_>>()[..] {
            all.entry(name.to_owned()).or_default().push(version.replace("%3a", ":"));
        }
    }
    all
}

impl Downloaded {
    fn lacking(&self, desk: &Desk<'_>) -> Result<(Vec<Wanted>, bool), Failure> {
        if desk.chosen.provider.name() != "apt" {
            return Err(Failure::new("The pkg.downloaded state is not available on this platform"));
        }
        let have = cached(&desk.scene.tools().machine.names("/var/cache/apt/archives"));
        let scheme = desk.chosen.provider.scheme();
        let lacks = |w: &&Wanted| {
            let versions = have.get(&w.name).map_or(&[][..], Vec::as_slice);
            let fits = |spec: &str| {
                versions.iter().any(|v| fulfils(v, spec, scheme, self.asked.ignore_epoch, false))
            };
            w.spec.as_ref().map_or(versions.is_empty(), |spec| !fits(spec))
        };
        let is_spec = self.asked.wanted.iter().any(|w| w.spec.is_some());
        Ok((self.asked.wanted.iter().filter(lacks).cloned().collect(), is_spec))
    }

    /// What comes into the cache: nothing was there, and a version will be.
    fn steps(&self, desk: &Desk<'_>, lacking: &[Wanted]) -> Result<(Vec<Target>, Vec<Step>), Failure> {
        let names: Vec<String> = lacking.iter().map(|w| w.name.clone()).collect();
        let offers = desk.offers(&names, &self.asked)?;
        let scheme = desk.chosen.provider.scheme();
        let (mut targets, mut steps) = (Vec::new(), Vec::new());
        for w in lacking {
            let fits = |v: &&String| {
                w.spec.as_ref().is_none_or(|s| fulfils(v, s, scheme, self.asked.ignore_epoch, false))
            };
            let offer = offers.get(&w.name);
            let version = offer.and_then(|o| o.versions.iter().find(fits)).ok_or_else(|| {
                let wanted = shown_spec(&w.name, w.spec.as_deref());
                Failure::new(format!(
                    "The following packages failed to download: {wanted}: it is not to be had"
                ))
            })?;
            targets.push(Target { version: Some(version.clone()), ..Target::named(&w.name) });
            steps.push(Step { name: w.name.clone(), old: String::new(), new: version.clone() });
        }
        Ok((targets, steps))
    }
}

impl State for Downloaded {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let scene = &super::looking(scene);
        if self.asked.is_nothing {
            return Ok(Look::right("No packages to download provided"));
        }
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let (lacking, is_spec) = self.lacking(&desk)?;
        if lacking.is_empty() {
            let tail = if is_spec { " (matching specified versions)" } else { "" };
            return Ok(Look::right(format!("All specified packages{tail} are already downloaded")));
        }
        let names: Vec<&str> = lacking.iter().map(|w| w.name.as_str()).collect();
        let words = format!("The following packages would be downloaded: {}", names.join(", "));
        Ok(Look::drift(words, changes(&self.steps(&desk, &lacking)?.1)))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let (lacking, _) = self.lacking(&desk)?;
        let (targets, steps) = self.steps(&desk, &lacking)?;
        // What is installed already is fetched only when it is to be installed once more.
        let options =
            crate::host::packages::Options { reinstall: true, downgrade: true, ..self.asked.options.clone() };
        desk.teller()
            .tell(&Act::Install(&targets, &options))
            .map_err(|e| super::desk::refusal("An error was encountered while downloading package(s)", e))?;
        let names: Vec<&str> = lacking.iter().map(|w| w.name.as_str()).collect();
        let words = desk.with_warning(&format!("Packages downloaded: {}", names.join(", ")));
        Ok(Done::new(words, changes(&steps)))
    }

    fn react(&mut self, _: &Scene<'_>) -> Result<Done, Failure> {
        Err(super::deaf("downloaded"))
    }

    fn sees(&self) -> Veil {
        super::SEES
    }

    fn veils(&self) -> Veil {
        Veil::NONE
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        hidden != super::SEES
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("what was fetched stays in the package manager's cache")
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Packages]
    }
}

struct GroupInstalled {
    name: String,
    skip: Vec<String>,
    include: Vec<String>,
    asked: Asked,
}

/// What a group lacks.
struct Lack {
    targets: Vec<String>,
    is_partly: bool,
}

impl GroupInstalled {
    fn lack(&self, desk: &Desk<'_>) -> Result<Lack, Failure> {
        let group: Group = desk.chosen.provider.group(&desk.scene.tools(), &self.name)?;
        let db = desk.db()?;
        let of = |kind: &str| group.get(kind).map_or(&[][..], Vec::as_slice);
        let invalid: Vec<&str> =
            of("mandatory").iter().filter(|n| self.skip.contains(n)).map(String::as_str).collect();
        if !invalid.is_empty() {
            return Err(Failure::new(format!(
                "The following mandatory packages cannot be skipped: {}",
                invalid.join(", ")
            )));
        }
        let wanted = of("mandatory").iter().chain(of("default")).filter(|n| !self.skip.contains(n));
        let lacks = |n: &&String| db.get(n).is_none();
        let targets = wanted.chain(&self.include).filter(lacks).cloned().collect();
        let all = of("mandatory").iter().chain(of("default")).chain(of("optional"));
        let is_partly = all.into_iter().any(|n| db.get(n).is_some());
        Ok(Lack { targets, is_partly })
    }
}

impl State for GroupInstalled {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let scene = &super::looking(scene);
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let lack = self.lack(&desk)?;
        let name = &self.name;
        if lack.targets.is_empty() {
            return Ok(Look::right(format!("Group '{name}' is already installed")));
        }
        let words = if lack.is_partly {
            format!("Group '{name}' is partially installed and will be updated")
        } else {
            format!("Group '{name}' will be installed")
        };
        let coming = lack.targets.into_iter();
        let steps: Vec<Step> =
            coming.map(|name| Step { name, old: String::new(), new: "installed".into() }).collect();
        Ok(Look::drift(words, changes(&steps)))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let lack = self.lack(&desk)?;
        let targets: Vec<Target> = lack.targets.iter().map(|n| Target::named(n)).collect();
        let words = format!("An error was encountered while installing/updating group '{}'", self.name);
        let steps = desk.install(&targets, &self.asked).map_err(|(f, steps)| refused(&words, f, &steps))?;
        let how = if lack.is_partly { "updated" } else { "installed" };
        Ok(Done::new(format!("Group '{}' was {how}", self.name), changes(&steps)))
    }

    fn react(&mut self, _: &Scene<'_>) -> Result<Done, Failure> {
        Err(super::deaf("group_installed"))
    }

    fn sees(&self) -> Veil {
        super::SEES
    }

    fn veils(&self) -> Veil {
        Veil::PACKAGE
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Packages]
    }
}

#[cfg(test)]
mod tests {
    use super::cached;

    #[test]
    fn the_cache_tells_names_and_versions() {
        let names =
            ["lock", "vim_2%3a9.0.1378-2_amd64.deb", "hello_2.10-3_amd64.deb", "hello_2.9-1_amd64.deb"];
        let all = cached(&names.map(str::to_owned));
        assert_eq!(all["vim"], ["2:9.0.1378-2"]);
        assert_eq!(all["hello"], ["2.10-3", "2.9-1"]);
        assert_eq!(all.len(), 2);
    }
}
