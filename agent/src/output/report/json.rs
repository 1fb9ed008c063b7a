//! A sheet in, JSON out: one document, or one line a state.
//!
//! Law: it is written as it is read, without a tree in between; keys come in the order of the documentation.

use jiff::tz::TimeZone;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::data::{Entries, Veiled};
use super::{Sheet, clock, millis};
use crate::output::Mask;
use crate::run::{Mode, Outcome, SkipReason};

/// What a state without changes takes, so that a large report does not grow step by step.
const STATE_BYTES: usize = 640;

/// The whole report.
pub(super) fn document(sheet: &Sheet<'_>) -> String {
    let mut out = Vec::with_capacity(1024 + sheet.report.states.len() * STATE_BYTES);
    // Keys are texts and numbers are finite or null: there is nothing that JSON cannot say, and a vector takes all.
    let _ = serde_json::to_writer_pretty(&mut out, &Document(sheet));
    out.push(b'\n');
    String::from_utf8(out).unwrap_or_default()
}

/// A state as one line.
pub(super) fn state_line(outcome: &Outcome, mask: &Mask, zone: &TimeZone) -> String {
    line(&State { outcome, mask, zone, tagged: true })
}

/// Everything but the states as one line.
pub(super) fn summary_line(sheet: &Sheet<'_>) -> String {
    line(&Summary(sheet))
}

fn line(value: &impl Serialize) -> String {
    // Keys are texts and numbers are finite or null: there is nothing that JSON cannot say.
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    line
}

struct Document<'a>(&'a Sheet<'a>);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        head(&mut map, self.0)?;
        map.serialize_entry("states", &States(self.0))?;
        map.end()
    }
}

struct Summary<'a>(&'a Sheet<'a>);

impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("type", "summary")?;
        head(&mut map, self.0)?;
        map.end()
    }
}

fn head<M: SerializeMap>(map: &mut M, sheet: &Sheet<'_>) -> Result<(), M::Error> {
    let (report, mask, tally) = (sheet.report, sheet.mask, &sheet.tally);
    map.serialize_entry("run", &report.run)?;
    map.serialize_entry("node", &Veiled(mask, &report.node))?;
    map.serialize_entry("revision", &Veiled(mask, &report.revision))?;
    map.serialize_entry("test", &(report.mode == Mode::Test))?;
    map.serialize_entry("mode", report.mode.word())?;
    // Only a revert has more to say than every run.
    if let Some(run) = &report.reverts {
        map.serialize_entry("reverts", run)?;
    }
    map.serialize_entry("schedule", report.schedule.name())?;
    map.serialize_entry("trigger", report.trigger.word())?;
    map.serialize_entry("success", &report.success())?;
    map.serialize_entry("canceled", &report.canceled)?;
    map.serialize_entry("duration_ms", &((millis(report.duration) * 10.0).round() / 10.0))?;
    map.serialize_entry("changed", &tally.changed)?;
    map.serialize_entry("failed", &tally.failed)?;
    map.serialize_entry("skipped", &tally.skipped)?;
    map.serialize_entry("unchanged", &tally.unchanged)?;
    // Counted apart, for a state that cannot tell is neither changed nor unchanged.
    map.serialize_entry("unknown", &tally.unknown)?;
    map.serialize_entry("total", &tally.total())
}

struct States<'a>(&'a Sheet<'a>);

impl Serialize for States<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let Sheet { report, mask, zone, .. } = self.0;
        let mut map = s.serialize_map(Some(report.states.len()))?;
        for outcome in &report.states {
            map.serialize_entry(&Veiled(mask, &outcome.tag), &State { outcome, mask, zone, tagged: false })?;
        }
        map.end()
    }
}

struct State<'a> {
    outcome: &'a Outcome,
    mask: &'a Mask,
    zone: &'a TimeZone,
    /// Says its own tag, because no key does.
    tagged: bool,
}

impl Serialize for State<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let (outcome, mask) = (self.outcome, self.mask);
        let mut map = s.serialize_map(None)?;
        if self.tagged {
            map.serialize_entry("type", "state")?;
            map.serialize_entry("tag", &Veiled(mask, &outcome.tag))?;
        }
        map.serialize_entry("__id__", &Veiled(mask, &outcome.id))?;
        map.serialize_entry("__sls__", &Veiled(mask, &outcome.sls))?;
        map.serialize_entry("__run_num__", &outcome.run_num)?;
        match &outcome.about {
            Some(about) => map.serialize_entry("name", &mask.value(about))?,
            None => map.serialize_entry("name", &Veiled(mask, &outcome.name))?,
        }
        map.serialize_entry("result", &outcome.result)?;
        map.serialize_entry("changes", &Entries(mask, &outcome.changes))?;
        map.serialize_entry("comment", &Veiled(mask, &outcome.comment))?;
        map.serialize_entry("diff", &Veiled(mask, &outcome.diff))?;
        map.serialize_entry("start_time", &clock(outcome.start, self.zone))?;
        map.serialize_entry("duration", &millis(outcome.duration))?;
        map.serialize_entry("level", &outcome.level)?;
        map.serialize_entry("skipped", &outcome.skip.is_some())?;
        map.serialize_entry("skip_reason", outcome.skip.map_or("", SkipReason::word))?;
        let is_failure = outcome.result == Some(false) && outcome.skip.is_none();
        map.serialize_entry("error", &Veiled(mask, if is_failure { &outcome.comment } else { "" }))?;
        map.serialize_entry("details", &Details(outcome, mask))?;
        map.end()
    }
}

/// What only the module knows, and that nobody can tell.
struct Details<'a>(&'a Outcome, &'a Mask);

impl Serialize for Details<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        if !self.0.unknown {
            return Entries(self.1, &self.0.details).serialize(s);
        }
        let mut details = self.0.details.clone();
        details.insert("unknown", true);
        Entries(self.1, &details).serialize(s)
    }
}
