//! What a run did, as one value; every output is made from it.

use std::time::Duration;

use jiff::Timestamp;
use zagent_config::settings::RunSchedule;
use zagent_config::{Map, Value};

/// Set in the details of a revert where something was left alone, because other hands had changed it since.
pub const LEFT_ALONE: &str = "left_alone";
/// Set in the details of a revert where something cannot be undone at all.
pub const IRREVERSIBLE: &str = "irreversible";

/// What a run was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// Look, change, look again.
    Apply,
    /// Only look.
    Test,
    /// Undo what a run did.
    Revert,
}

impl RunMode {
    /// Its word in a report.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Test => "test",
            Self::Revert => "revert",
        }
    }
}

/// Who asked for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunTrigger {
    /// The clock.
    Timer,
    /// A new revision.
    Git,
    /// Somebody.
    Manual,
    /// The host had drifted.
    Drift,
    /// A rollout.
    Rollout,
}

impl RunTrigger {
    /// Its word in a report.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::Git => "git",
            Self::Manual => "manual",
            Self::Drift => "drift",
            Self::Rollout => "rollout",
        }
    }
}

/// Why a state did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SkipReason {
    /// Something it requires failed, or was skipped for such a failure.
    RequireFailed,
    /// Nothing it waits for changed.
    OnchangesNotMet,
    /// Nothing it answers failed.
    OnfailNotMet,
    /// What it prepares for would not change.
    PrereqNotMet,
    /// A state with `failhard` failed before.
    FailhardAbort,
    /// The run was stopped.
    Cancelled,
}

impl SkipReason {
    /// True when it is a problem; else the state was not needed.
    #[must_use]
    pub const fn is_problem(self) -> bool {
        matches!(self, Self::RequireFailed | Self::FailhardAbort | Self::Cancelled)
    }

    /// In words, after `because`.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::RequireFailed => "what they require failed",
            Self::OnchangesNotMet => "nothing they wait for changed",
            Self::OnfailNotMet => "nothing they answer failed",
            Self::PrereqNotMet => "what they prepare for would not change",
            Self::FailhardAbort => "a state with failhard failed",
            Self::Cancelled => "the run was stopped",
        }
    }
}

impl SkipReason {
    /// Its word in a report.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RequireFailed => "require_failed",
            Self::OnchangesNotMet => "onchanges_not_met",
            Self::OnfailNotMet => "onfail_not_met",
            Self::PrereqNotMet => "prereq_not_met",
            Self::FailhardAbort => "failhard_abort",
            Self::Cancelled => "cancelled",
        }
    }
}

/// How one state ended, in one word for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateStatus {
    /// Nothing to do.
    Unchanged,
    /// It changed something.
    Changed,
    /// It would change something.
    WouldChange,
    /// Nobody can tell what it would do.
    Unknown,
    /// It failed.
    Failed,
    /// It did not run.
    Skipped,
}

/// How one state ended.
#[derive(Clone, Debug, PartialEq)]
pub struct StateOutcome {
    /// `state_|-id_|-name_|-fun`.
    pub tag: String,
    /// The module, such as `file`.
    pub state: String,
    /// The function, such as `managed`.
    pub fun: String,
    /// The id.
    pub id: String,
    /// The SLS that declared it.
    pub sls: String,
    /// The name.
    pub name: String,
    /// What it was about, when that is not just a text.
    pub about: Option<Value>,
    /// True when all is well, false when it failed, none when it would change (or nobody can tell).
    pub result: Option<bool>,
    /// Set when nobody can tell what it would do.
    pub unknown: bool,
    /// Why it did not run.
    pub skip: Option<SkipReason>,
    /// What changed or would, in Salt's shape.
    pub changes: Map,
    /// In words.
    pub comment: String,
    /// Lines that changed or would.
    pub diff: String,
    /// What only its module knows.
    pub details: Map,
    /// Its place in the order of the run.
    pub run_num: u64,
    /// Its level in the graph, from zero.
    pub level: usize,
    /// When it began.
    pub start: Timestamp,
    /// How long it took.
    pub duration: Duration,
}

impl StateOutcome {
    /// True when these details are set.
    #[must_use]
    pub fn has_detail(&self, detail: &str) -> bool {
        self.details.get(detail).is_some_and(Value::is_truthy)
    }

    /// ` (exit code 7)` of a command that failed, else nothing: its comment only says that it ran.
    #[must_use]
    pub fn exit_code_suffix(&self) -> String {
        match self.changes.get("retcode") {
            Some(Value::Int(code)) if self.result == Some(false) && *code != 0 => {
                format!(" (exit code {code})")
            }
            _ => String::new(),
        }
    }

    /// How it ended, in one word.
    #[must_use]
    pub fn status(&self) -> StateStatus {
        match self.result {
            _ if self.skip.is_some() => StateStatus::Skipped,
            Some(false) => StateStatus::Failed,
            None if self.unknown => StateStatus::Unknown,
            None => StateStatus::WouldChange,
            Some(true) if self.changes.is_empty() => StateStatus::Unchanged,
            Some(true) => StateStatus::Changed,
        }
    }
}

/// What a run did.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// The run's name.
    pub run: String,
    /// The node.
    pub node: String,
    /// The commit, or where the states came from.
    pub revision: String,
    /// What it was for.
    pub mode: RunMode,
    /// The run that it undid, or would.
    pub reverts: Option<String>,
    /// In which order states ran.
    pub schedule: RunSchedule,
    /// Who asked for it.
    pub trigger: RunTrigger,
    /// True when it was stopped before its end.
    pub canceled: bool,
    /// When it began.
    pub start: Timestamp,
    /// How long it took.
    pub duration: Duration,
    /// All states, in the order they ran.
    pub states: Vec<StateOutcome>,
}

impl RunReport {
    /// How many states ended so.
    #[must_use]
    pub fn count(&self, standing: StateStatus) -> usize {
        self.states.iter().filter(|s| s.status() == standing).count()
    }

    /// True when nothing failed and nobody stopped it.
    #[must_use]
    pub fn is_success(&self) -> bool {
        !self.canceled && self.count(StateStatus::Failed) == 0
    }
}
