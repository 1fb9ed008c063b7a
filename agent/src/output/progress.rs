//! Run events in, a progress line on the terminal out; removed before the report.
//!
//! Law: without a terminal it costs nothing, and it writes to stdout only when the progress itself is the data
//! (held by `lines_are_whole`).

use std::collections::VecDeque;
use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::tz::TimeZone;

use super::report::state_line;
use zagent_config::sanitize;
use zagent_run::{NoProgress, RunProgress, StateOutcome, StateStatus};

/// A run that ends sooner shows no line.
const SHOW_AFTER: Duration = Duration::from_millis(250);
/// Redraw interval of the line.
const TICK_INTERVAL: Duration = Duration::from_millis(120);
/// Maximum number of running states to name.
const MAX_NAMED: usize = 3;
/// Frames of the mark that turns; ASCII, for every terminal.
const TICKS: &str = "-\\|/ ";

/// How a run is watched.
pub enum ProgressReporter<'u> {
    /// Not at all.
    Silent(NoProgress),
    /// As a line on the terminal.
    Bar(TerminalProgress),
    /// As one line of JSON per state.
    Lines(NdjsonProgress<'u>),
}

impl ProgressReporter<'_> {
    /// The receiver for the runner.
    #[must_use]
    pub fn progress(&self) -> &dyn RunProgress {
        match self {
            Self::Silent(silent) => silent,
            Self::Bar(bar) => bar,
            Self::Lines(lines) => lines,
        }
    }
}

/// Writes a state as one line of JSON as soon as it has ended.
pub struct NdjsonProgress<'u> {
    out: Mutex<&'u mut (dyn Write + Send)>,
    zone: TimeZone,
}

impl<'u> NdjsonProgress<'u> {
    /// Writes to `out`.
    pub fn new(out: &'u mut (dyn Write + Send), zone: TimeZone) -> Self {
        Self { out: Mutex::new(out), zone }
    }
}

impl RunProgress for NdjsonProgress<'_> {
    fn started(&self, _index: usize, _tag: &str) {}

    fn finished(&self, outcome: &StateOutcome) {
        let line = state_line(outcome, &self.zone);
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // A closed pipe is not an error.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}

/// A line on the terminal: progress, elapsed time and running states. Removed when dropped.
pub struct TerminalProgress {
    bar: ProgressBar,
    running: Mutex<RunningStates>,
    /// Dropped to tell the display thread that the run is over.
    end: Option<Sender<()>>,
    draw_thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct RunningStates {
    tags: VecDeque<String>,
    /// The resources that run, each with the state that it has come to.
    resources: VecDeque<(String, String)>,
    failed: usize,
}

impl TerminalProgress {
    /// A line for this number of states, on stderr.
    #[must_use]
    pub fn new(total: usize) -> Self {
        Self::with_target(ProgressDrawTarget::stderr(), total)
    }

    fn with_target(target: ProgressDrawTarget, total: usize) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{spinner} {pos}/{len} {elapsed}  {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()).tick_chars(TICKS));
        let (end, over) = mpsc::channel();
        let later = bar.clone();
        let shower = std::thread::spawn(move || {
            if over.recv_timeout(SHOW_AFTER) == Err(RecvTimeoutError::Timeout) {
                later.set_draw_target(target);
                later.enable_steady_tick(TICK_INTERVAL);
            }
        });
        Self { bar, running: Mutex::default(), end: Some(end), draw_thread: Some(shower) }
    }

    fn update_message(&self, running: &RunningStates) {
        let states = running.tags.iter().map(|tag| state_label(tag));
        let resources = running.resources.iter().map(|(id, tag)| format!("{id}: {}", state_label(tag)));
        let names: Vec<String> =
            states.chain(resources).take(MAX_NAMED).map(|label| sanitize(&label)).collect();
        let more = (running.tags.len() + running.resources.len()).saturating_sub(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let failed = if running.failed > 0 { format!("{} failed  ", running.failed) } else { String::new() };
        self.bar.set_message(format!("{failed}{}{more}", names.join(", ")).replace('\n', " "));
    }
}

/// A line on the terminal that says what takes long, and for how long already. Removed when dropped.
pub(super) struct WaitLine {
    _line: TerminalProgress,
}

impl WaitLine {
    pub(super) fn new(what: &str) -> Self {
        let line = TerminalProgress::new(0);
        let style = ProgressStyle::with_template("{spinner} {elapsed}  {wide_msg}");
        line.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()).tick_chars(TICKS));
        line.bar.set_message(sanitize(what));
        Self { _line: line }
    }
}

/// `file.managed /etc/motd` of a tag.
fn state_label(tag: &str) -> String {
    let parts: Vec<&str> = tag.split("_|-").collect();
    match parts.as_slice() {
        [state, id, .., fun] => format!("{state}.{fun} {id}"),
        _ => tag.to_owned(),
    }
}

impl RunProgress for TerminalProgress {
    fn started(&self, _index: usize, tag: &str) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.tags.push_back(tag.to_owned());
        self.update_message(&running);
    }

    fn finished(&self, outcome: &StateOutcome) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = running.tags.iter().position(|t| *t == outcome.tag) {
            running.tags.remove(place);
        }
        running.failed += usize::from(outcome.status() == StateStatus::Failed);
        // A resource counts as one, when it is done.
        self.bar.inc(u64::from(outcome.resource.is_none()));
        self.update_message(&running);
    }

    fn resource_moved(&self, resource: &str, tag: Option<&str>) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.resources.retain(|(id, _)| id != resource);
        match tag {
            Some(tag) => running.resources.push_back((resource.to_owned(), tag.to_owned())),
            None => self.bar.inc(1),
        }
        self.update_message(&running);
    }
}

impl Drop for TerminalProgress {
    fn drop(&mut self) {
        self.end = None;
        if let Some(shower) = self.draw_thread.take() {
            let _ = shower.join();
        }
        self.bar.disable_steady_tick();
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zagent_run::samples;

    #[test]
    fn lines_are_whole() {
        let report = samples::failed();
        let mut out = Vec::new();
        let lines = NdjsonProgress::new(&mut out, TimeZone::UTC);
        for outcome in &report.states {
            lines.started(0, &outcome.tag);
            lines.finished(outcome);
        }
        drop(lines);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), report.states.len());
        for (line, outcome) in text.lines().zip(&report.states) {
            let read: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&read["type"], &read["result"]), (&"state".into(), &outcome.result.into()));
        }
    }

    #[test]
    fn a_bar_names_running_states_and_is_removed_at_the_end() {
        let report = samples::failed();
        let bar = TerminalProgress::with_target(ProgressDrawTarget::hidden(), report.states.len());
        for outcome in &report.states {
            bar.started(0, &outcome.tag);
        }
        let told = bar.bar.message();
        assert!(told.contains("pkg.installed postgres") && told.contains("and 3 more"), "{told}");
        for outcome in &report.states {
            bar.finished(outcome);
        }
        assert_eq!(bar.bar.position(), report.states.len() as u64);
        assert_eq!(bar.bar.message(), "1 failed  ");
        let seen = bar.bar.clone();
        drop(bar);
        assert!(seen.is_finished());
    }

    #[test]
    fn an_odd_tag_is_shown_as_it_is() {
        assert_eq!(state_label("file_|-a_|-/b_|-managed"), "file.managed a");
        assert_eq!(state_label("odd"), "odd");
    }
}
