//! Everything that waits for a network, on threads of its own; what comes of it are events.
//!
//! Law: the loop never waits for any of this. At most one poll or one publication is under way, and one fetch. Each of them is
//! answered, also when it falls over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};

use zagent_config::ids::RolloutId;

use super::{Event, words};
use crate::artifact::select;
use crate::board::BoardError;
use crate::record::{Artifact, Record};
use crate::report::Report;
use crate::slots::Slots;

/// The rollouts and the board, as this node reaches them.
pub trait Link: Send {
    /// All records that there are.
    ///
    /// # Errors
    /// Fails when nobody answers.
    fn poll(&mut self) -> Result<Vec<Record>, BoardError>;

    /// The rollouts whose records are there and could not be read at the last poll.
    fn unread(&self) -> Vec<RolloutId> {
        Vec::new()
    }

    /// Shows a report to whoever looks at the board; nothing when there is none.
    ///
    /// # Errors
    /// Fails when the board does not take it.
    fn publish(&mut self, report: &Report) -> Result<(), BoardError>;
}

/// Makes a link, from the configuration as it is now.
pub type Connect = Box<dyn FnMut() -> Result<Box<dyn Link>, String> + Send>;

/// Fetches binaries.
pub trait Fetch: Send + Sync {
    /// Fetches one into a file that is not there yet, and verifies size, digest and signature. It ends soon after `stop` is set.
    ///
    /// # Errors
    /// Fails when it cannot be fetched or is not what it should be.
    fn fetch(
        &self,
        record: &Record,
        artifact: &Artifact,
        into: &Path,
        stop: &AtomicBool,
    ) -> Result<(), Unfetched>;
}

/// Why there is no binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfetched {
    /// In words.
    pub why: String,
    /// True when the next try may go well: nobody answered.
    pub passing: bool,
}

impl Unfetched {
    /// It will not go better next time.
    #[must_use]
    pub fn for_good(why: String) -> Self {
        Self { why, passing: false }
    }
}

/// Says whether the agent is ready.
pub trait Readiness: Send + Sync {
    /// Asks it.
    ///
    /// # Errors
    /// Why it is not, in words.
    fn ready(&self) -> Result<(), String>;
}

/// What a poll found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) records: Vec<Record>,
    /// Rollouts whose records are there and cannot be read.
    pub(super) unread: Vec<RolloutId>,
}

enum Task {
    Poll,
    Publish(Box<Report>),
    Reconnect,
}

/// The thread that talks to the board.
pub(super) struct Net {
    tasks: Sender<Task>,
    busy: bool,
}

impl Net {
    pub(super) fn start(connect: Connect, events: Sender<Event>) -> std::io::Result<Self> {
        let (tasks, heard) = channel();
        std::thread::Builder::new().name("board".into()).spawn(move || serve(connect, &heard, &events))?;
        Ok(Self { tasks, busy: false })
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    /// The answer to the last task has come.
    pub(super) const fn answered(&mut self) {
        self.busy = false;
    }

    pub(super) fn poll(&mut self) {
        self.busy = self.tasks.send(Task::Poll).is_ok();
    }

    pub(super) fn publish(&mut self, report: Report) {
        self.busy = self.tasks.send(Task::Publish(Box::new(report))).is_ok();
    }

    /// The configuration may be another: the next task begins with a new link.
    pub(super) fn reconnect(&self) {
        // Without the thread there is nothing to connect.
        let _ = self.tasks.send(Task::Reconnect);
    }
}

fn serve(mut connect: Connect, tasks: &Receiver<Task>, events: &Sender<Event>) {
    let mut link: Option<Box<dyn Link>> = None;
    while let Ok(task) = tasks.recv() {
        let event = match task {
            Task::Poll => Event::Polled(standing(|| {
                let mut there = link.take().map_or_else(&mut connect, Ok)?;
                let polled = there.poll().map_err(|error| words(&error));
                let unread = there.unread();
                link = Some(there);
                polled.map(|records| Found { records, unread })
            })),
            Task::Publish(report) => Event::Published(standing(|| {
                let mut there = link.take().map_or_else(&mut connect, Ok)?;
                let published = there.publish(&report).map_err(|error| words(&error));
                link = Some(there);
                published
            })),
            Task::Reconnect => {
                link = None;
                continue;
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// Does something and answers, also when it falls over: whoever waits for the answer must not wait for ever.
fn standing<T>(act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err("a fault inside zagent stopped it".into()))
}

/// What one fetch needs.
pub(super) struct Errand {
    pub(super) to: String,
    pub(super) record: Record,
    pub(super) machine: (String, String),
    pub(super) slots: Slots,
    pub(super) fetch: Arc<dyn Fetch>,
    pub(super) stop: Arc<AtomicBool>,
}

impl Errand {
    /// Fetches and installs on a thread of its own.
    pub(super) fn start(self, events: Sender<Event>) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name("fetch".into());
        thread.spawn(move || drop(events.send(Event::Fetched(self.answer())))).map(drop)
    }

    fn answer(&self) -> Result<(), Unfetched> {
        standing(|| Ok(self.carry_out())).unwrap_or_else(|why| Err(Unfetched::for_good(why)))
    }

    fn carry_out(&self) -> Result<(), Unfetched> {
        let (os, arch) = (&self.machine.0, &self.machine.1);
        let artifact = select(&self.record.artifacts, os, arch).map_err(|error| for_good(&error))?;
        if self.slots.holds(&self.to, &artifact.blake3) {
            return Ok(());
        }
        let file = self.slots.incoming().map_err(|error| for_good(&error))?;
        self.fetch.fetch(&self.record, artifact, &file, &self.stop)?;
        let source = artifact.url.as_ref().or(artifact.reference.as_ref()).map_or("", String::as_str);
        self.slots.install(&self.to, &file, &artifact.blake3, source).map_err(|error| for_good(&error))
    }
}

fn for_good(error: &dyn std::error::Error) -> Unfetched {
    Unfetched::for_good(words(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Falls;

    impl Link for Falls {
        fn poll(&mut self) -> Result<Vec<Record>, BoardError> {
            panic!("it falls over");
        }

        fn publish(&mut self, _: &Report) -> Result<(), BoardError> {
            Ok(())
        }
    }

    #[test]
    fn what_falls_over_is_answered_and_the_next_task_is_done() {
        let (events, heard) = channel();
        let mut net = Net::start(Box::new(|| Ok(Box::new(Falls))), events).unwrap();
        for _ in 0..2 {
            net.poll();
            let Ok(Event::Polled(Err(why))) = heard.recv() else { panic!("no answer") };
            assert!(why.contains("a fault inside zagent"), "{why}");
        }
    }
}
