//! A report in, what is worth telling about it out.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use zagent_config::settings::Occasion;

use crate::output::Mask;
use crate::output::report::Tally;
use crate::run::{Mode, Report, Standing};

/// How many failed states are named.
const NAMED: usize = 20;
/// Characters of one comment or message.
const WORDS: usize = 300;

/// Something that happened, ready to be sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Event {
    /// The weightiest of the occasions.
    pub event: &'static str,
    /// All occasions, by their words.
    pub occasions: Vec<&'static str>,
    /// When.
    pub time: Timestamp,
    /// The node.
    pub node: String,
    /// The revision, or where the states came from.
    pub revision: String,
    /// In words, when there is more to say than the numbers.
    pub message: Option<String>,
    /// The run, when there was one.
    pub run: Option<Run>,
}

/// The run of an event.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// Its name in the history.
    pub id: String,
    /// `apply`, `test` or `revert`.
    pub mode: &'static str,
    /// What started it.
    pub trigger: &'static str,
    /// True when nothing failed.
    pub success: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// How many states ended how.
    pub counts: Tally,
    /// States that failed, at most a few.
    pub failed: Vec<Failed>,
}

/// A state that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Failed {
    /// Its id.
    pub id: String,
    /// Where it is declared.
    pub sls: String,
    /// `file.managed`.
    pub function: String,
    /// The first line of what it said.
    pub comment: String,
}

/// What a run is an occasion for. `failed_before` says that the run before it failed.
#[must_use]
pub fn occasions(report: &Report, failed_before: bool) -> Vec<Occasion> {
    let is_real = report.mode != Mode::Test;
    let all = [
        (!report.success(), Occasion::Failure),
        (is_real && report.success() && failed_before, Occasion::Recovery),
        (is_real && report.count(Standing::Changed) > 0, Occasion::Change),
    ];
    all.into_iter().filter(|(holds, _)| *holds).map(|(_, occasion)| occasion).collect()
}

impl Event {
    /// An event of a run.
    #[must_use]
    pub fn of_run(report: &Report, occasions: &[Occasion], message: Option<&str>, mask: &Mask) -> Self {
        let end = report.start.checked_add(report.duration).unwrap_or(report.start);
        let mut event = Self::new(&report.node, &report.revision, occasions, message, end, mask);
        let failed = report.states.iter().filter(|s| s.standing() == Standing::Failed).take(NAMED);
        let failed = failed.map(|s| Failed {
            id: short(&s.id, mask),
            sls: short(&s.sls, mask),
            function: format!("{}.{}", s.state, s.fun),
            comment: short(&s.comment, mask),
        });
        event.run = Some(Run {
            id: report.run.clone(),
            mode: report.mode.word(),
            trigger: report.trigger.word(),
            success: report.success(),
            duration_ms: millis(report.duration),
            counts: Tally::of(report),
            failed: failed.collect(),
        });
        event
    }

    /// An event without a run: a revision that was refused or does not compile, a rollback.
    #[must_use]
    pub fn new(
        node: &str,
        revision: &str,
        occasions: &[Occasion],
        message: Option<&str>,
        time: Timestamp,
        mask: &Mask,
    ) -> Self {
        let weight = [Occasion::Rollback, Occasion::Failure, Occasion::Recovery, Occasion::Change];
        let event = weight.into_iter().find(|o| occasions.contains(o));
        Self {
            event: event.map_or("run", Occasion::name),
            occasions: occasions.iter().map(|o| o.name()).collect(),
            time,
            node: node.into(),
            revision: short(revision, mask),
            message: message.map(|text| short(text, mask)),
            run: None,
        }
    }

    /// True when somebody who asked for these occasions wants to hear it.
    #[must_use]
    pub fn concerns(&self, asked: &[Occasion]) -> bool {
        asked.iter().any(|o| *o == Occasion::Always || self.occasions.contains(&o.name()))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The first line without its secrets. Masked as a whole: half a secret is one too.
fn short(text: &str, mask: &Mask) -> String {
    let masked = mask.text(text);
    let line = masked.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(WORDS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::report::samples::{bad, changed, report, state};

    #[test]
    fn what_a_run_is_an_occasion_for() {
        let fine = || state("test.nop", "a", "a");
        let more = || changed(fine(), "done", r#"{"x": 1}"#);
        let worse = || bad(fine(), "no");
        use Occasion::{Change, Failure, Recovery};
        for (mode, states, before, want) in [
            (Mode::Apply, vec![fine()], false, vec![]),
            (Mode::Apply, vec![fine()], true, vec![Recovery]),
            (Mode::Apply, vec![more()], false, vec![Change]),
            (Mode::Apply, vec![more(), worse()], true, vec![Failure, Change]),
            (Mode::Test, vec![fine()], true, vec![]),
            (Mode::Test, vec![worse()], false, vec![Failure]),
        ] {
            assert_eq!(occasions(&report(mode, states), before), want);
        }
    }

    #[test]
    fn an_event_tells_what_failed_and_no_secrets() {
        let failed = bad(
            state("file.managed", "/etc/db.conf", "/etc/db.conf"),
            "cannot write hunter2 there\nsecond line",
        );
        let mask = Mask::new(&["hunter2".into()]);
        let run = report(Mode::Apply, vec![failed, changed(state("test.nop", "b", "b"), "", r#"{"x": 1}"#)]);
        let event =
            Event::of_run(&run, &[Occasion::Change, Occasion::Failure], Some("password hunter2"), &mask);
        let text = serde_json::to_string(&event).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("second line"), "{text}");
        assert_eq!(event.event, "failure");
        let run = event.run.as_ref().unwrap();
        assert_eq!((run.counts.failed, run.counts.changed, run.success), (1, 1, false));
        assert_eq!(run.failed[0].comment, "cannot write ******** there");
        assert_eq!(
            (run.failed[0].id.as_str(), run.failed[0].function.as_str()),
            ("/etc/db.conf", "file.managed")
        );
        assert!(event.concerns(&[Occasion::Failure]) && event.concerns(&[Occasion::Always]));
        assert!(!event.concerns(&[Occasion::Recovery, Occasion::Rollback]) && !event.concerns(&[]));
    }
}
