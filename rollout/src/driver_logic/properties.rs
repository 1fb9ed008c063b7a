//! Properties of the step, on arbitrary records and reports.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::tests::{ME, at, id, record, says};
use super::*;
use crate::Span;
use crate::node::driven_action;
use crate::phase::{self, NodeAction, NodeEvent, NodeOutcome, NodeState};
use crate::record::{BatchPhase, NodeProgress, NodeStatus, RolloutStatus};
use crate::report::NodeActivity;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn any_state() -> impl Strategy<Value = RolloutStatus> {
    use RolloutStatus::{Aborted, Aborting, Completed, Created, Paused, Rolling};
    prop::sample::select(vec![Created, Rolling, Rolling, Rolling, Paused, Completed, Aborting, Aborted])
}

fn any_phase() -> impl Strategy<Value = BatchPhase> {
    use BatchPhase::{Apply, Confirm, Pause, Prepare, Soak};
    prop::sample::select(vec![Prepare, Apply, Soak, Confirm, Pause])
}

fn any_progress() -> impl Strategy<Value = NodeProgress> {
    use NodeStatus::{Applied, Confirmed, Failed, Prepared, Silent, Waiting};
    let status = prop::sample::select(vec![Waiting, Prepared, Applied, Confirmed, Failed, Silent]);
    (status, option::of(-900i64..900), option::of(-900i64..900)).prop_map(|(status, since, late)| {
        NodeProgress { status, at: since.map(at), late: late.map(at), ..NodeProgress::default() }
    })
}

prop_compose! {
    fn any_record()(
        batches in vec(vec(prop::sample::select(NAMES.to_vec()), 0..4), 0..4),
        nodes in vec((prop::sample::select(NAMES.to_vec()), any_progress()), 0..6),
        (state, phase, current_batch) in (any_state(), any_phase(), prop_oneof![0usize..4, Just(usize::MAX)]),
        since in option::of(-2000i64..100),
        (soak, pause) in (0u64..200, 0u64..60),
        (max_failed, max_silent) in (0usize..4, 0usize..3),
        beat in option::of((any::<bool>(), -200i64..10)),
        started in any::<bool>(),
    ) -> RolloutRecord {
        let batches: Vec<&[&str]> = batches.iter().map(Vec::as_slice).collect();
        let driver = beat.map(|(mine, beat)| DriverLease { id: if mine { ME } else { "other" }.to_owned(), heartbeat: at(beat) });
        RolloutRecord {
            nodes: nodes.into_iter().map(|(name, progress)| (id(name), progress)).collect(),
            state, phase, current_batch, max_failed, max_silent, driver,
            phase_since: since.map(at),
            soak_time: Span::seconds(soak),
            batch_pause: Span::seconds(pause),
            started: started.then(|| at(-3000)),
            ..record(&batches)
        }
    }
}

fn any_reports() -> impl Strategy<Value = BTreeMap<NodeId, NodeReport>> {
    use NodeActivity::{Applying, Idle, Preparing, RollingBack, Soaking, Staged};
    let doing = prop::sample::select(vec![Idle, Preparing, Staged, Applying, Soaking, RollingBack]);
    let outcome = option::weighted(
        0.4,
        prop::sample::select(vec![NodeOutcome::Confirmed, NodeOutcome::Failed, NodeOutcome::Withdrawn]),
    );
    let one = (prop::sample::select(NAMES.to_vec()), doing, outcome, -900i64..60, any::<bool>());
    vec(one, 0..8).prop_map(|all| {
        let report = |(name, state, outcome, seconds, ours): (&str, _, _, _, bool)| {
            let mut report = says(name, state, outcome, at(seconds));
            if !ours {
                report.taken = None;
            }
            (report.id.clone(), report)
        };
        all.into_iter().map(report).collect()
    })
}

fn failed(record: &RolloutRecord) -> Vec<&NodeId> {
    record.nodes.iter().filter(|(_, node)| node.status == NodeStatus::Failed).map(|(id, _)| id).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Also: every pair of status and phase has a result.
    #[test]
    fn the_same_check_changes_a_record_once(record in any_record(), reports in any_reports()) {
        let once = step(&record, &reports, ME, at(0));
        let twice = step(&once.record, &reports, ME, at(0));
        prop_assert_eq!(&twice.record, &once.record);
        prop_assert!(twice.notes.is_empty());
        prop_assert!(once.lasting || once.notes.is_empty());
        prop_assert!(once.record == record || once.record.serial == record.serial + 1);
        prop_assert!(once.wait <= HEARTBEAT && once.wait > Duration::ZERO);
    }

    #[test]
    fn a_final_status_never_changes(record in any_record(), reports in any_reports(), later in 0i64..9999) {
        let state = if later % 2 == 0 { RolloutStatus::Completed } else { RolloutStatus::Aborted };
        let record = RolloutRecord { state, ..record };
        prop_assert_eq!(&step(&record, &reports, ME, at(later)).record, &record);
        prop_assert_eq!(&abort(&record, "no", at(later)), &record);
        prop_assert!(pause(&record, "no", at(later)).is_err() && resume(&record, at(later)).is_err());
    }

    #[test]
    fn an_abort_always_ends_the_rollout(record in any_record(), reports in any_reports()) {
        let aborted = abort(&record, "enough", at(0));
        prop_assert_eq!(&abort(&aborted, "once more", at(0)), &aborted);
        prop_assert!(abort(&aborted, "once more", at(3600)).state.is_final(), "its driver is gone by then");
        let over = step(&aborted, &reports, ME, at(3600)).record;
        prop_assert!(over.state.is_final());
        prop_assert!(record.state == RolloutStatus::Completed || over.state == RolloutStatus::Aborted);
    }

    /// A failed or confirmed node stays so; a failed node is counted once; no batch goes back.
    #[test]
    fn any_history_of_reports_is_handled(record in any_record(), all in vec((any_reports(), 0i64..200), 1..12)) {
        let (mut record, mut now) = (record, 0);
        for (reports, passed) in all {
            now += passed;
            let next = step(&record, &reports, ME, at(now)).record;
            if next != record && matches!(record.state, RolloutStatus::Rolling | RolloutStatus::Aborting) {
                prop_assert_eq!(next.failed, failed(&next).len());
            }
            let forth = (next.current_batch, next.phase) >= (record.current_batch, record.phase);
            prop_assert!(forth || record.state == RolloutStatus::Created);
            for (id, node) in &record.nodes {
                let is_over = matches!(node.status, NodeStatus::Failed | NodeStatus::Confirmed);
                prop_assert!(!is_over || next.node_status(id) == node.status);
            }
            record = next;
        }
    }

    /// Without any report a rollout ends.
    #[test]
    fn a_silent_rollout_ends(record in any_record(), every in 1i64..1000) {
        let mut record = record;
        record.driver = None;
        prop_assume!(record.state != RolloutStatus::Paused);
        for turn in 0..4000 {
            record = step(&record, &BTreeMap::new(), ME, at(turn * every)).record;
            if record.state.is_final() {
                return Ok(());
            }
        }
        prop_assert!(false, "{:?}", record);
    }

}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Nodes that do what the record requires, each at its own pace, complete a rollout.
    #[test]
    fn with_good_nodes_a_rollout_completes(
        sizes in vec(1usize..4, 1..4),
        soak in 0u64..300,
        pause in 0u64..60,
        paces in vec(1i64..30, 12),
    ) {
        let names: Vec<String> = (0..sizes.iter().sum()).map(|n| format!("n{n}")).collect();
        let mut rest: Vec<&str> = names.iter().map(String::as_str).collect();
        let batches: Vec<Vec<&str>> = sizes.iter().map(|size| rest.drain(..size).collect()).collect();
        let batches: Vec<&[&str]> = batches.iter().map(Vec::as_slice).collect();
        let mut record = RolloutRecord { soak_time: Span::seconds(soak), batch_pause: Span::seconds(pause), ..record(&batches) };
        let mut nodes: Vec<NodeState> = names.iter().map(|_| NodeState::with_version("1.0.0")).collect();
        let mut reports = BTreeMap::new();
        for now in 0..20_000 {
            for ((name, node), pace) in names.iter().zip(&mut nodes).zip(&paces) {
                if now % pace != 0 {
                    continue;
                }
                if let Some(event) = driven_action(&record, &id(name), node, at(now)) {
                    obey(node, event, at(now));
                }
                obey(node, NodeEvent::Ready, at(now));
                let mut report = says(name, NodeActivity::Idle, None, at(now));
                report.update_from_node(node);
                reports.insert(report.id.clone(), report);
            }
            if now % 7 == 0 {
                record = step(&record, &reports, ME, at(now)).record;
            }
            if record.state.is_final() {
                break;
            }
        }
        prop_assert_eq!(record.state, RolloutStatus::Completed, "{:?}", record);
        prop_assert!(nodes.iter().all(|node| node.running == "2.0.0"));
    }
}

/// A node without errors.
fn obey(node: &mut NodeState, event: NodeEvent, now: Timestamp) {
    let mut events = vec![event];
    while let Some(event) = events.pop() {
        let (next, actions) = phase::step(node, event, now);
        *node = next;
        events.extend(actions.into_iter().filter_map(|action| match action {
            NodeAction::Fetch(_) => Some(NodeEvent::Fetched),
            NodeAction::Apply(_) => Some(NodeEvent::Applied),
            NodeAction::RollBack(_) => Some(NodeEvent::RolledBack),
            NodeAction::Discard(_) | NodeAction::Settle(_) => None,
        }));
    }
}
