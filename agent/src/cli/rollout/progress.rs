//! Records in, progress lines out; on a terminal, with a live view below them.
//!
//! A line is written once and stays; the live view is removed before anything else is printed.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use zagent_rollout::record::{NodeStatus, RolloutMode, RolloutRecord};

use super::events::{self, RolloutEvent};
use super::record_text;
use crate::output::{OutputFormat, Ui, one_line};
use zagent_host::CancelToken;

/// Maximum number of batches in the live view.
const MAX_BATCHES: usize = 8;
/// Refresh interval of the live view.
const FRAME_INTERVAL: Duration = Duration::from_secs(1);

/// Progress output of a rollout.
pub(super) struct RolloutProgress {
    last: Option<RolloutRecord>,
    bar: Option<ProgressBar>,
    format: OutputFormat,
    with_name: bool,
}

impl RolloutProgress {
    /// Starts the output; `name` says whether lines need the rollout ID because there are several rollouts:
    /// then there is no live view.
    pub(super) fn new(format: OutputFormat, name: bool, ui: &Ui<'_>) -> Self {
        let picture = (ui.is_interactive() && !name).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} [{bar:24}] {pos}/{len} {msg}");
            bar.set_style(
                style
                    .unwrap_or_else(|_| ProgressStyle::default_bar())
                    .progress_chars("=> ")
                    .tick_chars("-\\|/ "),
            );
            bar
        });
        Self { last: None, bar: picture, format, with_name: name }
    }

    /// Prints what changed with a new record.
    pub(super) fn show_record(&mut self, record: &RolloutRecord, now: Timestamp, ui: &mut Ui<'_>) {
        let is_other = self.last.as_ref().is_some_and(|last| last.id != record.id);
        let before = self.last.as_ref().filter(|_| !is_other);
        for news in events::events_between(before, record) {
            self.print_event(record, &news, ui);
        }
        self.last = Some(record.clone());
        self.draw(now);
    }

    /// Prints a message that is not in the record.
    pub(super) fn print_message(&self, words: &str, ui: &mut Ui<'_>) {
        match &self.bar {
            Some(picture) => picture.suspend(|| ui.message(words)),
            None => ui.message(&with_time(words, Timestamp::now(), ui)),
        }
    }

    fn print_event(&self, record: &RolloutRecord, news: &RolloutEvent, ui: &mut Ui<'_>) {
        let words = if self.with_name { format!("{}: {}", record.id, news.text) } else { news.text.clone() };
        match (&self.bar, self.format) {
            (Some(picture), _) => picture.suspend(|| ui.message(&news.tone.apply(&words, ui.err_paint))),
            (None, OutputFormat::Text) => {
                let words = with_time(&words, Timestamp::now(), ui);
                ui.print(&format!("{}\n", news.tone.apply(&words, ui.paint)));
            }
            (None, _) => {
                let words = with_time(&words, Timestamp::now(), ui);
                ui.message(&news.tone.apply(&words, ui.err_paint));
            }
        }
    }

    /// Redraws the live view: timers advance even when nothing happens.
    pub(super) fn draw(&self, now: Timestamp) {
        let (Some(picture), Some(record)) = (&self.bar, &self.last) else { return };
        let done = record.nodes.values().filter(|p| p.status == NodeStatus::Confirmed).count();
        picture.set_length(record_text::node_count(record) as u64);
        picture.set_position(done as u64);
        picture.set_message(progress_text(record, now));
        picture.tick();
    }

    /// Removes the live view.
    pub(super) fn finish(self) {
        if let Some(picture) = self.bar {
            picture.finish_and_clear();
        }
    }
}

/// A line of progress, with the time in front where nobody watches it live.
fn with_time(words: &str, now: Timestamp, ui: &Ui<'_>) -> String {
    if ui.needs_times() {
        format!("{} {words}", now.strftime("%Y-%m-%dT%H:%M:%SZ"))
    } else {
        words.to_owned()
    }
}

/// Waits for a duration or a stop signal, redrawing the live views.
pub(super) fn wait_redrawing<'l>(
    wait: Duration,
    watched: impl Iterator<Item = &'l RolloutProgress> + Clone,
    cancel: &CancelToken,
) {
    let mut left = wait;
    while !left.is_zero() && !cancel.is_cancelled() {
        let frame = left.min(FRAME_INTERVAL);
        cancel.wait(frame);
        left -= frame;
        watched.clone().for_each(|live| live.draw(Timestamp::now()));
    }
}

/// Text of the live view: the rollout, then one line per batch around the current one.
pub(super) fn progress_text(record: &RolloutRecord, now: Timestamp) -> String {
    let head = format!("{} {}: {}", record.id, record.state.name(), record_text::counts_text(record));
    let mut lines = vec![one_line(&head)];
    let first = record.current_batch.saturating_sub(1);
    for (index, nodes) in record.batches.iter().enumerate().skip(first).take(MAX_BATCHES) {
        let count = |status| nodes.iter().filter(|node| record.node_status(node) == status).count();
        let (confirmed, failed) = (count(NodeStatus::Confirmed), count(NodeStatus::Failed));
        let is_current = index == record.current_batch && record.mode == RolloutMode::Driver;
        let doing = match index.cmp(&record.current_batch) {
            _ if record.mode == RolloutMode::Clock => String::new(),
            std::cmp::Ordering::Less => "done".into(),
            std::cmp::Ordering::Equal => record_text::phase_text(record, now),
            std::cmp::Ordering::Greater => "waits".into(),
        };
        let bad = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        let mark = if is_current { '>' } else { ' ' };
        let line = format!("{mark} batch {}: {confirmed}/{} confirmed{bad}  {doing}", index + 1, nodes.len());
        lines.push(line.trim_end().to_owned());
    }
    let below = record.batches.len().saturating_sub(first + MAX_BATCHES);
    if below > 0 {
        lines.push(format!("  and {below} more"));
    }
    lines.join("\n")
}
