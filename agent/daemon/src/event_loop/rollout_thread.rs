//! Thread that reads rollout records and publishes reports to the board, so that they never delay the loop.
//!
//! An unreachable board or record store is reported once and disturbs nothing.

use std::cell::OnceCell;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};

use zagent_config::settings::Settings;
use zagent_rollout::board_stores::{BoardRecords, BoardReports};
use zagent_rollout::records::Reports;
use zagent_rollout::report::NodeReport;

use super::DaemonEvent;
use crate::node_report;
use crate::rollout_state::{self, RolloutState};
use zagent_config::error_chain;

/// Stack for certificate checks.
const STACK_BYTES: usize = 1 << 20;

/// Command for the thread.
enum RolloutCommand {
    Identify,
    Read,
    Publish(Box<NodeReport>),
    SetSettings(Box<Settings>),
}

/// Event from the thread.
#[derive(Debug)]
pub enum RolloutThreadEvent {
    /// Identity of this node.
    Identified(Box<NodeReport>),
    /// Records were read, or the error.
    Read(Result<(), String>),
    /// Report was published, or the error.
    Published(Result<(), String>),
}

/// Records and board, used in their own thread.
#[derive(Debug)]
pub(crate) struct RolloutThread {
    commands: Sender<RolloutCommand>,
    pub(crate) reading: bool,
    pub(crate) publishing: bool,
}

impl RolloutThread {
    /// Starts the thread; its events arrive as [`DaemonEvent::RolloutThread`].
    pub(crate) fn start(settings: Settings, events: Sender<DaemonEvent>) -> io::Result<Self> {
        let (words, heard) = channel();
        let thread = std::thread::Builder::new().name("rollouts".into()).stack_size(STACK_BYTES);
        thread.spawn(move || serve_commands(&heard, settings, &events))?;
        Ok(Self { commands: words, reading: false, publishing: false })
    }

    /// Requests the identity of this node.
    pub(crate) fn identify(&self) {
        let _ = self.commands.send(RolloutCommand::Identify);
    }

    /// Reads the records, unless a read is running.
    pub(crate) fn request_read(&mut self) {
        if !self.reading {
            self.reading = self.commands.send(RolloutCommand::Read).is_ok();
        }
    }

    /// Publishes a report, unless one is being published.
    pub(crate) fn publish(&mut self, report: NodeReport) {
        if !self.publishing {
            self.publishing = self.commands.send(RolloutCommand::Publish(Box::new(report))).is_ok();
        }
    }

    /// Changes the settings.
    pub(crate) fn set_settings(&self, settings: Settings) {
        // The thread ends only with the program.
        let _ = self.commands.send(RolloutCommand::SetSettings(Box::new(settings)));
    }
}

/// Stores, opened on first use and reopened after an error.
struct NodeStores {
    settings: Settings,
    me: OnceCell<NodeReport>,
    records: Option<BoardRecords>,
    reports: Option<BoardReports>,
}

impl NodeStores {
    const fn new(settings: Settings) -> Self {
        Self { settings, me: OnceCell::new(), records: None, reports: None }
    }

    /// Report of this node; built on first use.
    fn own_report(&self) -> &NodeReport {
        self.me.get_or_init(|| node_report::base_report(&self.settings))
    }

    fn read_records(&mut self) -> Result<(), String> {
        if self.records.is_none() {
            self.records = node_report::open_records(&self.settings).map_err(|error| error_chain(&error))?;
        }
        let all = rollout_state::read_records(self.records.as_mut()).map_err(|error| error_chain(&error));
        if all.is_err() {
            self.records = None;
        }
        let (paths, all) = (self.settings.paths(), all?);
        if RolloutState::is_news(&paths, &all) {
            RolloutState::store_records(&paths, all, self.own_report())
                .map_err(|error| error_chain(&error))?;
        }
        Ok(())
    }

    fn publish_report(&mut self, report: &NodeReport) -> Result<(), String> {
        if self.reports.is_none() {
            self.reports = BoardReports::open(&self.settings).map_err(|error| error_chain(&error))?;
        }
        let Some(reports) = &mut self.reports else { return Ok(()) };
        let told = reports.put(report).map_err(|error| error_chain(&error));
        if told.is_err() {
            self.reports = None;
        }
        told
    }
}

fn serve_commands(words: &Receiver<RolloutCommand>, settings: Settings, events: &Sender<DaemonEvent>) {
    let mut places = NodeStores::new(settings);
    for word in words {
        let heard = match word {
            RolloutCommand::SetSettings(settings) => {
                places = NodeStores::new(*settings);
                continue;
            }
            RolloutCommand::Identify => RolloutThreadEvent::Identified(Box::new(places.own_report().clone())),
            RolloutCommand::Read => RolloutThreadEvent::Read(catch_panic(|| places.read_records())),
            RolloutCommand::Publish(report) => {
                RolloutThreadEvent::Published(catch_panic(|| places.publish_report(&report)))
            }
        };
        if events.send(DaemonEvent::Rollouts(heard)).is_err() {
            return;
        }
    }
}

/// After a panic the loop must still get a result, or it would never ask again.
fn catch_panic(act: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    std::panic::catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err("it crashed; the lines above show where".into()))
}
