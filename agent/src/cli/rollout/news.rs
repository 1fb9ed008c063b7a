//! A record and the one before in, what happened between them out: one line a thing.
//!
//! Law: pure. What did not change is not told; a first record is told as it stands.

use zagent_rollout::record::{Mode, NodeStatus, Record, State};

use super::words;
use crate::output::{Tone, one_line};

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct News {
    /// How it looks.
    pub(super) tone: Tone,
    /// What it is.
    pub(super) words: String,
}

/// What happened since.
pub(super) fn between(before: Option<&Record>, after: &Record) -> Vec<News> {
    let mut all = Vec::new();
    let mut tell = |tone, words: String| all.push(News { tone, words: one_line(&words) });
    if before.is_none_or(|before| words::driver(before) != words::driver(after))
        && let Some(driver) = words::driver(after)
    {
        tell(Tone::Faint, format!("driven by {driver}"));
    }
    nodes(before, after, &mut tell);
    let place = |record: &Record| (record.current_batch, record.phase);
    let moves = matches!(after.state, State::Rolling | State::Paused) && after.mode == Mode::Driver;
    if moves && before.is_none_or(|before| place(before) != place(after) || before.state == State::Created) {
        let (batch, phase) = (words::batch(after), words::phase(after.phase));
        let who =
            after.batches.get(after.current_batch).map(|nodes| words::names(nodes.iter(), words::NAMED));
        tell(Tone::Plain, format!("{batch}: {phase}: {}", who.unwrap_or_default()));
    }
    if before.is_none_or(|before| before.state != after.state) {
        let reason = after.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        tell(words::state_tone(after.state), format!("{}{reason}", after.state.word()));
    }
    all
}

fn nodes(before: Option<&Record>, after: &Record, tell: &mut impl FnMut(Tone, String)) {
    let changed = |status: NodeStatus| {
        let is_new = move |node: &&zagent_config::ids::NodeId| {
            after.status(node) == status && before.is_none_or(|before| before.status(node) != status)
        };
        after.batches.iter().flatten().filter(is_new).collect::<Vec<_>>()
    };
    for status in [NodeStatus::Prepared, NodeStatus::Applied, NodeStatus::Confirmed, NodeStatus::Silent] {
        let nodes = changed(status);
        if !nodes.is_empty() {
            let names = words::names(nodes.into_iter(), words::NAMED);
            tell(words::tone(status), format!("{}: {names}", words::status(status)));
        }
    }
    let held = |record: &Record, node| record.nodes.get(node).and_then(|progress| progress.held.clone());
    for (node, progress) in &after.nodes {
        if let Some(why) = &progress.held
            && before.is_none_or(|before| held(before, node).as_ref() != Some(why))
        {
            tell(Tone::Look, format!("waits for {node}: {why}"));
        }
    }
    // Why a node failed is worth a line of its own.
    for node in changed(NodeStatus::Failed) {
        let why = after.nodes.get(node).and_then(|progress| progress.error.as_deref());
        tell(Tone::Bad, format!("failed: {node}: {}", why.unwrap_or("no reason given")));
    }
}
