//! Report view in, JSON out: one document, or one line per state.
//!
//! It is streamed without an intermediate tree; keys are in the documented order.

use jiff::tz::TimeZone;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::{ReportView, salt_millis, salt_time};
use zagent_config::escape_json;
use zagent_run::{ChangeCause, SALT_RESULT_KEYS, SkipReason, StateOutcome};

/// Size of a state without changes, so that the buffer for a large report does not grow step by step.
const STATE_SIZE_HINT: usize = 640;

/// The whole report.
pub(super) fn render_json(view: &ReportView<'_>) -> String {
    let mut out = Vec::with_capacity(1024 + view.report.states.len() * STATE_SIZE_HINT);
    // Keys are strings and numbers are finite or null, so JSON can hold everything, and a vector accepts
    // everything.
    let _ = serde_json::to_writer_pretty(&mut out, &ReportJson(view));
    out.push(b'\n');
    escape_json(String::from_utf8(out).unwrap_or_default())
}

/// A state as one line.
pub(super) fn state_line(outcome: &StateOutcome, zone: &TimeZone) -> String {
    json_line(&StateJson { outcome, zone, tagged: true })
}

/// Everything but the states as one line.
pub(super) fn summary_line(view: &ReportView<'_>) -> String {
    json_line(&SummaryJson(view))
}

fn json_line(value: &impl Serialize) -> String {
    // Keys are strings and numbers are finite or null, so JSON can hold everything.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    escape_json(line)
}

struct ReportJson<'a>(&'a ReportView<'a>);

impl Serialize for ReportJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        write_header(&mut map, self.0)?;
        map.serialize_entry("states", &StatesJson(self.0))?;
        map.end()
    }
}

struct SummaryJson<'a>(&'a ReportView<'a>);

impl Serialize for SummaryJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("type", "summary")?;
        write_header(&mut map, self.0)?;
        map.end()
    }
}

fn write_header<M: SerializeMap>(map: &mut M, view: &ReportView<'_>) -> Result<(), M::Error> {
    let (report, tally) = (view.report, &view.tally);
    map.serialize_entry("run", &report.run)?;
    map.serialize_entry("node", &report.node)?;
    map.serialize_entry("revision", &report.revision)?;
    map.serialize_entry("test", &report.mode.changes_nothing())?;
    map.serialize_entry("mode", report.mode.as_str())?;
    // Only a revert has additional keys.
    if let Some(run) = &report.reverts {
        map.serialize_entry("reverts", run)?;
    }
    map.serialize_entry("schedule", report.schedule.name())?;
    map.serialize_entry("trigger", report.trigger.as_str())?;
    map.serialize_entry("success", &report.is_success())?;
    map.serialize_entry("canceled", &report.canceled)?;
    map.serialize_entry("duration_ms", &((salt_millis(report.duration) * 10.0).round() / 10.0))?;
    map.serialize_entry("changed", &tally.changed)?;
    map.serialize_entry("failed", &tally.failed)?;
    map.serialize_entry("skipped", &tally.skipped)?;
    map.serialize_entry("unchanged", &tally.unchanged)?;
    // Counted separately: a state with an unknown result is neither changed nor unchanged.
    map.serialize_entry("unknown", &tally.unknown)?;
    map.serialize_entry("total", &tally.total())?;
    // Only a run of the states that the node follows knows the causes.
    match report.cause() {
        Some(cause) => {
            map.serialize_entry("cause", cause)?;
            map.serialize_entry("drifted", &report.count_cause(ChangeCause::Drift))
        }
        None => Ok(()),
    }
}

struct StatesJson<'a>(&'a ReportView<'a>);

impl Serialize for StatesJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let ReportView { report, zone, .. } = self.0;
        let mut map = s.serialize_map(Some(report.states.len()))?;
        for outcome in &report.states {
            map.serialize_entry(&outcome.tag, &StateJson { outcome, zone, tagged: false })?;
        }
        map.end()
    }
}

struct StateJson<'a> {
    outcome: &'a StateOutcome,
    zone: &'a TimeZone,
    /// Includes its own tag, because no key has it.
    tagged: bool,
}

impl Serialize for StateJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let outcome = self.outcome;
        let mut map = s.serialize_map(None)?;
        if self.tagged {
            map.serialize_entry("type", "state")?;
            map.serialize_entry("tag", &outcome.tag)?;
        }
        if let Some(resource) = &outcome.resource {
            map.serialize_entry("resource", resource)?;
        }
        // What no SLS declared has neither, as in Salt.
        if outcome.is_declared() {
            map.serialize_entry("__id__", &outcome.id)?;
            map.serialize_entry("__sls__", &outcome.sls)?;
        }
        map.serialize_entry("__run_num__", &outcome.run_num)?;
        match &outcome.about {
            Some(about) => map.serialize_entry("name", about)?,
            None => map.serialize_entry("name", &outcome.name)?,
        }
        map.serialize_entry("result", &outcome.result)?;
        map.serialize_entry("changes", &outcome.changes)?;
        map.serialize_entry("comment", &outcome.comment)?;
        for key in SALT_RESULT_KEYS {
            if let Some(value) = outcome.details.get(key) {
                map.serialize_entry(key, value)?;
            }
        }
        if let Some(cause) = outcome.cause {
            map.serialize_entry("cause", cause.as_str())?;
        }
        map.serialize_entry("diff", &outcome.diff)?;
        map.serialize_entry("start_time", &salt_time(outcome.start, self.zone))?;
        map.serialize_entry("duration", &salt_millis(outcome.duration))?;
        map.serialize_entry("level", &outcome.level)?;
        map.serialize_entry("skipped", &outcome.skip.is_some())?;
        map.serialize_entry("skip_reason", outcome.skip.map_or("", SkipReason::as_str))?;
        let is_failure = outcome.result == Some(false) && outcome.skip.is_none();
        map.serialize_entry("error", if is_failure { outcome.comment.as_str() } else { "" })?;
        map.serialize_entry("details", &DetailsJson(outcome))?;
        map.end()
    }
}

/// Details of the module, and whether the result is unknown.
struct DetailsJson<'a>(&'a StateOutcome);

impl Serialize for DetailsJson<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let is_beside = SALT_RESULT_KEYS.iter().any(|key| self.0.details.contains(key));
        if !self.0.unknown && !is_beside {
            return self.0.details.serialize(s);
        }
        let mut details = self.0.details.clone();
        for key in SALT_RESULT_KEYS {
            details.remove(key);
        }
        if self.0.unknown {
            details.insert("unknown", true);
        }
        details.serialize(s)
    }
}
