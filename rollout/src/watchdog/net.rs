//! All network operations, on separate threads; their results are events.
//!
//! Law: the loop never waits for any of this. At most one poll or one publication runs at a time, and one fetch. Each
//! of them reports a result, even after a panic (held by `a_task_that_panics_reports_and_the_next_one_runs`).

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
    /// All present records.
    ///
    /// # Errors
    /// Fails when there is no answer.
    fn poll(&mut self) -> Result<Vec<RolloutRecord>, BoardError>;

    /// The rollouts whose records exist and could not be read at the last poll.
    fn unreadable(&self) -> Vec<RolloutId> {
        Vec::new()
    }

    /// Publishes a report on the board; does nothing when there is no board.
    ///
    /// # Errors
    /// Fails when the board does not accept it.
    fn publish(&mut self, report: &NodeReport) -> Result<(), BoardError>;
}

/// Creates a connection, from the present configuration.
pub type ConnectLink = Box<dyn FnMut() -> Result<Box<dyn RolloutLink>, String> + Send>;

/// Fetches binaries.
pub trait FetchBinary: Send + Sync {
    /// Fetches one into a file that does not exist yet, and verifies size, digest and signature. Stops soon after
    /// `stop` is set.
    ///
    /// # Errors
    /// Fails when it cannot be fetched or does not match.
    fn fetch(
        &self,
        record: &RolloutRecord,
        artifact: &Artifact,
        into: &Path,
        stop: &AtomicBool,
    ) -> Result<(), FetchFailure>;
}

/// Why a binary could not be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchFailure {
    /// The message.
    pub why: String,
    /// True when the next try may work: there was no answer.
    pub transient: bool,
}

impl FetchFailure {
    /// A permanent error.
    #[must_use]
    pub fn permanent(why: String) -> Self {
        Self { why, transient: false }
    }
}

/// Checks whether the agent is ready.
pub trait Readiness: Send + Sync {
    /// Runs the check.
    ///
    /// # Errors
    /// Why it is not ready, as a message.
    fn ready(&self) -> Result<(), String>;
}

/// The result of a poll.
#[derive(Debug)]
pub(super) struct PolledRecords {
    pub(super) records: Vec<RolloutRecord>,
    /// Rollouts whose records exist and cannot be read.
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

    /// The last task has finished.
    pub(super) const fn task_done(&mut self) {
        self.busy = false;
    }

    pub(super) fn poll(&mut self) {
        self.busy = self.tasks.send(NetTask::Poll).is_ok();
    }

    pub(super) fn publish(&mut self, report: NodeReport) {
        self.busy = self.tasks.send(NetTask::Publish(Box::new(report))).is_ok();
    }

    /// The configuration may have changed: the next task starts with a new connection.
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

/// Runs a task and reports its result, even after a panic: the receiver must not wait forever.
fn catch_panic<T>(act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err("an internal error in zagent stopped it".into()))
}

/// The input of one fetch.
pub(super) struct NetJob {
    pub(super) to: String,
    pub(super) record: RolloutRecord,
    pub(super) machine: (String, String),
    pub(super) slots: Slots,
    pub(super) fetch: Arc<dyn FetchBinary>,
    pub(super) stop: Arc<AtomicBool>,
}

impl NetJob {
    /// Fetches and installs on a separate thread.
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
    fn a_task_that_panics_reports_and_the_next_one_runs() {
        let (events, heard) = channel();
        let mut net = NetThread::start(Box::new(|| Ok(Box::new(Falls))), events).unwrap();
        for _ in 0..2 {
            net.poll();
            let Ok(WatchdogEvent::Polled(Err(why))) = heard.recv() else { panic!("no answer") };
            assert!(why.contains("an internal error in zagent"), "{why}");
        }
    }
}
