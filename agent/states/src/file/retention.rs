//! `file.retention_schedule`: a directory of backups, thinned out by their age.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::strtime::BrokenDownTime;
use jiff::tz::TimeZone;
use zagent_config::{Map, Value};

use super::args::{is_dir, missing_argument, reapply};
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
    Verdict,
};
use zagent_config::sorted::CollectSorted;
use zagent_host::timezone::zone_of;

/// Backups to thin out.
#[derive(Debug)]
struct FileRetentionSchedule {
    path: PathBuf,
    rules: Vec<(RetentionRule, usize)>,
    format: Option<String>,
    /// None for that of the machine.
    timezone: Option<TimeZone>,
}

/// Which backups a rule keeps: the first of each such span of time, or each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetentionRule {
    Year,
    Month,
    Week,
    Day,
    Hour,
    Each,
}

/// What is kept, what goes, and what is none of our business.
#[derive(Debug, Default, PartialEq, Eq)]
struct RetentionPlan {
    retained: BTreeSet<String>,
    deleted: BTreeSet<String>,
    ignored: BTreeSet<String>,
}

/// Makes the state.
pub(crate) fn build(args: &ChunkArgs<'_>) -> BuildResult {
    let name = args.name();
    if name.is_empty() {
        return Err(StateError::new("Must provide name to file.retention_schedule"));
    }
    let retain = args.map("retain")?.ok_or_else(|| missing_argument(args, "retain"))?;
    let rules = retain.iter().map(|(rule, count)| parse_rule(rule, count)).collect::<Result<_, _>>()?;
    let timezone = match args.text("timezone")?.filter(|t| !t.is_empty()) {
        None => None,
        Some(name) => Some(TimeZone::get(&name).map_err(|_| {
            StateError::new(format!("`timezone` must be a time zone such as `UTC`, not `{name}`"))
        })?),
    };
    Ok(Box::new(FileRetentionSchedule {
        path: super::args::expand_home(&name),
        rules,
        format: args.text("strptime_format")?.filter(|f| !f.is_empty()),
        timezone,
    }))
}

fn parse_rule(rule: &Value, count: &Value) -> Result<(RetentionRule, usize), StateError> {
    let name = zagent_compiler::name_text(rule);
    let rule = match name.as_str() {
        "first_of_year" => RetentionRule::Year,
        "first_of_month" => RetentionRule::Month,
        "first_of_week" => RetentionRule::Week,
        "first_of_day" => RetentionRule::Day,
        "first_of_hour" => RetentionRule::Hour,
        "most_recent" => RetentionRule::Each,
        _ => return Err(StateError::new(format!("`retain` has no rule `{name}`"))),
    };
    let number = match count {
        Value::Str(text) if &**text == "all" => Some(usize::MAX),
        Value::Str(text) => text.trim().parse().ok(),
        Value::Int(n) => Some(usize::try_from(*n).unwrap_or(0)),
        _ => None,
    };
    let number = number.ok_or_else(|| StateError::new(format!("`{name}` must be a number or `all`")))?;
    // Salt keeps one week more than it is told to.
    Ok((rule, if rule == RetentionRule::Week { number.saturating_add(1) } else { number }))
}

impl RetentionRule {
    /// The span that a time is in: later spans compare greater.
    fn span(self, time: DateTime) -> [i64; 4] {
        let (year, month, day, hour) =
            (i64::from(time.year()), i64::from(time.month()), i64::from(time.day()), i64::from(time.hour()));
        match self {
            Self::Year => [year, 0, 0, 0],
            Self::Month => [year, month, 0, 0],
            Self::Week => [year, i64::from(time.date().iso_week_date().week()), 0, 0],
            Self::Day => [year, month, day, 0],
            Self::Hour | Self::Each => [year, month, day, hour],
        }
    }

    /// The backups that it keeps: the oldest one of each of the newest spans.
    fn select_kept(self, backups: &BTreeMap<(DateTime, i128), String>, count: usize) -> BTreeSet<String> {
        if self == Self::Each {
            return backups.values().rev().take(count).cloned().into_set();
        }
        let mut first: BTreeMap<[i64; 4], &String> = BTreeMap::new();
        for ((time, _), name) in backups {
            first.entry(self.span(*time)).or_insert(name);
        }
        first.into_values().rev().take(count).cloned().into_set()
    }
}

impl FileRetentionSchedule {
    fn plan_retention(&self, ctx: &StateCtx<'_>) -> Result<RetentionPlan, StateError> {
        if !is_dir(ctx, &self.path)? {
            return Err(StateError::new("Name provided to file.retention must be a directory"));
        }
        let zone = self.timezone.clone().unwrap_or_else(|| zone_of(ctx.machine));
        let mut backups: BTreeMap<(DateTime, i128), String> = BTreeMap::new();
        let mut verdict =
            RetentionPlan { ignored: [".".into(), "..".into()].into(), ..RetentionPlan::default() };
        for (name, _) in ctx.fs.read_dir(&self.path)? {
            let shown = name.to_string_lossy().into_owned();
            let time = match (&self.format, name.to_str()) {
                (Some(format), Some(name)) => parse_time(format, name).map(|time| (time, 0)),
                (Some(_), None) => None,
                (None, _) => ctx.fs.lstat(&self.path.join(&name))?.and_then(|found| {
                    let time = Timestamp::from_nanosecond(found.mtime).ok()?;
                    Some((time.to_zoned(zone.clone()).datetime(), found.mtime))
                }),
            };
            match time {
                // Of two backups of one moment only one can be kept.
                Some(time) => verdict.deleted.extend(backups.insert(time, shown)),
                None => {
                    verdict.ignored.insert(shown);
                }
            }
        }
        for (rule, count) in &self.rules {
            verdict.retained.extend(rule.select_kept(&backups, *count));
        }
        verdict.deleted.extend(backups.into_values().filter(|name| !verdict.retained.contains(name)));
        Ok(verdict)
    }
}

/// The time in a name; what the format does not say is the beginning of 1900, as in Python.
fn parse_time(format: &str, name: &str) -> Option<DateTime> {
    let read = BrokenDownTime::parse(format, name).ok()?;
    if let Ok(time) = read.to_datetime() {
        return Some(time);
    }
    let (hour, minute, second) = (read.hour(), read.minute(), read.second());
    let date = jiff::civil::Date::new(
        read.year().unwrap_or(1900),
        read.month().unwrap_or(1),
        read.day().unwrap_or(1),
    );
    date.ok()?.at(hour.unwrap_or(0), minute.unwrap_or(0), second.unwrap_or(0), 0).into()
}

impl RetentionPlan {
    fn changes(&self) -> Map {
        let list =
            |names: &BTreeSet<String>| names.iter().rev().map(|n| Value::from(n.as_str())).collect::<Value>();
        if self.deleted.is_empty() {
            return Map::new();
        }
        [
            ("retained", list(&self.retained)),
            ("deleted", list(&self.deleted)),
            ("ignored", list(&self.ignored)),
        ]
        .into_iter()
        .collect()
    }
}

impl State for FileRetentionSchedule {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (verdict, path) = (self.plan_retention(ctx)?, self.path.display());
        let count = verdict.deleted.len();
        if count == 0 {
            return Ok(CheckResult::in_sync(format!("0 backups were removed from {path}.\n")));
        }
        Ok(CheckResult::drifted(
            format!("{count} backups would have been removed from {path}.\n"),
            verdict.changes(),
        ))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let verdict = self.plan_retention(ctx)?;
        for name in &verdict.deleted {
            ctx.fs.remove(&self.path.join(name))?;
        }
        let comment =
            format!("{} backups were removed from {}.\n", verdict.deleted.len(), self.path.display());
        Ok(ApplyResult::new(comment, verdict.changes()))
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let mut checked = self.check(ctx)?;
        if checked.verdict == Verdict::InSync {
            checked.comment = format!("0 backups would have been removed from {}.\n", self.path.display());
        }
        Ok(checked)
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
