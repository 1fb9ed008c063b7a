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

use super::{WatchdogEvent, error_chain};
use crate::artifact::select_artifact;
use crate::board::BoardError;
use crate::record::{Artifact, RolloutRecord};
use crate::report::NodeReport;
use crate::slots::Slots;

/// The rollouts and the board, as this node reaches them.
pub trait RolloutLink: Send {
    /// All records that there are.
    ///
    /// # Errors
    /// Fails when nobody answers.
    fn poll(&mut self) -> Result<Vec<RolloutRecord>, BoardError>;

    /// The rollouts whose records are there and could not be read at the last poll.
    fn unreadable(&self) -> Vec<RolloutId> {
        Vec::new()
    }

    /// Shows a report to whoever looks at the board; nothing when there is none.
    ///
    /// # Errors
    /// Fails when the board does not take it.
    fn publish(&mut self, report: &NodeReport) -> Result<(), BoardError>;
}

/// Makes a link, from the configuration as it is now.
pub type ConnectLink = Box<dyn FnMut() -> Result<Box<dyn RolloutLink>, String> + Send>;

/// Fetches binaries.
pub trait FetchBinary: Send + Sync {
    /// Fetches one into a file that does not exist yet, and verifies size, digest and signature. It ends soon after `stop` is set.
    ///
    /// # Errors
    /// Fails when it cannot be fetched or is not what it should be.
    fn fetch(
        &self,
        record: &RolloutRecord,
        artifact: &Artifact,
        into: &Path,
        stop: &AtomicBool,
    ) -> Result<(), FetchFailure>;
}

/// Why there is no binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchFailure {
    /// In words.
    pub why: String,
    /// True when the next try may go well: nobody answered.
    pub transient: bool,
}

impl FetchFailure {
    /// It will not go better next time.
    #[must_use]
    pub fn permanent(why: String) -> Self {
        Self { why, transient: false }
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
pub(super) struct PolledRecords {
    pub(super) records: Vec<RolloutRecord>,
    /// Rollouts whose records are there and cannot be read.
    pub(super) unread: Vec<RolloutId>,
}

enum NetTask {
    Poll,
    Publish(Box<NodeReport>),
    Reconnect,
}

/// The thread that talks to the board.
pub(super) struct NetThread {
    tasks: Sender<NetTask>,
    busy: bool,
}

impl NetThread {
    pub(super) fn start(connect: ConnectLink, events: Sender<WatchdogEvent>) -> std::io::Result<Self> {
        let (tasks, heard) = channel();
        std::thread::Builder::new()
            .name("board".into())
            .spawn(move || run_tasks(connect, &heard, &events))?;
        Ok(Self { tasks, busy: false })
    }

    pub(super) const fn is_busy(&self) -> bool {
        self.busy
    }

    /// The answer to the last task has come.
    pub(super) const fn task_done(&mut self) {
        self.busy = false;
    }

    pub(super) fn poll(&mut self) {
        self.busy = self.tasks.send(NetTask::Poll).is_ok();
    }

    pub(super) fn publish(&mut self, report: NodeReport) {
        self.busy = self.tasks.send(NetTask::Publish(Box::new(report))).is_ok();
    }

    /// The configuration may be another: the next task begins with a new link.
    pub(super) fn reconnect(&self) {
        // Without the thread there is nothing to connect.
        let _ = self.tasks.send(NetTask::Reconnect);
    }
}

fn run_tasks(mut connect: ConnectLink, tasks: &Receiver<NetTask>, events: &Sender<WatchdogEvent>) {
    let mut link: Option<Box<dyn RolloutLink>> = None;
    while let Ok(task) = tasks.recv() {
        let event = match task {
            NetTask::Poll => WatchdogEvent::Polled(catch_panic(|| {
                let mut there = link.take().map_or_else(&mut connect, Ok)?;
                let polled = there.poll().map_err(|error| error_chain(&error));
                let unread = there.unreadable();
                link = Some(there);
                polled.map(|records| PolledRecords { records, unread })
            })),
            NetTask::Publish(report) => WatchdogEvent::Published(catch_panic(|| {
                let mut there = link.take().map_or_else(&mut connect, Ok)?;
                let published = there.publish(&report).map_err(|error| error_chain(&error));
                link = Some(there);
                published
            })),
            NetTask::Reconnect => {
                link = None;
                continue;
            }
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// Does something and answers, also when it falls over: whoever waits for the answer must not wait forever.
fn catch_panic<T>(act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err("an internal error in zagent stopped it".into()))
}

/// What one fetch needs.
pub(super) struct NetJob {
    pub(super) to: String,
    pub(super) record: RolloutRecord,
    pub(super) machine: (String, String),
    pub(super) slots: Slots,
    pub(super) fetch: Arc<dyn FetchBinary>,
    pub(super) stop: Arc<AtomicBool>,
}

impl NetJob {
    /// Fetches and installs on a thread of its own.
    pub(super) fn start(self, events: Sender<WatchdogEvent>) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name("fetch".into());
        thread.spawn(move || drop(events.send(WatchdogEvent::Fetched(self.fetch_guarded())))).map(drop)
    }

    fn fetch_guarded(&self) -> Result<(), FetchFailure> {
        catch_panic(|| Ok(self.fetch_and_install())).unwrap_or_else(|why| Err(FetchFailure::permanent(why)))
    }

    fn fetch_and_install(&self) -> Result<(), FetchFailure> {
        let (os, arch) = (&self.machine.0, &self.machine.1);
        let artifact =
            select_artifact(&self.record.artifacts, os, arch).map_err(|error| permanent_failure(&error))?;
        if self.slots.contains(&self.to, &artifact.blake3) {
            return Ok(());
        }
        let file = self.slots.incoming_path().map_err(|error| permanent_failure(&error))?;
        self.fetch.fetch(&self.record, artifact, &file, &self.stop)?;
        let source = artifact.url.as_ref().or(artifact.reference.as_ref()).map_or("", String::as_str);
        self.slots
            .install(&self.to, &file, &artifact.blake3, source)
            .map_err(|error| permanent_failure(&error))
    }
}

fn permanent_failure(error: &dyn std::error::Error) -> FetchFailure {
    FetchFailure::permanent(error_chain(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Falls;

    impl RolloutLink for Falls {
        fn poll(&mut self) -> Result<Vec<RolloutRecord>, BoardError> {
            panic!("it falls over");
        }

        fn publish(&mut self, _: &NodeReport) -> Result<(), BoardError> {
            Ok(())
        }
    }

    #[test]
    fn what_falls_over_is_answered_and_the_next_task_is_done() {
        let (events, heard) = channel();
        let mut net = NetThread::start(Box::new(|| Ok(Box::new(Falls))), events).unwrap();
        for _ in 0..2 {
            net.poll();
            let Ok(WatchdogEvent::Polled(Err(why))) = heard.recv() else { panic!("no answer") };
            assert!(why.contains("an internal error in zagent"), "{why}");
        }
    }
}
