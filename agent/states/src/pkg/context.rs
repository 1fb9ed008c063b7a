//! Where package states do their work: the database of the run, the catalogue, and transactions that can be undone.
//!
//! Law: a transaction is rehearsed before it is done, so that what cannot be is refused whole, and all that it
//! touches is noted. The catalogue is fetched at most once a run, whatever came of it: one repository that is down
//! does not keep from what others have (held by
//! `repositories_are_asked_once_a_run_even_when_one_cannot_be_reached`).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use zagent_config::FunctionError;
use zagent_config::Map;

use super::args::{PkgArgs, PkgSpec};
use super::undo::PKG_UNDO;
use crate::undoable::key_with_provider;
use crate::{StateCtx, StateError};
use zagent_host::Tools;
use zagent_host::packages;
use zagent_host::packages::{
    AvailablePkgs, PkgAction, PkgActionOptions, PkgChange, PkgDb, PkgDbStamp, PkgRunner, PkgTarget,
    SelectedProvider,
};

/// What a package state works with.
pub struct PkgContext<'s> {
    /// What the state runs in.
    pub ctx: &'s StateCtx<'s>,
    pub(crate) manager: SelectedProvider,
    /// The package manager that was asked for; a revert asks for it again.
    provider: Option<String>,
}

impl<'s> PkgContext<'s> {
    /// A desk with the package manager that is asked for, or the host's own.
    pub fn new(ctx: &'s StateCtx<'s>, provider: Option<&str>) -> Result<Self, StateError> {
        let chosen = packages::select_provider(ctx.tools().machine, provider)?;
        Ok(Self { ctx, manager: chosen, provider: provider.map(str::to_owned) })
    }

    /// Changes packages so that a revert can put them back.
    pub(crate) fn with_undo<T>(
        &self,
        names: &[String],
        act: impl FnOnce() -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        self.ctx.with_undo(&PKG_UNDO, key_with_provider(&names.join(" "), self.provider.as_deref()), act)
    }

    pub(crate) fn teller(&self) -> PkgRunner<'s> {
        PkgRunner::new(self.ctx.tools(), self.manager)
    }

    /// What is installed; in a dry run with what earlier states would have changed.
    pub fn db(&self) -> Result<Arc<PkgDb>, StateError> {
        let (provider, tools) = (self.manager.provider, self.ctx.tools());
        let stamp =
            PkgDbStamp::read(tools.machine, &[provider.database_files(), provider.hold_files()].concat());
        let mut kept = self.ctx.shared.packages.lock();
        let known = kept.db.as_ref().filter(|(name, of, _)| *name == provider.name() && *of == stamp);
        let db = match known {
            Some((_, _, db)) => Arc::clone(db),
            None => {
                let db = Arc::new(provider.read_db(tools.machine)?);
                kept.db = Some((provider.name(), stamp, Arc::clone(&db)));
                db
            }
        };
        if kept.simulated.is_empty() {
            return Ok(db);
        }
        let mut imagined = (*db).clone();
        for step in &kept.simulated {
            let pack = imagined.packages.entry(step.name.clone()).or_default();
            pack.is_predicted |= !pack.is_installed();
            pack.versions = Some(step.new.clone()).filter(|v| !v.is_empty()).into_iter().collect();
        }
        Ok(Arc::new(imagined))
    }

    /// Remembers what would be done, for the states after it in a dry run.
    pub fn simulate(&self, steps: &[PkgChange]) {
        if self.ctx.is_dry() {
            self.ctx.shared.packages.lock().simulated.extend_from_slice(steps);
        }
    }

    /// The first of these that an earlier state of a dry run would have brought along.
    pub(crate) fn find_simulated(&self, wanted: &[PkgSpec]) -> Option<String> {
        let kept = self.ctx.shared.packages.lock();
        let comes =
            |w: &&PkgSpec| kept.simulated.iter().any(|step| step.name == w.name && !step.new.is_empty());
        wanted.iter().find(comes).map(|w| w.name.clone())
    }

    /// Fetches the catalogue, once a run and once more when the repositories are others; true when that was tried. What came of
    /// it is in [`Self::catalog_warning`].
    pub(crate) fn refresh_catalog(&self, pkg_args: &PkgArgs) -> Result<bool, StateError> {
        if self.refresh_if_stale()? {
            return Ok(true);
        }
        let may =
            !self.ctx.is_dry() && !self.is_refreshed() && !self.is_catalog_recent(pkg_args.cache_valid_time);
        if may {
            self.fetch_catalog()?;
        }
        Ok(may)
    }

    /// Fetches the catalogue when the repositories are others than those that it came from; true when that was tried. The
    /// state of the repository asked for it, so neither `refresh: false` nor the catalogue's age matters.
    pub(crate) fn refresh_if_stale(&self) -> Result<bool, StateError> {
        let is_stale = !self.ctx.is_dry() && self.ctx.shared.packages_stale.load(Ordering::Relaxed);
        if is_stale {
            self.fetch_catalog()?;
        }
        Ok(is_stale)
    }

    fn fetch_catalog(&self) -> Result<(), StateError> {
        let told = self.teller().execute(&PkgAction::Refresh);
        let is_over =
            self.ctx.cancel.is_cancelled() || self.ctx.tools().time_left().is_some_and(|t| t.is_zero());
        if is_over {
            return Ok(told?);
        }
        // A repository that cannot be reached is no reason to ask all of them again for every package.
        self.ctx.shared.packages_stale.store(false, Ordering::Relaxed);
        let mut kept = self.ctx.shared.packages.lock();
        kept.is_refreshed = true;
        kept.refresh_error = told.err().map(|refusal| refusal.message());
        Ok(())
    }

    /// What is said of packages that were looked up although the catalogue could not be fetched whole.
    pub(crate) fn catalog_warning(&self) -> Option<String> {
        let kept = self.ctx.shared.packages.lock();
        let words = kept.refresh_error.as_ref()?;
        Some(format!(
            "Warning: the package lists could not be fetched whole, what is known was used: {words}"
        ))
    }

    /// What is said when a transaction took longer than the state has.
    pub(crate) fn overtime_warning(&self) -> Option<String> {
        let is_late = self.ctx.tools().time_left().is_some_and(|left| left.is_zero());
        is_late.then(|| "It took longer than its `timeout`: packages are not left half-way.".to_owned())
    }

    /// Both at the end of other words.
    pub(crate) fn with_warning(&self, words: &str) -> String {
        let parts = [Some(words.to_owned()), self.catalog_warning(), self.overtime_warning()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// True when nothing is known of what can be had, and a dry run does not ask.
    pub(crate) fn lacks_catalog(&self) -> bool {
        self.ctx.is_dry() && self.manager.provider.needs_refresh(self.ctx.tools().machine)
    }

    fn is_refreshed(&self) -> bool {
        self.ctx.shared.packages.lock().is_refreshed
    }

    /// True when the catalogue was fetched not so many seconds ago.
    fn is_catalog_recent(&self, seconds: i64) -> bool {
        if seconds <= 0 {
            return false;
        }
        let lists = self.ctx.machine.metadata("/var/lib/apt/lists/partial");
        let written = lists.and_then(|m| m.modified());
        let age = written.ok().and_then(|w| w.elapsed().ok());
        age.is_some_and(|age| i64::try_from(age.as_secs()).is_ok_and(|age| age < seconds))
    }

    /// What can be had. The catalogue is fetched when that is asked for, when there is none, and when it does not know a name.
    pub fn offers(&self, names: &[String], pkg_args: &PkgArgs) -> Result<AvailablePkgs, StateError> {
        if names.is_empty() {
            return Ok(AvailablePkgs::new());
        }
        self.refresh_if_stale()?;
        let (provider, tools) = (self.manager.provider, self.ctx.tools());
        let may = pkg_args.refresh != Some(false);
        if pkg_args.refresh == Some(true) || may && provider.needs_refresh(tools.machine) {
            self.refresh_catalog(pkg_args)?;
        }
        let offers = provider.query_available(&tools, names, &pkg_args.options)?;
        if may && names.iter().any(|n| !offers.contains_key(n)) && self.refresh_catalog(pkg_args)? {
            return Ok(provider.query_available(&tools, names, &pkg_args.options)?);
        }
        Ok(offers)
    }

    /// Mends what was left half-way; says what it was.
    pub(crate) fn repair_interrupted(&self) -> Result<Option<String>, StateError> {
        let (teller, db) = (self.teller(), self.db()?);
        // What is half-way is none that a revert could put back; what comes along with it is.
        let whole = |step: &PkgChange| db.packages.get(&step.name).is_none_or(|p| p.broken_state.is_none());
        let more = teller.dry_run_repair(&db)?.into_iter().filter(whole).map(|s| s.name);
        let more: Vec<String> = more.collect();
        if more.is_empty() {
            return Ok(teller.repair(&db)?);
        }
        self.with_undo(&more, || Ok(teller.repair(&db)?))
    }

    /// Does acts in one change that can be undone; says what is different after. What was done before one failed is told
    /// with the failure.
    pub(crate) fn transact(
        &self,
        acts: &[PkgAction<'_>],
    ) -> Result<Vec<PkgChange>, (StateError, Vec<PkgChange>)> {
        let bare = |failure: StateError| (failure, Vec::new());
        let before = self.db().map_err(bare)?;
        let mut touched = std::collections::BTreeSet::new();
        for act in acts {
            let steps = self.teller().dry_run_checked(act, &before).map_err(|e| bare(e.into()))?;
            match (steps, act) {
                (Some(steps), _) => touched.extend(steps.into_iter().map(|s| s.name)),
                (None, PkgAction::Install(targets, _)) => {
                    touched.extend(targets.iter().map(|t| t.name.clone()));
                }
                (None, PkgAction::Remove(names, _) | PkgAction::Upgrade(names, _)) => {
                    touched.extend(names.iter().cloned());
                }
                (None, _) => {}
            }
        }
        let touched: Vec<String> = touched.into_iter().collect();
        let told = self.with_undo(&touched, || {
            acts.iter().try_for_each(|act| Ok(self.teller().execute(act)?)).and(self.restore_holds(&before))
        });
        let after = self.db().map_err(bare)?;
        let steps = before.changes_to(&after);
        match told {
            Ok(()) => Ok(steps),
            Err(failure) => Err((failure, steps)),
        }
    }

    /// The same for an installation: fetches the catalogue anew when it is out of date, and mends what is half-way.
    pub fn install(
        &self,
        targets: &[PkgTarget],
        pkg_args: &PkgArgs,
    ) -> Result<Vec<PkgChange>, (StateError, Vec<PkgChange>)> {
        let acts = self.refresh_if_stale().and_then(|_| self.group_targets(targets, &pkg_args.options));
        let acts = acts.map_err(|f| (f, Vec::new()))?;
        let acts: Vec<PkgAction<'_>> =
            acts.iter().map(|(targets, options)| PkgAction::Install(targets, options)).collect();
        match self.transact(&acts) {
            Err((failure, steps)) => {
                let words = &failure.result.comment;
                let stale = ["404", "Failed to fetch", "Unable to fetch"].iter().any(|w| words.contains(w));
                let again = stale
                    && pkg_args.refresh != Some(false)
                    && self.refresh_catalog(pkg_args).unwrap_or(false);
                if again { self.transact(&acts) } else { Err((failure, steps)) }
            }
            done => done,
        }
    }

    /// Holds again what a transaction no longer holds.
    fn restore_holds(&self, before: &PkgDb) -> Result<(), StateError> {
        let after = self.db()?;
        let is_lost = |name: &str| after.get(name).is_some_and(|p| !p.is_held);
        let held = before.installed().filter(|(name, pack)| pack.is_held && is_lost(name));
        let names: Vec<String> = held.map(|(name, _)| name.to_owned()).collect();
        if names.is_empty() {
            return Ok(());
        }
        // Also when the time is over, or the run was stopped: nobody would know any more what was held.
        let tools = Tools::new(self.ctx.tools().machine);
        Ok(PkgRunner::new(tools, self.manager).execute(&PkgAction::Hold(&names))?)
    }

    /// What an installation would do; nothing when the manager cannot tell.
    pub(crate) fn predict_install(
        &self,
        targets: &[PkgTarget],
        pkg_args: &PkgArgs,
    ) -> Result<Option<Vec<PkgChange>>, StateError> {
        let mut all = Vec::new();
        for (targets, options) in self.group_targets(targets, &pkg_args.options)? {
            match self.teller().dry_run(&PkgAction::Install(&targets, &options)) {
                Ok(Some(steps)) => all.extend(steps),
                Ok(None) => return Ok(None),
                Err(e) => return Err(refusal_error("It would fail", e)),
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
    fn group_targets(
        &self,
        targets: &[PkgTarget],
        options: &PkgActionOptions,
    ) -> Result<Vec<(Vec<PkgTarget>, PkgActionOptions)>, StateError> {
        let db = self.db()?;
        let scheme = self.manager.provider.version_scheme();
        let mut groups: [Vec<PkgTarget>; 3] = Default::default();
        let mut held: Vec<&str> = Vec::new();
        for target in targets {
            let have = db.version(&target.name);
            // Who keeps locks in a file of its own does not change what is locked, and may not even say so.
            let is_locked = !self.manager.provider.hold_files().is_empty() && !options.reinstall;
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
            if group == 1 && self.manager.provider.reinstall_needs_version() {
                target.version.get_or_insert(have);
            }
            groups[group].push(target);
        }
        if !held.is_empty() {
            return Err(StateError::new(format!(
                "The following packages are held and were not changed: {}; pkg.unheld frees them",
                held.join(", ")
            )));
        }
        let [brought, again, back] = groups;
        let with = |reinstall, downgrade| PkgActionOptions { reinstall, downgrade, ..options.clone() };
        let all = [(brought, with(false, false)), (again, with(true, false)), (back, with(false, true))];
        Ok(all.into_iter().filter(|(targets, _)| !targets.is_empty()).collect())
    }
}

/// Steps in Salt's shape.
pub(crate) fn steps_to_changes(steps: &[PkgChange]) -> Map {
    let mut all = Map::new();
    for s in steps {
        all.insert(s.name.as_str(), Map::from_iter([("old", s.old.as_str()), ("new", s.new.as_str())]));
    }
    all
}

/// What a manager refused, with what it had done by then.
pub(crate) fn transaction_error(what: &str, failure: StateError, steps: &[PkgChange]) -> StateError {
    let mut done = failure.result;
    done.comment = format!("{what}: {}", done.comment);
    done.changes = steps_to_changes(steps);
    done.into()
}

/// The same for a refusal.
pub(crate) fn refusal_error(what: &str, refusal: FunctionError) -> StateError {
    transaction_error(what, refusal.into(), &[])
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::ChunkArgs;
    use crate::testing::{StateTestBed, chunk};
    use zagent_host::Machine;
    use zagent_host::disk::Disk;
    use zagent_host::packages::{AvailablePkg, PkgProvider};
    use zagent_host::undo::UndoJournal;

    /// A manager whose repositories cannot be reached.
    struct Unreached;

    static ASKED: AtomicUsize = AtomicUsize::new(0);

    impl PkgProvider for Unreached {
        fn name(&self) -> &'static str {
            "unreached"
        }

        fn os_ids(&self) -> &'static [&'static str] {
            &[]
        }

        fn aliases(&self) -> &'static [&'static str] {
            &[]
        }

        fn program_names(&self) -> &'static [&'static str] {
            &["false"]
        }

        fn database_files(&self) -> &'static [&'static str] {
            &[]
        }

        fn read_db(&self, _: &Machine) -> Result<PkgDb, FunctionError> {
            Ok(PkgDb::default())
        }

        fn command_lines(&self, program: &str, _: &PkgAction<'_>) -> Option<Vec<Vec<String>>> {
            ASKED.fetch_add(1, Ordering::Relaxed);
            Some(vec![vec![program.to_owned()]])
        }

        fn dry_run_command(&self, _: &str, _: &PkgAction<'_>) -> Option<Vec<String>> {
            None
        }

        fn parse_dry_run(&self, _: &str) -> Vec<PkgChange> {
            Vec::new()
        }

        fn query_available(
            &self,
            _: &Tools<'_>,
            _: &[String],
            _: &PkgActionOptions,
        ) -> Result<AvailablePkgs, FunctionError> {
            Ok([("known".to_owned(), AvailablePkg::default())].into())
        }
    }

    #[test]
    fn repositories_are_asked_once_a_run_even_when_one_cannot_be_reached() {
        let (test_bed, root) = (StateTestBed::new(), tempfile::tempdir().unwrap());
        let journal = UndoJournal::create(root.path(), "one").unwrap();
        let disk = Disk::default();
        let ctx = StateCtx { journal: Some(&journal), fs: &disk, ..test_bed.scene() };
        let chosen = SelectedProvider { provider: &Unreached, program: "false" };
        let pkg_ctx = PkgContext { ctx: &ctx, manager: chosen, provider: None };
        let chunk = chunk("pkg.latest", "known", r#"{"refresh": true}"#);
        let pkg_args = PkgArgs::read(&ChunkArgs::new(&chunk)).unwrap();
        let names = ["known".to_owned(), "unknown".to_owned()];

        assert_eq!(pkg_ctx.catalog_warning(), None);
        for _ in 0..3 {
            let offers = pkg_ctx.offers(&names, &pkg_args).unwrap();
            assert!(offers.contains_key("known"));
            assert_eq!(ASKED.load(Ordering::Relaxed), 1);
        }
        let words = pkg_ctx.with_warning("known was installed");
        assert!(words.starts_with("known was installed\nWarning: the package lists could not be"), "{words}");

        // Other repositories are another catalogue, and that, too, is asked for once.
        test_bed.shared.packages_stale.store(true, Ordering::Relaxed);
        for _ in 0..3 {
            pkg_ctx.refresh_if_stale().unwrap();
            pkg_ctx.refresh_catalog(&pkg_args).unwrap();
            assert_eq!(ASKED.load(Ordering::Relaxed), 2);
        }
        // A run that was stopped is no repository that cannot be reached.
        test_bed.shared.packages_stale.store(true, Ordering::Relaxed);
        test_bed.cancel.cancel();
        assert!(pkg_ctx.refresh_if_stale().is_err());
    }
}
