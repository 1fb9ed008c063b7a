//! Turns on records in memory that conflict, lose answers and refuse.

use std::collections::{BTreeMap, VecDeque};

use zagent_config::ids::NodeId;

use super::*;
use crate::driver_logic::tests::{at, id, record, says};
use crate::phase::NodeOutcome;
use crate::record::{BatchPhase, Component};
use crate::report::{NodeActivity, NodeReport};

/// What the next write does.
enum WriteFault {
    /// Someone else's record is written first.
    Lose(Box<RolloutRecord>),
    /// It is written, and the answer is lost.
    WrittenUnknown,
    /// It is not written, and the answer is lost.
    UnwrittenUnknown,
    /// The store cannot be reached.
    Unreachable,
    /// It reports a conflict although nobody has written.
    Locked,
}

#[derive(Default)]
struct MemoryRecords {
    all: BTreeMap<RolloutId, (RolloutRecord, u64)>,
    faults: VecDeque<WriteFault>,
    notes: Vec<(String, bool)>,
}

fn unreachable() -> BoardError {
    BoardError::Unreachable { board: "memory".to_owned(), source: "it is down".into() }
}

impl MemoryRecords {
    fn with_record(record: RolloutRecord) -> Self {
        let mut memory = Self::default();
        memory.set(record);
        memory
    }

    fn set(&mut self, record: RolloutRecord) -> VersionToken {
        let version = self.all.get(&record.id).map_or(0, |(_, version)| version + 1);
        self.all.insert(record.id.clone(), (record, version));
        VersionToken(version.to_string())
    }

    fn only(&self) -> &RolloutRecord {
        &self.all.values().next().unwrap().0
    }
}

impl Records for MemoryRecords {
    fn get(&mut self, id: &RolloutId) -> Result<Option<VersionedValue<RolloutRecord>>, BoardError> {
        let held = |(record, version): &(RolloutRecord, u64)| VersionedValue {
            value: record.clone(),
            token: VersionToken(version.to_string()),
        };
        Ok(self.all.get(id).map(held))
    }

    fn put(
        &mut self,
        record: &RolloutRecord,
        expected: Option<&VersionToken>,
        note: &str,
        lasting: bool,
    ) -> Result<VersionToken, BoardError> {
        let key = || record.id.to_string();
        let unknown = || BoardError::Unknown { key: key(), source: "timeout".into() };
        match self.faults.pop_front() {
            Some(WriteFault::Unreachable) => return Err(unreachable()),
            Some(WriteFault::Locked) => return Err(BoardError::Conflict { key: key() }),
            Some(WriteFault::UnwrittenUnknown) => return Err(unknown()),
            Some(WriteFault::WrittenUnknown) => {
                self.set(record.clone());
                return Err(unknown());
            }
            Some(WriteFault::Lose(other)) => {
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

    fn list(&mut self) -> Result<Vec<VersionedValue<RolloutRecord>>, BoardError> {
        let ids: Vec<RolloutId> = self.all.keys().cloned().collect();
        Ok(ids.iter().filter_map(|id| self.get(id).ok().flatten()).collect())
    }

    fn delete(&mut self, id: &RolloutId, _expected: &VersionToken) -> Result<(), BoardError> {
        self.all.remove(id);
        Ok(())
    }
}

#[derive(Default)]
struct MemoryReports(BTreeMap<NodeId, NodeReport>, bool);

impl Reports for MemoryReports {
    fn latest_reports(&mut self, _component: Component) -> Result<BTreeMap<NodeId, NodeReport>, BoardError> {
        if self.1 { Err(unreachable()) } else { Ok(self.0.clone()) }
    }

    fn put(&mut self, report: &NodeReport) -> Result<(), BoardError> {
        self.0.insert(report.id.clone(), report.clone());
        Ok(())
    }

    fn forget(&mut self, _component: Component, id: &NodeId) -> Result<(), BoardError> {
        self.0.remove(id);
        Ok(())
    }
}

fn turn(
    records: &mut MemoryRecords,
    reports: &mut MemoryReports,
    me: &str,
    seconds: i64,
) -> Result<DriveOutcome, DriveError> {
    RolloutDriver { id: me.to_owned(), records, reports }.drive_once(&id("r1"), at(seconds))
}

fn goes(turn: Result<DriveOutcome, DriveError>) -> RolloutRecord {
    match turn {
        Ok(DriveOutcome::Continues { record, .. }) => record,
        other => panic!("{other:?}"),
    }
}

#[test]
fn turns_move_a_rollout_and_leave_a_log() {
    let (mut records, mut reports) =
        (MemoryRecords::with_record(record(&[&["a"]])), MemoryReports::default());
    goes(turn(&mut records, &mut reports, "one", 0));
    goes(turn(&mut records, &mut reports, "one", 2));
    goes(turn(&mut records, &mut reports, "one", 8));
    reports.put(&says("a", NodeActivity::Staged, None, at(9))).unwrap();
    goes(turn(&mut records, &mut reports, "one", 9));
    reports.put(&says("a", NodeActivity::Idle, Some(NodeOutcome::Confirmed), at(10))).unwrap();
    assert!(
        matches!(turn(&mut records, &mut reports, "one", 10), Ok(DriveOutcome::Finished(r)) if r.state == RolloutStatus::Completed)
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
    assert!(matches!(turn(&mut records, &mut reports, "two", 999), Ok(DriveOutcome::Finished(_))));
}

#[test]
fn after_a_conflict_a_driver_reads_again_and_yields_to_another() {
    let mut reports = MemoryReports::default();
    let theirs = driver_logic::step(&record(&[&["a"]]), &BTreeMap::new(), "two", at(0)).record;
    let mut records = MemoryRecords::with_record(record(&[&["a"]]));
    records.faults.push_back(WriteFault::Lose(Box::new(theirs.clone())));
    let lost = turn(&mut records, &mut reports, "one", 1).unwrap();
    assert_eq!(lost, DriveOutcome::SteppedAside { driver: "two".to_owned() });
    assert_eq!(records.only(), &theirs);
    // An abort that was written in between is seen, and finished.
    let mut records = MemoryRecords::with_record(theirs.clone());
    records.faults.push_back(WriteFault::Lose(Box::new(driver_logic::abort(&theirs, "stop", at(9)))));
    assert!(
        matches!(turn(&mut records, &mut reports, "two", 10), Ok(DriveOutcome::Finished(r)) if r.state == RolloutStatus::Aborted)
    );
    assert_eq!(records.only().reason.as_deref(), Some("stop"));
}

#[test]
fn a_lost_answer_is_looked_up() {
    for (fault, writes) in [(WriteFault::WrittenUnknown, 0), (WriteFault::UnwrittenUnknown, 1)] {
        let (mut records, mut reports) =
            (MemoryRecords::with_record(record(&[&["a"]])), MemoryReports::default());
        records.faults.push_back(fault);
        let now = goes(turn(&mut records, &mut reports, "one", 0));
        assert_eq!((now.state, now.serial), (RolloutStatus::Rolling, 2));
        assert_eq!((records.only(), records.notes.len()), (&now, writes));
    }
}

#[test]
fn a_failed_step_write_aborts_and_a_failed_heartbeat_does_not() {
    let started = driver_logic::step(&record(&[&["a"]]), &BTreeMap::new(), "one", at(0)).record;
    let mut reports = MemoryReports::default();
    let end = |seconds, faults: usize, reports: &mut MemoryReports| {
        let mut records = MemoryRecords::with_record(started.clone());
        records.faults.extend((0..faults).map(|_| WriteFault::Unreachable));
        let error = turn(&mut records, reports, "one", seconds).unwrap_err();
        let DriveError::WriteFailed { end, .. } = &error else { panic!("{error:?}") };
        (*end, records.only().state, error.to_string())
    };
    let (how, state, _) = end(9, 1, &mut reports);
    assert_eq!((how, state), (WriteFailureOutcome::HeartbeatMissed, RolloutStatus::Rolling));
    reports.put(&says("a", NodeActivity::Staged, None, at(1))).unwrap();
    let (how, state, words) = end(1, 1, &mut reports);
    assert_eq!((how, state), (WriteFailureOutcome::Aborted, RolloutStatus::Aborted), "{words}");
    assert_eq!(words, "cannot save the progress of the rollout r1; it was aborted");
    let (how, state, words) = end(1, 2, &mut reports);
    assert_eq!((how, state), (WriteFailureOutcome::NotAborted, RolloutStatus::Rolling), "{words}");
}

#[test]
fn an_unreadable_or_driverless_rollout_is_unchanged() {
    let mut reports = MemoryReports(BTreeMap::new(), true);
    let mut records = MemoryRecords::with_record(record(&[&["a"]]));
    let error = turn(&mut records, &mut reports, "one", 0).unwrap_err();
    assert!(matches!(error, DriveError::ReadFailed { .. }) && records.notes.is_empty());
    assert!(matches!(
        turn(&mut MemoryRecords::default(), &mut reports, "one", 0),
        Err(DriveError::Gone { .. })
    ));
    let dry = RolloutRecord { dry_run: true, ..record(&[&["a"]]) };
    let clock = RolloutRecord { mode: RolloutMode::Clock, ..record(&[&["a"]]) };
    for record in [dry, clock] {
        let error = turn(&mut MemoryRecords::with_record(record), &mut reports, "one", 0).unwrap_err();
        assert!(matches!(error, DriveError::NotDrivable { .. }), "{error}");
    }
}

#[test]
fn a_rollout_without_a_driver_is_taken_over_by_exactly_one() {
    let (mut records, mut reports) =
        (MemoryRecords::with_record(record(&[&["a"]])), MemoryReports::default());
    goes(turn(&mut records, &mut reports, "one", 0));
    reports.put(&says("a", NodeActivity::Staged, None, at(5))).unwrap();
    let found = |records: &mut MemoryRecords, me: &str, seconds| {
        RolloutDriver { id: me.to_owned(), records, reports: &mut MemoryReports::default() }
            .adoptable_rollouts(at(seconds))
            .unwrap()
            .len()
    };
    let stale = |records: &mut MemoryRecords, seconds| found(records, "two", seconds);
    assert_eq!((stale(&mut records, 59), stale(&mut records, 60)), (0, 1));
    assert_eq!(found(&mut records, "one", 1), 1, "a restarted driver finds its own rollout at once");
    let aside = turn(&mut records, &mut reports, "two", 59).unwrap();
    assert_eq!(aside, DriveOutcome::SteppedAside { driver: "one".to_owned() });
    let adopted = goes(turn(&mut records, &mut reports, "two", 60));
    assert_eq!((adopted.phase, adopted.driver.unwrap().id), (BatchPhase::Apply, "two".to_owned()));
    let back = turn(&mut records, &mut reports, "one", 61).unwrap();
    assert_eq!(back, DriveOutcome::SteppedAside { driver: "two".to_owned() });
    assert_eq!(found(&mut records, "three", 61), 0);
}

/// Signed reports, and the keys they were checked against.
#[derive(Default)]
struct SignedReports(MemoryReports, Vec<Option<String>>);

impl Reports for SignedReports {
    fn latest_reports(&mut self, component: Component) -> Result<BTreeMap<NodeId, NodeReport>, BoardError> {
        self.0.latest_reports(component)
    }

    fn put(&mut self, report: &NodeReport) -> Result<(), BoardError> {
        self.0.put(report)
    }

    fn forget(&mut self, component: Component, id: &NodeId) -> Result<(), BoardError> {
        self.0.forget(component, id)
    }

    fn signing_keys(&self) -> BTreeMap<NodeId, String> {
        self.0.0.keys().map(|id| (id.clone(), format!("SHA256:{id}"))).collect()
    }

    fn pin_keys(&mut self, record: &RolloutRecord) {
        self.1.push(record.nodes.values().next().and_then(|progress| progress.key.clone()));
    }
}

#[test]
fn later_drivers_require_the_node_keys_in_the_record() {
    let (mut records, mut reports) =
        (MemoryRecords::with_record(record(&[&["a"]])), SignedReports::default());
    reports.put(&says("a", NodeActivity::Staged, None, at(1))).unwrap();
    for (me, seconds) in [("one", 0), ("two", 100)] {
        RolloutDriver { id: me.to_owned(), records: &mut records, reports: &mut reports }
            .drive_once(&id("r1"), at(seconds))
            .unwrap();
    }
    assert_eq!(reports.1, [None, Some("SHA256:a".to_owned())]);
}

/// A server with a stale lock or a full disk reports that someone else was faster.
#[test]
fn a_driver_that_stops_releases_the_record() {
    let (mut records, mut reports) =
        (MemoryRecords::with_record(record(&[&["a"]])), MemoryReports::default());
    goes(turn(&mut records, &mut reports, "one", 1));
    let mut other = RolloutDriver { records: &mut records, reports: &mut reports, id: "two".to_owned() };
    other.release(&id("r1")).unwrap();
    assert!(records.only().driver.is_some(), "a rollout of another driver is not released");
    let mut one = RolloutDriver { records: &mut records, reports: &mut reports, id: "one".to_owned() };
    one.release(&id("r1")).unwrap();
    assert_eq!((records.only().driver.as_ref(), records.only().state), (None, RolloutStatus::Rolling));
    let next = goes(turn(&mut records, &mut reports, "two", 2));
    assert_eq!(next.driver.map(|driver| driver.id).as_deref(), Some("two"), "a second later");
}

#[test]
fn a_conflict_without_another_writer_is_reported() {
    let mut records = MemoryRecords::with_record(record(&[&["a"], &["b"]]));
    records.faults.extend((0..5).map(|_| WriteFault::Locked));
    let mut reports = MemoryReports::default();
    let mut driver = RolloutDriver { id: "d".into(), records: &mut records, reports: &mut reports };
    match driver.drive_once(&id("r1"), at(0)) {
        Err(DriveError::WriteFailed { end: WriteFailureOutcome::NotAborted, source, .. }) => {
            assert!(source.to_string().contains("nobody else wrote"), "{source}");
        }
        other => panic!("{other:?}"),
    }
    // One such answer is harmless: the next try writes it.
    records.faults = VecDeque::from([WriteFault::Locked]);
    let mut driver = RolloutDriver { id: "d".into(), records: &mut records, reports: &mut reports };
    assert!(matches!(driver.drive_once(&id("r1"), at(0)), Ok(DriveOutcome::Continues { .. })));
}
