//! `pkg.installed`: packages that should be there, in versions that will do.
//!
//! Law: states of one level go into one transaction; each tells its own changes at its own turn, and a neighbour that cannot
//! be served fails alone.

use std::collections::BTreeMap;

use zagent_compiler::{Chunk, Compat};
use zagent_config::{Map, Value};

use super::asked::{Asked, Wanted};
use super::desk::{Desk, changes, refused};
use super::joint::{alike, along, joined, resolve, share};
use super::source::{self, Sources};
use super::verify::Verify;
use crate::host::command::shown;
use crate::host::packages::{Db, Offers, Step, Target, fulfils, shown_spec};
use crate::states::{Args, Built, Done, Failure, Look, Resource, Scene, Standing, State, Veil};

/// Makes `pkg.installed`.
pub(super) fn build(args: &Args<'_>) -> Built {
    Ok(Box::new(Installed {
        asked: Asked::read(args)?,
        reinstall: args.flag("reinstall", false),
        verify: Verify::read(args)?,
        hold: args.get("hold").map(Value::is_truthy),
        sources: Sources::read(args)?,
        neighbours: Vec::new(),
    }))
}

struct Installed {
    asked: Asked,
    reinstall: bool,
    verify: Option<Verify>,
    hold: Option<bool>,
    sources: Sources,
    /// Other states whose packages may come along, by tag.
    neighbours: Vec<(String, Asked)>,
}

/// How the wanted packages stand.
#[derive(Default)]
struct Survey {
    /// Not there, or not in a version that will do.
    missing: Vec<Wanted>,
    /// There, and to be brought once more.
    again: Vec<Wanted>,
    /// Files that are not as their package brought them, by package.
    altered: BTreeMap<String, Vec<String>>,
    /// To be held, or no longer.
    hold: Vec<String>,
    /// Some version was asked for.
    is_spec: bool,
}

impl Survey {
    fn is_right(&self) -> bool {
        self.missing.is_empty() && self.again.is_empty() && self.hold.is_empty()
    }

    fn to_bring(&self) -> impl Iterator<Item = &Wanted> {
        self.missing.iter().chain(&self.again)
    }
}

/// What counts as installed of a name: the package itself, or who provides it when that will do.
fn version_of(db: &Db, desk: &Desk<'_>, name: &str, asked: &Asked) -> Result<Vec<String>, Failure> {
    if let Some(pack) = db.get(name) {
        return Ok(if pack.is_purge_desired { Vec::new() } else { pack.versions.clone() });
    }
    if asked.resolve_capabilities
        && let Some(provider) = source::provider_of(desk, name)?
    {
        return Ok(db.get(&provider).map(|p| p.versions.clone()).unwrap_or_default());
    }
    Ok(Vec::new())
}

impl Installed {
    fn survey(&self, desk: &Desk<'_>, db: &Db) -> Result<Survey, Failure> {
        let mut survey = Survey::default();
        let scheme = desk.chosen.provider.scheme();
        let latest = self.latest(desk, db)?;
        for mut wanted in self.asked.wanted_in(db) {
            let have = version_of(db, desk, &wanted.name, &self.asked)?;
            if self.hold.is_some_and(|hold| db.get(&wanted.name).is_none_or(|p| p.is_held != hold)) {
                survey.hold.push(wanted.name.clone());
            }
            if wanted.spec.as_deref() == Some("latest") {
                wanted.spec = latest.get(&wanted.name).map(|o| o.candidate.clone()).filter(|v| !v.is_empty());
            }
            if have.is_empty() {
                survey.missing.push(wanted);
                continue;
            }
            if self.reinstall {
                survey.again.push(wanted);
                continue;
            }
            let of_file = match &wanted.source {
                Some(source) => self.sources.version(desk, source)?,
                None => None,
            };
            let will_do = |spec: &str| {
                let fits =
                    |v: &String| fulfils(v, spec, scheme, self.asked.ignore_epoch, self.asked.allow_updates);
                have.iter().any(fits)
            };
            match wanted.spec.as_ref().or(of_file.as_ref()) {
                Some(spec) if !will_do(spec) => {
                    survey.is_spec = true;
                    survey.missing.push(wanted);
                }
                spec => {
                    survey.is_spec |= spec.is_some() && wanted.source.is_none();
                    let altered = match &self.verify {
                        Some(verify) => verify.altered(desk, &wanted.name)?,
                        None => Vec::new(),
                    };
                    if !altered.is_empty() {
                        survey.altered.insert(wanted.name.clone(), altered);
                        survey.again.push(wanted);
                    }
                }
            }
        }
        Ok(survey)
    }

    /// What `latest` stands for.
    fn latest(&self, desk: &Desk<'_>, db: &Db) -> Result<Offers, Failure> {
        let is_latest = |w: &Wanted| w.spec.as_deref() == Some("latest");
        let wanted = self.asked.wanted_in(db).into_iter().filter(is_latest);
        let names: Vec<String> = wanted.map(|w| w.name).collect();
        if names.is_empty() {
            return Ok(Offers::new());
        }
        if self.asked.refresh != Some(false) {
            desk.refresh(&self.asked)?;
        }
        desk.offers(&names, &self.asked)
    }

    fn look(&self, scene: &Scene<'_>) -> Result<(Look, Survey), Failure> {
        if self.asked.is_nothing {
            return Ok((Look::right("No packages to install provided"), Survey::default()));
        }
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let db = desk.db()?;
        let survey = self.survey(&desk, &db)?;
        if let Some(mine) = scene.shared.packages.lock().brought.get(scene.tag) {
            return Ok((Look::drift("its packages came with those of another state", mine.clone()), survey));
        }
        if survey.is_right() {
            let tail = if survey.is_spec { " and are at the desired version" } else { "" };
            let mut comment = format!("All specified packages are already installed{tail}");
            if let Some(hold) = self.hold {
                for wanted in &self.asked.wanted {
                    let how = if hold { "already set to be held" } else { "already not held" };
                    comment.push_str(&format!(".\nPackage {} is {how}.", wanted.name));
                }
            }
            return Ok((Look::right(comment), survey));
        }
        let steps: Vec<Step> = survey
            .to_bring()
            .map(|w| Step { name: w.name.clone(), old: db.version(&w.name), new: "installed".into() })
            .collect();
        Ok((Look::drift(self.would(&survey), changes(&steps)), survey))
    }

    /// What a dry run says.
    fn would(&self, survey: &Survey) -> String {
        let mut lines = Vec::new();
        let names = |list: &[Wanted]| {
            let one = |w: &Wanted| shown_spec(&w.name, w.spec.as_deref().filter(|_| self.reinstall));
            list.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        if !survey.missing.is_empty() {
            let names = names(&survey.missing);
            lines.push(format!("The following packages would be installed/updated: {names}"));
        }
        if self.reinstall && !survey.again.is_empty() {
            lines.push(format!("The following packages would be reinstalled: {}", names(&survey.again)));
        }
        for (name, files) in &survey.altered {
            lines.push(format!(
                "Package '{name}' would be reinstalled because the following files have been altered:\n{}",
                files.join("\n")
            ));
        }
        if let (Some(hold), false) = (self.hold, survey.hold.is_empty()) {
            let how = if hold { "held" } else { "unheld" };
            lines.push(format!("The following packages would be {how}: {}", survey.hold.join(", ")));
        }
        lines.join("\n")
    }

    /// What is asked of the manager for wanted packages; who cannot be served is told by name.
    fn targets(&self, desk: &Desk<'_>, wanted: &[&Wanted]) -> Result<Vec<Target>, Failure> {
        let (mut targets, mut unknown) = (Vec::new(), Vec::new());
        let names: Vec<String> =
            wanted.iter().filter(|w| w.source.is_none()).map(|w| w.name.clone()).collect();
        let mut offers = desk.offers(&names, &self.asked)?;
        let lacks = |offers: &Offers| {
            wanted.iter().any(|w| w.spec.is_some() && resolve(desk, offers, w, &self.asked).is_err())
        };
        if lacks(&offers) && self.asked.refresh != Some(false) && desk.refresh(&self.asked)? {
            offers = desk.offers(&names, &self.asked)?;
        }
        for w in wanted {
            match &w.source {
                Some(source) => {
                    let file = Some(self.sources.file(desk.scene, source)?);
                    targets.push(Target { file, ..Target::named(&w.name) });
                }
                None => match resolve(desk, &offers, w, &self.asked) {
                    Ok(target) => targets.push(target),
                    Err(words) => unknown.push(words),
                },
            }
        }
        if unknown.is_empty() {
            return Ok(targets);
        }
        Err(Failure::new(desk.with_warning(&unknown.join("\n"))))
    }

    /// Brings what is missing: first together with the neighbours, and alone when that fails.
    fn bring(&self, desk: &Desk<'_>, survey: &Survey) -> Result<Vec<Step>, Failure> {
        const PROBLEM: &str = "Problem encountered installing package(s)";
        let mine: Vec<&Wanted> = survey.to_bring().collect();
        let targets = self.targets(desk, &mine).map_err(|f| refused(PROBLEM, f, &[]))?;
        let mut asked = self.asked.clone();
        asked.options.reinstall = !survey.again.is_empty();
        let (others, owners) = along(desk, &self.asked, &self.neighbours, &targets)?;
        let mut came = Vec::new();
        if !others.is_empty() {
            let all: Vec<Target> = targets.iter().chain(&others).cloned().collect();
            match desk.install(&all, &asked) {
                Ok(steps) => return Ok(share(desk, steps, &owners)),
                // What came before it failed came for whom it was meant.
                Err((_, steps)) => came = share(desk, steps, &owners),
            }
        }
        let mut steps = match desk.install(&targets, &asked) {
            Ok(steps) => joined(came, steps),
            Err((f, steps)) => return Err(refused(PROBLEM, f, &joined(came, steps))),
        };
        for w in &survey.again {
            if !steps.iter().any(|s| s.name == w.name) {
                let version = desk.db()?.version(&w.name);
                steps.push(Step { name: w.name.clone(), old: version.clone(), new: version });
            }
        }
        Ok(steps)
    }

    /// What was done, in Salt's words.
    fn told(&self, survey: &Survey, desk: &Desk<'_>, steps: &[Step]) -> Result<Done, Failure> {
        let mut lines = Vec::new();
        let spec = |w: &Wanted| shown_spec(&w.name, w.spec.as_deref());
        let listed = |list: &[&Wanted]| list.iter().map(|w| spec(w)).collect::<Vec<_>>().join(", ");
        let before = desk.db()?;
        let after = self.survey(desk, &before)?;
        let lacks = |w: &Wanted| after.missing.iter().any(|m| m.name == w.name);
        let (failed, fine): (Vec<&Wanted>, Vec<&Wanted>) = survey.missing.iter().partition(|w| lacks(w));
        if !failed.is_empty() {
            lines.push(format!("The following packages failed to install/update: {}", listed(&failed)));
        }
        if !fine.is_empty() {
            let names = listed(&fine);
            let (s, were) = if fine.len() > 1 { ("s", "were") } else { ("", "was") };
            lines.push(if names.len() < 20 {
                format!("The following packages were installed/updated: {names}")
            } else {
                format!("{} targeted package{s} {were} installed/updated.", fine.len())
            });
        }
        let touched = |w: &Wanted| survey.to_bring().any(|t| t.name == before.own_name(&w.name));
        let already: Vec<&Wanted> = self.asked.wanted.iter().filter(|w| !touched(w)).collect();
        if !already.is_empty() && !steps.is_empty() {
            lines.push(if already.len() <= 20 {
                format!("The following packages were already installed: {}", listed(&already))
            } else {
                format!("{} targeted packages were already installed", already.len())
            });
        }
        for w in &survey.again {
            let files = survey.altered.get(&w.name).map(|files| files.join("\n"));
            let tail =
                files.map(|f| format!(" The following files were remediated:\n{f}")).unwrap_or_default();
            lines.push(format!("Package {} was reinstalled.{tail}", spec(w)));
        }
        let done = Done::new(lines.join("\n"), changes(steps));
        if failed.is_empty() { Ok(done) } else { Err(done.into()) }
    }

    fn hold(&self, desk: &Desk<'_>, names: &[String], done: &mut Done) -> Result<(), Failure> {
        let Some(hold) = self.hold.filter(|_| !names.is_empty()) else { return Ok(()) };
        let held = super::held::set(desk, names, hold)?;
        for name in held {
            let (old, new) = if hold { ("install", "hold") } else { ("hold", "install") };
            let how = if hold { "now being held" } else { "no longer being held" };
            done.comment.push_str(&format!("\nPackage {name} is {how}."));
            let change = match done.changes.get(&name).and_then(Value::as_map) {
                Some(was) => {
                    let text =
                        |key: &str| was.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                    let joined =
                        |a: String, b: &str| if a.is_empty() { b.to_owned() } else { format!("{a}\n{b}") };
                    Map::from_iter([("old", joined(text("old"), old)), ("new", joined(text("new"), new))])
                }
                None => Map::from_iter([("old", old.to_owned()), ("new", new.to_owned())]),
            };
            done.changes.insert(name, change);
        }
        done.comment = done.comment.trim_start().to_owned();
        Ok(())
    }
}

impl State for Installed {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let scene = &super::looking(scene);
        Ok(self.look(scene)?.0)
    }

    /// The same with the versions and all that would come along, as the manager itself foresees it.
    fn preview(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let (mut look, survey) = self.look(scene)?;
        let wanted: Vec<&Wanted> = survey.to_bring().collect();
        if look.standing == Standing::Right && scene.compat == Compat::Strict {
            let desk = Desk::new(scene, self.asked.provider.as_deref())?;
            // In one transaction it is this state's, otherwise it is there already.
            if let Some(name) = desk.coming(&self.asked.wanted) {
                return Ok(Look::unknown(format!("`{name}` would come along with another package")));
            }
        }
        if look.standing != Standing::Drift || wanted.is_empty() {
            return Ok(look);
        }
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        if desk.is_blind() {
            look.comment.push_str("\nThe package lists were never fetched: nobody can tell which versions.");
            return Ok(look);
        }
        let targets = self.targets(&desk, &wanted).map_err(|f| refused("It would fail", f, &[]))?;
        let mut asked = self.asked.clone();
        asked.options.reinstall = !survey.again.is_empty();
        let steps = desk.foresee_install(&targets, &asked)?;
        if let Some(steps) = steps {
            look.changes = changes(&steps);
            desk.imagine(&steps);
        }
        Ok(look)
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let desk = Desk::new(scene, self.asked.provider.as_deref())?;
        let start = desk.db()?;
        let survey = self.survey(&desk, &start)?;
        let mine = scene.shared.packages.lock().brought.remove(scene.tag);
        let mended = if survey.to_bring().next().is_none() { None } else { desk.mend()? };
        // What was mended may be all that was lacking.
        let left = if mended.is_some() { self.survey(&desk, &*desk.db()?)? } else { survey };
        let bring = left.to_bring().next().is_some();
        let steps = if bring { self.bring(&desk, &left)? } else { Vec::new() };
        let words = if bring { desk.with_warning("") } else { String::new() };
        // What came late is still looked at.
        let calm = Scene { deadline: None, ..*scene };
        let desk = Desk::new(&calm, self.asked.provider.as_deref())?;
        let mut done = self.told(&left, &desk, &steps)?;
        done.comment += &words;
        if let Some(mine) = mine {
            let names: Vec<String> = mine.keys().map(shown).collect();
            let words = format!("The following packages were installed/updated: {}", names.join(", "));
            done.comment = [words, done.comment].join("\n").trim_end().to_owned();
            for (name, change) in mine.iter() {
                done.changes.insert(name.clone(), change.clone());
            }
        }
        if let Some(words) = mended {
            done.comment = format!("{}\n{words}", done.comment).trim_start().to_owned();
            done.changes = changes(&start.differences(&*desk.db()?));
        }
        if let Err(failure) = self.hold(&desk, &left.hold, &mut done) {
            let words = format!("{}\n{}", done.comment, failure.done.comment);
            done.comment = words.trim_start().to_owned();
            return Err(done.into());
        }
        Ok(done)
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        super::once_more(self, scene)
    }

    fn is_lasting(&self) -> bool {
        !self.reinstall
    }

    fn joins(&self) -> bool {
        let is_plain = |w: &Wanted| w.source.is_none();
        !self.reinstall && self.asked.wanted.iter().all(is_plain)
    }

    fn join(&mut self, others: &[&Chunk]) {
        self.neighbours = others.iter().filter_map(|chunk| alike(chunk, &self.asked)).collect();
    }

    fn sees(&self) -> Veil {
        super::SEES
    }

    fn veils(&self) -> Veil {
        Veil::PACKAGE
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        hidden != super::SEES
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Packages]
    }
}
