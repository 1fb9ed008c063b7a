//! Records as they come in, lines out: on a terminal with a picture below them that moves, else lines alone.
//!
//! Law: a line is written once and stays; the picture is gone before anything else is printed.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use jiff::Timestamp;
use zagent_rollout::record::{Mode, NodeStatus, Record};

use super::news::{self, News};
use super::words;
use crate::host::Cancel;
use crate::output::{Format, Ui, one_line};

/// How many batches the picture shows.
const BATCHES: usize = 8;
/// How often the picture moves.
const FRAME: Duration = Duration::from_secs(1);

/// Who watches a rollout.
pub(super) struct Live {
    last: Option<Record>,
    picture: Option<ProgressBar>,
    format: Format,
    name: bool,
}

impl Live {
    /// Begins to watch; `name` says whether lines need the name of their rollout, because there are several: then there
    /// is no picture.
    pub(super) fn new(format: Format, name: bool, ui: &Ui<'_>) -> Self {
        let picture = (ui.is_watched() && !name).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{spinner} [{bar:24}] {pos}/{len} {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
            bar
        });
        Self { last: None, picture, format, name }
    }

    /// A record was read.
    pub(super) fn tell(&mut self, record: &Record, now: Timestamp, ui: &mut Ui<'_>) {
        let is_other = self.last.as_ref().is_some_and(|last| last.id != record.id);
        let before = self.last.as_ref().filter(|_| !is_other);
        for news in news::between(before, record) {
            self.line(record, &news, ui);
        }
        self.last = Some(record.clone());
        self.draw(now);
    }

    /// Something was said about a rollout that its record does not show.
    pub(super) fn say(&self, words: &str, ui: &mut Ui<'_>) {
        match &self.picture {
            Some(picture) => picture.suspend(|| ui.say(words)),
            None => ui.say(words),
        }
    }

    fn line(&self, record: &Record, news: &News, ui: &mut Ui<'_>) {
        let words = if self.name { format!("{}: {}", record.id, news.words) } else { news.words.clone() };
        match (&self.picture, self.format) {
            (Some(picture), _) => picture.suspend(|| ui.say(&news.tone.on(&words, ui.talk))),
            (None, Format::Text) => ui.data(&format!("{}\n", news.tone.on(&words, ui.paint))),
            (None, _) => ui.say(&news.tone.on(&words, ui.talk)),
        }
    }

    /// Draws the picture anew: timers move also when nothing happens.
    pub(super) fn draw(&self, now: Timestamp) {
        let (Some(picture), Some(record)) = (&self.picture, &self.last) else { return };
        let done = record.nodes.values().filter(|p| p.status == NodeStatus::Confirmed).count();
        picture.set_length(words::total(record) as u64);
        picture.set_position(done as u64);
        picture.set_message(drawn(record, now));
        picture.tick();
    }

    /// Takes the picture away.
    pub(super) fn end(self) {
        if let Some(picture) = self.picture {
            picture.finish_and_clear();
        }
    }
}

/// Waits so long, or until somebody says stop; pictures move meanwhile.
pub(super) fn rest<'l>(wait: Duration, watched: impl Iterator<Item = &'l Live> + Clone, cancel: &Cancel) {
    let mut left = wait;
    while !left.is_zero() && !cancel.is_said() {
        let frame = left.min(FRAME);
        cancel.wait(frame);
        left -= frame;
        watched.clone().for_each(|live| live.draw(Timestamp::now()));
    }
}

/// The words of the picture: the rollout, then a line a batch, those around the one under way.
pub(super) fn drawn(record: &Record, now: Timestamp) -> String {
    let head = format!("{} {}: {}", record.id, record.state.word(), words::counts(record));
    let mut lines = vec![one_line(&head)];
    let first = record.current_batch.saturating_sub(1);
    for (index, nodes) in record.batches.iter().enumerate().skip(first).take(BATCHES) {
        let count = |status| nodes.iter().filter(|node| record.status(node) == status).count();
        let (confirmed, failed) = (count(NodeStatus::Confirmed), count(NodeStatus::Failed));
        let is_current = index == record.current_batch && record.mode == Mode::Driver;
        let doing = match index.cmp(&record.current_batch) {
            _ if record.mode == Mode::Clock => String::new(),
            std::cmp::Ordering::Less => "done".into(),
            std::cmp::Ordering::Equal => words::under_way(record, now),
            std::cmp::Ordering::Greater => "waits".into(),
        };
        let bad = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        let mark = if is_current { '>' } else { ' ' };
        let line = format!("{mark} batch {}: {confirmed}/{} confirmed{bad}  {doing}", index + 1, nodes.len());
        lines.push(line.trim_end().to_owned());
    }
    let below = record.batches.len().saturating_sub(first + BATCHES);
    if below > 0 {
        lines.push(format!("  and {below} more"));
    }
    lines.join("\n")
}
