//! The two saved copies of a node's state in, the state that the node continues with out.
//!
//! Law: pure. No damage makes a version the good one: a node whose state is damaged continues with the last confirmed
//! version that a whole copy names, else with the built-in one, and a trial that was running ends (held by
//! `no_damage_of_any_copy_in_any_phase_makes_an_unconfirmed_version_the_good_one`, `pure_modules_do_not_touch_the_machine`).

use jiff::Timestamp;

use crate::phase::{MAX_CRASHES, NodePhase, NodeState};

/// A copy of the state, as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedCopy {
    /// There is none.
    Missing,
    /// It cannot be read, and why.
    Damaged(String),
    /// It is what was written.
    Whole {
        /// The state.
        node: Box<NodeState>,
        /// The number of the write; `None` in a file of a version that did not count them.
        sequence: Option<u64>,
    },
}

/// What else is known about the copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownWrites {
    /// A number that was certainly reached: an older first copy is not the last one.
    pub sequence: u64,
    /// True when versions were installed, which no node does without writing copies.
    pub has_slots: bool,
}

/// The state that a node continues with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredNode {
    /// The state.
    pub node: NodeState,
    /// The number of the newest write.
    pub sequence: u64,
    /// What is wrong with the first copy, and what follows from it.
    pub first: Option<String>,
    /// The same for the second copy.
    pub second: Option<String>,
}

impl RecoveredNode {
    /// True when a copy must be written again.
    #[must_use]
    pub const fn is_damaged(&self) -> bool {
        self.first.is_some() || self.second.is_some()
    }
}

/// Decides what a node continues with. The first copy is written before the second, so it is never older. A new node has
/// neither, and continues with the built-in version.
#[must_use]
pub fn recover(
    first: SavedCopy,
    second: SavedCopy,
    known: KnownWrites,
    built_in: &str,
    now: Timestamp,
) -> RecoveredNode {
    let newest = sequence_of(&second).unwrap_or(0).max(known.sequence);
    match first {
        SavedCopy::Whole { node, sequence } if sequence.is_none_or(|sequence| sequence >= newest) => {
            keep_first(*node, sequence, &second)
        }
        SavedCopy::Missing if second == SavedCopy::Missing && known == KnownWrites::default() => {
            let node = NodeState::with_version(built_in);
            RecoveredNode { node, sequence: 0, first: None, second: None }
        }
        first => {
            let found = fall_back(&problem_of(&first), second, built_in, now);
            RecoveredNode { sequence: found.sequence.max(newest), ..found }
        }
    }
}

/// The number of the write, where it is known.
const fn sequence_of(copy: &SavedCopy) -> Option<u64> {
    match copy {
        SavedCopy::Whole { sequence, .. } => *sequence,
        _ => None,
    }
}

/// What is wrong with a copy that is not used.
fn problem_of(copy: &SavedCopy) -> String {
    match copy {
        SavedCopy::Missing => "is missing".into(),
        SavedCopy::Damaged(why) => format!("is damaged ({why})"),
        SavedCopy::Whole { .. } => "is an old copy".into(),
    }
}

/// The first copy is whole and the newest: the second is written again from it, whatever it is.
fn keep_first(node: NodeState, sequence: Option<u64>, second: &SavedCopy) -> RecoveredNode {
    let known = sequence_of(second).unwrap_or(0);
    let is_fine = match second {
        SavedCopy::Whole { .. } => true,
        SavedCopy::Damaged(_) => false,
        // The first write ever was interrupted before the second copy, or made by a version without one.
        SavedCopy::Missing => sequence.is_none_or(|sequence| sequence <= 1),
    };
    let problem = || format!("{}: it is written again, nothing is lost", problem_of(second));
    let second = (!is_fine).then(problem);
    RecoveredNode { node, sequence: known.max(sequence.unwrap_or(0)), first: None, second }
}

/// The first copy is of no use: the second decides, else the package.
fn fall_back(problem: &str, second: SavedCopy, built_in: &str, now: Timestamp) -> RecoveredNode {
    if let SavedCopy::Whole { node, sequence } = second {
        let (node, what) = end_trial(*node, problem, now);
        let first = Some(format!("{problem}: {what}"));
        return RecoveredNode { node, sequence: sequence.unwrap_or(0), first, second: None };
    }
    let also = problem_of(&second);
    RecoveredNode {
        node: NodeState::with_version(built_in),
        sequence: 0,
        first: Some(format!(
            "{problem}, and its second copy {also}: the built-in version {built_in} runs, and the rejected versions are \
             forgotten"
        )),
        second: Some(also),
    }
}

/// The state of the second copy, without the trial. It may be one step behind: a version that was only fetched then may
/// have been on trial already.
fn end_trial(mut node: NodeState, problem: &str, now: Timestamp) -> (NodeState, String) {
    let order = match std::mem::take(&mut node.phase) {
        NodePhase::Idle => {
            let what = format!("{}, the last confirmed version, runs", node.running);
            return (node, what);
        }
        NodePhase::RollingBack { order, back, why, rejects, since } => {
            let what = format!("the rollback to {back} continues");
            node.phase = NodePhase::RollingBack { order, back, why, rejects, since };
            return (node, what);
        }
        NodePhase::Preparing { order, .. }
        | NodePhase::Staged { order, .. }
        | NodePhase::Applying { order, .. }
        | NodePhase::Soaking { order, .. } => order,
    };
    let (back, to) = (node.running.clone(), order.to.clone());
    // The state was damaged by a crash, which counts as any other.
    node.crashes = node.crashes.saturating_add(1);
    let crashed = node.crash_reason(&to, MAX_CRASHES);
    let rejects = crashed.is_some();
    let lost = || format!("the watchdog lost its state during the trial: state/phase {problem}");
    let why = crashed.unwrap_or_else(lost);
    let what = format!("the trial of {to} ended, and {back}, the last confirmed version, runs");
    node.phase = NodePhase::RollingBack { order, back, why, rejects, since: now };
    (node, what)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Span;
    use crate::phase::{NodeEvent, RolloutOrder, step};

    const OLD: &str = "1.0";
    const NEW: &str = "2.0";
    const PACKAGED: &str = "0.1";
    const USED: KnownWrites = KnownWrites { sequence: 0, has_slots: true };

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    /// A node in every phase of the rollout from 1.0 to 2.0, in the order in which they are written.
    fn course() -> Vec<NodeState> {
        let id: zagent_config::ids::RolloutId = "r".parse().unwrap();
        let order = RolloutOrder {
            rollout: Some(id.clone()),
            to: NEW.into(),
            soak: Span(Duration::ZERO),
            anyway: false,
            created: now(),
        };
        let mut node = NodeState::with_version(OLD);
        node.rejected.insert("1.5".into(), "it exits".into());
        let mut all = vec![node];
        for event in [
            NodeEvent::Prepare(order),
            NodeEvent::Fetched,
            NodeEvent::Apply(id.clone()),
            NodeEvent::Applied,
            NodeEvent::Ready,
            NodeEvent::Confirm(id),
        ] {
            all.push(step(all.last().unwrap(), event, now()).0);
        }
        let soaking = &all[4];
        all.push(step(soaking, NodeEvent::RollBack("slow".into()), now()).0);
        all
    }

    fn whole(node: &NodeState, sequence: u64) -> SavedCopy {
        SavedCopy::Whole { node: Box::new(node.clone()), sequence: Some(sequence) }
    }

    /// All that can have happened to a copy of a write; `old` is any earlier one.
    fn damages(node: &NodeState, sequence: u64) -> Vec<(&'static str, SavedCopy)> {
        vec![
            ("whole", whole(node, sequence)),
            ("damaged", SavedCopy::Damaged("truncated".into())),
            ("missing", SavedCopy::Missing),
        ]
    }

    #[test]
    fn no_damage_of_any_copy_in_any_phase_makes_an_unconfirmed_version_the_good_one() {
        let all = course();
        let mut cases = 0;
        for (n, node) in all.iter().enumerate() {
            let written = n as u64 + 5;
            let good = &node.running;
            // The second copy is as new as the first, or one write behind when the watchdog died between the two.
            let before = n.checked_sub(1).filter(|_| n < 7).map(|n| &all[n]);
            let seconds = [Some((node, written)), before.map(|before| (before, written - 1))];
            for (second, second_written) in seconds.into_iter().flatten() {
                for (first_damage, first) in damages(node, written) {
                    for (second_damage, copy) in damages(second, second_written) {
                        cases += 1;
                        let case = format!("{n} {first_damage}, {second_written} {second_damage}");
                        let found = recover(first.clone(), copy, USED, PACKAGED, now());
                        if first_damage == "whole" {
                            assert_eq!((&found.node, &found.first), (node, &None), "{case}");
                            assert_eq!(found.second.is_some(), second_damage != "whole", "{case}");
                            continue;
                        }
                        assert!(found.first.is_some() && found.is_damaged(), "{case}");
                        assert!(!found.node.is_unconfirmed(), "{case}");
                        let expected = match second_damage {
                            "whole" => &second.running,
                            _ => PACKAGED,
                        };
                        assert_eq!(found.node.current_version(), expected, "{case}");
                        assert!(found.node.current_version() == good || found.node.running != NEW, "{case}");
                        if second_damage == "whole" {
                            assert!(found.node.rejected.contains_key("1.5"), "{case}");
                            assert!(found.sequence == second_written, "{case}");
                        }
                    }
                }
            }
        }
        assert_eq!(cases, 8 * 9 + 6 * 9);
    }

    #[test]
    fn an_old_first_copy_does_not_start_an_old_trial_again() {
        let all = course();
        for (old, node) in all.iter().enumerate().take(6) {
            let confirmed = &all[6];
            let found = recover(whole(node, old as u64), whole(confirmed, 9), USED, PACKAGED, now());
            assert_eq!((&found.node, found.sequence), (confirmed, 9), "{old}");
            assert!(found.first.unwrap().starts_with("is an old copy"), "{old}");
            // An old second copy is of no interest while the first is whole.
            let found = recover(whole(confirmed, 9), whole(node, old as u64), USED, PACKAGED, now());
            assert_eq!((&found.node, found.sequence, found.is_damaged()), (confirmed, 9, false), "{old}");
            // Without a second copy, an old trial still does not start again when it is known to be old.
            let known = KnownWrites { sequence: 9, has_slots: true };
            for lost in [SavedCopy::Missing, SavedCopy::Damaged("cut".into())] {
                let found = recover(whole(node, old as u64), lost, known, PACKAGED, now());
                assert_eq!((found.node, found.sequence), (NodeState::with_version(PACKAGED), 9), "{old}");
            }
        }
    }

    #[test]
    fn a_trial_that_was_lost_is_reported_as_failed_and_does_not_reject_the_version() {
        for node in &course()[1..6] {
            let found = recover(SavedCopy::Damaged("cut".into()), whole(node, 9), USED, PACKAGED, now());
            assert!(found.first.as_ref().unwrap().contains("the trial of 2.0 ended, and 1.0"), "{found:?}");
            let (ended, _) = step(&found.node, NodeEvent::RolledBack, now());
            let last = ended.last.unwrap();
            assert_eq!(last.outcome, crate::phase::NodeOutcome::Failed);
            assert_eq!(
                last.why.as_deref(),
                Some("the watchdog lost its state during the trial: state/phase is damaged (cut)")
            );
            assert!(!ended.rejected.contains_key(NEW) && ended.running == OLD);
            // Unless it is the last of too many crashes.
            let node = NodeState { crashes: MAX_CRASHES - 1, ..node.clone() };
            let found = recover(SavedCopy::Damaged("cut".into()), whole(&node, 9), USED, PACKAGED, now());
            assert!(step(&found.node, NodeEvent::RolledBack, now()).0.rejected.contains_key(NEW));
        }
    }

    #[test]
    fn a_new_node_and_files_of_older_versions_are_not_damage() {
        let found = recover(SavedCopy::Missing, SavedCopy::Missing, KnownWrites::default(), PACKAGED, now());
        assert_eq!((found.node.running.as_str(), found.is_damaged()), (PACKAGED, false));
        let node = &course()[4];
        let unsealed = SavedCopy::Whole { node: Box::new(node.clone()), sequence: None };
        for second in [SavedCopy::Missing, whole(&course()[0], 9)] {
            let found = recover(unsealed.clone(), second, USED, PACKAGED, now());
            assert_eq!((&found.node, found.is_damaged()), (node, false));
        }
        assert!(!recover(whole(node, 1), SavedCopy::Missing, USED, PACKAGED, now()).is_damaged());
        assert!(recover(whole(node, 2), SavedCopy::Missing, USED, PACKAGED, now()).second.is_some());
        // Versions are installed and nothing says which of them is good.
        let lost = recover(SavedCopy::Missing, SavedCopy::Missing, USED, PACKAGED, now());
        assert_eq!(lost.node, NodeState::with_version(PACKAGED));
        assert!(lost.first.unwrap().contains("the built-in version 0.1 runs"));
    }
}
