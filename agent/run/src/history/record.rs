//! Run report in, stored record out, and back.
//!
//! Law: texts and all states together have a maximum size, and unchanged states are only counted (held by
//! `a_record_round_trips_without_unchanged_states`, `long_texts_are_truncated`,
//! `a_record_has_a_size_limit_and_failures_stay`). Secrets were masked before.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::settings::RunSchedule;
use zagent_config::{Map, Value};

use crate::lock::KilledRun;
use crate::outcome::{FileLines, OutcomeDraft};
use crate::tally::Tally;
use crate::{
    ChangeCause, IRREVERSIBLE, RunMode, RunReport, RunTrigger, SkipReason, StateOutcome, StateStatus,
};
use zagent_config::SecretMask;

/// Schema version; other versions are not read.
const SCHEMA: u32 = 1;
/// Maximum size of one text.
const TEXT_LIMIT: usize = 16 << 10;
/// Maximum size of all states of a run; what does not fit is counted.
const STATES_LIMIT: usize = 4 << 20;

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
    /// Why it changed something: `drift`, `change` or `mixed`; none when that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// True when nothing failed and it was not stopped.
    pub success: bool,
    /// True when it was stopped early.
    pub canceled: bool,
    /// True when its process ended before it: killed, or a power cut.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub killed: bool,
    /// Why the revision that it applied was rolled back afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<String>,
    /// Start, in microseconds since 1970.
    start: i64,
    /// Duration in microseconds.
    duration: u64,
    /// Number of states per result.
    #[serde(flatten)]
    pub tally: Tally,
}

impl RunSummary {
    /// True when this version wrote it.
    pub(crate) const fn is_readable(&self) -> bool {
        self.schema == SCHEMA
    }

    /// A run whose process ended before it: what is known of it is what its lock says. Nothing when its name tells no
    /// time.
    pub(crate) fn of_killed(killed: &KilledRun) -> Option<Self> {
        let (run, started) = (&killed.run, &killed.started);
        let stamp = run.split('-').next()?;
        let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S", stamp).ok()?;
        let start = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        Some(Self {
            schema: SCHEMA,
            run: run.clone(),
            node: started.node.clone(),
            revision: started.revision.clone(),
            mode: started.mode.clone(),
            reverts: None,
            schedule: started.schedule.clone(),
            trigger: started.trigger.clone(),
            cause: None,
            success: false,
            canceled: true,
            killed: true,
            rolled_back: None,
            start: start.as_microsecond(),
            duration: 0,
            tally: Tally::default(),
        })
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

/// A run as JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredRun {
    #[serde(flatten)]
    pub(crate) head: RunSummary,
    /// Number of states that did not fit.
    #[serde(default, skip_serializing_if = "is_zero")]
    omitted: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    states: Vec<StateRecord>,
}

impl StoredRun {
    /// The same without its states.
    pub(crate) fn summary_only(head: RunSummary) -> Self {
        Self { head, omitted: 0, states: Vec::new() }
    }

    /// Reads a stored run; none when it is damaged.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// As JSON.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Keys are strings and numbers are finite or null, so JSON can hold everything.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// True when states should be here and are not.
    pub(crate) fn lacks_states(&self) -> bool {
        self.states.is_empty() && self.head.tally.unchanged < self.head.tally.total()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Clone, Debug, Serialize, Deserialize)]
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
    #[serde(default = "empty_map", skip_serializing_if = "is_empty_map")]
    changes: Value,
    comment: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    diff: String,
    #[serde(default = "empty_map", skip_serializing_if = "is_empty_map")]
    details: Value,
    run_num: u64,
    level: usize,
    start: i64,
    duration: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resource: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cause: Option<String>,
}

fn empty_map() -> Value {
    Map::new().into()
}

fn is_empty_map(value: &Value) -> bool {
    value.as_map().is_some_and(Map::is_empty)
}

impl RunRecord {
    /// What is stored of a report.
    #[must_use]
    pub fn from_report(report: &RunReport) -> Self {
        let kept = |s: &&StateOutcome| s.status() != StateStatus::Unchanged || s.has_detail(IRREVERSIBLE);
        let kept = RunReport {
            states: report.states.iter().filter(kept).map(truncate_outcome).collect(),
            revision: truncate_text(report.revision.clone()),
            run: report.run.clone(),
            node: report.node.clone(),
            mode: report.mode,
            reverts: report.reverts.clone(),
            schedule: report.schedule,
            trigger: report.trigger,
            canceled: report.canceled,
            start: report.start,
            duration: report.duration,
        };
        Self { report: kept, tally: Tally::from_report(report) }
    }

    /// Its summary.
    pub(crate) fn summary(&self) -> RunSummary {
        let report = &self.report;
        RunSummary {
            schema: SCHEMA,
            run: report.run.clone(),
            node: report.node.clone(),
            revision: report.revision.clone(),
            mode: report.mode.as_str().into(),
            reverts: report.reverts.clone(),
            schedule: report.schedule.name().into(),
            trigger: report.trigger.as_str().into(),
            cause: report.cause().map(str::to_owned),
            success: report.is_success(),
            canceled: report.canceled,
            killed: false,
            rolled_back: None,
            start: report.start.as_microsecond(),
            duration: micros(report.duration),
            tally: self.tally,
        }
    }

    /// The stored form, without the states that exceed the limit: failed ones are the last to go.
    pub(crate) fn to_stored(&self) -> StoredRun {
        let mut states: Vec<StateRecord> = self.report.states.iter().map(StateRecord::from_outcome).collect();
        let all = states.len();
        let (mut left, mut fits) = (STATES_LIMIT, vec![false; all]);
        for is_failed in [true, false] {
            let same = |state: &StateRecord| (state.result == Some(false)) == is_failed;
            for (fits, state) in fits.iter_mut().zip(&states).filter(|(_, state)| same(state)) {
                let size = state.stored_size();
                *fits = size <= left;
                left = left.saturating_sub(size);
            }
        }
        let mut fits = fits.into_iter();
        states.retain(|_| fits.next().unwrap_or(false));
        StoredRun { head: self.summary(), omitted: all - states.len(), states }
    }

    /// A stored run, and how many states did not fit; none when it is of another schema version.
    pub(crate) fn from_stored(stored: StoredRun) -> Option<(Self, usize)> {
        let StoredRun { head, omitted, states } = stored;
        // They were masked before they were stored.
        let mask = SecretMask::default();
        let states =
            states.into_iter().map(|state| state.into_outcome(None, &mask)).collect::<Option<_>>()?;
        let mut record = Self::from_summary(head)?;
        record.report.states = states;
        Some((record, omitted))
    }

    fn from_summary(head: RunSummary) -> Option<Self> {
        if head.schema != SCHEMA {
            return None;
        }
        let modes = [RunMode::Apply, RunMode::Test, RunMode::Revert, RunMode::Audit];
        let triggers =
            [RunTrigger::Timer, RunTrigger::Git, RunTrigger::Manual, RunTrigger::Drift, RunTrigger::Rollout];
        let report = RunReport {
            mode: modes.into_iter().find(|m| m.as_str() == head.mode)?,
            schedule: RunSchedule::find(&head.schedule)?,
            trigger: triggers.into_iter().find(|t| t.as_str() == head.trigger)?,
            canceled: head.canceled,
            start: head.start(),
            duration: head.duration(),
            states: Vec::new(),
            reverts: head.reverts,
            run: head.run,
            node: head.node,
            revision: head.revision,
        };
        Some(Self { report, tally: head.tally })
    }
}

impl StateRecord {
    /// The bytes that it takes.
    fn stored_size(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |bytes| bytes.len())
    }

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
            resource: s.resource.clone(),
            cause: s.cause.map(|cause| cause.as_str().to_owned()),
        }
    }

    /// The outcome; `mask` hides what was not masked before it was written.
    fn into_outcome(self, about: Option<Value>, mask: &SecretMask) -> Option<StateOutcome> {
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
        let draft = OutcomeDraft {
            tag: self.tag,
            state: self.state,
            fun: self.fun,
            id: self.id,
            sls: self.sls,
            name: self.name,
            about,
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
        };
        let mut outcome = draft.into_outcome(mask, FileLines::Shown);
        outcome.resource = self.resource;
        outcome.cause = self.cause.as_deref().and_then(ChangeCause::find);
        Some(outcome)
    }
}

/// An outcome on its way from the machine that it happened on.
#[derive(Serialize, Deserialize)]
struct SentOutcome {
    state: StateRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    about: Option<Value>,
}

/// An outcome for the node that manages this machine.
#[must_use]
pub fn send_outcome(outcome: &StateOutcome) -> serde_json::Value {
    let sent = SentOutcome { state: StateRecord::from_outcome(outcome), about: outcome.about.clone() };
    // Keys are strings and numbers are finite or null, so JSON can hold everything.
    serde_json::to_value(sent).unwrap_or_default()
}

/// The outcome that a managed machine sent; none when it is not one. `mask` hides what this node knows to be secret.
#[must_use]
pub fn receive_outcome(sent: serde_json::Value, mask: &SecretMask) -> Option<StateOutcome> {
    let SentOutcome { state, about } = serde_json::from_value(sent).ok()?;
    let mut outcome = state.into_outcome(about, mask)?;
    (outcome.resource, outcome.cause) = (None, None);
    Some(outcome)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// An outcome with long texts truncated.
fn truncate_outcome(outcome: &StateOutcome) -> StateOutcome {
    let mut kept = outcome.clone();
    for text in
        [&mut kept.tag, &mut kept.id, &mut kept.sls, &mut kept.name, &mut kept.comment, &mut kept.diff]
    {
        *text = truncate_text(std::mem::take(text));
    }
    for map in [&mut kept.changes, &mut kept.details] {
        if let Value::Map(short) = truncate_values(&std::mem::take(map).into()) {
            *map = (*short).clone();
        }
    }
    kept
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
