//! Status and time in, the lines that describe it out: for a terminal and for a page.
//!
//! Law: the same eleven lines in the same order for every node, plus one for a node in audit mode and one for a
//! node in a rollout (held by `fresh_node`, `everything_at_once_is_wrong`).

use std::fmt::Write;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use zagent_config::disk_space::readable_size;
use zagent_config::ids::DIR_PREFIX;
use zagent_config::sanitize;
use zagent_rollout::record::RolloutStatus;

use super::{AgentStatus, QuarantineStatus, WindowStatus};
use crate::health::HealthStatus;
use crate::{HoldReason, LastRun, RemoteHealth};

/// Maximum length of one message.
const MAX_WIDTH: usize = 300;

/// A status to be described.
#[derive(Clone, Debug)]
pub struct StatusLines<'s> {
    /// Agent status.
    pub status: &'s AgentStatus,
    /// Current time, for ages.
    pub now: Timestamp,
    /// Time zone for times of day.
    pub zone: TimeZone,
}

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusTone {
    /// As it should be.
    Fine,
    /// Neither good nor bad.
    Plain,
    /// Needs attention soon.
    Attention,
    /// Needs attention now.
    Bad,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusLine {
    /// What it is about, such as `last run`.
    pub name: &'static str,
    /// How it looks.
    pub tone: StatusTone,
    /// What it says, sanitised.
    pub words: String,
}

impl StatusLines<'_> {
    /// The eleven lines, audit mode, the rollout of the node, and what is damaged or could not be read below them.
    #[must_use]
    pub fn all(&self) -> Vec<StatusLine> {
        let lines: [(&'static str, (StatusTone, String)); 11] = [
            ("node", self.node()),
            ("revision", self.revision()),
            ("newest", self.newest()),
            ("last run", self.last_run()),
            ("drift", self.drift()),
            ("next", self.next()),
            ("held", self.held()),
            ("reboot", self.reboot()),
            ("remotes", self.remotes()),
            ("health", self.health()),
            ("space", self.space()),
        ];
        let mut all: Vec<StatusLine> = lines
            .into_iter()
            .chain(self.audit().map(|words| ("mode", (StatusTone::Attention, words))))
            .chain(self.rollout().map(|line| ("rollout", line)))
            .map(|(name, (tone, words))| StatusLine { name, tone, words: short_line(&words) })
            .collect();
        all.extend(self.warnings());
        all
    }

    /// What is damaged, unprotected or could not be read.
    fn warnings(&self) -> Vec<StatusLine> {
        let status = self.status;
        let line = |name, tone, words: &str| StatusLine { name, tone, words: short_line(words) };
        let silent = status.silent.iter().map(|silent| {
            let words = format!("{} (since {})", silent.message, self.clock_text(silent.since));
            line("board", StatusTone::Attention, &words)
        });
        let damaged = status
            .damaged
            .iter()
            .map(|damage| line("damaged", StatusTone::Bad, &format!("{}; {}", damage.message, damage.hint)));
        let trust = status.trust.iter().map(|warning| line("trust", StatusTone::Attention, warning));
        let watchdog = status.watchdog.iter().map(|damage| line("watchdog", StatusTone::Attention, damage));
        let unread = status.unread.iter().map(|unread| line("unread", StatusTone::Attention, unread));
        silent.chain(damaged).chain(trust).chain(watchdog).chain(unread).collect()
    }

    /// State of the node in a rollout; nothing when there is none.
    fn rollout(&self) -> Option<(StatusTone, String)> {
        let rollout = self.status.rollout.as_ref()?;
        let state = rollout.state.map_or("gone", RolloutStatus::name);
        let mut words =
            format!("{} to {} ({state}): {}", rollout.id, short_revision(&rollout.to), rollout.message);
        if let Some(since) = rollout.since {
            let _ = write!(words, ", {} since {}", rollout.phase, self.clock_text(since));
        }
        if let Some(deadline) = rollout.deadline {
            let _ = write!(words, ", to be confirmed by {}", self.clock_text(deadline));
        }
        let tone = match rollout.phase.as_str() {
            "failed" | "rolling-back" => StatusTone::Bad,
            "confirmed" => StatusTone::Fine,
            "waiting" | "withdrawn" => StatusTone::Plain,
            _ => StatusTone::Attention,
        };
        Some((tone, words))
    }

    fn node(&self) -> (StatusTone, String) {
        let AgentStatus { node, version, daemon, .. } = self.status;
        match daemon {
            Some(daemon) => {
                let up = age_text(self.now.duration_since(daemon.since));
                let words =
                    format!("{node}, zagent {version}, daemon {} up {up}, {}", daemon.pid, daemon.doing);
                (StatusTone::Plain, words)
            }
            None => (StatusTone::Plain, format!("{node}, zagent {version}, daemon: not running")),
        }
    }

    fn revision(&self) -> (StatusTone, String) {
        let Some(current) = &self.status.current else {
            return self.missing_line("none yet: nothing fetched from a remote");
        };
        let signed = match current.signed_by.as_slice() {
            [] => "not signed".into(),
            signers => format!("signed by {}", signers.join(", ")),
        };
        let age = self.ago_text(current.committed.unwrap_or(current.published));
        let mut words = format!(
            "{} {signed} ({age}), generation {}",
            short_revision(&current.revision),
            current.generation
        );
        if let Some(serial) = current.serial {
            let _ = write!(words, ", serial {serial}");
        }
        if self.status.last_run.as_ref().is_some_and(|run| run.applied_revision() != current.revision) {
            words.push_str(", not applied yet");
        }
        match current.expires {
            Some(expires) if expires <= self.now => {
                let _ = write!(words, ", EXPIRED {}: sign a new manifest", self.ago_text(expires));
                (StatusTone::Bad, words)
            }
            Some(expires) => {
                let _ = write!(words, ", expires {}", self.until_text(expires));
                (StatusTone::Plain, words)
            }
            None => (StatusTone::Plain, words),
        }
    }

    fn newest(&self) -> (StatusTone, String) {
        let status = self.status;
        let Some(newest) = &status.newest else {
            let words = if status.remotes.is_empty() { "no remote polled yet" } else { "none seen yet" };
            return self.missing_line(words);
        };
        let place = match newest.branch.as_str() {
            "" => format!("at {}", newest.remote),
            branch => format!("head of {branch} at {}", newest.remote),
        };
        let revision = newest.revision.short();
        if let Some(since) = status.cut_off_since() {
            let words =
                if status.is_current { "which this node has" } else { "which this node does not have" };
            return (
                StatusTone::Bad,
                format!(
                    "unknown: no remote answers since {}; last seen {revision} {place}, {words}",
                    self.clock_text(since)
                ),
            );
        }
        if status.is_current {
            return (StatusTone::Fine, format!("is current, {place}"));
        }
        let Some(held) = &status.why_not else {
            return (
                StatusTone::Attention,
                format!("{revision} {place}, seen {}, not synced yet", self.ago_text(newest.since)),
            );
        };
        // The other messages name their kind of reason themselves.
        let (tone, why) = match held.why {
            HoldReason::Refused => (StatusTone::Bad, ": refused"),
            HoldReason::Unfetched => (StatusTone::Bad, ": not fetched"),
            HoldReason::Quarantined | HoldReason::Broken => (StatusTone::Bad, ""),
            HoldReason::Paused | HoldReason::Pinned | HoldReason::Rollout | HoldReason::Window => {
                (StatusTone::Attention, "")
            }
        };
        let since = self.clock_text(held.since);
        (tone, format!("{revision} {place}, held back{why} since {since}: {}", held.message))
    }

    fn last_run(&self) -> (StatusTone, String) {
        let Some(run) = &self.status.last_run else {
            return self.missing_line("none yet");
        };
        let counts = counts_text(run);
        let took = millis_text(std::time::Duration::from_millis(run.duration_ms).as_secs_f64() * 1000.0);
        let head = format!("{} ({}, {took})", self.ago_text(run.at), run.trigger);
        if run.success {
            return (StatusTone::Fine, format!("OK {head}: {counts}"));
        }
        if run.canceled {
            return (StatusTone::Attention, format!("STOPPED {head}: {counts}"));
        }
        let last = self.status.last_success;
        let last =
            last.map_or_else(|| "never succeeded".into(), |t| format!("last success {}", self.ago_text(t)));
        let row = match self.status.failures {
            0 | 1 => String::new(),
            n => format!(", {n} in a row"),
        };
        (StatusTone::Bad, format!("FAILED {head}: {counts}{row}, {last}"))
    }

    fn drift(&self) -> (StatusTone, String) {
        let (status, end) = (self.status, if self.status.audit { "not corrected" } else { "corrected" });
        match status.drift {
            0 => (StatusTone::Fine, "none".into()),
            n => (StatusTone::Attention, format!("{} {end}: modified outside zagent", pluralize(n, "state"))),
        }
    }

    /// Says that nothing is changed; nothing on other nodes.
    fn audit(&self) -> Option<String> {
        self.status.audit.then(|| match self.status.pending {
            0 => "audit: runs check and report, and change nothing".into(),
            n => format!(
                "audit: runs check and report, and change nothing; {} not applied",
                pluralize(n, "change")
            ),
        })
    }

    fn next(&self) -> (StatusTone, String) {
        let next = &self.status.next;
        let mut coming = Vec::new();
        coming.extend(next.poll.map(|time| format!("poll {}", self.until_text(time))));
        coming.extend(next.run.map(|time| format!("run {}", self.until_text(time))));
        coming.extend(next.entry.as_ref().map(|e| format!("entry {} {}", e.name, self.until_text(e.at))));
        let coming = if coming.is_empty() { "nothing scheduled".into() } else { coming.join(", ") };
        match self.status.window {
            WindowStatus::Always => (StatusTone::Plain, coming),
            WindowStatus::Open { until: None } => (StatusTone::Plain, format!("{coming}; window open")),
            WindowStatus::Open { until: Some(t) } => {
                (StatusTone::Plain, format!("{coming}; window open until {}", self.clock_text(t)))
            }
            WindowStatus::Closed { until: None } => {
                (StatusTone::Attention, format!("{coming}; window closed, none will open"))
            }
            WindowStatus::Closed { until: Some(t) } => (
                StatusTone::Attention,
                format!("{coming}; window closed until {} ({})", self.clock_text(t), self.until_text(t)),
            ),
        }
    }

    fn held(&self) -> (StatusTone, String) {
        let AgentStatus { paused, pinned, quarantined, .. } = self.status;
        let mut holds = Vec::new();
        let reason = |text: &Option<String>| text.as_ref().map(|t| format!(": {t}")).unwrap_or_default();
        if let Some(pause) = paused {
            let until = pause
                .until
                .map_or_else(|| "without an end".into(), |t| format!("until {}", self.clock_text(t)));
            holds.push(format!("paused {until}{}{}", by_text(pause.by.as_deref()), reason(&pause.reason)));
        }
        if let Some(pin) = pinned {
            let (since, by) = (self.clock_text(pin.since), by_text(pin.by.as_deref()));
            holds.push(format!("pinned to {} since {since}{by}{}", pin.to, reason(&pin.reason)));
        }
        match quarantined.as_slice() {
            [] => {}
            [one] => holds.push(format!("quarantined: {}", self.quarantine(one))),
            [.., last] => {
                holds.push(format!("{} quarantined, last: {}", quarantined.len(), self.quarantine(last)));
            }
        }
        if holds.is_empty() && !self.status.unread.is_empty() {
            return self.missing_line("");
        }
        if holds.is_empty() {
            return (StatusTone::Fine, "not paused, not pinned, nothing quarantined".into());
        }
        (StatusTone::Attention, holds.join("; "))
    }

    fn quarantine(&self, one: &QuarantineStatus) -> String {
        format!("{} since {}: {}", short_revision(&one.revision), self.clock_text(one.since), one.message)
    }

    fn reboot(&self) -> (StatusTone, String) {
        let Some(reboot) = &self.status.reboot else { return (StatusTone::Fine, "not needed".into()) };
        let since = reboot.since.map(|t| format!(" since {}", self.clock_text(t))).unwrap_or_default();
        let when = reboot.at.map(|t| format!(", planned {}", self.until_text(t))).unwrap_or_default();
        (StatusTone::Attention, format!("needed{since}{when}: {}", reboot.reason))
    }

    fn remotes(&self) -> (StatusTone, String) {
        let remotes = &self.status.remotes;
        let failing: Vec<&RemoteHealth> = remotes.iter().filter(|r| r.failing_since.is_some()).collect();
        if remotes.is_empty() {
            return (StatusTone::Plain, "none".into());
        }
        if failing.is_empty() {
            let words = if remotes.len() == 1 {
                "reachable".into()
            } else {
                format!("all {} reachable", remotes.len())
            };
            return (StatusTone::Fine, words);
        }
        let tone = if failing.len() == remotes.len() { StatusTone::Bad } else { StatusTone::Attention };
        let one = |r: &&RemoteHealth| {
            let since = r.failing_since.map(|t| self.clock_text(t)).unwrap_or_default();
            format!("{} fails since {since}: {}", r.url, r.message.as_deref().unwrap_or("reason unknown"))
        };
        let all: Vec<String> = failing.iter().map(one).collect();
        (
            tone,
            format!("{} of {} reachable; {}", remotes.len() - failing.len(), remotes.len(), all.join("; ")),
        )
    }

    fn health(&self) -> (StatusTone, String) {
        let health = &self.status.health;
        let Some(last) = health.iter().map(|v| v.at).max() else {
            return (StatusTone::Plain, "no checks run".into());
        };
        let sick: Vec<_> = health.iter().filter(|v| !v.healthy).collect();
        if sick.is_empty() {
            return (
                StatusTone::Fine,
                format!("{} passed {}", pluralize(health.len(), "check"), self.ago_text(last)),
            );
        }
        let tone = if sick.iter().any(|v| v.required) { StatusTone::Bad } else { StatusTone::Attention };
        let kind = |required| if required { "required" } else { "wanted" };
        let one = |v: &&HealthStatus| format!("{} ({}) failed: {}", v.name, kind(v.required), v.message);
        let all: Vec<String> = sick.iter().map(one).collect();
        (tone, format!("{} of {} passed; {}", health.len() - sick.len(), health.len(), all.join("; ")))
    }

    fn space(&self) -> (StatusTone, String) {
        let Some(space) = self.status.space else { return (StatusTone::Plain, "unknown".into()) };
        let limit = readable_size(space.limit);
        let used = space.used.map_or_else(
            || format!("not counted yet, at most {limit}"),
            |used| format!("{} of at most {limit} used", readable_size(used)),
        );
        let free = space.free.map(|free| format!(", {} free", readable_size(free))).unwrap_or_default();
        let tone = match (space.is_short(), space.is_over()) {
            (true, _) => StatusTone::Bad,
            (false, true) => StatusTone::Attention,
            (false, false) => StatusTone::Plain,
        };
        (tone, format!("{used}{free}"))
    }

    /// A missing value; when something could not be read, it is unknown instead.
    fn missing_line(&self, words: &str) -> (StatusTone, String) {
        let words =
            if self.status.unread.is_empty() { words } else { "unknown: not everything could be read" };
        (StatusTone::Attention, words.into())
    }

    fn ago_text(&self, time: Timestamp) -> String {
        match self.now.duration_since(time) {
            age if age < SignedDuration::from_secs(1) => "just now".into(),
            age => format!("{} ago", age_text(age)),
        }
    }

    fn until_text(&self, time: Timestamp) -> String {
        match time.duration_since(self.now) {
            left if left < SignedDuration::from_secs(1) => "now".into(),
            left => format!("in {}", age_text(left)),
        }
    }

    /// Time of day; with the date when it is another day.
    fn clock_text(&self, time: Timestamp) -> String {
        let (then, today) = (self.zone.to_datetime(time), self.zone.to_datetime(self.now).date());
        let form = if then.date() == today { "%H:%M" } else { "%Y-%m-%d %H:%M" };
        then.strftime(form).to_string()
    }
}

/// `2 changed, 40 unchanged`.
#[must_use]
pub fn counts_text(run: &LastRun) -> String {
    let words = ["changed", "failed", "skipped", "unchanged", "unknown"];
    let counts = words.iter().filter_map(|word| run.counts.get(*word).map(|n| (*n, word)));
    let counts: Vec<String> = counts.filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if counts.is_empty() { "no states".into() } else { counts.join(", ") }
}

fn by_text(who: Option<&str>) -> String {
    who.map(|who| format!(" by {who}")).unwrap_or_default()
}

/// A shortened revision; a branch or a fingerprint as it is.
fn short_revision(revision: &str) -> String {
    let word = if revision.starts_with(DIR_PREFIX) { DIR_PREFIX } else { "" };
    match zagent_config::ids::short_revision(revision) {
        whole if whole == revision => revision.to_owned(),
        short => format!("{word}{short}"),
    }
}

/// `40 s`, `12 min`, `3 h`, `9 d`.
fn age_text(age: SignedDuration) -> String {
    match age.as_secs().max(0) {
        s @ ..120 => format!("{s} s"),
        s @ ..7200 => format!("{} min", s / 60),
        s @ ..172_800 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86400),
    }
}

/// Text from a remote or a file, as one sanitised line of limited length.
#[must_use]
pub fn short_line(text: &str) -> String {
    let text = sanitize(text);
    let mut line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = line.char_indices().nth(MAX_WIDTH) {
        line.truncate(cut);
        line.push('…');
    }
    line
}

/// A duration in readable form.
#[must_use]
pub fn millis_text(millis: f64) -> String {
    match millis {
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 120_000.0 => format!("{:.1} s", ms / 1000.0),
        ms => format!("{:.0} min", ms / 60_000.0),
    }
}

/// `1 state`, `2 states`.
fn pluralize(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}
