//! Run report in, notification event out.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use zagent_config::settings::WebhookOccasion;

use zagent_config::mask::mask_message;
use zagent_run::tally::Tally;
use zagent_run::{ChangeCause, RunMode, RunReport, StateOutcome, StateStatus};

/// Maximum number of failed states to name.
const MAX_FAILED: usize = 20;
/// Maximum characters of one comment or message.
const MAX_TEXT: usize = 300;

/// An event to send.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct NotifyEvent {
    /// Most important of the occasions.
    pub event: &'static str,
    /// All occasions, by their names.
    pub(crate) occasions: Vec<&'static str>,
    /// When.
    pub time: Timestamp,
    /// The node.
    pub node: String,
    /// The revision, or where the states came from.
    pub revision: String,
    /// Message, when there is more than the numbers.
    pub message: Option<String>,
    /// The run, when there was one.
    pub run: Option<EventRun>,
}

/// The run of an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct EventRun {
    /// Run ID in the history.
    pub id: String,
    /// `apply`, `test`, `revert` or `audit`.
    pub mode: &'static str,
    /// What triggered it.
    pub trigger: &'static str,
    /// True when nothing failed.
    pub success: bool,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// Number of states per result.
    pub counts: Tally,
    /// Why something changed, or would: `drift`, `change` or `mixed`.
    pub cause: Option<&'static str>,
    /// Failed states, limited.
    pub failed: Vec<FailedState>,
    /// States that the host drifted from, limited.
    pub drifted: Vec<FailedState>,
}

/// A state that failed or drifted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FailedState {
    /// Its id.
    pub id: String,
    /// Where it is declared.
    pub sls: String,
    /// `file.managed`.
    pub function: String,
    /// First line of its comment.
    pub comment: String,
}

impl FailedState {
    fn new(state: &StateOutcome) -> Self {
        Self {
            id: short_line(state.shown_id()),
            sls: short_line(&state.sls),
            function: format!("{}.{}", state.state, state.fun),
            comment: short_line(&state.comment),
        }
    }
}

/// Occasions of a run. `failed_before` says that the previous run failed.
#[must_use]
pub(crate) fn run_occasions(report: &RunReport, failed_before: bool) -> Vec<WebhookOccasion> {
    let is_real = report.mode != RunMode::Test;
    let changes = match report.mode {
        RunMode::Audit => report.count_cause(ChangeCause::Change),
        _ => report.count(StateStatus::Changed),
    };
    let all = [
        (!report.is_success(), WebhookOccasion::Failure),
        (is_real && report.is_success() && failed_before, WebhookOccasion::Recovery),
        (is_real && report.count_cause(ChangeCause::Drift) > 0, WebhookOccasion::Drift),
        (is_real && changes > 0, WebhookOccasion::Change),
    ];
    all.into_iter().filter(|(holds, _)| *holds).map(|(_, occasion)| occasion).collect()
}

impl NotifyEvent {
    /// An event of a run.
    #[must_use]
    pub(crate) fn from_run(report: &RunReport, occasions: &[WebhookOccasion], message: Option<&str>) -> Self {
        let end = report.start.checked_add(report.duration).unwrap_or(report.start);
        let mut event = Self::new(&report.node, &report.revision, occasions, message, end);
        let failed = report.states.iter().filter(|s| s.status() == StateStatus::Failed);
        let drifted = report.states.iter().filter(|s| s.cause == Some(ChangeCause::Drift));
        event.run = Some(EventRun {
            id: report.run.clone(),
            mode: report.mode.as_str(),
            trigger: report.trigger.as_str(),
            success: report.is_success(),
            duration_ms: millis(report.duration),
            counts: Tally::from_report(report),
            cause: report.cause(),
            failed: failed.take(MAX_FAILED).map(FailedState::new).collect(),
            drifted: drifted.take(MAX_FAILED).map(FailedState::new).collect(),
        });
        event
    }

    /// An event without a run: a revision that was refused or does not compile, a rollback.
    #[must_use]
    pub(crate) fn new(
        node: &str,
        revision: &str,
        occasions: &[WebhookOccasion],
        message: Option<&str>,
        time: Timestamp,
    ) -> Self {
        let weight = [
            WebhookOccasion::Rollback,
            WebhookOccasion::Failure,
            WebhookOccasion::Drift,
            WebhookOccasion::Expiry,
            WebhookOccasion::Recovery,
            WebhookOccasion::Change,
        ];
        let event = weight.into_iter().find(|o| occasions.contains(o));
        Self {
            event: event.map_or("run", WebhookOccasion::name),
            occasions: occasions.iter().map(|o| o.name()).collect(),
            time,
            node: node.into(),
            revision: short_line(revision),
            message: message.map(|text| short_line(&mask_message(text))),
            run: None,
        }
    }

    /// True when one of these occasions matches.
    #[must_use]
    pub(crate) fn is_wanted_by(&self, asked: &[WebhookOccasion]) -> bool {
        asked.iter().any(|o| *o == WebhookOccasion::Always || self.occasions.contains(&o.name()))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The first line, of limited length.
fn short_line(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zagent_run::samples::{bad, changed, report, state};

    #[test]
    fn occasions_of_a_run() {
        let fine = || state("test.nop", "a", "a");
        let more = || changed(fine(), "done", r#"{"x": 1}"#);
        let worse = || bad(fine(), "no");
        use WebhookOccasion::{Change, Failure, Recovery};
        for (mode, states, before, want) in [
            (RunMode::Apply, vec![fine()], false, vec![]),
            (RunMode::Apply, vec![fine()], true, vec![Recovery]),
            (RunMode::Apply, vec![more()], false, vec![Change]),
            (RunMode::Apply, vec![more(), worse()], true, vec![Failure, Change]),
            (RunMode::Test, vec![fine()], true, vec![]),
            (RunMode::Test, vec![worse()], false, vec![Failure]),
        ] {
            assert_eq!(run_occasions(&report(mode, states), before), want);
        }
    }

    #[test]
    fn drift_and_change_are_occasions_of_their_own() {
        let one = |cause| {
            let mut state = changed(state("file.managed", "/etc/motd", "/etc/motd"), "", r#"{"x": 1}"#);
            state.result = None;
            state.cause = Some(cause);
            state
        };
        use WebhookOccasion::{Change, Drift};
        use zagent_run::ChangeCause as Cause;
        for (states, want, cause) in [
            (vec![one(Cause::Drift)], vec![Drift], "drift"),
            (vec![one(Cause::Change)], vec![Change], "change"),
            (vec![one(Cause::Drift), one(Cause::Change)], vec![Drift, Change], "mixed"),
        ] {
            let run = report(RunMode::Audit, states);
            assert_eq!(run_occasions(&run, false), want);
            let event = NotifyEvent::from_run(&run, &want, None).run.unwrap();
            assert_eq!((event.cause, event.mode), (Some(cause), "audit"));
            assert_eq!(event.drifted.len(), run.count_cause(Cause::Drift));
        }
    }

    #[test]
    fn an_event_names_failures_and_no_secrets() {
        let failed =
            bad(state("file.managed", "/etc/db.conf", "/etc/db.conf"), "cannot write it there\nsecond line");
        zagent_config::mask::hide_in_messages(&["hunter2-of-events".into()]);
        let run =
            report(RunMode::Apply, vec![failed, changed(state("test.nop", "b", "b"), "", r#"{"x": 1}"#)]);
        let event = NotifyEvent::from_run(
            &run,
            &[WebhookOccasion::Change, WebhookOccasion::Failure],
            Some("password hunter2-of-events"),
        );
        let text = serde_json::to_string(&event).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("second line"), "{text}");
        assert_eq!(event.event, "failure");
        let run = event.run.as_ref().unwrap();
        assert_eq!((run.counts.failed, run.counts.changed, run.success), (1, 1, false));
        assert_eq!(run.failed[0].comment, "cannot write it there");
        assert_eq!(
            (run.failed[0].id.as_str(), run.failed[0].function.as_str()),
            ("/etc/db.conf", "file.managed")
        );
        assert!(
            event.is_wanted_by(&[WebhookOccasion::Failure]) && event.is_wanted_by(&[WebhookOccasion::Always])
        );
        assert!(
            !event.is_wanted_by(&[WebhookOccasion::Recovery, WebhookOccasion::Rollback])
                && !event.is_wanted_by(&[])
        );
    }
}
