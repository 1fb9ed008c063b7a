//! Rollout record in, short texts out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use zagent_config::ids::{NodeId, Revision};
use zagent_rollout::Span;
use zagent_rollout::record::{BatchPhase, Component, NodeStatus, RolloutRecord, RolloutStatus};

use crate::output::{Tone, pluralize};
use zagent_daemon::operator::span_text;

/// Maximum number of node names on one line.
pub(super) const MAX_NAMED: usize = 5;

/// A version as it is, a commit shortened.
pub(in crate::cli) fn short_version(component: Component, text: &str) -> String {
    match (component, text.parse::<Revision>()) {
        (Component::States, Ok(revision)) => revision.short().to_owned(),
        _ => text.to_owned(),
    }
}

/// `agent to 1.4.0 from 1.3.2`.
pub(in crate::cli) fn order_text(record: &RolloutRecord) -> String {
    let short = |text: &str| short_version(record.component, text);
    let from = record.from.as_ref().map(|from| format!(" from {}", short(from))).unwrap_or_default();
    format!("{} to {}{from}", record.component.name(), short(&record.to))
}

/// Its word in a record.
pub(in crate::cli) const fn status_word(status: NodeStatus) -> &'static str {
    match status {
        NodeStatus::Waiting => "waiting",
        NodeStatus::Prepared => "prepared",
        NodeStatus::Applied => "applied",
        NodeStatus::Confirmed => "confirmed",
        NodeStatus::Failed => "failed",
        NodeStatus::Silent => "silent",
    }
}

/// How a node status looks.
pub(super) const fn status_tone(status: NodeStatus) -> Tone {
    match status {
        NodeStatus::Waiting => Tone::Dim,
        NodeStatus::Prepared | NodeStatus::Applied => Tone::Plain,
        NodeStatus::Confirmed => Tone::Good,
        NodeStatus::Failed => Tone::Error,
        NodeStatus::Silent => Tone::Warn,
    }
}

/// How a rollout status looks.
pub(in crate::cli) const fn state_tone(state: RolloutStatus) -> Tone {
    match state {
        RolloutStatus::Created | RolloutStatus::Rolling => Tone::Plain,
        RolloutStatus::Completed => Tone::Good,
        RolloutStatus::Paused => Tone::Warn,
        RolloutStatus::Aborting | RolloutStatus::Aborted => Tone::Error,
    }
}

/// Its word in a record.
pub(in crate::cli) const fn phase_word(phase: BatchPhase) -> &'static str {
    match phase {
        BatchPhase::Prepare => "prepare",
        BatchPhase::Apply => "apply",
        BatchPhase::Soak => "soak",
        BatchPhase::Confirm => "confirm",
        BatchPhase::Pause => "pause",
    }
}

/// Driver of the rollout.
pub(super) fn driver_name(record: &RolloutRecord) -> Option<&str> {
    record.driver.as_ref().map(|driver| driver.id.as_str())
}

/// Number of nodes in a rollout.
pub(super) fn node_count(record: &RolloutRecord) -> usize {
    record.batches.iter().map(Vec::len).sum()
}

/// Number of nodes per status.
pub(super) fn status_counts(record: &RolloutRecord) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for node in record.batches.iter().flatten() {
        *counts.entry(status_word(record.node_status(node))).or_default() += 1;
    }
    counts
}

/// `12 nodes: 3 confirmed, 9 waiting`.
pub(in crate::cli) fn counts_text(record: &RolloutRecord) -> String {
    let counts = status_counts(record);
    let order = ["confirmed", "applied", "prepared", "failed", "silent", "waiting"];
    let words = order.iter().filter_map(|word| counts.get(word).map(|n| format!("{n} {word}")));
    let words: Vec<String> = words.collect();
    match words.is_empty() {
        true => "no nodes".into(),
        false => format!("{}: {}", pluralize(node_count(record), "node"), words.join(", ")),
    }
}

/// `batch 2 of 4`.
pub(super) fn batch_text(record: &RolloutRecord) -> String {
    let (all, now) = (record.batches.len(), record.current_batch + 1);
    format!("batch {} of {all}", now.min(all.max(1)))
}

/// Length of the current phase, when it has one.
fn phase_length(record: &RolloutRecord) -> Option<Span> {
    match record.phase {
        BatchPhase::Soak => Some(record.soak_time),
        BatchPhase::Pause => Some(record.batch_pause),
        _ => None,
    }
}

/// `soak, 20s of 1m`, `apply for 12s`.
pub(super) fn phase_text(record: &RolloutRecord, now: Timestamp) -> String {
    let word = phase_word(record.phase);
    let Some(since) = record.phase_since else { return word.to_owned() };
    let age = span_text(since.min(now), now);
    match phase_length(record) {
        Some(length) => format!("{word}, {age} of {length}"),
        None => format!("{word} for {age}"),
    }
}

/// What a rollout waits for: `batch 2 of 4 waits for 2 nodes to prepare: web-01, web-02`.
pub(super) fn waiting_text(record: &RolloutRecord, now: Timestamp) -> String {
    let batch = batch_text(record);
    let nodes = record.batches.get(record.current_batch).map(Vec::as_slice).unwrap_or_default();
    let still = |before: &[NodeStatus], to: &str| {
        let late: Vec<&NodeId> =
            nodes.iter().filter(|node| before.contains(&record.node_status(node))).collect();
        let held = late.iter().filter_map(|node| Some((*node, record.nodes.get(*node)?.held.as_ref()?)));
        let held: Vec<String> = held.take(MAX_NAMED).map(|(node, why)| format!("{node}: {why}")).collect();
        if !held.is_empty() {
            return format!("{batch} is waiting for {}", held.join("; "));
        }
        let names = join_names(late.iter().copied(), MAX_NAMED);
        format!("{batch} is waiting for {} to {to}: {names}", pluralize(late.len(), "node"))
    };
    use NodeStatus::{Applied, Prepared, Waiting};
    match (record.state, record.phase) {
        (RolloutStatus::Created, _) => "waiting for a driver".into(),
        (RolloutStatus::Aborting, _) => "waiting for nodes to roll back".into(),
        (RolloutStatus::Paused, BatchPhase::Prepare | BatchPhase::Pause) => {
            "paused: waiting for `zagent rollout resume`".into()
        }
        // Nodes that are prepared but not allowed to switch are waited for as well.
        (_, BatchPhase::Prepare) if nodes.iter().all(|node| record.node_status(node) != Waiting) => {
            still(&[Prepared], "switch")
        }
        (_, BatchPhase::Prepare) => still(&[Waiting], "prepare"),
        (_, BatchPhase::Apply) => still(&[Waiting, Prepared], "apply"),
        (_, BatchPhase::Confirm) => still(&[Waiting, Prepared, Applied], "confirm"),
        (_, BatchPhase::Soak | BatchPhase::Pause) => format!("{batch}: {}", phase_text(record, now)),
    }
}

/// Names on one line: the first few, and how many more.
pub(super) fn join_names<'n>(nodes: impl ExactSizeIterator<Item = &'n NodeId>, most: usize) -> String {
    let more = nodes.len().saturating_sub(most);
    let shown: Vec<&str> = nodes.take(most).map(NodeId::as_str).collect();
    match more {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
