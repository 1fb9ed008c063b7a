//! Heartbeats and what happened to the agent in, its history out: starts, crashes, versions, uptime and gaps.
//!
//! Law: pure; the time is an argument (held by `a_life_is_told_with_starts_crashes_versions_and_gaps`,
//! `crashes_in_a_row_count_until_the_agent_was_healthy`).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::report::NodeReport;
use crate::supervise::RestartPolicy;

/// Missed heartbeats that make a gap.
const GAP_BEATS: u32 = 3;

/// How long a row of crashes counts at least after its last one.
const MIN_STREAK_MEMORY: Duration = Duration::from_secs(60);

/// What happened, when, and to which version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifeEvent {
    /// When.
    pub at: Timestamp,
    /// The version of the agent, or of the watchdog for its own events.
    pub version: String,
    /// What.
    #[serde(flatten)]
    pub kind: LifeEventKind,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum LifeEventKind {
    /// The watchdog started.
    WatchdogStarted {
        /// The last sign of life before.
        last_seen: Option<Timestamp>,
    },
    /// The watchdog stopped on request.
    WatchdogStopped,
    /// The agent started.
    AgentStarted {
        /// Its process.
        pid: u32,
    },
    /// The agent stopped on request.
    AgentStopped {
        /// How long it ran, in milliseconds.
        uptime_ms: u64,
    },
    /// The agent ended by itself, or did not start.
    AgentCrashed {
        /// How long it ran, in milliseconds.
        uptime_ms: u64,
        /// How it ended.
        how: String,
    },
}

/// A version, and when it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionSpan {
    /// The version.
    pub version: String,
    /// First seen.
    pub first: Timestamp,
    /// Last seen.
    pub last: Timestamp,
}

/// A time without a sign of life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifeGap {
    /// The last sign before.
    pub from: Timestamp,
    /// The first sign after.
    pub to: Timestamp,
    /// True when the watchdog was stopped on request.
    pub requested: bool,
}

/// What the heartbeats say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifeHistory {
    /// The last sign of life.
    pub last_seen: Option<Timestamp>,
    /// Where it begins.
    pub since: Option<Timestamp>,
    /// Starts of the agent.
    pub starts: usize,
    /// Crashes of the agent.
    pub crashes: usize,
    /// Crashes in a row until now: they decide whether the node is degraded.
    pub crashes_in_a_row: u32,
    /// How long the agent ran, in seconds.
    pub uptime: u64,
    /// Versions of the agent, in the order in which they were first seen.
    pub versions: Vec<VersionSpan>,
    /// Times without a sign of life, oldest first.
    pub gaps: Vec<LifeGap>,
    /// Everything that happened, oldest first.
    pub events: Vec<LifeEvent>,
}

/// Tells the history. Both lists are sorted by time.
pub(super) fn summarize(
    beats: &[NodeReport],
    events: Vec<LifeEvent>,
    every: Duration,
    (now, rules): (Timestamp, &RestartPolicy),
) -> LifeHistory {
    let is_agent = |event: &&LifeEvent| {
        !matches!(event.kind, LifeEventKind::WatchdogStarted { .. } | LifeEventKind::WatchdogStopped)
    };
    let mut seen: Vec<(Timestamp, Option<&str>)> =
        beats.iter().map(|beat| (beat.updated_at, Some(beat.version.as_str()))).collect();
    seen.extend(
        events
            .iter()
            .map(|event| (event.at, Some(event).filter(is_agent).map(|event| event.version.as_str()))),
    );
    zagent_config::sorted::sort_by_key(&mut seen, |(at, _)| *at);
    let mut versions: Vec<VersionSpan> = Vec::new();
    for (at, version) in seen.iter().filter_map(|(at, version)| Some((*at, (*version)?))) {
        match versions.iter_mut().find(|span| span.version == version) {
            Some(span) => span.last = at,
            None => versions.push(VersionSpan { version: version.to_owned(), first: at, last: at }),
        }
    }
    let ended: u64 = events.iter().filter_map(ended_after).sum();
    let running = beats.last().and_then(|beat| beat.child.as_ref()).map_or(0, |child| child.uptime);
    let count = |is: fn(&LifeEventKind) -> bool| events.iter().filter(|event| is(&event.kind)).count();
    LifeHistory {
        last_seen: seen.last().map(|(at, _)| *at),
        since: seen.first().map(|(at, _)| *at),
        starts: count(|kind| matches!(kind, LifeEventKind::AgentStarted { .. })),
        crashes: count(|kind| matches!(kind, LifeEventKind::AgentCrashed { .. })),
        crashes_in_a_row: crash_streak(&events, now, rules),
        uptime: ended / 1000 + if is_running(&events) { running } else { 0 },
        versions,
        gaps: find_gaps(beats, &events, every),
        events,
    }
}

const fn ended_after(event: &LifeEvent) -> Option<u64> {
    match event.kind {
        LifeEventKind::AgentStopped { uptime_ms } | LifeEventKind::AgentCrashed { uptime_ms, .. } => {
            Some(uptime_ms)
        }
        _ => None,
    }
}

/// True when the last thing that happened to the agent is a start.
fn is_running(events: &[LifeEvent]) -> bool {
    let is_start = |event: &LifeEvent| match event.kind {
        LifeEventKind::AgentStarted { .. } => Some(true),
        LifeEventKind::AgentStopped { .. } | LifeEventKind::AgentCrashed { .. } => Some(false),
        _ => None,
    };
    events.iter().rev().find_map(is_start).unwrap_or(true)
}

/// Times without a heartbeat or an event, longer than a few heartbeats.
fn find_gaps(beats: &[NodeReport], events: &[LifeEvent], every: Duration) -> Vec<LifeGap> {
    let limit = SignedDuration::try_from(every.saturating_mul(GAP_BEATS)).unwrap_or(SignedDuration::MAX);
    let is_stop = |at: Timestamp| {
        let before = events.iter().rfind(|event| event.at <= at);
        before.is_some_and(|event| event.kind == LifeEventKind::WatchdogStopped)
    };
    let mut gaps: Vec<LifeGap> = Vec::new();
    let mut add = |from: Timestamp, to: Timestamp| {
        let is_known = gaps.iter().any(|gap| gap.to == to);
        if !is_known && to.duration_since(from) > limit {
            gaps.push(LifeGap { from, to, requested: is_stop(from) });
        }
    };
    for event in events {
        if let LifeEventKind::WatchdogStarted { last_seen: Some(last_seen) } = event.kind {
            add(last_seen, event.at);
        }
    }
    for pair in beats.windows(2) {
        let (from, to) = (pair[0].updated_at, pair[1].updated_at);
        // A restart in between has its own gap.
        let is_restart = events.iter().any(|event| {
            matches!(event.kind, LifeEventKind::WatchdogStarted { .. }) && event.at > from && event.at <= to
        });
        if !is_restart {
            add(from, to);
        }
    }
    zagent_config::sorted::sort_by_key(&mut gaps, |gap| gap.from);
    gaps
}

/// Crashes in a row: a healthy run or a stop on request ends the row, and so does time.
pub(super) fn crash_streak(events: &[LifeEvent], now: Timestamp, rules: &RestartPolicy) -> u32 {
    let healthy = u64::try_from(rules.healthy_after.as_millis()).unwrap_or(u64::MAX);
    let memory = rules.degraded_delay.saturating_mul(2).max(MIN_STREAK_MEMORY);
    let memory = SignedDuration::try_from(memory).unwrap_or(SignedDuration::MAX);
    let mut streak = 0;
    for event in events.iter().rev() {
        match &event.kind {
            LifeEventKind::AgentCrashed { uptime_ms, .. } if *uptime_ms < healthy => {
                if streak == 0 && now.duration_since(event.at) > memory {
                    return 0;
                }
                streak += 1;
            }
            LifeEventKind::AgentCrashed { .. } | LifeEventKind::AgentStopped { .. } => break,
            _ => {}
        }
    }
    streak
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::AgentProcess;
    use crate::watchdog::heartbeats::sample_report;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn event(second: i64, version: &str, kind: LifeEventKind) -> LifeEvent {
        LifeEvent { at: at(second), version: version.into(), kind }
    }

    fn crash(second: i64, uptime_ms: u64) -> LifeEvent {
        event(second, "0.1.0", LifeEventKind::AgentCrashed { uptime_ms, how: "exited with 1".into() })
    }

    #[test]
    fn a_life_is_told_with_starts_crashes_versions_and_gaps() {
        let events = vec![
            event(0, "0.1.0", LifeEventKind::WatchdogStarted { last_seen: None }),
            event(1, "0.1.0", LifeEventKind::AgentStarted { pid: 7 }),
            crash(61, 60_000),
            event(63, "0.1.0", LifeEventKind::AgentStarted { pid: 8 }),
            event(90, "0.1.0", LifeEventKind::AgentStopped { uptime_ms: 27_000 }),
            event(91, "0.1.0", LifeEventKind::WatchdogStopped),
            event(700, "0.1.0", LifeEventKind::WatchdogStarted { last_seen: Some(at(91)) }),
            event(701, "0.2.0", LifeEventKind::AgentStarted { pid: 9 }),
        ];
        let child = Some(AgentProcess { pid: 9, uptime: 400 });
        let mut last = sample_report(1101);
        (last.version, last.child) = ("0.2.0".into(), child);
        let mut before = sample_report(702);
        before.version = "0.2.0".into();
        let rules = RestartPolicy::PRODUCTION;
        let told = summarize(
            &[sample_report(30), before, last],
            events,
            Duration::from_secs(30),
            (at(1110), &rules),
        );
        assert_eq!((told.starts, told.crashes, told.crashes_in_a_row), (3, 1, 0));
        assert_eq!((told.last_seen, told.since, told.uptime), (Some(at(1101)), Some(at(0)), 60 + 27 + 400));
        let spans: Vec<_> = told.versions.iter().map(|v| (v.version.as_str(), v.first, v.last)).collect();
        assert_eq!(spans, [("0.1.0", at(1), at(90)), ("0.2.0", at(701), at(1101))]);
        assert_eq!(
            told.gaps,
            [
                LifeGap { from: at(91), to: at(700), requested: true },
                LifeGap { from: at(702), to: at(1101), requested: false },
            ]
        );
    }

    #[test]
    fn crashes_in_a_row_count_until_the_agent_was_healthy() {
        let rules = RestartPolicy::PRODUCTION;
        let started = |second| event(second, "0.1.0", LifeEventKind::AgentStarted { pid: 7 });
        let stopped = event(5, "0.1.0", LifeEventKind::AgentStopped { uptime_ms: 10 });
        let row = vec![crash(1, 40_000), started(2), crash(3, 10), started(4), crash(5, 20)];
        assert_eq!(crash_streak(&row, at(10), &rules), 2);
        assert_eq!(crash_streak(&row, at(5 + 1201), &rules), 0, "long ago");
        assert_eq!(crash_streak(&[crash(1, 1), stopped], at(10), &rules), 0);
        assert_eq!(crash_streak(&[], at(10), &rules), 0);
    }
}
