//! `pkg.held` and `pkg.unheld`: packages kept at their version, or no longer.

use zagent_config::{Map, Value};

use super::asked::Asked;
use super::desk::{Desk, refusal};
use crate::host::packages::Act;
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, Standing, State, Veil};

/// Makes `pkg.held`, or `pkg.unheld`.
pub(super) fn build(args: &Args<'_>, hold: bool) -> Built {
    let all = args.flag(if hold { "replace" } else { "all" }, false);
    Ok(Box::new(Held { asked: Asked::read(args)?, hold, all }))
}

struct Held {
    asked: Asked,
    hold: bool,
    /// Frees all others (`replace`), or simply all (`all`).
    all: bool,
}

/// Holds packages, or frees them; those that changed.
pub(super) fn set(desk: &Desk<'_>, names: &[String], hold: bool) -> Result<Vec<String>, Failure> {
    let act = if hold { Act::Hold(names) } else { Act::Unhold(names) };
    let before = desk.db()?;
    let told = desk.change(names, || Ok(desk.teller().tell(&act)?));
    told.map_err(|f| {
        Failure::new(format!(
            "An error was encountered while holding/unholding package(s): {}",
            f.done.comment
        ))
    })?;
    let after = desk.db()?;
    let is = |db: &crate::host::packages::Db, n: &str| db.packs.get(n).is_some_and(|p| p.is_held);
    Ok(names.iter().filter(|n| is(&before, n) != is(&after, n)).cloned().collect())
}

impl Held {
    /// What has to be held, and what has to be freed.
    fn lacking(&self, desk: &Desk<'_>) -> Result<(Vec<String>, Vec<String>), Failure> {
        let (db, chosen) = (desk.db()?, desk.chosen);
        if chosen.provider.lines(chosen.program, &Act::Hold(&[])).is_none() {
            return Err(Failure::new(
                "No any function to get the list of held packages available.\nCheck if the package manager supports \
                 package locking.",
            ));
        }
        let held: Vec<String> = db.packs.iter().filter(|(_, p)| p.is_held).map(|(n, _)| n.clone()).collect();
        let wanted: Vec<String> = self.asked.wanted_in(&db).into_iter().map(|w| w.name).collect();
        let named = |name: &String| wanted.contains(name);
        if self.hold {
            let to_hold: Vec<String> = wanted.iter().filter(|n| !held.contains(n)).cloned().collect();
            let absent: Vec<&str> =
                to_hold.iter().filter(|n| db.get(n).is_none()).map(String::as_str).collect();
            if !absent.is_empty() {
                let words = absent.iter().map(|n| format!("Package {n} was not held: it is not installed"));
                return Err(Failure::new(words.collect::<Vec<_>>().join("\n")));
            }
            let to_free = held.into_iter().filter(|n| self.all && !named(n)).collect();
            return Ok((to_hold, to_free));
        }
        Ok((Vec::new(), held.into_iter().filter(|n| self.all || named(n)).collect()))
    }
}

impl State for Held {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let scene = &super::looking(scene);
        if self.asked.is_nothing && !self.all {
            let how = if self.hold { "held" } else { "unheld" };
            return Ok(Look::right(format!("No packages to be {how} provided")));
        }
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let (to_hold, to_free) = self.lacking(&desk)?;
        if to_hold.is_empty() && to_free.is_empty() {
            return Ok(Look::right("No changes made"));
        }
        let mut lines: Vec<String> =
            to_hold.iter().map(|n| format!("The following package would be held: {n}")).collect();
        lines.extend(to_free.iter().map(|n| format!("The following package would be unheld: {n}")));
        let mut changes = Map::new();
        for (names, hold) in [(&to_hold, true), (&to_free, false)] {
            for name in names {
                changes.insert(name.as_str(), change(name, hold));
            }
        }
        Ok(Look { standing: Standing::Drift, ..Look::drift(lines.join("\n"), changes) })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let (to_hold, to_free) = self.lacking(&desk)?;
        let (mut lines, mut changes) = (Vec::new(), Map::new());
        for (names, hold) in [(to_hold, true), (to_free, false)] {
            if names.is_empty() {
                continue;
            }
            for name in set(&desk, &names, hold)? {
                let how = if hold { "now being held" } else { "no longer being held." };
                lines.push(format!("Package {name} is {how}"));
                changes.insert(name.as_str(), change(&name, hold));
            }
        }
        if lines.is_empty() {
            return Err(refusal(
                "An error was encountered while holding/unholding package(s)",
                zagent_compiler::functions::Refusal::failed("nothing changed"),
            ));
        }
        Ok(Done::new(lines.join("\n"), changes))
    }

    fn react(&mut self, _: &Scene<'_>) -> Result<Done, Failure> {
        Err(super::deaf(if self.hold { "held" } else { "unheld" }))
    }

    fn sees(&self) -> Veil {
        super::SEES
    }

    fn veils(&self) -> Veil {
        Veil::PACKAGES
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        hidden != super::SEES
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Packages]
    }
}

/// Salt's shape: what its function says of one package.
fn change(name: &str, hold: bool) -> Map {
    let (old, new) = if hold { ("install", "hold") } else { ("hold", "install") };
    let how = if hold { "now being held" } else { "no longer being held" };
    Map::from_iter([
        ("name", Value::from(name)),
        ("changes", Map::from_iter([("old", old), ("new", new)]).into()),
        ("result", true.into()),
        ("comment", format!("Package {name} is {how}.").into()),
    ])
}
