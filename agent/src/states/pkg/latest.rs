//! `pkg.latest` and `pkg.uptodate`: packages, or all of them, at the newest version that can be had.
//!
//! Law: a run that changes things asks a fresh catalogue, once; a dry run asks the one that is there.

use zagent_config::Value;

use super::asked::Asked;
use super::desk::{Desk, changes, refused};
use crate::host::packages::{Act, Db, Options, Step, Target};
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil};

/// Makes `pkg.latest`.
pub(super) fn latest(args: &Args<'_>) -> Built {
    if args.get("sources").is_some_and(Value::is_truthy) {
        return Err(Failure::new("The \"sources\" parameter is not supported."));
    }
    let mut asked = Asked::read(args)?;
    asked.options.newest = true;
    Ok(Box::new(Latest { asked }))
}

/// Makes `pkg.uptodate`.
pub(super) fn uptodate(args: &Args<'_>) -> Built {
    Ok(Box::new(Uptodate { asked: Asked::read(args)? }))
}

struct Latest {
    asked: Asked,
}

impl Latest {
    fn names(&self, db: &Db) -> Vec<String> {
        self.asked.wanted_in(db).into_iter().map(|w| w.name).collect()
    }

    /// What is older than it could be, and what it could be.
    fn steps(&self, desk: &Desk<'_>, db: &Db) -> Result<Vec<Step>, Failure> {
        if self.asked.refresh != Some(false) {
            desk.refresh(&self.asked)?;
        }
        let names = self.names(db);
        let offers = desk.offers(&names, &self.asked)?;
        let scheme = desk.chosen.provider.scheme();
        let (mut steps, mut problems) = (Vec::new(), Vec::new());
        for name in names {
            let old = db.version(&name);
            let new = offers.get(&name).map(|o| o.candidate.clone()).unwrap_or_default();
            let have = db.get(&name).and_then(|p| p.versions.last().cloned()).unwrap_or_default();
            match () {
                () if new.is_empty() && old.is_empty() => {
                    problems.push(format!("No information found for '{name}'."));
                }
                () if old.is_empty() && self.asked.options.only_upgrade => {
                    problems.push(format!("Package {name} is not installed, and only_upgrade is set."));
                }
                () if !new.is_empty() && (old.is_empty() || scheme.compare(&have, &new).is_lt()) => {
                    steps.push(Step { name, old, new });
                }
                () => {}
            }
        }
        if problems.is_empty() {
            return Ok(steps);
        }
        Err(Failure::new(desk.with_warning(&problems.join(" "))))
    }

    fn right(&self, db: &Db) -> String {
        let mut names = self.names(db);
        names.sort_unstable();
        match &names[..] {
            [] => "No packages to install provided".to_owned(),
            [one] => format!("Package {one} is already up-to-date"),
            many if many.len() > 10 => format!("All {} packages are up-to-date.", many.len()),
            many => format!("All packages are up-to-date ({}).", many.join(", ")),
        }
    }

    /// The packages that are not in these steps, as results name them.
    fn others(&self, db: &Db, steps: &[Step], word: &str) -> Option<String> {
        let mut rest: Vec<String> = self.names(db);
        rest.retain(|n| !steps.iter().any(|s| s.name == *n));
        rest.sort_unstable();
        match rest.len() {
            0 => None,
            n if n > 10 => Some(format!("{n} packages {word} already up-to-date")),
            _ => Some(format!("The following packages {word} already up-to-date: {}", rest.join(", "))),
        }
    }
}

fn listed(steps: &[Step]) -> String {
    let mut names: Vec<&str> = steps.iter().map(|s| s.name.as_str()).collect();
    names.sort_unstable();
    names.join(", ")
}

impl State for Latest {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let scene = &super::looking(scene);
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let db = desk.db()?;
        let steps = self.steps(&desk, &db)?;
        if steps.is_empty() {
            return Ok(Look::right(desk.with_warning(&self.right(&db))));
        }
        let mut words =
            vec![format!("The following packages would be installed/upgraded: {}", listed(&steps))];
        words.extend(self.others(&db, &steps, "are"));
        Ok(Look::drift(words.join("\n"), changes(&steps)))
    }

    fn preview(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let mut look = self.check(scene)?;
        if !look.changes.is_empty() {
            let desk = Desk::new(scene, self.asked.provider.as_deref())?;
            let steps = self.steps(&desk, &*desk.db()?)?;
            let targets: Vec<Target> = steps.iter().map(|s| Target::named(&s.name)).collect();
            if let Some(steps) = desk.foresee_install(&targets, &self.asked)? {
                look.changes = changes(&steps);
                desk.imagine(&steps);
            }
        }
        Ok(look)
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        const PROBLEM: &str = "An error was encountered while installing package(s)";
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let mended = desk.mend()?;
        let db = desk.db()?;
        let wanted = self.steps(&desk, &db)?;
        let targets: Vec<Target> = wanted.iter().map(|s| Target::named(&s.name)).collect();
        let steps = desk.install(&targets, &self.asked).map_err(|(f, steps)| refused(PROBLEM, f, &steps))?;
        let mut words =
            vec![format!("The following packages were successfully installed/upgraded: {}", listed(&wanted))];
        words.extend(self.others(&db, &wanted, "were"));
        words.extend(mended);
        Ok(Done::new(desk.with_warning(&words.join(" ")), changes(&steps)))
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        super::once_more(self, scene)
    }

    fn sees(&self) -> Veil {
        super::SEES
    }

    fn veils(&self) -> Veil {
        Veil::PACKAGE
    }

    /// A repository that comes before may bring a newer one.
    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        hidden != super::SEES && (hidden & Veil::CATALOG).is_none()
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Packages]
    }
}

struct Uptodate {
    asked: Asked,
}

impl Uptodate {
    /// All that could be newer, or of those that are named.
    fn steps(&self, desk: &Desk<'_>) -> Result<Vec<Step>, Failure> {
        if self.asked.refresh == Some(true) {
            desk.refresh(&self.asked)?;
        }
        desk.freshen()?;
        let db = desk.db()?;
        let names = self.names(&db);
        let steps = desk.teller().rehearse(&Act::Upgrade(&names, &self.asked.options))?;
        let mut steps = steps.unwrap_or_default();
        steps.retain(|s| !s.new.is_empty());
        // A manager that does not tell what there was: the database does.
        for step in steps.iter_mut().filter(|s| s.old.is_empty()) {
            step.old = db.version(&step.name);
        }
        if self.asked.is_list {
            steps.retain(|s| names.contains(&s.name));
        }
        Ok(steps)
    }

    fn names(&self, db: &Db) -> Vec<String> {
        let all = if self.asked.is_list { self.asked.wanted_in(db) } else { Vec::new() };
        all.into_iter().map(|w| w.name).collect()
    }
}

impl State for Uptodate {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let scene = &super::looking(scene);
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let steps = self.steps(&desk)?;
        if steps.is_empty() {
            return Ok(Look::right(desk.with_warning("System is already up-to-date")));
        }
        Ok(Look::drift("System update will be performed", changes(&steps)))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        const PROBLEM: &str = "Problem encountered upgrading packages";
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let mended = desk.mend()?;
        let names = self.names(&*desk.db()?);
        let options: &Options = &self.asked.options;
        let steps = desk
            .transact(&[Act::Upgrade(&names, options)])
            .map_err(|(failure, steps)| refused(PROBLEM, failure, &steps))?;
        let mut words = vec!["Upgrade ran successfully".to_owned()];
        words.extend(mended);
        words.extend(desk.warning().into_iter().chain(desk.overtime()));
        Ok(Done::new(words.join("\n"), changes(&steps)))
    }

    fn react(&mut self, _: &Scene<'_>) -> Result<Done, Failure> {
        Err(super::deaf("uptodate"))
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
