//! How those a state waits for have ended in, whether it runs out.
//!
//! Law: the verdicts are Salt's. If the result of a requisite cannot be predicted, that of its dependant cannot
//! either, unless it does not matter. A predicted change counts as a success, except for states that answer
//! failures and where a command may interfere (held by `what_becomes_of_a_state`).

use zagent_compiler::{Compat, Requisite};

use super::SkipReason;

/// How one requisite ended.
#[derive(Clone, Debug)]
pub struct RequisiteResult<'a> {
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
    /// It would run a command that nobody here understands, which may fail.
    pub(crate) command_may_fail: bool,
    /// Nobody can tell whether it would fail.
    pub(crate) failure_unknown: bool,
}

impl RequisiteResult<'_> {
    const fn is_onfail(&self) -> bool {
        matches!(self.kind, Requisite::Onfail | Requisite::OnfailAny | Requisite::OnfailAll)
    }

    /// True when a failure that a dry run cannot foresee would matter: that of a command for every dependant, any other for
    /// states that answer failures.
    const fn failure_matters(&self) -> bool {
        self.command_may_fail || self.may_fail && self.is_onfail()
    }

    /// True when a dependant cannot tell how it ends.
    pub(crate) const fn is_uncertain(&self) -> bool {
        self.unknown || self.failure_matters()
    }

    /// The same, when nobody can foresee it, as one guesses.
    fn assuming(&self, guess: Assumption) -> Self {
        match (self.unknown, guess) {
            (true, _) => {}
            (false, Assumption::Failed) if self.failure_matters() => {}
            (false, _) => return self.clone(),
        }
        let (result, changed) = match guess {
            Assumption::Failed if self.failure_unknown || self.is_onfail() || self.command_may_fail => {
                (Some(false), false)
            }
            Assumption::Same | Assumption::Failed => (Some(true), false),
            Assumption::Changed => (None, true),
        };
        RequisiteResult { result, changed, ..self.clone() }
    }
}

/// What becomes of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequisiteDecision {
    /// It runs.
    Run,
    /// It runs, and reacts when it had nothing to do itself.
    React,
    /// It runs, and nobody can tell whether it has something to react to.
    MayReact,
    /// It does not run.
    Skip(SkipReason),
    /// Nobody can tell whether it would run.
    Unknown {
        /// It may be refused because a requisite fails.
        may_be_refused: bool,
    },
}

/// Decides; `seen` are all requisites of one state.
#[must_use]
pub fn decide(seen: &[RequisiteResult<'_>], compat: Compat) -> RequisiteDecision {
    if seen.is_empty() {
        return RequisiteDecision::Run;
    }
    if !seen.iter().any(RequisiteResult::is_uncertain) {
        return decide_assuming(seen, compat, Assumption::Same);
    }
    let [same, changed, failed] =
        [Assumption::Same, Assumption::Changed, Assumption::Failed].map(|g| decide_assuming(seen, compat, g));
    let refused = RequisiteDecision::Skip(SkipReason::RequireFailed);
    let unknown = RequisiteDecision::Unknown {
        may_be_refused: [&same, &changed, &failed].iter().any(|decision| **decision == refused),
    };
    match changed {
        _ if same != failed => unknown,
        _ if same == changed => same,
        RequisiteDecision::React if same == RequisiteDecision::Run => RequisiteDecision::MayReact,
        _ => unknown,
    }
}

/// What those that nobody can foresee are taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assumption {
    Same,
    Changed,
    Failed,
}

/// The ids of those who failed, for words.
#[must_use]
pub(crate) fn failed_ids(seen: &[RequisiteResult<'_>]) -> Vec<String> {
    let mut ids: Vec<String> =
        seen.iter().filter(|s| s.result == Some(false)).map(|s| format!("{}.{}", s.id.0, s.id.1)).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// What a state depends on that nobody can foresee, in words: `if` this holds, it runs.
#[must_use]
pub(crate) fn condition(seen: &[RequisiteResult<'_>]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for one in seen.iter().filter(|one| one.is_uncertain()) {
        let verb = match one.kind {
            Requisite::Onfail | Requisite::OnfailAny | Requisite::OnfailAll => "fails",
            Requisite::Onchanges | Requisite::OnchangesAny | Requisite::Prereq => "changes",
            _ => "succeeds",
        };
        let part = format!("`{}` {verb}", one.id.1);
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(" and ")
}

/// What is known of one kind of requisite, or of all.
#[derive(Clone, Copy, Debug, Default)]
struct RequisiteFlags {
    failed: bool,
    changed: bool,
    met: bool,
    onfail: bool,
    onchanges: bool,
    onchanges_met: bool,
    pre: bool,
    pre_met: bool,
}

impl RequisiteFlags {
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

fn decide_assuming(seen: &[RequisiteResult<'_>], compat: Compat, guess: Assumption) -> RequisiteDecision {
    let mut all = RequisiteFlags::default();
    for kind in Requisite::ALL {
        let mut own = RequisiteFlags::default();
        let mut any = false;
        for one in seen.iter().filter(|s| s.kind == kind) {
            any = true;
            apply_requisite(&mut own, &one.assuming(guess), compat);
        }
        if any {
            apply_any_rules(&mut own, kind);
            all.add(own);
        }
    }
    if all.failed {
        RequisiteDecision::Skip(SkipReason::RequireFailed)
    } else if all.pre && !all.pre_met {
        RequisiteDecision::Skip(SkipReason::PrereqNotMet)
    } else if all.pre {
        RequisiteDecision::Run
    } else if all.onfail && !all.onchanges_met {
        RequisiteDecision::Skip(SkipReason::OnfailNotMet)
    } else if all.onchanges && !all.onchanges_met {
        RequisiteDecision::Skip(SkipReason::OnchangesNotMet)
    } else if all.changed {
        RequisiteDecision::React
    } else if all.onfail {
        RequisiteDecision::Skip(SkipReason::OnfailNotMet)
    } else {
        RequisiteDecision::Run
    }
}

/// Marks what one requisite says.
fn apply_requisite(marks: &mut RequisiteFlags, one: &RequisiteResult<'_>, compat: Compat) {
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
const fn apply_any_rules(marks: &mut RequisiteFlags, kind: Requisite) {
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
pub mod tests;
