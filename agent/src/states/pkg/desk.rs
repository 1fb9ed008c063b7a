//! Where package states do their work: the database of the run, the catalogue, and transactions that can be undone.
//!
//! Law: a transaction is rehearsed before it is done, so that what cannot be is refused whole, and all that it touches is noted.
//! The catalogue is fetched at most once a run, whatever came of it: one repository that is down does not keep from what others
//! have.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use zagent_compiler::functions::Refusal;
use zagent_config::Map;

use super::asked::{Asked, Wanted};
use super::thing::PACKAGES;
use crate::host::Tools;
use crate::host::packages::{self, Act, Chosen, Db, Offers, Options, Stamp, Step, Target, Teller};
use crate::states::{Failure, Scene, keyed};

/// What a package state works with.
pub(super) struct Desk<'s> {
    pub(super) scene: &'s Scene<'s>,
    pub(super) chosen: Chosen,
    /// The package manager that was asked for; a revert asks for it again.
    provider: Option<String>,
}

impl<'s> Desk<'s> {
    /// A desk with the package manager that is asked for, or the host's own.
    pub(super) fn new(scene: &'s Scene<'s>, provider: Option<&str>) -> Result<Self, Failure> {
        let chosen = packages::choose(scene.tools().machine, provider)?;
        Ok(Self { scene, chosen, provider: provider.map(str::to_owned) })
    }

    /// Changes packages so that a revert can put them back.
    pub(super) fn change<T>(
        &self,
        names: &[String],
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.scene.change(&PACKAGES, keyed(&names.join(" "), self.provider.as_deref()), act)
    }

    pub(super) fn teller(&self) -> Teller<'s> {
        Teller::new(self.scene.tools(), self.chosen)
    }

    /// What is installed; in a dry run with what earlier states would have changed.
    pub(super) fn db(&self) -> Result<Arc<Db>, Failure> {
        let (provider, tools) = (self.chosen.provider, self.scene.tools());
        let stamp = Stamp::of(tools.machine, &[provider.witnesses(), provider.locks()].concat());
        let mut kept = self.scene.shared.packages.lock();
        let known = kept.db.as_ref().filter(|(name, of, _)| *name == provider.name() && *of == stamp);
        let db = match known {
            Some((_, _, db)) => Arc::clone(db),
            None => {
                let db = Arc::new(provider.read(tools.machine)?);
                kept.db = Some((provider.name(), stamp, Arc::clone(&db)));
                db
            }
        };
        if kept.foreseen.is_empty() {
            return Ok(db);
        }
        let mut imagined = (*db).clone();
        for step in &kept.foreseen {
            let pack = imagined.packs.entry(step.name.clone()).or_default();
            pack.is_foreseen |= !pack.is_installed();
            pack.versions = Some(step.new.clone()).filter(|v| !v.is_empty()).into_iter().collect();
        }
        Ok(Arc::new(imagined))
    }

    /// Remembers what would be done, for the states after it in a dry run.
    pub(super) fn imagine(&self, steps: &[Step]) {
        if self.scene.is_dry() {
            self.scene.shared.packages.lock().foreseen.extend_from_slice(steps);
        }
    }

    /// The first of these that an earlier state of a dry run would have brought along.
    pub(super) fn coming(&self, wanted: &[Wanted]) -> Option<String> {
        let kept = self.scene.shared.packages.lock();
        let comes =
            |w: &&Wanted| kept.foreseen.iter().any(|step| step.name == w.name && !step.new.is_empty());
        wanted.iter().find(comes).map(|w| w.name.clone())
    }

    /// Fetches the catalogue, once a run and once more when the repositories are others; true when that was tried. What came of
    /// it is in [`Self::warning`].
    pub(super) fn refresh(&self, asked: &Asked) -> Result<bool, Failure> {
        if self.freshen()? {
            return Ok(true);
        }
        let may = !self.scene.is_dry() && !self.is_refreshed() && !self.is_young(asked.cache_valid_time);
        if may {
            self.fetch()?;
        }
        Ok(may)
    }

    /// Fetches the catalogue when the repositories are others than those that it came from; true when that was tried. The
    /// state of the repository asked for it, so neither `refresh: false` nor the catalogue's age matters.
    pub(super) fn freshen(&self) -> Result<bool, Failure> {
        let is_stale = !self.scene.is_dry() && self.scene.shared.packages_stale.load(Ordering::Relaxed);
        if is_stale {
            self.fetch()?;
        }
        Ok(is_stale)
    }

    fn fetch(&self) -> Result<(), Failure> {
        let told = self.teller().tell(&Act::Refresh);
        let is_over = self.scene.cancel.is_said() || self.scene.tools().left().is_some_and(|t| t.is_zero());
        if is_over {
            return Ok(told?);
        }
        // A repository that cannot be reached is no reason to ask all of them again for every package.
        self.scene.shared.packages_stale.store(false, Ordering::Relaxed);
        let mut kept = self.scene.shared.packages.lock();
        kept.is_refreshed = true;
        kept.refusal = told.err().map(|refusal| refusal.words());
        Ok(())
    }

    /// What is said of packages that were looked up although the catalogue could not be fetched whole.
    pub(super) fn warning(&self) -> Option<String> {
        let kept = self.scene.shared.packages.lock();
        let words = kept.refusal.as_ref()?;
        Some(format!(
            "Warning: the package lists could not be fetched whole, what is known was used: {words}"
        ))
    }

    /// What is said when a transaction took longer than the state has.
    pub(super) fn overtime(&self) -> Option<String> {
        let is_late = self.scene.tools().left().is_some_and(|left| left.is_zero());
        is_late.then(|| "It took longer than its `timeout`: packages are not left half-way.".to_owned())
    }

    /// Both at the end of other words.
    pub(super) fn with_warning(&self, words: &str) -> String {
        let parts = [Some(words.to_owned()), self.warning(), self.overtime()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// True when nothing is known of what can be had, and a dry run does not ask.
    pub(super) fn is_blind(&self) -> bool {
        self.scene.is_dry() && self.chosen.provider.is_blank(self.scene.tools().machine)
    }

    fn is_refreshed(&self) -> bool {
        self.scene.shared.packages.lock().is_refreshed
    }

    /// True when the catalogue was fetched not so many seconds ago.
    fn is_young(&self, seconds: i64) -> bool {
        if seconds <= 0 {
            return false;
        }
        let lists = self.scene.tools().machine.path("/var/lib/apt/lists/partial");
        let written = std::fs::metadata(lists).and_then(|m| m.modified());
        let age = written.ok().and_then(|w| w.elapsed().ok());
        age.is_some_and(|age| i64::try_from(age.as_secs()).is_ok_and(|age| age < seconds))
    }

    /// What can be had. The catalogue is fetched when that is asked for, when there is none, and when it does not know a name.
    pub(super) fn offers(&self, names: &[String], asked: &Asked) -> Result<Offers, Failure> {
        if names.is_empty() {
            return Ok(Offers::new());
        }
        self.freshen()?;
        let (provider, tools) = (self.chosen.provider, self.scene.tools());
        let may = asked.refresh != Some(false);
        if asked.refresh == Some(true) || may && provider.is_blank(tools.machine) {
            self.refresh(asked)?;
        }
        let offers = provider.offers(&tools, names, &asked.options)?;
        if may && names.iter().any(|n| !offers.contains_key(n)) && self.refresh(asked)? {
            return Ok(provider.offers(&tools, names, &asked.options)?);
        }
        Ok(offers)
    }

    /// Mends what was left half-way; says what it was.
    pub(super) fn mend(&self) -> Result<Option<String>, Failure> {
        let (teller, db) = (self.teller(), self.db()?);
        // What is half-way is none that a revert could put back; what comes along with it is.
        let whole = |step: &Step| db.packs.get(&step.name).is_none_or(|p| p.broken.is_none());
        let more = teller.rehearse_mending(&db)?.into_iter().filter(whole).map(|s| s.name);
        let more: Vec<String> = more.collect();
        if more.is_empty() {
            return Ok(teller.mend(&db)?);
        }
        self.change(&more, || Ok(teller.mend(&db)?))
    }

    /// Does acts in one change that can be undone; says what is different after. What was done before one failed is told
    /// with the failure.
    pub(super) fn transact(&self, acts: &[Act<'_>]) -> Result<Vec<Step>, (Failure, Vec<Step>)> {
        let bare = |failure: Failure| (failure, Vec::new());
        let before = self.db().map_err(bare)?;
        let mut touched = std::collections::BTreeSet::new();
        for act in acts {
            let steps = self.teller().rehearse_within(act, &before).map_err(|e| bare(e.into()))?;
            match (steps, act) {
                (Some(steps), _) => touched.extend(steps.into_iter().map(|s| s.name)),
                (None, Act::Install(targets, _)) => touched.extend(targets.iter().map(|t| t.name.clone())),
                (None, Act::Remove(names, _) | Act::Upgrade(names, _)) => {
                    touched.extend(names.iter().cloned());
                }
                (None, _) => {}
            }
        }
        let touched: Vec<String> = touched.into_iter().collect();
        let told = self.change(&touched, || {
            acts.iter().try_for_each(|act| Ok(self.teller().tell(act)?)).and(self.hold_again(&before))
        });
        let after = self.db().map_err(bare)?;
        let steps = before.differences(&after);
        match told {
            Ok(()) => Ok(steps),
            Err(failure) => Err((failure, steps)),
        }
    }

    /// The same for an installation: fetches the catalogue anew when it is out of date, and mends what is half-way.
    pub(super) fn install(
        &self,
        targets: &[Target],
        asked: &Asked,
    ) -> Result<Vec<Step>, (Failure, Vec<Step>)> {
        let acts = self.freshen().and_then(|_| self.groups(targets, &asked.options));
        let acts = acts.map_err(|f| (f, Vec::new()))?;
        let acts: Vec<Act<'_>> =
            acts.iter().map(|(targets, options)| Act::Install(targets, options)).collect();
        match self.transact(&acts) {
            Err((failure, steps)) => {
                let words = &failure.done.comment;
                let stale = ["404", "Failed to fetch", "Unable to fetch"].iter().any(|w| words.contains(w));
                let again = stale && asked.refresh != Some(false) && self.refresh(asked).unwrap_or(false);
                if again { self.transact(&acts) } else { Err((failure, steps)) }
            }
            done => done,
        }
    }

    /// Holds again what a transaction no longer holds.
    fn hold_again(&self, before: &Db) -> Result<(), Failure> {
        let after = self.db()?;
        let is_lost = |name: &str| after.get(name).is_some_and(|p| !p.is_held);
        let held = before.installed().filter(|(name, pack)| pack.is_held && is_lost(name));
        let names: Vec<String> = held.map(|(name, _)| name.to_owned()).collect();
        if names.is_empty() {
            return Ok(());
        }
        // Also when the time is over, or the run was stopped: nobody would know any more what was held.
        let tools = Tools::new(self.scene.tools().machine);
        Ok(Teller::new(tools, self.chosen).tell(&Act::Hold(&names))?)
    }

    /// What an installation would do; nothing when the manager cannot tell.
    pub(super) fn foresee_install(
        &self,
        targets: &[Target],
        asked: &Asked,
    ) -> Result<Option<Vec<Step>>, Failure> {
        let mut all = Vec::new();
        for (targets, options) in self.groups(targets, &asked.options)? {
            match self.teller().rehearse(&Act::Install(&targets, &options)) {
                Ok(Some(steps)) => all.extend(steps),
                Ok(None) => return Ok(None),
                Err(e) => return Err(refusal("It would fail", e)),
            }
        }
        let db = self.db()?;
        // A manager that does not tell what there was: the database does.
        for step in all.iter_mut().filter(|s| s.old.is_empty()) {
            step.old = db.version(&step.name);
        }
        Ok(Some(all))
    }

    /// Targets by what has to be done with them: brought, brought once more, or brought back to an older version.
    fn groups(&self, targets: &[Target], options: &Options) -> Result<Vec<(Vec<Target>, Options)>, Failure> {
        let db = self.db()?;
        let scheme = self.chosen.provider.scheme();
        let mut groups: [Vec<Target>; 3] = Default::default();
        let mut held: Vec<&str> = Vec::new();
        for target in targets {
            let have = db.version(&target.name);
            // Who keeps locks in a file of its own does not change what is locked, and may not even say so.
            let is_locked = !self.chosen.provider.locks().is_empty() && !options.reinstall;
            held.extend(
                db.get(&target.name).filter(|p| is_locked && p.is_held).map(|_| target.name.as_str()),
            );
            let order = target.version.as_ref().map(|v| scheme.compare(v, &have));
            let group = match order {
                _ if have.is_empty() => 0,
                Some(std::cmp::Ordering::Less) => 2,
                Some(std::cmp::Ordering::Greater) => 0,
                _ => usize::from(options.reinstall),
            };
            let mut target = target.clone();
            if group == 1 && self.chosen.provider.name() == "zypper" {
                // It takes `--force` for a wish of the newest.
                target.version.get_or_insert(have);
            }
            groups[group].push(target);
        }
        if !held.is_empty() {
            return Err(Failure::new(format!(
                "The following packages are held and were not changed: {}; pkg.unheld frees them",
                held.join(", ")
            )));
        }
        let [brought, again, back] = groups;
        let with = |reinstall, downgrade| Options { reinstall, downgrade, ..options.clone() };
        let all = [(brought, with(false, false)), (again, with(true, false)), (back, with(false, true))];
        Ok(all.into_iter().filter(|(targets, _)| !targets.is_empty()).collect())
    }
}

/// Steps in Salt's shape.
pub(super) fn changes(steps: &[Step]) -> Map {
    let mut all = Map::new();
    for s in steps {
        all.insert(s.name.as_str(), Map::from_iter([("old", s.old.as_str()), ("new", s.new.as_str())]));
    }
    all
}

/// What a manager refused, with what it had done by then.
pub(super) fn refused(what: &str, failure: Failure, steps: &[Step]) -> Failure {
    let mut done = failure.done;
    done.comment = format!("{what}: {}", done.comment);
    done.changes = changes(steps);
    done.into()
}

/// The same for a refusal.
pub(super) fn refusal(what: &str, refusal: Refusal) -> Failure {
    refused(what, refusal.into(), &[])
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::fs::Disk;
    use crate::host::Machine;
    use crate::host::packages::{Offer, Provider};
    use crate::states::Args;
    use crate::states::stage::{Stage, chunk};
    use crate::undo::Journal;

    /// A manager whose repositories cannot be reached.
    struct Unreached;

    static ASKED: AtomicUsize = AtomicUsize::new(0);

    impl Provider for Unreached {
        fn name(&self) -> &'static str {
            "unreached"
        }

        fn kin(&self) -> &'static [&'static str] {
            &[]
        }

        fn aliases(&self) -> &'static [&'static str] {
            &[]
        }

        fn programs(&self) -> &'static [&'static str] {
            &["false"]
        }

        fn witnesses(&self) -> &'static [&'static str] {
            &[]
        }

        fn read(&self, _: &Machine) -> Result<Db, Refusal> {
            Ok(Db::default())
        }

        fn lines(&self, program: &str, _: &Act<'_>) -> Option<Vec<Vec<String>>> {
            ASKED.fetch_add(1, Ordering::Relaxed);
            Some(vec![vec![program.to_owned()]])
        }

        fn rehearsal(&self, _: &str, _: &Act<'_>) -> Option<Vec<String>> {
            None
        }

        fn steps(&self, _: &str) -> Vec<Step> {
            Vec::new()
        }

        fn offers(&self, _: &Tools<'_>, _: &[String], _: &Options) -> Result<Offers, Refusal> {
            Ok([("known".to_owned(), Offer::default())].into())
        }
    }

    #[test]
    fn repositories_are_asked_once_a_run_even_when_one_cannot_be_reached() {
        let (stage, root) = (Stage::new(), tempfile::tempdir().unwrap());
        let journal = Journal::create(root.path(), "one").unwrap();
        let disk = Disk::default();
        let scene = Scene { journal: Some(&journal), fs: &disk, ..stage.scene() };
        let chosen = Chosen { provider: &Unreached, program: "false" };
        let desk = Desk { scene: &scene, chosen, provider: None };
        let chunk = chunk("pkg.latest", "known", r#"{"refresh": true}"#);
        let asked = Asked::read(&Args::new(&chunk)).unwrap();
        let names = ["known".to_owned(), "unknown".to_owned()];

        assert_eq!(desk.warning(), None);
        for _ in 0..3 {
            let offers = desk.offers(&names, &asked).unwrap();
            assert!(offers.contains_key("known"));
            assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        }
        let words = desk.with_warning("known was installed");
        assert!(words.starts_with("known was installed\nWarning: the package lists could not be"), "{words}");

        // Other repositories are another catalogue, and that, too, is asked for once.
        stage.shared.packages_stale.store(true, Ordering::Relaxed);
        for _ in 0..3 {
            desk.freshen().unwrap();
            desk.refresh(&asked).unwrap();
            assert_eq!(ASKED.load(Ordering::Relaxed), 2);
        }
        // A run that was stopped is no repository that cannot be reached.
        stage.shared.packages_stale.store(true, Ordering::Relaxed);
        stage.cancel.say();
        assert!(desk.freshen().is_err());
    }
}
