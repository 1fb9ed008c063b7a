//! `pkg.removed` and `pkg.purged`: packages that should not be there.

use zagent_config::{Map, Value};

use super::asked::{Asked, Wanted};
use super::desk::{Desk, changes, refused};
use crate::host::packages::{Act, Db, Step, fulfils};
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, Standing, State, Veil};

/// Makes `pkg.removed`, or `pkg.purged`.
pub(super) fn build(args: &Args<'_>, purge: bool) -> Built {
    Ok(Box::new(Removed { asked: Asked::read(args)?, purge }))
}

struct Removed {
    asked: Asked,
    purge: bool,
}

impl Removed {
    /// The packages that have to go, and whether a version was looked at.
    fn targets(&self, desk: &Desk<'_>, db: &Db) -> (Vec<String>, bool) {
        let scheme = desk.chosen.provider.scheme();
        let mut is_spec = false;
        let mut must_go = |wanted: &Wanted| {
            let Some(spec) = &wanted.spec else { return is_left(db, &wanted.name, self.purge) };
            is_spec |= db.get(&wanted.name).is_some();
            let fits = |v: &String| fulfils(v, spec, scheme, self.asked.ignore_epoch, false);
            db.get(&wanted.name).is_some_and(|pack| pack.versions.iter().any(fits))
        };
        let mut targets: Vec<String> =
            self.asked.wanted_in(db).into_iter().filter(&mut must_go).map(|w| w.name).collect();
        targets.sort_unstable();
        (targets, is_spec)
    }

    const fn done_word(&self) -> &'static str {
        if self.purge { "purged" } else { "removed" }
    }

    /// Changes as Salt shows them: a purge tells apart what was installed and what was only configuration.
    fn shape(&self, installed: Map, leftovers: Map) -> Map {
        if !self.purge {
            return installed;
        }
        Map::from_iter([("installed", Value::from(installed)), ("removed", leftovers.into())])
    }
}

/// True when something of a package is there that has to go, whatever its version.
fn is_left(db: &Db, name: &str, purge: bool) -> bool {
    let pack = db.packs.get(name);
    pack.is_some_and(|p| p.is_installed() || p.broken.is_some() || purge && p.removed.is_some())
}

/// Packages whose configuration alone is left, as steps that take it away.
fn leftovers(before: &Db, after: &Db) -> Vec<Step> {
    let old = |db: &Db, name: &str| db.packs.get(name).and_then(|p| p.removed.clone()).unwrap_or_default();
    let names: Vec<&String> = before.packs.keys().collect();
    names
        .into_iter()
        .map(|n| Step { name: n.clone(), old: old(before, n), new: old(after, n) })
        .filter(|s| s.old != s.new && !s.old.is_empty())
        .collect()
}

impl State for Removed {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let scene = &super::looking(scene);
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let db = desk.db()?;
        let (targets, is_spec) = self.targets(&desk, &db);
        if targets.is_empty() {
            let tail = if is_spec { " (matching specified versions)" } else { "" };
            return Ok(Look::right(if self.purge {
                "None of the targeted packages are installed or partially installed".to_owned()
            } else {
                format!("All specified packages{tail} are already absent")
            }));
        }
        let steps: Vec<Step> = targets
            .iter()
            .map(|n| Step { name: n.clone(), old: db.version(n), new: String::new() })
            .collect();
        let words = format!("The following packages will be {}: {}.", self.done_word(), targets.join(", "));
        Ok(Look::drift(words, changes(&steps)))
    }

    fn preview(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let mut look = self.check(scene)?;
        if look.standing != Standing::Drift {
            return Ok(look);
        }
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let db = desk.db()?;
        let (mut targets, _) = self.targets(&desk, &db);
        // What only an earlier state of this dry run would bring is not there for the manager to take away.
        targets.retain(|n| db.packs.get(n).is_some_and(|p| !p.is_foreseen));
        if !targets.is_empty()
            && let Some(steps) = desk.teller().rehearse_within(&Act::Remove(&targets, self.purge), &db)?
            && !steps.is_empty()
        {
            look.changes = changes(&steps);
            desk.imagine(&steps);
        }
        Ok(look)
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let start = desk.db()?;
        let is_broken = |name: &String| start.packs.get(name).is_some_and(|p| p.broken.is_some());
        let mended = match desk.mend() {
            // A package whose own script fails cannot be mended, but it can go.
            Err(_) if self.targets(&desk, &start).0.iter().any(is_broken) => None,
            mended => mended?,
        };
        let before = desk.db()?;
        let (targets, _) = self.targets(&desk, &before);
        let acts = [Act::Remove(&targets, self.purge)];
        let told = if targets.is_empty() { Ok(Vec::new()) } else { desk.transact(&acts) };
        let after = desk.db()?;
        let gone = changes(&leftovers(&before, &after));
        let steps = told.map_err(|(failure, steps)| {
            let mut failure = refused("Problem encountered removing package(s)", failure, &steps);
            failure.done.changes = self.shape(failure.done.changes, gone.clone());
            failure
        })?;
        let wanted = self.asked.wanted_in(&before);
        let absent: Vec<&str> =
            wanted.iter().map(|w| w.name.as_str()).filter(|n| !targets.iter().any(|t| t == n)).collect();
        let mut comment = if absent.is_empty() || targets.is_empty() {
            format!("All targeted packages were {}.", self.done_word())
        } else {
            format!(
                "The following packages were not installed: {} The following packages were {}: {}.",
                absent.join(", "),
                self.done_word(),
                targets.join(", ")
            )
        };
        if let Some(words) = desk.overtime() {
            comment = format!("{comment}\n{words}");
        }
        let mut all = self.shape(changes(&steps), gone);
        if let Some(words) = mended {
            comment = format!("{comment}\n{words}");
            all.insert("repaired", words);
        }
        Ok(Done::new(comment, all))
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        super::once_more(self, scene)
    }

    fn sees(&self) -> Veil {
        super::SEES
    }

    fn veils(&self) -> Veil {
        // Unlike a package that comes, one that goes takes files and services with it that are there now.
        Veil::PACKAGE | Veil::FILES
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        hidden != super::SEES
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Packages]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::packages::{Chosen, choose};
    use crate::states::stage::{Stage, chunk};

    /// A database with one package of the machine's own architecture and one of another.
    fn db() -> Db {
        let mut db = Db::default();
        for (name, arch) in [("dpkg", "amd64"), ("vim", "amd64"), ("libc6:i386", "i386")] {
            let pack = db.packs.entry(name.into()).or_default();
            (pack.versions, pack.arch) = (vec!["1".into()], arch.into());
        }
        db
    }

    #[test]
    fn a_name_may_have_the_machines_own_architecture() {
        let stage = Stage::new();
        let scene = stage.scene();
        let Chosen { provider, .. } = choose(scene.tools().machine, None).unwrap();
        let desk = Desk::new(&scene, Some(provider.name())).unwrap();
        let targets = |name: &str, args: &str| {
            let chunk = chunk("pkg.removed", name, args);
            let asked = Asked::read(&Args::new(&chunk)).unwrap();
            Removed { asked, purge: false }.targets(&desk, &db()).0
        };
        assert_eq!(targets("vim:amd64", "{}"), ["vim"]);
        assert_eq!(targets("libc6:i386", "{}"), ["libc6:i386"]);
        assert_eq!(
            targets("x", r#"{"pkgs": ["vim:amd64", "vim", {"dpkg:amd64": "1"}, "vim:i386"]}"#),
            ["dpkg", "vim"]
        );
        assert!(targets("vim:amd64", r#"{"normalize": false}"#).is_empty());
    }

    #[test]
    fn what_is_left_has_to_go() {
        let mut db = Db::default();
        db.packs.entry("whole".into()).or_default().versions = vec!["1".into()];
        db.packs.entry("broken".into()).or_default().broken = Some("half-configured".into());
        db.packs.entry("config".into()).or_default().removed = Some("1".into());
        for (name, removed, purged) in
            [("whole", true, true), ("broken", true, true), ("config", false, true), ("none", false, false)]
        {
            assert_eq!((is_left(&db, name, false), is_left(&db, name, true)), (removed, purged), "{name}");
        }
    }
}
