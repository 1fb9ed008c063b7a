//! `pkg.removed` and `pkg.purged`: packages that should not be there.

use zagent_config::{Map, Value};

use super::args::{PkgArgs, PkgSpec};
use super::context::{PkgContext, steps_to_changes, transaction_error};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError, Verdict,
};
use zagent_host::packages::{PkgAction, PkgChange, PkgDb, satisfies};

/// Makes `pkg.removed`, or `pkg.purged`.
pub fn build(args: &ChunkArgs<'_>, purge: bool) -> BuildResult {
    Ok(Box::new(PkgRemoved { pkg_args: PkgArgs::read(args)?, purge }))
}

struct PkgRemoved {
    pkg_args: PkgArgs,
    purge: bool,
}

impl PkgRemoved {
    /// The packages that have to go, and whether a version was looked at.
    fn targets(&self, pkg_ctx: &PkgContext<'_>, db: &PkgDb) -> (Vec<String>, bool) {
        let scheme = pkg_ctx.manager.provider.version_scheme();
        let mut is_spec = false;
        let mut must_go = |wanted: &PkgSpec| {
            let Some(spec) = &wanted.version_spec else {
                return is_still_present(db, &wanted.name, self.purge);
            };
            is_spec |= db.get(&wanted.name).is_some();
            let fits = |v: &String| satisfies(v, spec, scheme, self.pkg_args.ignore_epoch, false);
            db.get(&wanted.name).is_some_and(|pack| pack.versions.iter().any(fits))
        };
        let mut targets: Vec<String> =
            self.pkg_args.resolve_names(db).into_iter().filter(&mut must_go).map(|w| w.name).collect();
        targets.sort_unstable();
        (targets, is_spec)
    }

    const fn past_verb(&self) -> &'static str {
        if self.purge { "purged" } else { "removed" }
    }

    /// Changes as Salt shows them: a purge tells apart what was installed and what was only configuration.
    fn salt_changes(&self, installed: Map, leftovers: Map) -> Map {
        if !self.purge {
            return installed;
        }
        Map::from_iter([("installed", Value::from(installed)), ("removed", leftovers.into())])
    }
}

/// True when something of a package is there that has to go, whatever its version.
fn is_still_present(db: &PkgDb, name: &str, purge: bool) -> bool {
    let pack = db.packages.get(name);
    pack.is_some_and(|p| p.is_installed() || p.broken_state.is_some() || purge && p.removed_version.is_some())
}

/// Packages whose configuration alone is left, as steps that take it away.
fn config_leftovers(before: &PkgDb, after: &PkgDb) -> Vec<PkgChange> {
    let old = |db: &PkgDb, name: &str| {
        db.packages.get(name).and_then(|p| p.removed_version.clone()).unwrap_or_default()
    };
    let names: Vec<&String> = before.packages.keys().collect();
    names
        .into_iter()
        .map(|n| PkgChange { name: n.clone(), old: old(before, n), new: old(after, n) })
        .filter(|s| s.old != s.new && !s.old.is_empty())
        .collect()
}

impl State for PkgRemoved {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let ctx = &super::ctx_for_check(ctx);
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let db = pkg_ctx.db()?;
        let (targets, is_spec) = self.targets(&pkg_ctx, &db);
        if targets.is_empty() {
            let tail = if is_spec { " (matching specified versions)" } else { "" };
            return Ok(CheckResult::in_sync(if self.purge {
                "None of the targeted packages are installed or partially installed".to_owned()
            } else {
                format!("All specified packages{tail} are already absent")
            }));
        }
        let steps: Vec<PkgChange> = targets
            .iter()
            .map(|n| PkgChange { name: n.clone(), old: db.version(n), new: String::new() })
            .collect();
        let words = format!("The following packages will be {}: {}.", self.past_verb(), targets.join(", "));
        Ok(CheckResult::drifted(words, steps_to_changes(&steps)))
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let mut checked = self.check(ctx)?;
        if checked.verdict != Verdict::Drifted {
            return Ok(checked);
        }
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let db = pkg_ctx.db()?;
        let (mut targets, _) = self.targets(&pkg_ctx, &db);
        // What only an earlier state of this dry run would bring is not there for the manager to take away.
        targets.retain(|n| db.packages.get(n).is_some_and(|p| !p.is_predicted));
        if !targets.is_empty()
            && let Some(steps) =
                pkg_ctx.teller().dry_run_checked(&PkgAction::Remove(&targets, self.purge), &db)?
            && !steps.is_empty()
        {
            checked.changes = steps_to_changes(&steps);
            pkg_ctx.simulate(&steps);
        }
        Ok(checked)
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let start = pkg_ctx.db()?;
        let is_broken = |name: &String| start.packages.get(name).is_some_and(|p| p.broken_state.is_some());
        let mended = match pkg_ctx.repair_interrupted() {
            // A package whose own script fails cannot be mended, but it can go.
            Err(_) if self.targets(&pkg_ctx, &start).0.iter().any(is_broken) => None,
            mended => mended?,
        };
        let before = pkg_ctx.db()?;
        let (targets, _) = self.targets(&pkg_ctx, &before);
        let acts = [PkgAction::Remove(&targets, self.purge)];
        let told = if targets.is_empty() { Ok(Vec::new()) } else { pkg_ctx.transact(&acts) };
        let after = pkg_ctx.db()?;
        let gone = steps_to_changes(&config_leftovers(&before, &after));
        let steps = told.map_err(|(failure, steps)| {
            let mut failure = transaction_error("Problem encountered removing package(s)", failure, &steps);
            failure.result.changes = self.salt_changes(failure.result.changes, gone.clone());
            failure
        })?;
        let wanted = self.pkg_args.resolve_names(&before);
        let absent: Vec<&str> =
            wanted.iter().map(|w| w.name.as_str()).filter(|n| !targets.iter().any(|t| t == n)).collect();
        let mut comment = if absent.is_empty() || targets.is_empty() {
            format!("All targeted packages were {}.", self.past_verb())
        } else {
            format!(
                "The following packages were not installed: {} The following packages were {}: {}.",
                absent.join(", "),
                self.past_verb(),
                targets.join(", ")
            )
        };
        if let Some(words) = pkg_ctx.overtime_warning() {
            comment = format!("{comment}\n{words}");
        }
        let mut all = self.salt_changes(steps_to_changes(&steps), gone);
        if let Some(words) = mended {
            comment = format!("{comment}\n{words}");
            all.insert("repaired", words);
        }
        Ok(ApplyResult::new(comment, all))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        super::reapply(self, ctx)
    }

    fn reads(&self) -> Effects {
        super::READS
    }

    fn writes(&self) -> Effects {
        // Unlike a package that comes, one that goes takes files and services with it that are there now.
        Effects::PACKAGE_CHANGE | Effects::FILES
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        hidden != super::READS
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Packages]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{StateTestBed, chunk};
    use zagent_host::packages::{SelectedProvider, select_provider};

    /// A database with one package of the machine's own architecture and one of another.
    fn db() -> PkgDb {
        let mut db = PkgDb::default();
        for (name, arch) in [("dpkg", "amd64"), ("vim", "amd64"), ("libc6:i386", "i386")] {
            let pack = db.packages.entry(name.into()).or_default();
            (pack.versions, pack.arch) = (vec!["1".into()], arch.into());
        }
        db
    }

    #[test]
    fn a_name_may_have_the_machines_own_architecture() {
        let test_bed = StateTestBed::new();
        let ctx = test_bed.scene();
        let SelectedProvider { provider, .. } = select_provider(ctx.tools().machine, None).unwrap();
        let pkg_ctx = PkgContext::new(&ctx, Some(provider.name())).unwrap();
        let targets = |name: &str, args: &str| {
            let chunk = chunk("pkg.removed", name, args);
            let pkg_args = PkgArgs::read(&ChunkArgs::new(&chunk)).unwrap();
            PkgRemoved { pkg_args, purge: false }.targets(&pkg_ctx, &db()).0
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
        let mut db = PkgDb::default();
        db.packages.entry("whole".into()).or_default().versions = vec!["1".into()];
        db.packages.entry("broken".into()).or_default().broken_state = Some("half-configured".into());
        db.packages.entry("config".into()).or_default().removed_version = Some("1".into());
        for (name, removed, purged) in
            [("whole", true, true), ("broken", true, true), ("config", false, true), ("none", false, false)]
        {
            assert_eq!(
                (is_still_present(&db, name, false), is_still_present(&db, name, true)),
                (removed, purged),
                "{name}"
            );
        }
    }
}
