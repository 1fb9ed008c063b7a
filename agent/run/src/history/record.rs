//! Run report in, stored record out, and back.
//!
//! Law: no secrets are stored, texts have a maximum size, and unchanged states are only counted (held by
//! `a_record_round_trips_without_unchanged_states`, `secrets_are_not_stored_and_long_texts_are_truncated`).

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::settings::RunSchedule;
use zagent_config::{Map, Value};

use crate::tally::Tally;
use crate::{IRREVERSIBLE, RunMode, RunReport, RunTrigger, SkipReason, StateOutcome, StateStatus};
use zagent_config::SecretMask;

/// Schema version; other versions are not read.
const SCHEMA: u32 = 1;
/// Maximum size of one text.
const TEXT_LIMIT: usize = 16 << 10;

/// A run as stored in the history.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Its report; unchanged states are not listed.
    pub report: RunReport,
    /// Number of states per result, all of them.
    pub tally: Tally,
}

/// Summary of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    schema: u32,
    /// Run ID.
    pub run: String,
    /// The node.
    pub node: String,
    /// Commit, or source of the states.
    pub revision: String,
    /// Mode: `apply`, `test` or `revert`.
    pub mode: String,
    /// The run that it reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverts: Option<String>,
    /// Order in which states ran.
    pub schedule: String,
    /// What triggered it.
    pub trigger: String,
    /// True when nothing failed and it was not stopped.
    pub success: bool,
    /// True when it was stopped early.
    pub canceled: bool,
    /// Start, in microseconds since 1970.
    start: i64,
    /// Duration in microseconds.
    duration: u64,
    /// Number of states per result.
    #[serde(flatten)]
    pub tally: Tally,
}

impl RunSummary {
    /// Reads the summary of a stored run; none when it is damaged or of another schema version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok().filter(|head: &Self| head.schema == SCHEMA)
    }

    /// Start time.
    #[must_use]
    pub fn start(&self) -> Timestamp {
        Timestamp::from_microsecond(self.start).unwrap_or_default()
    }

    /// Duration.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        Duration::from_micros(self.duration)
    }
}

#[derive(Serialize, Deserialize)]
struct StoredRun {
    #[serde(flatten)]
    head: RunSummary,
    states: Vec<StateRecord>,
}

#[derive(Serialize, Deserialize)]
struct StateRecord {
    tag: String,
    state: String,
    fun: String,
    id: String,
    sls: String,
    name: String,
    result: Option<bool>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    unknown: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    skip: Option<String>,
    changes: Value,
    comment: String,
    diff: String,
    details: Value,
    run_num: u64,
    level: usize,
    start: i64,
    duration: u64,
}

impl RunRecord {
    /// What is stored of a report.
    #[must_use]
    pub fn from_report(report: &RunReport, mask: &SecretMask) -> Self {
        let text = |text: &str| truncate_text(mask.mask_string(text));
        let map = |map: &Map| match truncate_values(&mask.mask_value(&map.clone().into())) {
            Value::Map(map) => (*map).clone(),
            _ => Map::new(),
        };
        let kept = |s: &&StateOutcome| s.status() != StateStatus::Unchanged || s.has_detail(IRREVERSIBLE);
        let states = report.states.iter().filter(kept).map(|s| StateOutcome {
            tag: text(&s.tag),
            id: text(&s.id),
            sls: text(&s.sls),
            name: text(&s.name),
            changes: map(&s.changes),
            comment: text(&s.comment),
            diff: text(&s.diff),
            details: map(&s.details),
            ..s.clone()
        });
        let kept = RunReport { states: states.collect(), revision: text(&report.revision), ..report.clone() };
        Self { report: kept, tally: Tally::from_report(report) }
    }

    /// The stored form, as JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        let report = &self.report;
        let head = RunSummary {
            schema: SCHEMA,
            run: report.run.clone(),
            node: report.node.clone(),
            revision: report.revision.clone(),
            mode: report.mode.as_str().into(),
            reverts: report.reverts.clone(),
            schedule: report.schedule.name().into(),
            trigger: report.trigger.as_str().into(),
            success: report.is_success(),
            canceled: report.canceled,
            start: report.start.as_microsecond(),
            duration: micros(report.duration),
            tally: self.tally,
        };
        // Keys are strings and numbers are finite or null, so JSON can hold everything.
        serde_json::to_vec(&StoredRun {
            head,
            states: report.states.iter().map(StateRecord::from_outcome).collect(),
        })
        .unwrap_or_default()
    }

    /// Reads a stored run; none when it is damaged or of another schema version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let StoredRun { head, states } = serde_json::from_slice(bytes).ok()?;
        if head.schema != SCHEMA {
            return None;
        }
        let modes = [RunMode::Apply, RunMode::Test, RunMode::Revert];
        let triggers =
            [RunTrigger::Timer, RunTrigger::Git, RunTrigger::Manual, RunTrigger::Drift, RunTrigger::Rollout];
        let report = RunReport {
            mode: modes.into_iter().find(|m| m.as_str() == head.mode)?,
            schedule: RunSchedule::find(&head.schedule)?,
            trigger: triggers.into_iter().find(|t| t.as_str() == head.trigger)?,
            canceled: head.canceled,
            start: head.start(),
            duration: head.duration(),
            states: states.into_iter().map(StateRecord::into_outcome).collect::<Option<_>>()?,
            reverts: head.reverts,
            run: head.run,
            node: head.node,
            revision: head.revision,
        };
        Some(Self { report, tally: head.tally })
    }
}

impl StateRecord {
    fn from_outcome(s: &StateOutcome) -> Self {
        Self {
            tag: s.tag.clone(),
            state: s.state.clone(),
            fun: s.fun.clone(),
            id: s.id.clone(),
            sls: s.sls.clone(),
            name: s.name.clone(),
            result: s.result,
            unknown: s.unknown,
            skip: s.skip.map(|reason| reason.as_str().into()),
            changes: s.changes.clone().into(),
            comment: s.comment.clone(),
            diff: s.diff.clone(),
            details: s.details.clone().into(),
            run_num: s.run_num,
            level: s.level,
            start: s.start.as_microsecond(),
            duration: micros(s.duration),
        }
    }

    fn into_outcome(self) -> Option<StateOutcome> {
        let reasons = [
            SkipReason::RequireFailed,
            SkipReason::OnchangesNotMet,
            SkipReason::OnfailNotMet,
            SkipReason::PrereqNotMet,
            SkipReason::FailhardAbort,
            SkipReason::Cancelled,
        ];
        let skip = match self.skip {
            Some(word) => Some(reasons.into_iter().find(|r| r.as_str() == word)?),
            None => None,
        };
        Some(StateOutcome {
            tag: self.tag,
            state: self.state,
            fun: self.fun,
            id: self.id,
            sls: self.sls,
            name: self.name,
            about: None,
            result: self.result,
            unknown: self.unknown,
            skip,
            changes: self.changes.as_map()?.clone(),
            comment: self.comment,
            diff: self.diff,
            details: self.details.as_map()?.clone(),
            run_num: self.run_num,
            level: self.level,
            start: Timestamp::from_microsecond(self.start).ok()?,
            duration: Duration::from_micros(self.duration),
        })
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A text, truncated when too long.
fn truncate_text(mut text: String) -> String {
    if text.len() > TEXT_LIMIT {
        let rest = text.len();
        let end = (0..=TEXT_LIMIT).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(end);
        text.push_str(&format!("\n… ({} bytes more)\n", rest - end));
    }
    text
}

/// A value with long texts truncated.
fn truncate_values(value: &Value) -> Value {
    match value {
        Value::Str(text) if text.len() > TEXT_LIMIT => truncate_text(text.to_string()).into(),
        Value::List(list) => list.iter().map(truncate_values).collect(),
        Value::Map(map) => map.iter().map(|(k, v)| (k.clone(), truncate_values(v))).collect::<Map>().into(),
        other => other.clone(),
    }
}
