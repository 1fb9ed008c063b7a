//! The thread that reads the records of rollouts and tells the board how this node does: nothing of that holds the loop up.
//!
//! Law: a board or a place of records that cannot be reached is told once and disturbs nothing.

use std::cell::OnceCell;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};

use zagent_config::settings::Settings;
use zagent_rollout::records::Reports;
use zagent_rollout::report::Report;
use zagent_rollout::stores::{BoardRecords, BoardReports};

use super::Event;
use crate::cycle::course::Course;
use crate::cycle::me;
use crate::report::chain;

/// Certificates are checked on this stack.
const STACK: usize = 1 << 20;

/// A word to the thread.
enum Word {
    Meet,
    Read,
    Tell(Box<Report>),
    Others(Box<Settings>),
}

/// What the thread has to say.
#[derive(Debug)]
pub(super) enum Heard {
    /// Who this node is.
    Me(Box<Report>),
    /// The records were read, or why not.
    Read(Result<(), String>),
    /// The board was told, or why not.
    Told(Result<(), String>),
}

/// The records and the board, asked in a thread of their own.
#[derive(Debug)]
pub(super) struct Rollouts {
    words: Sender<Word>,
    pub(super) reading: bool,
    pub(super) telling: bool,
}

impl Rollouts {
    /// Starts the thread; what it says comes as [`Event::Rollouts`].
    pub(super) fn start(settings: Settings, events: Sender<Event>) -> io::Result<Self> {
        let (words, heard) = channel();
        let thread = std::thread::Builder::new().name("rollouts".into()).stack_size(STACK);
        thread.spawn(move || listen(&heard, settings, &events))?;
        Ok(Self { words, reading: false, telling: false })
    }

    /// Asks who this node is.
    pub(super) fn meet(&self) {
        let _ = self.words.send(Word::Meet);
    }

    /// Reads the records, unless they are being read.
    pub(super) fn read(&mut self) {
        if !self.reading {
            self.reading = self.words.send(Word::Read).is_ok();
        }
    }

    /// Tells the board, unless it is being told.
    pub(super) fn tell(&mut self, report: Report) {
        if !self.telling {
            self.telling = self.words.send(Word::Tell(Box::new(report))).is_ok();
        }
    }

    /// The settings are others from now on.
    pub(super) fn change(&self, settings: Settings) {
        // The thread ends with the program only.
        let _ = self.words.send(Word::Others(Box::new(settings)));
    }
}

/// What is asked, opened when it is first needed and again after trouble.
struct Places {
    settings: Settings,
    me: OnceCell<Report>,
    records: Option<BoardRecords>,
    reports: Option<BoardReports>,
}

impl Places {
    const fn new(settings: Settings) -> Self {
        Self { settings, me: OnceCell::new(), records: None, reports: None }
    }

    /// Who this node is; looked for when somebody wants to know.
    fn me(&self) -> &Report {
        self.me.get_or_init(|| me::report(&self.settings))
    }

    fn read(&mut self) -> Result<(), String> {
        if self.records.is_none() {
            self.records = me::records(&self.settings).map_err(|error| chain(&error))?;
        }
        let Some(records) = &mut self.records else { return Ok(()) };
        let all = me::read(records).map_err(|error| chain(&error));
        if all.is_err() {
            self.records = None;
        }
        let (paths, all) = (self.settings.paths(), all?);
        if Course::is_news(&paths, &all) {
            Course::take_over(&paths, all, self.me()).map_err(|error| chain(&error))?;
        }
        Ok(())
    }

    fn tell(&mut self, report: &Report) -> Result<(), String> {
        if self.reports.is_none() {
            self.reports = BoardReports::open(&self.settings).map_err(|error| chain(&error))?;
        }
        let Some(reports) = &mut self.reports else { return Ok(()) };
        let told = reports.put(report).map_err(|error| chain(&error));
        if told.is_err() {
            self.reports = None;
        }
        told
    }
}

fn listen(words: &Receiver<Word>, settings: Settings, events: &Sender<Event>) {
    let mut places = Places::new(settings);
    for word in words {
        let heard = match word {
            Word::Others(settings) => {
                places = Places::new(*settings);
                continue;
            }
            Word::Meet => Heard::Me(Box::new(places.me().clone())),
            Word::Read => Heard::Read(guarded(|| places.read())),
            Word::Tell(report) => Heard::Told(guarded(|| places.tell(&report))),
        };
        if events.send(Event::Rollouts(heard)).is_err() {
            return;
        }
    }
}

/// Whatever falls over in there, the loop must hear an answer or it would never ask again.
fn guarded(act: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    std::panic::catch_unwind(AssertUnwindSafe(act))
        .unwrap_or_else(|_| Err("it fell over; the lines above say where".into()))
}
