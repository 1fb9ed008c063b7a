//! `pkg.latest` and `pkg.uptodate`: packages, or all of them, at the newest version that can be had.
//!
//! A run that changes things asks a fresh catalogue, once; a dry run asks the one that is there.

use zagent_config::Value;

use super::args::PkgArgs;
use super::context::{PkgContext, steps_to_changes, transaction_error};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
};
use zagent_host::packages::{PkgAction, PkgActionOptions, PkgChange, PkgDb, PkgTarget};

/// Makes `pkg.latest`.
pub(crate) fn build_latest(args: &ChunkArgs<'_>) -> BuildResult {
    if args.get("sources").is_some_and(Value::is_truthy) {
        return Err(StateError::new("The \"sources\" parameter is not supported."));
    }
    let mut pkg_args = PkgArgs::read(args)?;
    pkg_args.options.upgrade_installed = true;
    Ok(Box::new(PkgLatest { pkg_args }))
}

/// Makes `pkg.uptodate`.
pub(crate) fn build_uptodate(args: &ChunkArgs<'_>) -> BuildResult {
    Ok(Box::new(PkgUptodate { pkg_args: PkgArgs::read(args)? }))
}

struct PkgLatest {
    pkg_args: PkgArgs,
}

impl PkgLatest {
    fn package_names(&self, db: &PkgDb) -> Vec<String> {
        self.pkg_args.resolve_names(db).into_iter().map(|w| w.name).collect()
    }

    /// What is older than it could be, and what it could be.
    fn upgrade_steps(&self, pkg_ctx: &PkgContext<'_>, db: &PkgDb) -> Result<Vec<PkgChange>, StateError> {
        if self.pkg_args.refresh != Some(false) {
            pkg_ctx.refresh_catalog(&self.pkg_args)?;
        }
        let names = self.package_names(db);
        let offers = pkg_ctx.offers(&names, &self.pkg_args)?;
        let scheme = pkg_ctx.manager.provider.version_scheme();
        let (mut steps, mut problems) = (Vec::new(), Vec::new());
        for name in names {
            let old = db.version(&name);
            let new = offers.get(&name).map(|o| o.candidate.clone()).unwrap_or_default();
            let have = db.get(&name).and_then(|p| p.versions.last().cloned()).unwrap_or_default();
            match () {
                () if new.is_empty() && old.is_empty() => {
                    problems.push(format!("No information found for '{name}'."));
                }
                () if old.is_empty() && self.pkg_args.options.only_upgrade => {
                    problems.push(format!("Package {name} is not installed, and only_upgrade is set."));
                }
                () if !new.is_empty() && (old.is_empty() || scheme.compare(&have, &new).is_lt()) => {
                    steps.push(PkgChange { name, old, new });
                }
                () => {}
            }
        }
        if problems.is_empty() {
            return Ok(steps);
        }
        Err(StateError::new(pkg_ctx.with_warning(&problems.join(" "))))
    }

    fn in_sync_comment(&self, db: &PkgDb) -> String {
        let mut names = self.package_names(db);
        names.sort_unstable();
        match &names[..] {
            [] => "No packages to install provided".to_owned(),
            [one] => format!("Package {one} is already up-to-date"),
            many if many.len() > 10 => format!("All {} packages are up-to-date.", many.len()),
            many => format!("All packages are up-to-date ({}).", many.join(", ")),
        }
    }

    /// The packages that are not in these steps, as results name them.
    fn unchanged_comment(&self, db: &PkgDb, steps: &[PkgChange], word: &str) -> Option<String> {
        let mut rest: Vec<String> = self.package_names(db);
        rest.retain(|n| !steps.iter().any(|s| s.name == *n));
        rest.sort_unstable();
        match rest.len() {
            0 => None,
            n if n > 10 => Some(format!("{n} packages {word} already up-to-date")),
            _ => Some(format!("The following packages {word} already up-to-date: {}", rest.join(", "))),
        }
    }
}

fn list_steps(steps: &[PkgChange]) -> String {
    let mut names: Vec<&str> = steps.iter().map(|s| s.name.as_str()).collect();
    names.sort_unstable();
    names.join(", ")
}

impl State for PkgLatest {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let ctx = &super::ctx_for_check(ctx);
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let db = pkg_ctx.db()?;
        let steps = self.upgrade_steps(&pkg_ctx, &db)?;
        if steps.is_empty() {
            return Ok(CheckResult::in_sync(pkg_ctx.with_warning(&self.in_sync_comment(&db))));
        }
        let mut words =
            vec![format!("The following packages would be installed/upgraded: {}", list_steps(&steps))];
        words.extend(self.unchanged_comment(&db, &steps, "are"));
        Ok(CheckResult::drifted(words.join("\n"), steps_to_changes(&steps)))
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let mut checked = self.check(ctx)?;
        if !checked.changes.is_empty() {
            let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
            let steps = self.upgrade_steps(&pkg_ctx, &*pkg_ctx.db()?)?;
            let targets: Vec<PkgTarget> = steps.iter().map(|s| PkgTarget::from_name(&s.name)).collect();
            if let Some(steps) = pkg_ctx.predict_install(&targets, &self.pkg_args)? {
                checked.changes = steps_to_changes(&steps);
                pkg_ctx.simulate(&steps);
            }
        }
        Ok(checked)
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        const PROBLEM: &str = "An error was encountered while installing package(s)";
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let mended = pkg_ctx.repair_interrupted()?;
        let db = pkg_ctx.db()?;
        let wanted = self.upgrade_steps(&pkg_ctx, &db)?;
        let targets: Vec<PkgTarget> = wanted.iter().map(|s| PkgTarget::from_name(&s.name)).collect();
        let steps = pkg_ctx
            .install(&targets, &self.pkg_args)
            .map_err(|(f, steps)| transaction_error(PROBLEM, f, &steps))?;
        let mut words = vec![format!(
            "The following packages were successfully installed/upgraded: {}",
            list_steps(&wanted)
        )];
        words.extend(self.unchanged_comment(&db, &wanted, "were"));
        words.extend(mended);
        Ok(ApplyResult::new(pkg_ctx.with_warning(&words.join(" ")), steps_to_changes(&steps)))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        super::reapply(self, ctx)
    }

    fn reads(&self) -> Effects {
        super::READS
    }

    fn writes(&self) -> Effects {
        Effects::PACKAGE_CHANGE
    }

    /// A repository that comes before may bring a newer one.
    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        hidden != super::READS && (hidden & Effects::CATALOG).is_none()
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Packages]
    }
}

struct PkgUptodate {
    pkg_args: PkgArgs,
}

impl PkgUptodate {
    /// All that could be newer, or of those that are named.
    fn upgrade_steps(&self, pkg_ctx: &PkgContext<'_>) -> Result<Vec<PkgChange>, StateError> {
        if self.pkg_args.refresh == Some(true) {
            pkg_ctx.refresh_catalog(&self.pkg_args)?;
        }
        pkg_ctx.refresh_if_stale()?;
        let db = pkg_ctx.db()?;
        let names = self.package_names(&db);
        let steps = pkg_ctx.teller().dry_run(&PkgAction::Upgrade(&names, &self.pkg_args.options))?;
        let mut steps = steps.unwrap_or_default();
        steps.retain(|s| !s.new.is_empty());
        // A manager that does not tell what there was: the database does.
        for step in steps.iter_mut().filter(|s| s.old.is_empty()) {
            step.old = db.version(&step.name);
        }
        if self.pkg_args.is_list {
            steps.retain(|s| names.contains(&s.name));
        }
        Ok(steps)
    }

    fn package_names(&self, db: &PkgDb) -> Vec<String> {
        let all = if self.pkg_args.is_list { self.pkg_args.resolve_names(db) } else { Vec::new() };
        all.into_iter().map(|w| w.name).collect()
    }
}

impl State for PkgUptodate {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let ctx = &super::ctx_for_check(ctx);
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let steps = self.upgrade_steps(&pkg_ctx)?;
        if steps.is_empty() {
            return Ok(CheckResult::in_sync(pkg_ctx.with_warning("System is already up-to-date")));
        }
        Ok(CheckResult::drifted("System update will be performed", steps_to_changes(&steps)))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        const PROBLEM: &str = "Problem encountered upgrading packages";
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let mended = pkg_ctx.repair_interrupted()?;
        let names = self.package_names(&*pkg_ctx.db()?);
        let options: &PkgActionOptions = &self.pkg_args.options;
        let steps = pkg_ctx
            .transact(&[PkgAction::Upgrade(&names, options)])
            .map_err(|(failure, steps)| transaction_error(PROBLEM, failure, &steps))?;
        let mut words = vec!["Upgrade ran successfully".to_owned()];
        words.extend(mended);
        words.extend(pkg_ctx.catalog_warning().into_iter().chain(pkg_ctx.overtime_warning()));
        Ok(ApplyResult::new(words.join("\n"), steps_to_changes(&steps)))
    }

    fn react(&mut self, _: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        Err(super::watch_unsupported("uptodate"))
    }

    fn reads(&self) -> Effects {
        super::READS
    }

    fn writes(&self) -> Effects {
        Effects::PACKAGE_CHANGE
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Packages]
    }
}
