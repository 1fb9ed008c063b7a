//! `file.tidied`: a directory without what is old or large.

use std::path::{Path, PathBuf};

use jiff::{Timestamp, Zoned};
use zagent_config::py_regex::PyRegex;
use zagent_config::{Map, Value};

use super::args::{exists, is_dir, reapply, state_path};
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
};
use zagent_config::error_chain;
use zagent_host::fs::{FileKind, Stat};
use zagent_host::timezone::zone_of;

/// Nested directories before it gives up: links may lead in a circle.
const DEPTH: usize = 64;

/// A directory to tidy.
#[derive(Debug)]
struct FileTidied {
    path: PathBuf,
    age: i64,
    size: u64,
    rule: TidyRule,
    matches: Vec<PyRegex>,
    exclude: Vec<PyRegex>,
    full_path_match: bool,
    by_mtime: bool,
    rmdirs: bool,
    rmlinks: bool,
    followlinks: bool,
}

/// How age and size go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TidyRule {
    Both,
    Either,
    Age,
    Size,
}

/// Makes the state.
pub(crate) fn build(args: &ChunkArgs<'_>) -> BuildResult {
    let path = state_path(args, "Must provide name to file.tidied")?;
    let time = args.text("time_comparison")?.unwrap_or_default().to_lowercase();
    if time == "ctime" {
        return Err(StateError::new("`time_comparison: ctime` is not supported here: use atime or mtime"));
    }
    let only = args.text("age_size_only")?.unwrap_or_default().to_lowercase();
    let operator = args.text("age_size_logical_operator")?.unwrap_or_default().to_uppercase();
    let matches = args.texts("matches")?.unwrap_or_else(|| vec![".*".into()]);
    Ok(Box::new(FileTidied {
        path,
        age: args.int("age")?.unwrap_or(0),
        size: size_arg(args)?,
        rule: match (only.as_str(), operator.as_str()) {
            ("age", _) => TidyRule::Age,
            ("size", _) => TidyRule::Size,
            (_, "AND") => TidyRule::Both,
            _ => TidyRule::Either,
        },
        matches: patterns("matches", &matches)?,
        exclude: patterns("exclude", &args.texts("exclude")?.unwrap_or_default())?,
        full_path_match: args.flag("full_path_match", false),
        by_mtime: time == "mtime",
        rmdirs: args.flag("rmdirs", false),
        rmlinks: args.flag("rmlinks", true),
        followlinks: args.flag("followlinks", false),
    }))
}

fn patterns(key: &str, texts: &[String]) -> Result<Vec<PyRegex>, StateError> {
    let read = |text: &String| {
        PyRegex::new(text).map_err(|error| StateError::new(format!("`{key}`: {}", error_chain(&error))))
    };
    texts.iter().map(read).collect()
}

/// `size` in bytes: a number, or a text such as `10K`, `5MB` or `1GiB`.
fn size_arg(args: &ChunkArgs<'_>) -> Result<u64, StateError> {
    let Some(value) = args.get("size") else { return Ok(0) };
    match value {
        Value::Int(n) => Ok(u64::try_from(*n).unwrap_or(0)),
        Value::Str(text) => parse_size(text)
            .ok_or_else(|| StateError::new(format!("`size` must be a size such as `10K`, not `{text}`"))),
        other => Err(StateError::new(format!("`size` must be a size such as `10K`, not {}", other.kind()))),
    }
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..at].parse().ok()?;
    let unit = text[at..].trim().to_ascii_lowercase();
    let (letter, rest) = unit.split_at_checked(1).unwrap_or(("b", ""));
    let power = i32::try_from("bkmgtpezy".find(letter)?).ok()?;
    let factor = match rest {
        "" | "ib" => 1024_f64.powi(power),
        "b" if power > 0 => 1000_f64.powi(power),
        _ => return None,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "no sign is read, and too large is the largest"
    )]
    let bytes = (number * factor) as u64;
    Some(bytes)
}

impl FileTidied {
    /// What should go, the inner before the outer.
    fn find_due(&self, ctx: &StateCtx<'_>) -> Result<Vec<PathBuf>, StateError> {
        if !is_dir(ctx, &self.path)? {
            return Err(StateError::new(format!(
                "{} does not exist or is not a directory.",
                self.path.display()
            )));
        }
        let mut found = Vec::new();
        let today = Timestamp::now().to_zoned(zone_of(ctx.machine));
        self.walk(ctx, &self.path, &today, 0, &mut found)?;
        Ok(found)
    }

    fn walk(
        &self,
        ctx: &StateCtx<'_>,
        dir: &Path,
        today: &Zoned,
        depth: usize,
        found: &mut Vec<PathBuf>,
    ) -> Result<(), StateError> {
        if depth > DEPTH {
            return Ok(());
        }
        let mut here = (Vec::new(), Vec::new());
        for (name, kind) in ctx.fs.read_dir(dir)? {
            let path = dir.join(name);
            let leads_on = kind == FileKind::Dir || (kind == FileKind::Link && is_dir(ctx, &path)?);
            if leads_on && (kind == FileKind::Dir || self.followlinks) {
                self.walk(ctx, &path, today, depth + 1, found)?;
            }
            if leads_on { &mut here.1 } else { &mut here.0 }.push(path);
        }
        for path in here.0.into_iter().chain(here.1) {
            if let Some(entry) = ctx.fs.lstat(&path)?
                && self.is_due(&path, &entry, today)
            {
                found.push(path);
            }
        }
        Ok(())
    }

    fn is_due(&self, path: &Path, entry: &Stat, today: &Zoned) -> bool {
        let may_go = match entry.kind {
            FileKind::Link => self.rmlinks,
            FileKind::Dir => self.rmdirs,
            _ => true,
        };
        let size = if matches!(entry.kind, FileKind::Link | FileKind::Dir) { 0 } else { entry.size };
        let is_old = age_in_days(if self.by_mtime { entry.mtime } else { entry.atime }, today) >= self.age;
        let is_large = size >= self.size;
        let is_meant = match self.rule {
            TidyRule::Age => is_old,
            TidyRule::Size => is_large,
            TidyRule::Both => is_old && is_large,
            TidyRule::Either => is_old || is_large,
        };
        may_go && is_meant && self.matches_name(path)
    }

    fn matches_name(&self, path: &Path) -> bool {
        let name = if self.full_path_match { Some(path.as_os_str()) } else { path.file_name() };
        let name = name.unwrap_or_default().to_string_lossy();
        // A pattern that gives up keeps the entry.
        self.matches.iter().any(|p| p.matches_start(&name).unwrap_or(false))
            && !self.exclude.iter().any(|p| p.matches_start(&name).unwrap_or(true))
    }
}

/// Days between a time and today.
fn age_in_days(nanoseconds: i128, today: &Zoned) -> i64 {
    let Ok(time) = Timestamp::from_nanosecond(nanoseconds) else { return 0 };
    let day = time.to_zoned(today.time_zone().clone()).date();
    today.date().since(day).map_or(0, |span| i64::from(span.get_days()).abs())
}

fn removed_changes(paths: &[PathBuf]) -> Map {
    let texts: Value = paths.iter().map(|p| Value::from(p.to_string_lossy().into_owned())).collect();
    [("removed", texts)].into_iter().collect()
}

impl State for FileTidied {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (found, path) = (self.find_due(ctx)?, self.path.display());
        if found.is_empty() {
            return Ok(CheckResult::in_sync(format!("Nothing to remove from directory {path}")));
        }
        Ok(CheckResult::drifted(format!("{path} is set for tidy"), removed_changes(&found)))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let found = self.find_due(ctx)?;
        for (count, path) in found.iter().enumerate() {
            if !exists(ctx, path)? {
                continue;
            }
            if let Err(error) = ctx.fs.remove(path) {
                return Err(ApplyResult::new(error_chain(&error), removed_changes(&found[..count])).into());
            }
        }
        let comment =
            format!("Removed {} files or directories from directory {}", found.len(), self.path.display());
        Ok(ApplyResult::new(comment, removed_changes(&found)))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        reapply(self, ctx)
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

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("10", Some(10)),
            ("1K", Some(1024)),
            ("1kb", Some(1000)),
            ("1.5 KiB", Some(1536)),
            ("2g", Some(2 << 30)),
            ("x", None),
            ("1q", None),
            ("", None),
        ] {
            assert_eq!(parse_size(text), expected, "{text}");
        }
    }

    #[test]
    fn age_is_counted_in_days() {
        let today = Zoned::now();
        assert_eq!(age_in_days(Timestamp::now().as_nanosecond(), &today), 0);
        assert!(age_in_days(0, &today) > 19_000);
    }
}
