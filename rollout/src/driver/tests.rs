//! Turns on records in memory that lose, forget and refuse.

use std::collections::{BTreeMap, VecDeque};

use zagent_config::ids::NodeId;

use super::*;
use crate::drive::tests::{at, id, record, says};
use crate::phase::Outcome;
use crate::record::{BatchPhase, Component};
use crate::report::{Doing, Report};

/// What the next write does.
enum Fault {
    /// Somebody else's record is there first.
    Lose(Box<Record>),
    /// It is written, and the answer gets lost.
    WrittenUnknown,
    /// It is not written, and the answer gets lost.
    UnwrittenUnknown,
    /// The place is not there.
    Unreachable,
    /// It calls it a lost race, and nobody has written.
    Locked,
}

#[derive(Default)]
struct Memory {
    all: BTreeMap<RolloutId, (Record, u64)>,
    faults: VecDeque<Fault>,
    notes: Vec<(String, bool)>,
}

fn unreachable() -> BoardError {
    BoardError::Unreachable { board: "memory".to_owned(), source: "it is down".into() }
}

impl Memory {
    fn of(record: Record) -> Self {
        let mut memory = Self::default();
        memory.set(record);
        memory
    }

    fn set(&mut self, record: Record) -> Token {
        let version = self.all.get(&record.id).map_or(0, |(_, version)| version + 1);
        self.all.insert(record.id.clone(), (record, version));
        Token(version.to_string())
    }

    fn only(&self) -> &Record {
        &self.all.values().next().unwrap().0
    }
}

impl Records for Memory {
    fn get(&mut self, id: &RolloutId) -> Result<Option<Held<Record>>, BoardError> {
        let held = |(record, version): &(Record, u64)| Held {
            value: record.clone(),
            token: Token(version.to_string()),
        };
        Ok(self.all.get(id).map(held))
    }

    fn put(
        &mut self,
        record: &Record,
        expected: Option<&Token>,
        note: &str,
        lasting: bool,
    ) -> Result<Token, BoardError> {
        let key = || record.id.to_string();
        let unknown = || BoardError::Unknown { key: key(), source: "timeout".into() };
        match self.faults.pop_front() {
            Some(Fault::Unreachable) => return Err(unreachable()),
            Some(Fault::Locked) => return Err(BoardError::Conflict { key: key() }),
            Some(Fault::UnwrittenUnknown) => return Err(unknown()),
            Some(Fault::WrittenUnknown) => {
                self.set(record.clone());
                return Err(unknown());
            }
            Some(Fault::Lose(other)) => {
                self.set(*other);
            }
            None => {}
        }
        let there = self.get(&record.id)?.map(|held| held.token);
        if there.as_ref() != expected {
            return Err(BoardError::Conflict { key: key() });
        }
        self.notes.push((note.to_owned(), lasting));
        Ok(self.set(record.clone()))
    }

    fn list(&mut self) -> Result<Vec<Held<Record>>, BoardError> {
        let ids: Vec<RolloutId> = self.all.keys().cloned().collect();
        Ok(ids.iter().filter_map(|id| self.get(id).ok().flatten()).collect())
    }

    fn delete(&mut self, id: &RolloutId, _expected: &Token) -> Result<(), BoardError> {
        self.all.remove(id);
        Ok(())
    }
}

#[derive(Default)]
struct Said(BTreeMap<NodeId, Report>, bool);

impl Reports for Said {
    fn all(&mut self, _component: Component) -> Result<BTreeMap<NodeId, Report>, BoardError> {
        if self.1 { Err(unreachable()) } else { Ok(self.0.clone()) }
    }

    fn put(&mut self, report: &Report) -> Result<(), BoardError> {
        self.0.insert(report.id.clone(), report.clone());
        Ok(())
    }

    fn forget(&mut self, _component: Component, id: &NodeId) -> Result<(), BoardError> {
        self.0.remove(id);
        Ok(())
    }
}

fn turn(records: &mut Memory, reports: &mut Said, me: &str, seconds: i64) -> Result<Turn, DriveError> {
    Driver { id: me.to_owned(), records, reports }.turn(&id("r1"), at(seconds))
}

fn goes(turn: Result<Turn, DriveError>) -> Record {
    match turn {
        Ok(Turn::Goes { record, .. }) => record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn turns_move_a_rollout_and_leave_a_log() {
    let (mut records, mut reports) = (Memory::of(record(&[&["a"]])), Said::default());
    goes(turn(&mut records, &mut reports, "one", 0));
    goes(turn(&mut records, &mut reports, "one", 2));
    goes(turn(&mut records, &mut reports, "one", 8));
    reports.put(&says("a", Doing::Staged, None, at(9))).unwrap();
    goes(turn(&mut records, &mut reports, "one", 9));
    reports.put(&says("a", Doing::Idle, Some(Outcome::Confirmed), at(10))).unwrap();
    assert!(
        matches!(turn(&mut records, &mut reports, "one", 10), Ok(Turn::Over(r)) if r.state == State::Completed)
    );
    let log: Vec<(&str, bool)> =
        records.notes.iter().map(|(note, lasting)| (note.lines().next().unwrap(), *lasting)).collect();
    let wanted = [
        ("batch 1 of 1: prepare (a)", true),
        ("heartbeat of one", false),
        ("batch 1 of 1: apply (a)", true),
        ("completed: 1 confirmed, 0 failed, 0 silent", true),
    ];
    assert_eq!(log, wanted);
    assert!(records.notes[0].0.ends_with("\n\none drives: 1 nodes in 1 batches\nbatch 1 of 1: prepare (a)"));
    assert_eq!(records.only().serial, 5);
    assert!(matches!(turn(&mut records, &mut reports, "two", 999), Ok(Turn::Over(_))));
}

#[test]
fn who_loses_reads_again_and_steps_aside_where_another_drives() {
    let mut reports = Said::default();
    let theirs = drive::step(&record(&[&["a"]]), &BTreeMap::new(), "two", at(0)).record;
    let mut records = Memory::of(record(&[&["a"]]));
    records.faults.push_back(Fault::Lose(Box::new(theirs.clone())));
    let lost = turn(&mut records, &mut reports, "one", 1).unwrap();
    assert_eq!(lost, Turn::SteppedAside { driver: "two".to_owned() });
    assert_eq!(records.only(), &theirs);
    // An abort that came between is seen, and finished.
    let mut records = Memory::of(theirs.clone());
    records.faults.push_back(Fault::Lose(Box::new(drive::abort(&theirs, "stop", at(9)))));
    assert!(
        matches!(turn(&mut records, &mut reports, "two", 10), Ok(Turn::Over(r)) if r.state == State::Aborted)
    );
    assert_eq!(records.only().reason.as_deref(), Some("stop"));
}

#[test]
fn an_answer_that_got_lost_is_looked_up() {
    for (fault, writes) in [(Fault::WrittenUnknown, 0), (Fault::UnwrittenUnknown, 1)] {
        let (mut records, mut reports) = (Memory::of(record(&[&["a"]])), Said::default());
        records.faults.push_back(fault);
        let now = goes(turn(&mut records, &mut reports, "one", 0));
        assert_eq!((now.state, now.serial), (State::Rolling, 2));
        assert_eq!((records.only(), records.notes.len()), (&now, writes));
    }
}

#[test]
fn a_step_that_cannot_be_written_aborts_loudly_and_a_heartbeat_does_not() {
    let started = drive::step(&record(&[&["a"]]), &BTreeMap::new(), "one", at(0)).record;
    let mut reports = Said::default();
    let end = |seconds, faults: usize, reports: &mut Said| {
        let mut records = Memory::of(started.clone());
        records.faults.extend((0..faults).map(|_| Fault::Unreachable));
        let error = turn(&mut records, reports, "one", seconds).unwrap_err();
        let DriveError::Unwritten { end, .. } = &error else { panic!("{error:?}") };
        (*end, records.only().state, error.to_string())
    };
    let (how, state, _) = end(9, 1, &mut reports);
    assert_eq!((how, state), (End::Unharmed, State::Rolling));
    reports.put(&says("a", Doing::Staged, None, at(1))).unwrap();
    let (how, state, words) = end(1, 1, &mut reports);
    assert_eq!((how, state), (End::Aborted, State::Aborted), "{words}");
    assert_eq!(words, "cannot write down how the rollout r1 goes on; it was aborted");
    let (how, state, words) = end(1, 2, &mut reports);
    assert_eq!((how, state), (End::Left, State::Rolling), "{words}");
}

#[test]
fn what_cannot_be_read_or_driven_is_left_as_it_is() {
    let mut reports = Said(BTreeMap::new(), true);
    let mut records = Memory::of(record(&[&["a"]]));
    let error = turn(&mut records, &mut reports, "one", 0).unwrap_err();
    assert!(matches!(error, DriveError::Unread { .. }) && records.notes.is_empty());
    assert!(matches!(turn(&mut Memory::default(), &mut reports, "one", 0), Err(DriveError::Gone { .. })));
    let dry = Record { dry_run: true, ..record(&[&["a"]]) };
    let clock = Record { mode: Mode::Clock, ..record(&[&["a"]]) };
    for record in [dry, clock] {
        let error = turn(&mut Memory::of(record), &mut reports, "one", 0).unwrap_err();
        assert!(matches!(error, DriveError::Undriven { .. }), "{error}");
    }
}

#[test]
fn a_rollout_whose_driver_is_gone_is_found_and_adopted_by_one_alone() {
    let (mut records, mut reports) = (Memory::of(record(&[&["a"]])), Said::default());
    goes(turn(&mut records, &mut reports, "one", 0));
    reports.put(&says("a", Doing::Staged, None, at(5))).unwrap();
    let found = |records: &mut Memory, me: &str, seconds| {
        Driver { id: me.to_owned(), records, reports: &mut Said::default() }.stale(at(seconds)).unwrap().len()
    };
    let stale = |records: &mut Memory, seconds| found(records, "two", seconds);
    assert_eq!((stale(&mut records, 59), stale(&mut records, 60)), (0, 1));
    assert_eq!(found(&mut records, "one", 1), 1, "who was started anew finds its own at once");
    let aside = turn(&mut records, &mut reports, "two", 59).unwrap();
    assert_eq!(aside, Turn::SteppedAside { driver: "one".to_owned() });
    let adopted = goes(turn(&mut records, &mut reports, "two", 60));
    assert_eq!((adopted.phase, adopted.driver.unwrap().id), (BatchPhase::Apply, "two".to_owned()));
    let back = turn(&mut records, &mut reports, "one", 61).unwrap();
    assert_eq!(back, Turn::SteppedAside { driver: "two".to_owned() });
    assert_eq!(found(&mut records, "three", 61), 0);
}

/// Reports that are signed, and what they were held to.
#[derive(Default)]
struct Signed(Said, Vec<Option<String>>);

impl Reports for Signed {
    fn all(&mut self, component: Component) -> Result<BTreeMap<NodeId, Report>, BoardError> {
        self.0.all(component)
    }

    fn put(&mut self, report: &Report) -> Result<(), BoardError> {
        self.0.put(report)
    }

    fn forget(&mut self, component: Component, id: &NodeId) -> Result<(), BoardError> {
        self.0.forget(component, id)
    }

    fn keys(&self) -> BTreeMap<NodeId, String> {
        self.0.0.keys().map(|id| (id.clone(), format!("SHA256:{id}"))).collect()
    }

    fn expect(&mut self, record: &Record) {
        self.1.push(record.nodes.values().next().and_then(|progress| progress.key.clone()));
    }
}

#[test]
fn the_record_holds_later_drivers_to_the_keys_that_nodes_sign_with() {
    let (mut records, mut reports) = (Memory::of(record(&[&["a"]])), Signed::default());
    reports.put(&says("a", Doing::Staged, None, at(1))).unwrap();
    for (me, seconds) in [("one", 0), ("two", 100)] {
        Driver { id: me.to_owned(), records: &mut records, reports: &mut reports }
            .turn(&id("r1"), at(seconds))
            .unwrap();
    }
    assert_eq!(reports.1, [None, Some("SHA256:a".to_owned())]);
}

/// A server with a lock that nobody holds any more, or with a full disk, says that somebody else was faster.
#[test]
fn who_stops_driving_leaves_the_record_to_the_next() {
    let (mut records, mut reports) = (Memory::of(record(&[&["a"]])), Said::default());
    goes(turn(&mut records, &mut reports, "one", 1));
    let mut other = Driver { records: &mut records, reports: &mut reports, id: "two".to_owned() };
    other.let_go(&id("r1")).unwrap();
    assert!(records.only().driver.is_some(), "what another drives is not let go");
    let mut one = Driver { records: &mut records, reports: &mut reports, id: "one".to_owned() };
    one.let_go(&id("r1")).unwrap();
    assert_eq!((records.only().driver.as_ref(), records.only().state), (None, State::Rolling));
    let next = goes(turn(&mut records, &mut reports, "two", 2));
    assert_eq!(next.driver.map(|driver| driver.id).as_deref(), Some("two"), "a second later");
}

#[test]
fn a_race_that_is_lost_to_nobody_is_told() {
    let mut records = Memory::of(record(&[&["a"], &["b"]]));
    records.faults.extend((0..5).map(|_| Fault::Locked));
    let mut reports = Said::default();
    let mut driver = Driver { id: "d".into(), records: &mut records, reports: &mut reports };
    match driver.turn(&id("r1"), at(0)) {
        Err(DriveError::Unwritten { end: End::Left, source, .. }) => {
            assert!(source.to_string().contains("nobody else has written"), "{source}");
        }
        other => panic!("{other:?}"),
    }
    // One such answer is nothing: the next try writes it.
    records.faults = VecDeque::from([Fault::Locked]);
    let mut driver = Driver { id: "d".into(), records: &mut records, reports: &mut reports };
    assert!(matches!(driver.turn(&id("r1"), at(0)), Ok(Turn::Goes { .. })));
}
