//! Rollouts in every state, as text and as data.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_config::ids::{NodeId, RolloutId};
use zagent_rollout::board::{BoardError, VersionToken};
use zagent_rollout::driver_logic::is_adoptable;
use zagent_rollout::plan::{RolloutDraft, RolloutPlan, plan_rollout};
use zagent_rollout::record::{
    Artifact, BatchPhase, Component, DriverLease, NodeProgress, NodeStatus, RolloutMode, RolloutProfile,
    RolloutRecord, RolloutStatus,
};
use zagent_rollout::records::{Records, VersionedValue};
use zagent_rollout::report::{NodeActivity, NodeReport, NodeRollout};

use super::change::{RolloutAction, apply_action};
use super::plan_view::PlanView;
use super::rollout_view::RolloutView;
use super::start::ensure_no_overlap;
use super::status::StatusFacts;
use super::{events, progress, record_text, status};
use crate::output::Paint;
use zagent_daemon::error::ExitStatus;

fn at(clock: &str) -> Timestamp {
    format!("2026-11-16T{clock}Z").parse().unwrap()
}

fn now() -> Timestamp {
    at("12:00:00")
}

fn report(id: &str, os: &str) -> NodeReport {
    NodeReport {
        id: id.parse().unwrap(),
        component: Component::Agent,
        version: "1.3.2".into(),
        revision: None,
        state: NodeActivity::Idle,
        taken: None,
        os: "linux".into(),
        arch: "x86_64".into(),
        facts: [("os".to_owned(), os.into()), ("role".to_owned(), "web".into())].into(),
        updated_at: at("11:59:40"),
        child: None,
        degraded: None,
        protocol: 1,
        hold: None,
        last_run: None,
        stopped: None,
        rejected: Default::default(),
        failing_checks: Vec::new(),
        waits: Default::default(),
    }
}

fn fleet() -> BTreeMap<NodeId, NodeReport> {
    let mut all: Vec<NodeReport> = (1..=5).map(|n| report(&format!("web-0{n}"), "Debian")).collect();
    all.push(report("alp-01", "Alpine"));
    all.push(NodeReport { degraded: Some("crash loop".into()), ..report("web-09", "Debian") });
    all.into_iter().map(|report| (report.id.clone(), report)).collect()
}

fn draft() -> RolloutDraft {
    let artifact = Artifact {
        os: "linux".into(),
        arch: "x86_64".into(),
        size: 1,
        blake3: "00".repeat(32),
        url: None,
        reference: Some("refs/zagent/release/1.4.0/linux-x86_64".into()),
        signature: None,
        min_protocol: 0,
    };
    let plain = RolloutDraft::new("agent-1.4.0-20261116".parse().unwrap(), Component::Agent, "1.4.0");
    RolloutDraft {
        batch_size: "2".parse().unwrap(),
        artifacts: vec![artifact],
        by: Some("ada".into()),
        from: Some("1.3.2".into()),
        ..plain
    }
}

fn planned(draft: &RolloutDraft) -> RolloutPlan {
    plan_rollout(draft, &fleet(), now()).unwrap()
}

fn sheet(plan: &RolloutPlan) -> String {
    PlanView { plan, now: now(), zone: TimeZone::UTC, paint: Paint::new(false), all_nodes: false }.render()
}

/// An active rollout: the first batch is confirmed, the second soaks.
fn rolling() -> RolloutRecord {
    let mut record = planned(&draft()).record;
    record.state = RolloutStatus::Rolling;
    record.current_batch = 1;
    record.phase = BatchPhase::Soak;
    record.phase_since = Some(at("11:59:40"));
    record.started = Some(at("11:50:00"));
    record.created = at("11:49:00");
    record.driver = Some(DriverLease { id: "ada@laptop:77".into(), heartbeat: at("11:59:55") });
    let batches = record.batches.clone();
    for (batch, status) in [(0, NodeStatus::Confirmed), (1, NodeStatus::Applied)] {
        for node in &batches[batch] {
            let at = Some(at("11:58:00"));
            record.nodes.insert(node.clone(), NodeProgress { status, at, ..NodeProgress::default() });
        }
    }
    record
}

/// The same, aborted by a failed node.
fn aborted() -> RolloutRecord {
    let mut record = rolling();
    let node = record.batches[1][0].clone();
    let error = Some("not ready: 503\n\x1b[2Jthree times in a row".into());
    record.nodes.insert(
        node,
        NodeProgress {
            status: NodeStatus::Failed,
            error,
            at: Some(at("11:59:50")),
            ..NodeProgress::default()
        },
    );
    record.failed = 1;
    record.state = RolloutStatus::Aborted;
    record.reason = Some("1 of 1 nodes failed".into());
    record.finished = Some(at("11:59:50"));
    record
}

fn page(record: &RolloutRecord) -> String {
    let mut reports = fleet();
    let soaking = record.batches.get(1).and_then(|batch| batch.first()).and_then(|id| reports.get_mut(id));
    if let Some(report) = soaking {
        report.state = NodeActivity::Soaking;
        report.version = "1.4.0".into();
        let (at, ready_since) = (at("11:59:30"), Some(at("11:59:45")));
        report.taken = Some(NodeRollout {
            rollout: record.id.clone(),
            outcome: None,
            error: None,
            at,
            ready_since,
            created: record.created,
        });
    }
    let is_stale = is_adoptable(record, now());
    let (now, zone, paint) = (now(), TimeZone::UTC, Paint::new(false));
    let facts = StatusFacts { reports, ..StatusFacts::default() };
    RolloutView { record, facts: &facts, is_stale, now, zone, paint, all_nodes: false }.render()
}

#[test]
fn plans() {
    insta::assert_snapshot!("plan", sheet(&planned(&draft())));
    let emergency = RolloutDraft { profile: RolloutProfile::Emergency, ..draft() };
    insta::assert_snapshot!("plan_emergency", sheet(&planned(&emergency)));
    let clock =
        RolloutDraft { mode: RolloutMode::Clock, dry_run: true, min_protocol: 1, max_silent: 2, ..draft() };
    insta::assert_snapshot!("plan_clock", sheet(&planned(&clock)));
    let data = super::plan_view::plan_json(&planned(&draft()), now());
    assert_eq!(data["excluded"][0], serde_json::json!({"node": "web-09", "why": "degraded: crash loop"}));
    assert_eq!(data["strata"][0]["covered"], true);
    assert_eq!(
        data["earliest"].as_array().unwrap().len(),
        data["record"]["batches"].as_array().unwrap().len()
    );
}

#[test]
fn pages() {
    insta::assert_snapshot!("page_created", page(&planned(&draft()).record));
    insta::assert_snapshot!("page_rolling", page(&rolling()));
    let stale = DriverLease { id: "ada@laptop:77".into(), heartbeat: at("11:55:00") };
    insta::assert_snapshot!("page_stale", page(&RolloutRecord { driver: Some(stale), ..rolling() }));
    let reason = Some("by ada: lunch".into());
    insta::assert_snapshot!(
        "page_paused",
        page(&RolloutRecord { state: RolloutStatus::Paused, reason, ..rolling() })
    );
    insta::assert_snapshot!("page_aborted", page(&aborted()));
    let mut clock = planned(&RolloutDraft { mode: RolloutMode::Clock, ..draft() }).record;
    clock.started = Some(at("11:57:00"));
    insta::assert_snapshot!("page_clock", page(&clock));
}

#[test]
fn a_large_rollout_shows_what_matters() {
    let mut record = rolling();
    let many: Vec<NodeId> = (0..500).map(|n| format!("n-{n:03}").parse().unwrap()).collect();
    record.batches = vec![record.batches[0].clone(), many[..300].to_vec(), many[300..].to_vec()];
    record.nodes = BTreeMap::new();
    let bad =
        NodeProgress { status: NodeStatus::Failed, error: Some("no".into()), ..NodeProgress::default() };
    record.nodes.insert(many[299].clone(), bad.clone());
    let text = page(&record);
    assert_eq!(text.lines().filter(|line| line.contains(" n-")).count(), 40, "{text}");
    assert!(text.contains("more: add -v to print all"), "{text}");
    record.state = RolloutStatus::Aborted;
    record.nodes.insert(many[499].clone(), bad);
    let text = page(&record);
    assert_eq!(
        text.lines().filter(|line| line.contains("failed") && line.contains(" n-")).count(),
        2,
        "{text}"
    );
}

#[test]
fn lists() {
    let (one, two) = (rolling(), aborted());
    let list = |records: &[&RolloutRecord], hidden| {
        status::rollouts_table(records, hidden, now(), Paint::new(false))
    };
    insta::assert_snapshot!("list", list(&[&one, &two], 3));
    assert_eq!(list(&[], 0), "no active rollout\n");
    assert_eq!(list(&[], 1), "no active rollout\n1 is over: add --all to list them\n");
}

#[test]
fn each_event_is_printed_once() {
    let told = |before: Option<&RolloutRecord>, after: &RolloutRecord| {
        events::events_between(before, after).into_iter().map(|news| news.text).collect::<Vec<_>>().join("\n")
    };
    let created = planned(&draft()).record;
    let begun = RolloutRecord { state: RolloutStatus::Rolling, driver: rolling().driver, ..created.clone() };
    let mut text = String::new();
    let mut last: Option<RolloutRecord> = None;
    for record in [created, begun, rolling(), aborted()] {
        text += &format!("{}\n--\n", told(last.as_ref(), &record));
        assert_eq!(told(Some(&record), &record), "", "nothing new is nothing told");
        let beat = DriverLease { id: "ada@laptop:77".into(), heartbeat: now() };
        let beaten = RolloutRecord { driver: record.driver.as_ref().map(|_| beat), ..record.clone() };
        assert_eq!(told(Some(&record), &beaten), "", "a heartbeat is no news");
        last = Some(record);
    }
    insta::assert_snapshot!("news", text);
    insta::assert_snapshot!("picture", progress::progress_text(&rolling(), now()));
}

#[test]
fn waiting_text_names_the_nodes() {
    let mut record = rolling();
    let waits = |record: &RolloutRecord| record_text::waiting_text(record, now());
    assert_eq!(waits(&record), "batch 2 of 3: soak, 20s of 1m");
    record.phase = BatchPhase::Apply;
    assert_eq!(waits(&record), "batch 2 of 3 is waiting for 0 nodes to apply: ");
    record.nodes.clear();
    let names = record.batches[1].iter().map(NodeId::as_str).collect::<Vec<_>>().join(", ");
    assert_eq!(waits(&record), format!("batch 2 of 3 is waiting for 2 nodes to apply: {names}"));
    record.state = RolloutStatus::Created;
    assert_eq!(waits(&record), "waiting for a driver");
}

/// Records in memory, where some writes lose against another writer.
struct Busy {
    record: RolloutRecord,
    version: u64,
    losses: usize,
}

impl Busy {
    fn token(&self) -> VersionToken {
        VersionToken(self.version.to_string())
    }
}

impl Records for Busy {
    fn get(&mut self, id: &RolloutId) -> Result<Option<VersionedValue<RolloutRecord>>, BoardError> {
        let held = VersionedValue { value: self.record.clone(), token: self.token() };
        Ok((*id == self.record.id).then_some(held))
    }

    fn put(
        &mut self,
        record: &RolloutRecord,
        expected: Option<&VersionToken>,
        _note: &str,
        _lasting: bool,
    ) -> Result<VersionToken, BoardError> {
        if self.losses > 0 {
            self.losses -= 1;
            self.version += 1;
            self.record.serial += 1;
        }
        if expected != Some(&self.token()) {
            return Err(BoardError::Conflict { key: record.id.to_string() });
        }
        self.version += 1;
        self.record = record.clone();
        Ok(self.token())
    }

    fn list(&mut self) -> Result<Vec<VersionedValue<RolloutRecord>>, BoardError> {
        Ok(self.get(&self.record.id.clone())?.into_iter().collect())
    }

    fn delete(&mut self, _id: &RolloutId, _expected: &VersionToken) -> Result<(), BoardError> {
        Ok(())
    }
}

/// A board without reports.
struct Quiet;

impl zagent_rollout::records::Reports for Quiet {
    fn latest_reports(&mut self, _: Component) -> Result<BTreeMap<NodeId, NodeReport>, BoardError> {
        Ok(BTreeMap::new())
    }

    fn put(&mut self, _: &NodeReport) -> Result<(), BoardError> {
        Ok(())
    }

    fn forget(&mut self, _: Component, _: &NodeId) -> Result<(), BoardError> {
        Ok(())
    }
}

#[test]
fn an_error_in_one_rollout_leaves_the_others_driven() {
    let mut busy = Busy { record: RolloutRecord { driver: None, ..aborted() }, version: 1, losses: 0 };
    let (there, gone): (RolloutId, RolloutId) = (busy.record.id.clone(), "gone".parse().unwrap());
    let driver =
        zagent_rollout::driver::RolloutDriver { id: "ada".into(), records: &mut busy, reports: &mut Quiet };
    let mut drive = super::drive::ForegroundDrive { driver, format: crate::output::OutputFormat::Json };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut ui = crate::output::Ui::new(&mut out, &mut err, (false, false));
    let (records, exit) = drive.run_until_done(vec![gone.clone(), there.clone()], &mut ui).unwrap();
    assert_eq!(records.iter().map(|record| &record.id).collect::<Vec<_>>(), [&there]);
    assert_eq!(exit, ExitStatus::Usage, "the worst that happened");
    let alone = drive.run_until_done(vec![gone], &mut ui).unwrap_err();
    assert_eq!(alone.exit(), ExitStatus::Usage);
    let said = String::from_utf8(err).unwrap();
    assert!(said.contains("stopped driving gone: the rollout gone does not exist"), "{said}");
}

#[test]
fn a_held_node_is_named_with_its_reason() {
    let mut record = RolloutRecord { phase: BatchPhase::Prepare, ..rolling() };
    let node = record.batches[1][0].clone();
    let held = Some("outside of its window until 22:00".to_owned());
    record
        .nodes
        .insert(node.clone(), NodeProgress { status: NodeStatus::Prepared, held, ..NodeProgress::default() });
    let line = format!("waiting for {node}: outside of its window until 22:00");
    assert_eq!(record_text::waiting_text(&record, now()), format!("batch 2 of 3 is {line}"));
    let before = RolloutRecord { nodes: BTreeMap::new(), ..record.clone() };
    let told: Vec<String> =
        events::events_between(Some(&before), &record).into_iter().map(|news| news.text).collect();
    assert!(told.contains(&line), "{told:?}");
    assert!(events::events_between(Some(&record), &record).is_empty());
}

#[test]
fn a_change_is_retried_until_it_is_written() {
    let mut busy = Busy { record: rolling(), version: 1, losses: 3 };
    let id = busy.record.id.clone();
    let paused = apply_action(&mut busy, &id, RolloutAction::Pause, "by ada").unwrap();
    assert_eq!((paused.state, busy.losses), (RolloutStatus::Paused, 0));
    assert_eq!(busy.record, paused, "on top of what the others wrote");
    let version = busy.version;
    assert_eq!(apply_action(&mut busy, &id, RolloutAction::Pause, "by bob").unwrap(), paused);
    assert_eq!(busy.version, version, "saying it again writes nothing");
    let heard = |heartbeat| Some(DriverLease { id: "root@ci:1".to_owned(), heartbeat });
    busy.record.driver = heard(Timestamp::now());
    apply_action(&mut busy, &id, RolloutAction::Abort, "by ada").unwrap();
    let aborting = busy.record.clone();
    assert_eq!(aborting.state, RolloutStatus::Aborting, "its driver finishes it");
    assert_eq!(apply_action(&mut busy, &id, RolloutAction::Abort, "by bob").unwrap(), aborting);
    busy.record.driver = heard(now());
    assert_eq!(
        apply_action(&mut busy, &id, RolloutAction::Abort, "by bob").unwrap().state,
        RolloutStatus::Aborted,
        "nobody else would"
    );
    assert!(apply_action(&mut busy, &id, RolloutAction::Resume, "by ada").is_err());
    busy.record = rolling();
    busy.losses = usize::MAX;
    let cli_error = apply_action(&mut busy, &id, RolloutAction::Pause, "by ada").unwrap_err();
    assert_eq!(cli_error.exit(), ExitStatus::Locked, "others write all the time");
    let cli_error =
        apply_action(&mut busy, &"agent-1.4.0-20261117".parse().unwrap(), RolloutAction::Abort, "x")
            .unwrap_err();
    assert_eq!(cli_error.exit(), ExitStatus::Usage);
    assert!(format!("{cli_error:?}").contains("did you mean `agent-1.4.0-20261116`"), "{cli_error:?}");
}

#[test]
fn one_rollout_per_node_and_component() {
    let held = |record: RolloutRecord| [VersionedValue { value: record, token: VersionToken("1".into()) }];
    let mine = RolloutRecord { id: "other".parse().unwrap(), ..planned(&draft()).record };
    let check = |record: &RolloutRecord, other: RolloutRecord| {
        ensure_no_overlap(record, &held(other), &fleet(), now())
    };
    let words = check(&mine, rolling()).unwrap_err().summary();
    assert_eq!(
        words,
        "rollout `agent-1.4.0-20261116` (agent to 1.4.0 from 1.3.2, rolling) is active on some of these nodes"
    );
    assert!(check(&mine, aborted()).is_ok(), "one that is over is in nobody's way");
    assert!(check(&mine, RolloutRecord { dry_run: true, ..rolling() }).is_ok());
    assert!(check(&mine, RolloutRecord { component: Component::States, ..rolling() }).is_ok());
    let elsewhere = RolloutRecord { batches: vec![vec!["db-01".parse().unwrap()]], ..rolling() };
    assert!(check(&mine, elsewhere).is_ok(), "other nodes are nobody's business");
    let clock = planned(&RolloutDraft { mode: RolloutMode::Clock, target: "web-*".into(), ..draft() }).record;
    assert!(check(&mine, clock.clone()).is_err(), "the clock means nodes by their target");
    let spent = RolloutRecord { started: Some(at("00:00:00")), ..clock };
    assert!(check(&mine, spent).is_ok(), "everybody had a turn");
}
