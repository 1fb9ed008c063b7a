//! Two consecutive records in, the changes between them out, one line per change.
//!
//! Law: pure. Unchanged things are not printed; a first record is printed in full (held by
//! `pure_modules_do_not_touch_the_machine`, `each_event_is_printed_once`).

use zagent_rollout::record::{NodeStatus, RolloutMode, RolloutRecord, RolloutStatus};

use super::record_text;
use crate::output::{Tone, one_line};

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RolloutEvent {
    /// How it looks.
    pub(super) tone: Tone,
    /// What it says.
    pub(super) text: String,
}

/// Changes between two records.
pub(super) fn events_between(before: Option<&RolloutRecord>, after: &RolloutRecord) -> Vec<RolloutEvent> {
    let mut all = Vec::new();
    let mut tell = |tone, words: String| all.push(RolloutEvent { tone, text: one_line(&words) });
    if before.is_none_or(|before| record_text::driver_name(before) != record_text::driver_name(after))
        && let Some(driver) = record_text::driver_name(after)
    {
        tell(Tone::Dim, format!("driven by {driver}"));
    }
    node_events(before, after, &mut tell);
    let place = |record: &RolloutRecord| (record.current_batch, record.phase);
    let moves = matches!(after.state, RolloutStatus::Rolling | RolloutStatus::Paused)
        && after.mode == RolloutMode::Driver;
    if moves
        && before.is_none_or(|before| place(before) != place(after) || before.state == RolloutStatus::Created)
    {
        let (batch, phase) = (record_text::batch_text(after), record_text::phase_word(after.phase));
        let who = after
            .batches
            .get(after.current_batch)
            .map(|nodes| record_text::join_names(nodes.iter(), record_text::MAX_NAMED));
        tell(Tone::Plain, format!("{batch}: {phase}: {}", who.unwrap_or_default()));
    }
    if before.is_none_or(|before| before.state != after.state) {
        let reason = after.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        tell(record_text::state_tone(after.state), format!("{}{reason}", after.state.name()));
    }
    all
}

fn node_events(before: Option<&RolloutRecord>, after: &RolloutRecord, tell: &mut impl FnMut(Tone, String)) {
    let changed = |status: NodeStatus| {
        let is_new = move |node: &&zagent_config::ids::NodeId| {
            after.node_status(node) == status
                && before.is_none_or(|before| before.node_status(node) != status)
        };
        after.batches.iter().flatten().filter(is_new).collect::<Vec<_>>()
    };
    for status in [NodeStatus::Prepared, NodeStatus::Applied, NodeStatus::Confirmed, NodeStatus::Silent] {
        let nodes = changed(status);
        if !nodes.is_empty() {
            let names = record_text::join_names(nodes.into_iter(), record_text::MAX_NAMED);
            tell(record_text::status_tone(status), format!("{}: {names}", record_text::status_word(status)));
        }
    }
    let held =
        |record: &RolloutRecord, node| record.nodes.get(node).and_then(|progress| progress.held.clone());
    for (node, progress) in &after.nodes {
        if let Some(why) = &progress.held
            && before.is_none_or(|before| held(before, node).as_ref() != Some(why))
        {
            tell(Tone::Warn, format!("waiting for {node}: {why}"));
        }
    }
    // The reason of a failed node gets its own line.
    for node in changed(NodeStatus::Failed) {
        let why = after.nodes.get(node).and_then(|progress| progress.error.as_deref());
        tell(Tone::Error, format!("failed: {node}: {}", why.unwrap_or("no reason given")));
    }
}
