//! What one report says about one rollout.
//!
//! Law: a report counts only when it speaks of this rollout. What a node says of itself is kept short and on one line.

use std::time::Duration;

use jiff::Timestamp;

use crate::phase::{Outcome, after};
use crate::record::{NodeStatus, Record};
use crate::report::{Doing, Report, Taken};

/// Why a node goes back that the driver counts as silent: no fault of the version.
pub(super) const UNHEARD: &str = "the driver did not hear from this node";
/// How long the word of a node that something holds it counts: nodes of a rollout report with every look at it.
const HOLD: Duration = Duration::from_secs(5 * 60);
/// Characters of a node's words in a record.
const WORDS: usize = 200;

/// What a node says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing about this rollout that moves it on.
    Nothing,
    /// It has what it needs.
    Prepared,
    /// It runs the new one; proven when it was ready for long enough.
    Applied { proven: bool },
    /// It keeps the new one.
    Confirmed,
    /// It did not work out.
    Failed(String),
}

impl Heard {
    /// What a report says about a rollout.
    pub(super) fn of(record: &Record, report: Option<&Report>, now: Timestamp) -> Self {
        let Some(report) = report.filter(|report| report.component == record.component) else {
            return Self::Nothing;
        };
        let is_this = |taken: &&Taken| taken.rollout == record.id && taken.created == record.created;
        let Some(taken) = report.taken.as_ref().filter(is_this) else { return Self::Nothing };
        let failed = |otherwise: &str| {
            Self::Failed(taken.error.as_deref().map_or_else(|| otherwise.to_owned(), short))
        };
        match (taken.outcome, report.state) {
            (Some(Outcome::Confirmed), _) => Self::Confirmed,
            (Some(Outcome::Failed), _) => failed("it did not say why"),
            (Some(Outcome::Withdrawn), _) => failed("it was withdrawn there"),
            (None, Doing::RollingBack) => failed("it goes back and did not say why"),
            (None, Doing::Staged) => Self::Prepared,
            (None, Doing::Soaking) => {
                // By the node's own clock, which may not be ours, or by ours when it has not spoken since.
                let over = after(taken.at, record.soak_time.0);
                let proven = taken.ready_since.is_some() && (report.updated_at >= over || now >= over);
                Self::Applied { proven }
            }
            (None, Doing::Idle | Doing::Preparing | Doing::Applying) => Self::Nothing,
        }
    }

    /// The status that follows, for one that has not failed.
    pub(super) const fn status(&self) -> NodeStatus {
        match self {
            Self::Nothing => NodeStatus::Waiting,
            Self::Prepared => NodeStatus::Prepared,
            Self::Applied { .. } => NodeStatus::Applied,
            Self::Confirmed => NodeStatus::Confirmed,
            Self::Failed(_) => NodeStatus::Failed,
        }
    }
}

fn short(words: &str) -> String {
    let line = words.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
    let mut short: String = line.chars().filter(|c| !c.is_control()).take(WORDS).collect();
    if line.chars().count() > WORDS {
        short.push('…');
    }
    if short.is_empty() { "it did not say why".to_owned() } else { short }
}

/// Why a node begins nothing now, as it said lately: one that was not heard of since may be gone.
pub(super) fn held(report: Option<&Report>, now: Timestamp) -> Option<String> {
    let report = report.filter(|report| now < after(report.updated_at, HOLD))?;
    report.hold.as_deref().map(short)
}

/// How far a node has come; nothing for one that is out of it.
pub(super) const fn rank(status: NodeStatus) -> Option<u8> {
    match status {
        NodeStatus::Waiting => Some(0),
        NodeStatus::Prepared => Some(1),
        NodeStatus::Applied => Some(2),
        NodeStatus::Confirmed => Some(3),
        NodeStatus::Failed | NodeStatus::Silent => None,
    }
}
