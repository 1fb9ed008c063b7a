//! What a run did, as one value; every output is made from it.
//!
//! Law: a [`StateOutcome`] holds no secret. Only [`OutcomeDraft::into_outcome`] makes one, and it masks all of it (held by
//! `Masked`, `nothing_of_an_outcome_holds_a_secret`), so that no output has to.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::settings::RunSchedule;
use zagent_config::{Map, SecretMask, Value, mask};

/// Set in the details of a revert where something was left alone, because other hands had changed it since.
pub const LEFT_ALONE: &str = "left_alone";
/// Set in the details of a revert where something cannot be undone at all.
pub const IRREVERSIBLE: &str = "irreversible";

/// The detail of a failed state that names the file and the line of its SLS.
pub const SOURCE: &str = "source";
/// A guard kept the state from running, or its `check_cmd` refused the content: it does not react either.
pub(crate) const SKIP_WATCH: &str = "skip_watch";
/// What the state changed moves nobody else.
pub(crate) const SKIP_REQ: &str = "skip_req";
/// False where requisites kept the state from running.
pub(crate) const STATE_RAN: &str = "__state_ran__";
/// Set where a state ran beside others because it says `parallel`.
pub(crate) const PARALLEL: &str = "__parallel__";
/// What a state of another module did for this one.
const SUB_STATE_RUN: &str = "sub_state_run";
/// Details that Salt has beside the result of a state, not in it.
pub const SALT_RESULT_KEYS: [&str; 5] = [SKIP_WATCH, SKIP_REQ, STATE_RAN, PARALLEL, SUB_STATE_RUN];

/// What a run was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunMode {
    /// Look, change, look again.
    Apply,
    /// Only look.
    Test,
    /// Undo what a run did.
    Revert,
    /// Only look, on a node that changes nothing by itself; reported like a real run.
    Audit,
}

impl RunMode {
    /// Its word in a report.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Test => "test",
            Self::Revert => "revert",
            Self::Audit => "audit",
        }
    }

    /// True when the run changes nothing.
    #[must_use]
    pub const fn changes_nothing(self) -> bool {
        matches!(self, Self::Test | Self::Audit)
    }
}

/// Why a state changes something, or would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeCause {
    /// The host: it was as the state asks, and the state still asks for the same.
    Drift,
    /// The states, the pillar or the facts: the host never was as the state now asks.
    Change,
}

impl ChangeCause {
    /// Its word in a report.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Drift => "drift",
            Self::Change => "change",
        }
    }

    /// The cause of a word.
    #[must_use]
    pub fn find(word: &str) -> Option<Self> {
        [Self::Drift, Self::Change].into_iter().find(|cause| cause.as_str() == word)
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

/// What stands between the parts of a state's key.
const TAG_SEPARATOR: &str = "_|-";

/// Keys of changes that stand for what was and what is.
const PAIRS: [(&str, &str); 2] = [("old", "new"), ("before", "after")];

/// Words before the lines that `file.keyvalue` predicts in its comment.
const PREDICTED_LINES: &str = "\nPredicted diff:";

/// How one state ended, before its secrets are masked; its fields are those of [`StateOutcome`].
#[derive(Clone, Debug)]
pub(crate) struct OutcomeDraft {
    pub(crate) tag: String,
    pub(crate) state: String,
    pub(crate) fun: String,
    pub(crate) id: String,
    pub(crate) sls: String,
    pub(crate) name: String,
    pub(crate) about: Option<Value>,
    pub(crate) result: Option<bool>,
    pub(crate) unknown: bool,
    pub(crate) skip: Option<SkipReason>,
    pub(crate) changes: Map,
    pub(crate) comment: String,
    pub(crate) diff: String,
    pub(crate) details: Map,
    pub(crate) run_num: u64,
    pub(crate) level: usize,
    pub(crate) start: Timestamp,
    pub(crate) duration: Duration,
}

/// How much of a file a state may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileLines {
    /// Its lines, unless one of them holds a secret.
    Shown,
    /// None: it holds or held a secret.
    Hidden,
}

impl OutcomeDraft {
    /// The outcome without secrets.
    pub(crate) fn into_outcome(mut self, mask: &SecretMask, lines: FileLines) -> StateOutcome {
        if lines == FileLines::Hidden
            || mask.finds(self.diff.as_bytes())
            || mask_finds_lines(mask, &self.changes)
        {
            self.hide_lines();
        }
        if !mask.is_empty() {
            self.mask_texts(mask);
        }
        StateOutcome {
            tag: self.tag,
            state: self.state,
            fun: self.fun,
            id: self.id,
            sls: self.sls,
            name: self.name,
            about: self.about,
            result: self.result,
            unknown: self.unknown,
            skip: self.skip,
            changes: self.changes,
            comment: self.comment,
            diff: self.diff,
            details: self.details,
            run_num: self.run_num,
            level: self.level,
            start: self.start,
            duration: self.duration,
            resource: None,
            cause: None,
            masked: Masked,
        }
    }

    /// Nothing of what the file holds or held stays.
    fn hide_lines(&mut self) {
        if !self.diff.is_empty() {
            self.diff = format!("{}\n", mask::HIDDEN_DIFF);
        }
        if let Some(at) = self.comment.find(PREDICTED_LINES) {
            self.comment.truncate(at);
        }
        self.changes = hide_lines_in(&self.changes);
    }

    fn mask_texts(&mut self, mask: &SecretMask) {
        let (id, name) = (self.id.clone(), self.name.clone());
        for text in [&mut self.tag, &mut self.id, &mut self.sls, &mut self.name, &mut self.comment] {
            if let Cow::Owned(masked) = mask.mask_named(text, &[&id, &name]) {
                *text = masked;
            }
        }
        self.diff = mask.mask_string(&self.diff);
        self.about = self.about.take().map(|about| mask.mask_value(&about));
        self.changes = mask_pairs(mask, &self.changes);
        for map in [&mut self.changes, &mut self.details] {
            if let Value::Map(masked) = mask.mask_value(&std::mem::take(map).into()) {
                *map = Arc::unwrap_or_clone(masked);
            }
        }
    }
}

/// True when a `diff` somewhere in the changes holds a secret.
fn mask_finds_lines(mask: &SecretMask, changes: &Map) -> bool {
    !mask.is_empty()
        && changes.iter().any(|(key, value)| match value {
            _ if key.as_str() == Some("diff") => mask.finds_in(value),
            Value::Map(map) => mask_finds_lines(mask, map),
            _ => false,
        })
}

/// Changes without lines of files: words such as `New file` stay.
fn hide_lines_in(changes: &Map) -> Map {
    let mut out = Map::with_capacity(changes.len());
    for (key, value) in changes.iter() {
        let is_pair = is_in_pair(changes, key.as_str().unwrap_or_default());
        let shown = match value {
            Value::Str(text) if key.as_str() == Some("diff") && text.contains('\n') => {
                mask::HIDDEN_DIFF.into()
            }
            Value::Map(_) | Value::List(_) if key.as_str() == Some("diff") => mask::HIDDEN_DIFF.into(),
            Value::Str(_) | Value::List(_) if is_pair => mask::MASKED_TEXT.into(),
            Value::Map(map) => hide_lines_in(map).into(),
            other => other.clone(),
        };
        out.insert(key.clone(), shown);
    }
    out
}

/// Where one side of a pair holds a secret, the other side held one: both are masked.
fn mask_pairs(mask: &SecretMask, changes: &Map) -> Map {
    let holds = |key: &str| changes.get(key).is_some_and(|value| mask.finds_in(value));
    let is_secret = |key: &str| {
        PAIRS
            .iter()
            .any(|(a, b)| [a, b].contains(&&key) && is_in_pair(changes, key) && (holds(a) || holds(b)))
    };
    let mut out = Map::with_capacity(changes.len());
    for (key, value) in changes.iter() {
        let shown = match value {
            Value::Str(_) | Value::Int(_) | Value::List(_) if key.as_str().is_some_and(is_secret) => {
                mask::MASKED_TEXT.into()
            }
            Value::Map(map) => mask_pairs(mask, map).into(),
            other => other.clone(),
        };
        out.insert(key.clone(), shown);
    }
    out
}

fn is_in_pair(changes: &Map, key: &str) -> bool {
    PAIRS.iter().any(|(a, b)| (key == *a || key == *b) && changes.contains(a) && changes.contains(b))
}

/// Only this file makes one: the mark of an outcome without secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Masked;

/// How one state ended, without secrets.
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
    /// The resource that it ran for; none for the node itself.
    pub resource: Option<String>,
    /// Why it changes something, or would; none when that is not known.
    pub cause: Option<ChangeCause>,
    masked: Masked,
}

impl StateOutcome {
    /// What Salt reports as a state when nothing is selected for a node.
    #[must_use]
    pub fn no_states(comment: &str, start: Timestamp) -> Self {
        Self::without_chunk(("states", "No States"), comment, start)
    }

    /// What Salt reports as a state when nothing is selected for a resource; its key is prefixed with those of all others.
    #[must_use]
    pub fn no_resource_states(resource: &str, start: Timestamp) -> Self {
        let comment = format!("No Top file or master_tops data matches found for resource '{resource}'.");
        Self::without_chunk(("states", "states"), &comment, start)
    }

    /// What is reported for a resource that failed before it had any state.
    #[must_use]
    pub fn resource_failed(resource: &str, comment: &str, start: Timestamp, mask: &SecretMask) -> Self {
        let outcome = Self::without_chunk((resource, resource), &mask.mask_str(comment), start);
        Self { resource: Some(resource.to_owned()), ..outcome }
    }

    /// The same outcome as one of a resource: its id and name are prefixed in its key, module and function are not.
    #[must_use]
    pub fn for_resource(mut self, resource: &str) -> Self {
        // What is about the resource as a whole has no other key.
        let own = if self.resource.is_some() { "" } else { self.tag.as_str() };
        let mut parts = own.splitn(4, TAG_SEPARATOR);
        self.tag = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(state), Some(id), Some(name), Some(fun)) => {
                [state, &format!("{resource} {id}"), &format!("{resource} {name}"), fun].join(TAG_SEPARATOR)
            }
            _ => ["no", resource, resource, "None"].join(TAG_SEPARATOR),
        };
        self.resource = Some(resource.to_owned());
        self
    }

    /// Its id, with the resource that it ran for.
    #[must_use]
    pub fn shown_id(&self) -> &str {
        self.shown_part(1).unwrap_or(&self.id)
    }

    /// Its name, with the resource that it ran for.
    #[must_use]
    pub fn shown_name(&self) -> &str {
        self.shown_part(2).unwrap_or(&self.name)
    }

    fn shown_part(&self, index: usize) -> Option<&str> {
        self.resource.as_ref()?;
        self.tag.splitn(4, TAG_SEPARATOR).nth(index)
    }

    /// A failure that no chunk stands for.
    fn without_chunk((id, name): (&str, &str), comment: &str, start: Timestamp) -> Self {
        let draft = OutcomeDraft {
            tag: ["no", id, id, "None"].join(TAG_SEPARATOR),
            state: "no".into(),
            fun: "None".into(),
            id: id.into(),
            sls: String::new(),
            name: name.into(),
            about: None,
            result: Some(false),
            unknown: false,
            skip: None,
            changes: Map::new(),
            comment: comment.into(),
            diff: String::new(),
            details: Map::new(),
            run_num: 0,
            level: 0,
            start,
            duration: Duration::ZERO,
        };
        draft.into_outcome(&SecretMask::default(), FileLines::Shown)
    }

    /// True when an SLS declared it; false for what Salt itself reports as a state.
    #[must_use]
    pub fn is_declared(&self) -> bool {
        let is_synthetic = self.state == "no" && self.fun == "None";
        !(is_synthetic || self.id.is_empty() && self.sls.is_empty())
    }

    /// True when these details are set.
    #[must_use]
    pub fn has_detail(&self, detail: &str) -> bool {
        self.details.get(detail).is_some_and(Value::is_truthy)
    }

    /// Where a failed state is declared: `web/init.sls:12`.
    #[must_use]
    pub fn declared_at(&self) -> Option<&str> {
        self.details.get(SOURCE).and_then(Value::as_str).filter(|_| self.result == Some(false))
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
    /// How many states change something for this cause, or would.
    #[must_use]
    pub fn count_cause(&self, cause: ChangeCause) -> usize {
        self.states.iter().filter(|state| state.cause == Some(cause)).count()
    }

    /// Why the run changes something: `drift`, `change`, or `mixed`; none when nothing changes or nobody knows.
    #[must_use]
    pub fn cause(&self) -> Option<&'static str> {
        match (self.count_cause(ChangeCause::Drift), self.count_cause(ChangeCause::Change)) {
            (0, 0) => None,
            (_, 0) => Some(ChangeCause::Drift.as_str()),
            (0, _) => Some(ChangeCause::Change.as_str()),
            _ => Some("mixed"),
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn json(text: &str) -> Map {
        let Value::Map(map) = Value::from_json_str(text).unwrap() else { panic!("no mapping") };
        (*map).clone()
    }

    fn masked(draft: OutcomeDraft, lines: FileLines) -> StateOutcome {
        draft.into_outcome(&SecretMask::new(&["hunter2-x".into()]), lines)
    }

    #[test]
    fn nothing_of_an_outcome_holds_a_secret() {
        let mut draft = samples::draft("cmd.run", "id hunter2-x", "echo hunter2-x");
        draft.sls = "a.hunter2-x".into();
        draft.about = Some(Value::from("hunter2-x"));
        draft.comment = "said aHVudGVyMi14 and 68756e746572322d78".into();
        draft.changes = json(r#"{"stdout": "hunter2-x", "hunter2-x": [{"a": "xhunter2-xx"}]}"#);
        draft.details = json(r#"{"event": "hunter2-x"}"#);
        let text = format!("{:?}", masked(draft, FileLines::Shown));
        for form in ["hunter2", "aHVudGVy", "68756e"] {
            assert!(!text.contains(form), "{form}: {text}");
        }
    }

    #[test]
    fn an_id_that_equals_a_password_stays_readable() {
        let mask = SecretMask::with_marked(&[], &["zabbix".into()]);
        let mut draft = samples::draft("mysql_user.present", "zabbix", "zabbix");
        draft.comment = "The user zabbix@localhost has been added".into();
        draft.changes = json(r#"{"password": "zabbix"}"#);
        let outcome = draft.into_outcome(&mask, FileLines::Shown);
        assert_eq!((outcome.id.as_str(), outcome.name.as_str()), ("zabbix", "zabbix"));
        assert_eq!(outcome.tag, "mysql_user_|-zabbix_|-zabbix_|-present");
        assert_eq!(outcome.comment, "The user zabbix@localhost has been added");
        assert_eq!(outcome.changes, json(r#"{"password": "********"}"#));
        // In the outcome of another state it is a secret.
        let mut other = samples::draft("cmd.run", "x", "login zabbix");
        other.comment = "zabbix".into();
        let outcome = other.into_outcome(&mask, FileLines::Shown);
        assert_eq!((outcome.name.as_str(), outcome.comment.as_str()), ("login ********", "********"));
    }

    #[test]
    fn the_old_value_goes_with_the_new_one() {
        let mut draft = samples::draft("ini.options_present", "x", "/x");
        draft.changes = json(
            r#"{"db": {"password": {"before": "old-value", "after": "hunter2-x"}, "port": {"before": "1", "after": "2"}},
                "mode": {"old": "0600", "new": "0644"}}"#,
        );
        let want = json(
            r#"{"db": {"password": {"before": "********", "after": "********"}, "port": {"before": "1", "after": "2"}},
                "mode": {"old": "0600", "new": "0644"}}"#,
        );
        assert_eq!(masked(draft, FileLines::Shown).changes, want);
    }

    #[test]
    fn a_file_with_a_secret_shows_no_lines() {
        let lines = "--- \n+++ \n@@ -1 +1 @@\n-old-value\n+hunter2-x\n";
        let draft = |diff: &str| {
            let mut draft = samples::draft("file.managed", "x", "/x");
            draft.diff = diff.into();
            draft.changes.insert("diff", diff);
            draft.changes.insert("mode", "0600");
            draft.comment = "It changed\nPredicted diff:\n\r\t\t- old-value".into();
            draft
        };
        let plain = lines.replace("hunter2-x", "new-value");
        for outcome in [masked(draft(lines), FileLines::Shown), masked(draft(&plain), FileLines::Hidden)] {
            let text = format!("{outcome:?}");
            assert!(!text.contains("old-value") && !text.contains("hunter2-x"), "{text}");
            assert_eq!(outcome.changes.get("diff"), Some(&mask::HIDDEN_DIFF.into()));
            assert_eq!(outcome.changes.get("mode"), Some(&"0600".into()));
        }
        let shown = masked(draft(&plain), FileLines::Shown);
        assert!(shown.diff == plain && shown.comment.contains("old-value"));
        let mut new = samples::draft("file.managed", "x", "/x");
        new.changes = json(r#"{"/x": {"diff": "New file", "mode": "0644"}}"#);
        let kept = new.changes.clone();
        assert_eq!(masked(new, FileLines::Hidden).changes, kept);
    }
}
