//! `file.pruned`: a directory without empty directories, and gone when it is one itself.
//!
//! Law: only what is empty goes, and what a directory would be empty of is known before anything is removed (held
//! by `only_what_is_empty_goes`).

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use zagent_config::{Map, Value};

use super::args::{is_dir, reapply, state_path};
use super::edit::editor::is_salt;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
};
use zagent_host::fs::FileKind;

/// Nanoseconds of a day.
const DAY: i128 = 86_400 * 1_000_000_000;

/// A directory to prune.
#[derive(Debug)]
struct FilePruned {
    path: PathBuf,
    /// Directories below it, too.
    recurse: bool,
    /// What is not empty may stay.
    ignore_errors: bool,
    /// Only what nobody has changed for so many days.
    older_than: i64,
}

/// What would go, the inner before the outer, and what stays although it should go.
#[derive(Debug, Default, PartialEq, Eq)]
struct PrunePlan {
    empty: Vec<PathBuf>,
    full: Vec<PathBuf>,
}

/// What becomes of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PruneFate {
    Goes,
    /// It is not its time yet.
    Waits,
    Stays,
}

/// Makes the state.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    let path = state_path(args, "Must provide name to file.pruned")?;
    if path == Path::new("/") {
        return Err(StateError::new("Refusing to prune \"/\""));
    }
    let ignore_errors = args.flag("ignore_errors", false);
    Ok(Box::new(FilePruned {
        path,
        recurse: args.flag("recurse", false) || ignore_errors,
        ignore_errors,
        older_than: args.int("older_than")?.unwrap_or(0).max(0),
    }))
}

impl FilePruned {
    fn plan_prune(&self, ctx: &StateCtx<'_>, now: Timestamp) -> Result<PrunePlan, StateError> {
        let mut found = PrunePlan::default();
        if is_dir(ctx, &self.path)? {
            self.walk(ctx, &self.path, now, &mut found)?;
        }
        Ok(found)
    }

    fn walk(
        &self,
        ctx: &StateCtx<'_>,
        dir: &Path,
        now: Timestamp,
        found: &mut PrunePlan,
    ) -> Result<PruneFate, StateError> {
        let mut fates = Vec::new();
        for (name, kind) in ctx.fs.read_dir(dir)? {
            fates.push(match kind == FileKind::Dir && self.recurse {
                true => self.walk(ctx, &dir.join(name), now, found)?,
                false => PruneFate::Stays,
            });
        }
        // What loses something is changed by that, so it is young again; and what holds what waits, waits for it.
        let is_touched = fates.contains(&PruneFate::Goes);
        let waits = self.older_than > 0 && (is_touched || self.is_recent(ctx, dir, now)?);
        if waits || fates.contains(&PruneFate::Waits) && !fates.contains(&PruneFate::Stays) {
            return Ok(PruneFate::Waits);
        }
        if fates.iter().all(|fate| *fate == PruneFate::Goes) {
            found.empty.push(dir.to_owned());
            return Ok(PruneFate::Goes);
        }
        found.full.push(dir.to_owned());
        Ok(PruneFate::Stays)
    }

    fn is_recent(&self, ctx: &StateCtx<'_>, dir: &Path, now: Timestamp) -> Result<bool, StateError> {
        let Some(stat) = ctx.fs.lstat(dir)? else { return Ok(true) };
        Ok(stat.mtime >= now.as_nanosecond() - i128::from(self.older_than) * DAY)
    }

    fn changes(&self, found: &PrunePlan) -> Map {
        let mut names: Vec<String> = found.empty.iter().map(|p| p.display().to_string()).collect();
        names.sort_unstable();
        let deleted = match self.recurse {
            true => names.into_iter().map(Value::from).collect(),
            false => Value::from(self.path.display().to_string()),
        };
        Map::from_iter([("deleted", deleted)])
    }

    /// Salt removes what it can and tells what it could not remove.
    fn prune_as_salt(&self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let path = self.path.display();
        let found = self.plan_prune(ctx, Timestamp::now())?;
        for dir in &found.empty {
            ctx.fs.remove(dir)?;
        }
        if found.full.is_empty() && found.empty.is_empty() {
            return Ok(ApplyResult::default());
        }
        if found.full.is_empty() || (self.ignore_errors && !found.empty.is_empty()) {
            return Ok(ApplyResult::new(self.done_comment(), self.changes(&found)));
        }
        let shown = |dir: &PathBuf| Value::from(dir.display().to_string());
        let error = |dir: &PathBuf| -> Value {
            [shown(dir), format!("[Errno 39] Directory not empty: '{}'", dir.display()).into()]
                .into_iter()
                .collect()
        };
        let deleted: Value = found.empty.iter().map(shown).collect();
        let errors: Value = found.full.iter().map(error).collect();
        let changes = Map::from_iter([("deleted", deleted), ("errors", errors)]);
        Err(ApplyResult::new(format!("Failed to remove directory {path}"), changes).into())
    }

    fn done_comment(&self) -> String {
        let path = self.path.display();
        match self.recurse {
            true => format!("Recursively removed empty directories under {path}"),
            false => format!("Removed directory {path}"),
        }
    }

    /// What Salt's dry run says: it does not look into the directory.
    fn check_as_salt(&self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let path = self.path.display();
        Ok(match is_dir(ctx, &self.path)? {
            true => CheckResult::drifted(
                format!("Directory {path} is set for removal"),
                Map::from_iter([("deleted", path.to_string())]),
            ),
            false => CheckResult::in_sync(format!("Directory {path} is not present")),
        })
    }

    fn check_prune(&self, ctx: &StateCtx<'_>) -> Result<PrunePlan, StateError> {
        let found = self.plan_prune(ctx, Timestamp::now())?;
        if found.full.is_empty() || self.ignore_errors {
            return Ok(found);
        }
        let full: Vec<String> = found.full.iter().map(|p| p.display().to_string()).collect();
        let path = self.path.display();
        Err(StateError::new(format!("Failed to remove directory {path}: not empty: {}", full.join(", "))))
    }
}

impl State for FilePruned {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        if is_salt(ctx) {
            return self.check_as_salt(ctx);
        }
        let path = self.path.display();
        let found = self.check_prune(ctx)?;
        if !found.empty.is_empty() {
            return Ok(CheckResult::drifted(
                format!("Directory {path} is set for removal"),
                self.changes(&found),
            ));
        }
        Ok(CheckResult::in_sync(match is_dir(ctx, &self.path)? {
            true => format!("There is no directory to remove at {path}"),
            false => format!("Directory {path} is not present"),
        }))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        if is_salt(ctx) {
            return self.prune_as_salt(ctx);
        }
        let found = self.check_prune(ctx)?;
        for dir in &found.empty {
            // Somebody may have put something there meanwhile, and it is not ours to remove.
            if ctx.fs.read_dir(dir)?.is_empty() {
                ctx.fs.remove(dir)?;
            }
        }
        Ok(ApplyResult::new(self.done_comment(), self.changes(&found)))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        reapply(self, ctx)
    }

    /// Salt takes a directory that is too young for one that is to be removed.
    fn is_convergent(&self) -> bool {
        self.older_than == 0
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Heavy
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{StateTestBed, apply_chunk, chunk, preview_chunk};

    fn tree(test_bed: &StateTestBed) -> String {
        for dir in ["top/a/b", "top/c", "top/full"] {
            std::fs::create_dir_all(test_bed.path(dir)).unwrap();
        }
        std::fs::write(test_bed.path("top/full/file"), "x").unwrap();
        test_bed.path("top")
    }

    #[test]
    fn only_what_is_empty_goes() {
        let test_bed = StateTestBed::strict();
        let top = tree(&test_bed);
        for args in ["{}", r#"{"recurse": true}"#] {
            let said = apply_chunk(&chunk("file.pruned", &top, args), &test_bed.scene());
            assert!(said.starts_with("false") && said.contains("not empty"), "{said}");
            assert!(test_bed.exists("top/a/b"));
        }
        let lenient = chunk("file.pruned", &top, r#"{"ignore_errors": true}"#);
        let changes = format!(r#"{{"deleted":["{top}/a","{top}/a/b","{top}/c"]}}"#);
        assert!(preview_chunk(&lenient, &test_bed.scene()).ends_with(&changes));
        assert!(test_bed.exists("top/a/b"));
        let said = apply_chunk(&lenient, &test_bed.scene());
        assert!(said.starts_with("true \"Recursively removed") && said.ends_with(&changes), "{said}");
        assert!(test_bed.exists("top/full/file") && !test_bed.exists("top/a") && !test_bed.exists("top/c"));
        assert!(
            apply_chunk(&lenient, &test_bed.scene()).starts_with("true \"There is no directory to remove")
        );

        std::fs::remove_file(test_bed.path("top/full/file")).unwrap();
        let all = chunk("file.pruned", &top, r#"{"recurse": true}"#);
        assert!(apply_chunk(&all, &test_bed.scene()).starts_with("true"));
        assert!(!test_bed.exists("top"));
        assert_eq!(
            apply_chunk(&all, &test_bed.scene()),
            format!("true \"Directory {top} is not present\" {{}}")
        );
    }

    #[test]
    fn what_is_young_stays() {
        let test_bed = StateTestBed::new();
        std::fs::create_dir_all(test_bed.path("top/a/b")).unwrap();
        let pruned = FilePruned {
            path: test_bed.path("top").into(),
            recurse: true,
            ignore_errors: false,
            older_than: 30,
        };
        let now = Timestamp::now();
        assert_eq!(pruned.plan_prune(&test_bed.scene(), now).unwrap(), PrunePlan::default());
        let later = now + jiff::Span::new().hours(24 * 31);
        let found = pruned.plan_prune(&test_bed.scene(), later).unwrap();
        // Its parent was changed by that, and is looked at again in a month.
        assert_eq!(found, PrunePlan { empty: vec![test_bed.path("top/a/b").into()], full: Vec::new() });
    }
}
