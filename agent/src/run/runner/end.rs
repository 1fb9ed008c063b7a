//! The end of a run: those who listen react, one after the other.

use std::borrow::Cow;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use jiff::Timestamp;
use zagent_compiler::Chunk;
use zagent_config::Map;

use super::close::Entry;
use super::pool::Message;
use super::{Halt, Runner};
use crate::run::Mode;
use crate::run::converge::{Ended, How, Reacts, Shadow, Task};
use crate::run::listen::{self, Changed, Listener};
use crate::run::slot;
use crate::states::Done;

impl Runner<'_, '_> {
    /// At the end, those who listen react, one after the other.
    pub(super) fn listeners(&mut self, inbox: &Receiver<Message>) {
        let stopped = matches!(self.halt, Some(Halt::Cancelled | Halt::GivenUp));
        if stopped || !listen::listens(self.stage.plan) {
            return;
        }
        let marks = std::mem::take(&mut self.marks);
        let all = listen::listeners(self.stage.plan, |i| match marks[i] {
            Some(mark) if mark.unknown => Changed::Perhaps,
            Some(mark) if mark.changed => Changed::Yes,
            _ => Changed::No,
        });
        let level = self.outcomes.iter().map(|o| o.level + 1).max().unwrap_or(0);
        for listener in all {
            match listener {
                Listener::Reacts(chunk, Changed::Yes) => self.listener(*chunk, level, inbox),
                Listener::Reacts(mut chunk, _) => {
                    chunk.fun = "mod_watch".into();
                    let ended = Ended::unknown("it listens for a state that nobody can foresee");
                    let tag = chunk.tag();
                    self.report(&chunk, Entry { tag, number: None, ended, skip: None, level });
                }
                Listener::Missing { state, id } => {
                    let text = format!("Referenced state {state}: {id} does not exist");
                    let mut chunk =
                        Chunk::single("Listen_Error", "Listen_Error", &format!("listen_{state}"), Map::new());
                    chunk.id = format!("listen_{id}").into();
                    let tag = chunk.tag();
                    chunk.name = format!("listen_{state}:{id}").into();
                    let ended = Ended::new(Some(false), Done::new(text, Map::new()));
                    self.report(&chunk, Entry { tag, number: None, ended, skip: None, level });
                }
            }
        }
    }

    pub(super) fn listener(&mut self, chunk: Chunk, level: usize, inbox: &Receiver<Message>) {
        if self.stage.cancel.is_said() {
            self.halt = Some(Halt::Cancelled);
            return;
        }
        let mut shown = chunk.clone();
        shown.fun = "mod_watch".into();
        let tag = shown.tag();
        let how = if self.settings.mode == Mode::Test { How::Foresee } else { How::Apply };
        let task = Task {
            index: usize::MAX,
            chunk: Cow::Owned(slot::fill(&chunk, self.stage.host).into_owned()),
            tag: tag.clone(),
            state: None,
            looked: None,
            how,
            react: Reacts::Yes,
            listener: true,
            shadow: Shadow::default(),
            start: Timestamp::now(),
            begun: Instant::now(),
        };
        self.stage.watcher.started(self.stage.plan.chunks.len(), &tag);
        self.pool.give(task, None);
        let ended = loop {
            if let Some((_, _, _, ended)) = self.hear(inbox) {
                break ended;
            }
        };
        self.report(&shown, Entry { tag, number: None, ended, skip: None, level });
    }
}
