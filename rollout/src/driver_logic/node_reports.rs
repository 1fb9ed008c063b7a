//! What one report says about one rollout.
//!
//! Law: a report counts only if it is about this rollout. Text from a node is kept short and on one line (held by
//! `reports_about_another_rollout_or_component_are_ignored`, `text_from_a_node_cannot_break_the_log`).

use std::time::Duration;

use jiff::Timestamp;

use crate::phase::{NodeOutcome, saturating_after};
use crate::record::{BatchPhase, Component, NodeStatus, RolloutRecord};
use crate::report::{NodeActivity, NodeReport, NodeRollout};

/// Why a node that counts as silent rolls back: the version is not the cause.
pub(super) const SILENT_NODE_REASON: &str = "the driver did not hear from this node";
/// How long a reported hold is valid: nodes of a rollout report with every check.
const HOLD_VALIDITY: Duration = Duration::from_secs(5 * 60);
/// How long a report that a node still works is valid: it reports with every check.
const BUSY_VALIDITY: Duration = Duration::from_secs(2 * 60);
/// Maximum characters of a node's text in a record.
const MAX_REASON_CHARS: usize = 200;

/// The report of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReportedProgress {
    /// Nothing that moves this rollout on.
    Nothing,
    /// Everything is fetched and verified.
    Prepared,
    /// It runs the new version; it passed its soak if it was ready for long enough.
    Applied { proven: bool },
    /// It keeps the new version.
    Confirmed,
    /// It failed.
    Failed(String),
}

impl ReportedProgress {
    /// What a report says about a rollout.
    pub(super) fn from_report(record: &RolloutRecord, report: Option<&NodeReport>, now: Timestamp) -> Self {
        let Some(report) = report.filter(|report| report.component == record.component) else {
            return Self::Nothing;
        };
        let is_this = |taken: &&NodeRollout| taken.rollout == record.id && taken.created == record.created;
        let Some(taken) = report.taken.as_ref().filter(is_this) else { return Self::Nothing };
        let failed = |otherwise: &str| {
            Self::Failed(taken.error.as_deref().map_or_else(|| otherwise.to_owned(), truncate_reason))
        };
        match (taken.outcome, report.state) {
            (Some(NodeOutcome::Confirmed), _) => Self::Confirmed,
            (Some(NodeOutcome::Failed), _) => failed("it gave no reason"),
            (Some(NodeOutcome::Withdrawn), _) => failed("it was withdrawn on the node"),
            (None, NodeActivity::RollingBack) => failed("it is rolling back and gave no reason"),
            (None, NodeActivity::Staged) => Self::Prepared,
            (None, NodeActivity::Soaking) => {
                // By the node's own clock, which may differ, or by the driver's clock if there was no report since.
                let over = saturating_after(taken.at, record.soak_time.0);
                let proven = taken.ready_since.is_some() && (report.updated_at >= over || now >= over);
                Self::Applied { proven }
            }
            (None, NodeActivity::Idle | NodeActivity::Preparing | NodeActivity::Applying) => Self::Nothing,
        }
    }

    /// The next status of a node that has not failed.
    pub(super) const fn node_status(&self) -> NodeStatus {
        match self {
            Self::Nothing => NodeStatus::Waiting,
            Self::Prepared => NodeStatus::Prepared,
            Self::Applied { .. } => NodeStatus::Applied,
            Self::Confirmed => NodeStatus::Confirmed,
            Self::Failed(_) => NodeStatus::Failed,
        }
    }
}

fn truncate_reason(words: &str) -> String {
    let line = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
    let mut short: String = line.chars().filter(|c| !c.is_control()).take(MAX_REASON_CHARS).collect();
    if line.chars().count() > MAX_REASON_CHARS {
        short.push('…');
    }
    if short.is_empty() { "it gave no reason".to_owned() } else { short }
}

/// Why a node starts nothing now, if it said so recently: a node without a newer report may be gone.
pub(super) fn hold_reason(report: Option<&NodeReport>, now: Timestamp) -> Option<String> {
    let report = report.filter(|report| now < saturating_after(report.updated_at, HOLD_VALIDITY))?;
    report.hold.as_deref().map(truncate_reason)
}

/// What a node waits for or refuses in this rollout.
pub(super) fn wait_reason(record: &RolloutRecord, report: Option<&NodeReport>) -> Option<String> {
    report.and_then(|report| report.waits.get(&record.id)).map(|why| truncate_reason(why))
}

/// True when a node said recently that it still runs states for this rollout, and waits for nothing.
pub(super) fn is_busy(record: &RolloutRecord, report: Option<&NodeReport>, now: Timestamp) -> bool {
    let is_new = |report: &&NodeReport| now < saturating_after(report.updated_at, BUSY_VALIDITY);
    let Some(report) = report.filter(is_new) else { return false };
    let takes = |taken: &NodeRollout| {
        taken.rollout == record.id && taken.created == record.created && taken.outcome.is_none()
    };
    // A binary is switched to in seconds; only states can take their time.
    let runs = (record.phase, record.component) == (BatchPhase::Apply, Component::States);
    runs && report.state == NodeActivity::Applying
        && report.taken.as_ref().is_some_and(takes)
        && !report.waits.contains_key(&record.id)
}

/// True when a node has started to switch in this rollout, and is not done.
pub(super) fn has_begun(record: &RolloutRecord, report: Option<&NodeReport>) -> bool {
    report.is_some_and(|report| {
        matches!(report.state, NodeActivity::Applying | NodeActivity::Soaking)
            && report.taken.as_ref().is_some_and(|taken| {
                taken.rollout == record.id && taken.created == record.created && taken.outcome.is_none()
            })
    })
}

/// The progress of a node; `None` for one that was dropped.
pub(super) const fn status_rank(status: NodeStatus) -> Option<u8> {
    match status {
        NodeStatus::Waiting => Some(0),
        NodeStatus::Prepared => Some(1),
        NodeStatus::Applied => Some(2),
        NodeStatus::Confirmed => Some(3),
        NodeStatus::Failed | NodeStatus::Silent => None,
    }
}
