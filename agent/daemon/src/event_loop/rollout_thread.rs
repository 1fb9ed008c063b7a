//! The thread that reads the records of rollouts and tells the board how this node does: nothing of that holds the loop up.
//!
//! Law: a board or a place of records that cannot be reached is told once and disturbs nothing.

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
use crate::rollout_state::RolloutState;
use zagent_config::error_chain;

/// Certificates are checked on this stack.
const STACK_BYTES: usize = 1 << 20;

/// A word to the thread.
enum RolloutCommand {
    Identify,
    Read,
    Publish(Box<NodeReport>),
    SetSettings(Box<Settings>),
}

/// What the thread has to say.
#[derive(Debug)]
pub enum RolloutThreadEvent {
    /// Who this node is.
    Identified(Box<NodeReport>),
    /// The records were read, or why not.
    Read(Result<(), String>),
    /// The board was told, or why not.
    Published(Result<(), String>),
}

/// The records and the board, asked in a thread of their own.
#[derive(Debug)]
pub struct RolloutThread {
    commands: Sender<RolloutCommand>,
    pub reading: bool,
    pub publishing: bool,
}

impl RolloutThread {
    /// Starts the thread; what it says comes as [`DaemonEvent::RolloutThread`].
    pub fn start(settings: Settings, events: Sender<DaemonEvent>) -> io::Result<Self> {
        let (words, heard) = channel();
        let thread = std::thread::Builder::new().name("rollouts".into()).stack_size(STACK_BYTES);
        thread.spawn(move || serve_commands(&heard, settings, &events))?;
        Ok(Self { commands: words, reading: false, publishing: false })
    }

    /// Asks who this node is.
    pub fn identify(&self) {
        let _ = self.commands.send(RolloutCommand::Identify);
    }

    /// Reads the records, unless they are being read.
    pub fn request_read(&mut self) {
        if !self.reading {
            self.reading = self.commands.send(RolloutCommand::Read).is_ok();
        }
    }

    /// Tells the board, unless it is being told.
    pub fn publish(&mut self, report: NodeReport) {
        if !self.publishing {
            self.publishing = self.commands.send(RolloutCommand::Publish(Box::new(report))).is_ok();
        }
    }

    /// The settings are others from now on.
    pub fn set_settings(&self, settings: Settings) {
        // The thread ends with the program only.
        let _ = self.commands.send(RolloutCommand::SetSettings(Box::new(settings)));
    }
}

/// What is asked, opened when it is first needed and again after trouble.
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

    /// Who this node is; looked for when somebody wants to know.
    fn own_report(&self) -> &NodeReport {
        self.me.get_or_init(|| node_report::base_report(&self.settings))
    }

    fn read_records(&mut self) -> Result<(), String> {
        if self.records.is_none() {
            self.records = node_report::open_records(&self.settings).map_err(|error| error_chain(&error))?;
        }
        let Some(records) = &mut self.records else { return Ok(()) };
        let all = node_report::read_records(records).map_err(|error| error_chain(&error));
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

/// Whatever falls over in there, the loop must hear an answer or it would never ask again.
fn catch_panic(act: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    std::panic::catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err("it fell over; the lines above say where".into()))
}
