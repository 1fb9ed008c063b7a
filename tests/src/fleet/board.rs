//! A board in memory, and the connections to it: records and reports can get lost, arrive late, or conflict.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Timestamp;
use zagent_config::ids::{NodeId, RolloutId};
use zagent_rollout::board::{BoardError, VersionToken};
use zagent_rollout::driver_logic;
use zagent_rollout::phase::NodeOutcome;
use zagent_rollout::record::{Component, RolloutRecord, RolloutStatus};
use zagent_rollout::records::{Records, Reports, VersionedValue};
use zagent_rollout::report::{NodeActivity, NodeReport};
use zagent_rollout::stored_record::{parse_record, record_text};

use super::dice::Dice;
use super::laws;
use super::scenario::{Ask, Wrong};

/// A rollout on the board.
#[derive(Debug)]
pub struct Entry {
    /// The number of its last write.
    pub token: u64,
    /// The stored record.
    pub record: Rc<RolloutRecord>,
    /// True while it does not exist.
    pub is_gone: bool,
    /// True while it exists and cannot be read.
    pub is_unread: bool,
}

/// What a node that polls the records gets.
#[derive(Debug, Default)]
pub struct Found {
    /// Readable records, the newest first.
    pub records: Vec<Rc<RolloutRecord>>,
    /// Records that exist and cannot be read.
    pub unread: Vec<RolloutId>,
}

/// The whole board.
#[derive(Debug, Default)]
pub struct Board {
    /// Rollouts in the order of their start.
    pub entries: Vec<Entry>,
    /// The last reports of the nodes.
    pub reports: BTreeMap<NodeId, NodeReport>,
    /// The law that a write broke.
    pub broken: Option<String>,
    /// An operator's request between a driver's read and its write.
    pub racing: Option<Ask>,
    /// Number of written records.
    pub writes: u64,
    /// True when records and reports are stored as text, like on a real board.
    pub as_text: bool,
    /// Records that someone else put there: of another fleet, expired, or with too few signatures.
    pub forged: Vec<Rc<RolloutRecord>>,
    /// What nodes get now, and what they got before the last change.
    pub found: [Rc<Found>; 2],
}

impl Board {
    /// The index of an existing rollout.
    fn place(&self, id: &RolloutId) -> Option<usize> {
        self.entries.iter().position(|entry| entry.record.id == *id && !entry.is_gone)
    }

    /// The rollout with that number, counted from the newest.
    #[must_use]
    pub const fn place_from_newest(&self, which: usize) -> usize {
        self.entries.len() - 1 - which % self.entries.len()
    }

    /// What nodes get now, or got before the last change.
    #[must_use]
    pub fn finds(&self, is_stale: bool) -> &Rc<Found> {
        &self.found[usize::from(is_stale)]
    }

    fn changed(&mut self) {
        let there = || self.entries.iter().rev().filter(|entry| !entry.is_gone);
        let records = there().filter(|entry| !entry.is_unread).map(|entry| Rc::clone(&entry.record));
        let records = records.chain(self.forged.iter().cloned()).collect();
        let unread = there().filter(|entry| entry.is_unread).map(|entry| entry.record.id.clone()).collect();
        self.found.swap(0, 1);
        self.found[0] = Rc::new(Found { records, unread });
    }

    /// A record is hidden, unreadable, or readable again.
    pub fn shows(&mut self, place: usize, is_gone: bool, is_unread: bool) {
        (self.entries[place].is_gone, self.entries[place].is_unread) = (is_gone, is_unread);
        self.changed();
    }

    /// A report arrives.
    pub fn hear(&mut self, report: NodeReport) {
        let report = if self.as_text {
            let text = serde_json::to_string(&report).expect("a report is text");
            let read = serde_json::from_str(&text).expect("that text is a report");
            assert_eq!(report, read);
            read
        } else {
            report
        };
        self.reports.insert(report.id.clone(), report);
    }

    fn write(&mut self, mut record: RolloutRecord, expected: Option<u64>) -> Result<u64, BoardError> {
        record = self.stored(record);
        self.writes += 1;
        let token = self.writes;
        let place = self.place(&record.id);
        let known = place.map(|place| self.entries[place].token);
        if known != expected {
            return Err(BoardError::Conflict { key: record.id.to_string() });
        }
        if let Some(place) = place {
            let entry = &mut self.entries[place];
            let broken = laws::of_write(&entry.record, &record);
            self.broken = self.broken.take().or(broken);
            (entry.token, entry.record) = (token, Rc::new(record));
            self.changed();
        } else {
            self.begin(record);
        }
        Ok(token)
    }

    /// The record as the board keeps it.
    fn stored(&self, mut record: RolloutRecord) -> RolloutRecord {
        if self.as_text {
            let text = record_text(&record).expect("a record is text");
            let read = parse_record(&record.id, text.as_bytes()).expect("that text is a record");
            (record.sealed, record.expires) = (read.sealed.clone(), read.expires);
            assert_eq!(record, read);
        }
        record
    }

    /// A new rollout.
    pub fn begin(&mut self, record: RolloutRecord) {
        let record = Rc::new(self.stored(record));
        self.entries.push(Entry { token: self.writes, record, is_gone: false, is_unread: false });
        self.changed();
    }

    /// An operator's request for a rollout.
    pub fn ask(&mut self, place: usize, ask: Ask, now: Timestamp) {
        let Some(Entry { token, record, .. }) = self.entries.get(place).filter(|entry| !entry.is_gone) else {
            return;
        };
        let next = match ask {
            Ask::Pause => driver_logic::pause(record, "an operator looks at it", now).ok(),
            Ask::Resume => driver_logic::resume(record, now).ok(),
            Ask::Abort => Some(driver_logic::abort(record, "an operator aborts it", now)),
        };
        let token = *token;
        if let Some(next) = next.filter(|next| *next != **record) {
            // There was no conflict.
            let _ = self.write(next, Some(token));
        }
    }
}

/// A driver's connection to the board.
pub struct Wire<'a> {
    /// The board.
    pub board: &'a RefCell<Board>,
    /// The generator that decides what gets lost.
    pub dice: &'a RefCell<Dice>,
    /// Lost messages per thousand; all of them with 1000.
    pub loss: u64,
    /// The time for the operator's request in between.
    pub now: Timestamp,
    /// The rule that is broken on purpose.
    pub wrong: Wrong,
}

impl Wire<'_> {
    fn is_lost(&self) -> bool {
        self.dice.borrow_mut().per_mille(self.loss)
    }

    fn unreachable() -> BoardError {
        BoardError::Unreachable { board: "memory".into(), source: "the message was lost".into() }
    }

    /// The record as the driver sees it.
    fn shown(&self, entry: &Entry) -> VersionedValue<RolloutRecord> {
        let mut value = RolloutRecord::clone(&entry.record);
        if self.wrong == Wrong::NoMaxFailed {
            value.max_failed = usize::MAX;
        }
        VersionedValue { value, token: VersionToken(entry.token.to_string()) }
    }
}

impl Records for Wire<'_> {
    fn get(&mut self, id: &RolloutId) -> Result<Option<VersionedValue<RolloutRecord>>, BoardError> {
        if self.is_lost() {
            return Err(Self::unreachable());
        }
        let board = self.board.borrow();
        let Some(entry) = board.place(id).map(|place| &board.entries[place]) else { return Ok(None) };
        if entry.is_unread {
            let message = "it is not a record".into();
            return Err(BoardError::Damaged { key: id.to_string(), message });
        }
        Ok(Some(self.shown(entry)))
    }

    fn put(
        &mut self,
        record: &RolloutRecord,
        expected: Option<&VersionToken>,
        _note: &str,
        _lasting: bool,
    ) -> Result<VersionToken, BoardError> {
        if self.is_lost() {
            return Err(Self::unreachable());
        }
        let mut board = self.board.borrow_mut();
        if let Some(ask) = board.racing.take() {
            let place = board.place_from_newest(0);
            board.ask(place, ask, self.now);
        }
        let mut record = record.clone();
        if let Some(place) = board.place(&record.id) {
            record.max_failed = board.entries[place].record.max_failed;
        }
        if self.wrong == Wrong::NeverAborted && record.state == RolloutStatus::Aborted {
            return Err(BoardError::Conflict { key: record.id.to_string() });
        }
        let token = board.write(record, expected.map(|token| token.0.parse().unwrap_or(u64::MAX)))?;
        if self.is_lost() {
            let source = "the answer was lost".into();
            return Err(BoardError::Unknown { key: "rollout".into(), source });
        }
        Ok(VersionToken(token.to_string()))
    }

    fn list(&mut self) -> Result<Vec<VersionedValue<RolloutRecord>>, BoardError> {
        if self.is_lost() {
            return Err(Self::unreachable());
        }
        let board = self.board.borrow();
        let there = board.entries.iter().filter(|entry| !entry.is_gone && !entry.is_unread);
        Ok(there.map(|entry| self.shown(entry)).collect())
    }

    fn delete(&mut self, _id: &RolloutId, _expected: &VersionToken) -> Result<(), BoardError> {
        Err(BoardError::Refused { board: "memory".into(), message: "deleting is not supported".into() })
    }
}

impl Reports for Wire<'_> {
    fn latest_reports(&mut self, _component: Component) -> Result<BTreeMap<NodeId, NodeReport>, BoardError> {
        if self.is_lost() {
            return Err(Self::unreachable());
        }
        let mut reports = self.board.borrow().reports.clone();
        if self.wrong == Wrong::Credulous {
            for report in reports.values_mut().filter(|report| report.state == NodeActivity::Soaking) {
                report.state = NodeActivity::Idle;
                let taken = report.taken.iter_mut();
                taken.for_each(|taken| taken.outcome = Some(NodeOutcome::Confirmed));
            }
        }
        Ok(reports)
    }

    fn put(&mut self, report: &NodeReport) -> Result<(), BoardError> {
        self.board.borrow_mut().hear(report.clone());
        Ok(())
    }

    fn forget(&mut self, _component: Component, id: &NodeId) -> Result<(), BoardError> {
        self.board.borrow_mut().reports.remove(id);
        Ok(())
    }
}
