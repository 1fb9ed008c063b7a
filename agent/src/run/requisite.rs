//! How those a state waits for have ended in, whether it runs out.
//!
//! Law: the verdicts are Salt's. What nobody can foresee of a requisite nobody can foresee of its dependant, unless it does
//! not matter. What would be done is taken to succeed, except by who answers failures and where a command may get in the way.

use zagent_compiler::{Compat, Requisite};

use super::SkipReason;

/// How one requisite ended.
#[derive(Clone, Debug)]
pub struct Seen<'a> {
    /// The kind of requisite.
    pub kind: Requisite,
    /// `sls.id` of whom it points at.
    pub id: (&'a str, &'a str),
    /// Its result.
    pub result: Option<bool>,
    /// It changed something, or would.
    pub changed: bool,
    /// It ran (a state that was skipped did not).
    pub ran: bool,
    /// Nobody can tell whether it would change something.
    pub unknown: bool,
    /// It would do something that may fail.
    pub may_fail: bool,
    /// Nobody can tell whether it would fail.
    pub shaky: bool,
}

impl Seen<'_> {
    const fn answers_failure(&self) -> bool {
        matches!(self.kind, Requisite::Onfail | Requisite::OnfailAny | Requisite::OnfailAll)
    }

    /// True when a failure that a dry run cannot foresee would matter: for who answers failures.
    const fn is_feared(&self) -> bool {
        self.may_fail && self.answers_failure()
    }

    /// The same, when nobody can foresee it, as one guesses.
    fn guessed(&self, guess: Guess) -> Self {
        match (self.unknown, guess) {
            (true, _) => {}
            (false, Guess::Failed) if self.is_feared() => {}
            (false, _) => return self.clone(),
        }
        let (result, changed) = match guess {
            Guess::Failed if self.shaky || self.answers_failure() => (Some(false), false),
            Guess::Same | Guess::Failed => (Some(true), false),
            Guess::Changed => (None, true),
        };
        Seen { result, changed, ..self.clone() }
    }
}

/// What becomes of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It runs.
    Run,
    /// It runs, and reacts when it had nothing to do itself.
    React,
    /// It runs, and nobody can tell whether it has something to react to.
    MayReact,
    /// It does not run.
    Skip(SkipReason),
    /// Nobody can tell whether it would run.
    Unknown,
}

/// Decides; `seen` are all requisites of one state.
#[must_use]
pub fn decide(seen: &[Seen<'_>], compat: Compat) -> Decision {
    if seen.is_empty() {
        return Decision::Run;
    }
    if !seen.iter().any(|s| s.unknown || s.is_feared()) {
        return verdict(seen, compat, Guess::Same);
    }
    let [same, changed, failed] =
        [Guess::Same, Guess::Changed, Guess::Failed].map(|g| verdict(seen, compat, g));
    match changed {
        _ if same != failed => Decision::Unknown,
        _ if same == changed => same,
        Decision::React if same == Decision::Run => Decision::MayReact,
        _ => Decision::Unknown,
    }
}

/// What those that nobody can foresee are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guess {
    Same,
    Changed,
    Failed,
}

/// The ids of those who failed, for words.
#[must_use]
pub fn failed(seen: &[Seen<'_>]) -> Vec<String> {
    let mut ids: Vec<String> =
        seen.iter().filter(|s| s.result == Some(false)).map(|s| format!("{}.{}", s.id.0, s.id.1)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// What is known of one kind of requisite, or of all.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    failed: bool,
    changed: bool,
    met: bool,
    onfail: bool,
    onchanges: bool,
    onchanges_met: bool,
    pre: bool,
    pre_met: bool,
}

impl Marks {
    fn add(&mut self, other: Self) {
        self.failed |= other.failed;
        self.changed |= other.changed;
        self.met |= other.met;
        self.onfail |= other.onfail;
        self.onchanges |= other.onchanges;
        self.onchanges_met |= other.onchanges_met;
        self.pre |= other.pre;
        self.pre_met |= other.pre_met;
    }
}

fn verdict(seen: &[Seen<'_>], compat: Compat, guess: Guess) -> Decision {
    let mut all = Marks::default();
    for kind in Requisite::ALL {
        let mut own = Marks::default();
        let mut any = false;
        for one in seen.iter().filter(|s| s.kind == kind) {
            any = true;
            mark(&mut own, &one.guessed(guess), compat);
        }
        if any {
            soften(&mut own, kind);
            all.add(own);
        }
    }
    if all.failed {
        Decision::Skip(SkipReason::RequireFailed)
    } else if all.pre && !all.pre_met {
        Decision::Skip(SkipReason::PrereqNotMet)
    } else if all.pre {
        Decision::Run
    } else if all.onfail && !all.onchanges_met {
        Decision::Skip(SkipReason::OnfailNotMet)
    } else if all.onchanges && !all.onchanges_met {
        Decision::Skip(SkipReason::OnchangesNotMet)
    } else if all.changed {
        Decision::React
    } else if all.onfail {
        Decision::Skip(SkipReason::OnfailNotMet)
    } else {
        Decision::Run
    }
}

/// Marks what one requisite says.
fn mark(marks: &mut Marks, one: &Seen<'_>, compat: Compat) {
    match one.kind {
        Requisite::Onfail | Requisite::OnfailAny | Requisite::OnfailAll => {
            // Salt takes whatever has no verdict yet, as in a dry run, for a failure.
            let fine = match compat {
                Compat::Salt => one.result == Some(true),
                Compat::Strict => one.result != Some(false),
            };
            if fine {
                marks.onfail = true;
            } else if one.ran {
                marks.met = true;
            }
        }
        Requisite::Onchanges | Requisite::OnchangesAny => {
            if one.result == Some(false) || !one.changed {
                marks.onchanges = true;
            } else {
                marks.onchanges_met = true;
            }
        }
        _ if one.result == Some(false) => marks.failed = true,
        Requisite::Watch | Requisite::WatchAny if one.changed => marks.changed = true,
        Requisite::Prereq if one.result.is_none() => marks.pre_met = true,
        Requisite::Prereq => marks.pre = true,
        _ => marks.met |= one.ran,
    }
}

/// Takes back what one who did well makes good.
const fn soften(marks: &mut Marks, kind: Requisite) {
    match kind {
        Requisite::RequireAny | Requisite::WatchAny | Requisite::OnchangesAny => {
            if marks.met || marks.changed || marks.onchanges_met {
                marks.failed = false;
            }
            if marks.onchanges_met {
                marks.onchanges = false;
            }
        }
        Requisite::Onfail | Requisite::OnfailAny if marks.met => marks.onfail = false,
        _ => {}
    }
}

#[cfg(test)]
#[path = "requisite_tests.rs"]
mod tests;
