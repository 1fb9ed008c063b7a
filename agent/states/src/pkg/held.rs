//! `pkg.held` and `pkg.unheld`: packages kept at their version, or no longer.

use zagent_config::{Map, Value};

use super::args::PkgArgs;
use super::context::{PkgContext, refusal_error};
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError, Verdict,
};
use zagent_host::packages::PkgAction;

/// Makes `pkg.held`, or `pkg.unheld`.
pub fn build(args: &ChunkArgs<'_>, hold: bool) -> BuildResult {
    let all = args.flag(if hold { "replace" } else { "all" }, false);
    Ok(Box::new(PkgHeld { pkg_args: PkgArgs::read(args)?, hold, all }))
}

struct PkgHeld {
    pkg_args: PkgArgs,
    hold: bool,
    /// Frees all others (`replace`), or simply all (`all`).
    all: bool,
}

/// Holds packages, or frees them; those that changed.
pub(crate) fn set_holds(
    pkg_ctx: &PkgContext<'_>,
    names: &[String],
    hold: bool,
) -> Result<Vec<String>, StateError> {
    let act = if hold { PkgAction::Hold(names) } else { PkgAction::Unhold(names) };
    let before = pkg_ctx.db()?;
    let told = pkg_ctx.with_undo(names, || Ok(pkg_ctx.teller().execute(&act)?));
    told.map_err(|f| {
        StateError::new(format!(
            "An error was encountered while holding/unholding package(s): {}",
            f.result.comment
        ))
    })?;
    let after = pkg_ctx.db()?;
    let is = |db: &zagent_host::packages::PkgDb, n: &str| db.packages.get(n).is_some_and(|p| p.is_held);
    Ok(names.iter().filter(|n| is(&before, n) != is(&after, n)).cloned().collect())
}

impl PkgHeld {
    /// What has to be held, and what has to be freed.
    fn pending_holds(&self, pkg_ctx: &PkgContext<'_>) -> Result<(Vec<String>, Vec<String>), StateError> {
        let (db, chosen) = (pkg_ctx.db()?, pkg_ctx.manager);
        if chosen.provider.command_lines(chosen.program, &PkgAction::Hold(&[])).is_none() {
            return Err(StateError::new(
                "No any function to get the list of held packages available.\nCheck if the package manager supports \
                 package locking.",
            ));
        }
        let held: Vec<String> =
            db.packages.iter().filter(|(_, p)| p.is_held).map(|(n, _)| n.clone()).collect();
        let wanted: Vec<String> = self.pkg_args.resolve_names(&db).into_iter().map(|w| w.name).collect();
        let named = |name: &String| wanted.contains(name);
        if self.hold {
            let to_hold: Vec<String> = wanted.iter().filter(|n| !held.contains(n)).cloned().collect();
            let absent: Vec<&str> =
                to_hold.iter().filter(|n| db.get(n).is_none()).map(String::as_str).collect();
            if !absent.is_empty() {
                let words = absent.iter().map(|n| format!("Package {n} was not held: it is not installed"));
                return Err(StateError::new(words.collect::<Vec<_>>().join("\n")));
            }
            let to_free = held.into_iter().filter(|n| self.all && !named(n)).collect();
            return Ok((to_hold, to_free));
        }
        Ok((Vec::new(), held.into_iter().filter(|n| self.all || named(n)).collect()))
    }
}

impl State for PkgHeld {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let ctx = &super::ctx_for_check(ctx);
        if self.pkg_args.is_empty_list && !self.all {
            let how = if self.hold { "held" } else { "unheld" };
            return Ok(CheckResult::in_sync(format!("No packages to be {how} provided")));
        }
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let (to_hold, to_free) = self.pending_holds(&pkg_ctx)?;
        if to_hold.is_empty() && to_free.is_empty() {
            return Ok(CheckResult::in_sync("No changes made"));
        }
        let mut lines: Vec<String> =
            to_hold.iter().map(|n| format!("The following package would be held: {n}")).collect();
        lines.extend(to_free.iter().map(|n| format!("The following package would be unheld: {n}")));
        let mut changes = Map::new();
        for (names, hold) in [(&to_hold, true), (&to_free, false)] {
            for name in names {
                changes.insert(name.as_str(), hold_change(name, hold));
            }
        }
        Ok(CheckResult { verdict: Verdict::Drifted, ..CheckResult::drifted(lines.join("\n"), changes) })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let pkg_ctx = PkgContext::new(ctx, self.pkg_args.provider.as_deref())?;
        let (to_hold, to_free) = self.pending_holds(&pkg_ctx)?;
        let (mut lines, mut changes) = (Vec::new(), Map::new());
        for (names, hold) in [(to_hold, true), (to_free, false)] {
            if names.is_empty() {
                continue;
            }
            for name in set_holds(&pkg_ctx, &names, hold)? {
                let how = if hold { "now being held" } else { "no longer being held." };
                lines.push(format!("Package {name} is {how}"));
                changes.insert(name.as_str(), hold_change(&name, hold));
            }
        }
        if lines.is_empty() {
            return Err(refusal_error(
                "An error was encountered while holding/unholding package(s)",
                zagent_config::FunctionError::failed("nothing changed"),
            ));
        }
        Ok(ApplyResult::new(lines.join("\n"), changes))
    }

    fn react(&mut self, _: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        Err(super::watch_unsupported(if self.hold { "held" } else { "unheld" }))
    }

    fn reads(&self) -> Effects {
        super::READS
    }

    fn writes(&self) -> Effects {
        Effects::PACKAGES
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        hidden != super::READS
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Packages]
    }
}

/// Salt's shape: what its function says of one package.
fn hold_change(name: &str, hold: bool) -> Map {
    let (old, new) = if hold { ("install", "hold") } else { ("hold", "install") };
    let how = if hold { "now being held" } else { "no longer being held" };
    Map::from_iter([
        ("name", Value::from(name)),
        ("changes", Map::from_iter([("old", old), ("new", new)]).into()),
        ("result", true.into()),
        ("comment", format!("Package {name} is {how}.").into()),
    ])
}
