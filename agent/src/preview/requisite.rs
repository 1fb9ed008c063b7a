//! What a state waits for in, whether it would run out.
//!
//! Law: a failure travels to all that require it; a change travels through watch, onchanges and prereq; where the cause
//! is unknown, so is the effect.

use zagent_compiler::{Compat, Requisite};

use super::{Looker, Outcome, SkipReason, Verdict};

/// How one requisite of a state stands.
struct Seen {
    kind: Requisite,
    id: String,
    verdict: Verdict,
    changes: bool,
}

impl Seen {
    const fn fails(&self) -> bool {
        matches!(self.verdict, Verdict::WouldFail | Verdict::Skipped(SkipReason::RequireFailed))
    }

    const fn is_unknown(&self) -> bool {
        matches!(self.verdict, Verdict::Unknown)
    }
}

impl Looker<'_, '_> {
    /// The outcome that the requisites alone decide; `None` when the state would run.
    pub(super) fn requisites(&self, i: usize) -> Option<Outcome> {
        let seen = self.seen_by(i);
        let of = |kind: Requisite| seen.iter().filter(move |s| s.kind == kind).collect::<Vec<_>>();
        let failed: Vec<String> =
            seen.iter().filter(|s| must_succeed(s.kind) && s.fails()).map(|s| s.id.clone()).collect();
        if !failed.is_empty() {
            return Some(require_failed(&failed));
        }
        for kind in [Requisite::RequireAny, Requisite::WatchAny] {
            let any = of(kind);
            if !any.is_empty() && any.iter().all(|s| s.fails()) {
                return Some(require_failed(&any.iter().map(|s| s.id.clone()).collect::<Vec<_>>()));
            }
        }
        self.prereq(i)
            .or_else(|| unchanged(&of(Requisite::Onchanges)))
            .or_else(|| unchanged(&of(Requisite::OnchangesAny)))
            .or_else(|| self.not_failed(&of(Requisite::Onfail), false))
            .or_else(|| self.not_failed(&of(Requisite::OnfailAny), false))
            .or_else(|| self.not_failed(&of(Requisite::OnfailAll), true))
    }

    /// What a watch makes of the state's own outcome: who stands as it should still reacts to a change.
    pub(super) fn reaction(&self, i: usize, own: Outcome) -> Outcome {
        let chunk = &self.plan.chunks[i];
        let watches = zagent_compiler::schema::module(&chunk.state).is_some_and(|m| m.watches);
        if own.verdict != Verdict::Unchanged || !watches {
            return own;
        }
        let watched: Vec<Seen> = self.seen_by(i).into_iter().filter(|s| is_watch(s.kind)).collect();
        let changed: Vec<&str> = watched.iter().filter(|s| s.changes).map(|s| s.id.as_str()).collect();
        if !changed.is_empty() {
            let mut changes = serde_json::Map::new();
            changes.insert("Requisites with changes".into(), changed.clone().into());
            return Outcome::would_change(format!("it would react to {}", changed.join(", ")), changes);
        }
        if watched.iter().any(Seen::is_unknown) {
            return Outcome::unknown("it reacts to a state that nobody can foresee");
        }
        own
    }

    fn seen_by(&self, i: usize) -> Vec<Seen> {
        let edges = self.plan.graph.edges.iter();
        let wanted = edges.filter(|e| e.to == i && !matches!(e.kind, Requisite::Prereq | Requisite::Listen));
        wanted
            .map(|e| {
                let chunk = &self.plan.chunks[e.from];
                let outcome = self.outcome(e.from);
                Seen {
                    kind: e.kind,
                    id: format!("{}.{}", chunk.sls, chunk.id),
                    changes: outcome.verdict == Verdict::WouldChange,
                    verdict: outcome.verdict,
                }
            })
            .collect()
    }

    /// A state with `prereq` runs only when one of its targets would change: their checks stand before it.
    fn prereq(&self, i: usize) -> Option<Outcome> {
        let edges = self.plan.graph.edges.iter().filter(|e| e.to == i && e.kind == Requisite::Prereq);
        let targets: Vec<Outcome> = edges.map(|e| self.outcome(e.from)).collect();
        if targets.is_empty() || targets.iter().any(|t| t.verdict == Verdict::WouldChange) {
            return None;
        }
        if targets.iter().any(|t| t.verdict == Verdict::Unknown) {
            return Some(Outcome::unknown("it runs only if a state that nobody can foresee would change"));
        }
        Some(Outcome::new(
            Verdict::Skipped(SkipReason::PrereqNotMet),
            "nothing that it prepares for would change",
        ))
    }

    fn not_failed(&self, seen: &[&Seen], all: bool) -> Option<Outcome> {
        if seen.is_empty() {
            return None;
        }
        // Salt takes a state that has no verdict yet, as in test mode, for one that did not succeed.
        let salt = self.scene.compat == Compat::Salt;
        let fails =
            |s: &&&Seen| s.fails() || (salt && matches!(s.verdict, Verdict::WouldChange | Verdict::Unknown));
        let count = seen.iter().filter(fails).count();
        if if all { count == seen.len() } else { count > 0 } {
            return None;
        }
        if seen.iter().any(|s| s.is_unknown()) {
            return Some(Outcome::unknown("it runs only if a state that nobody can foresee fails"));
        }
        Some(Outcome::new(Verdict::Skipped(SkipReason::OnfailNotMet), "nothing that it answers would fail"))
    }
}

const fn must_succeed(kind: Requisite) -> bool {
    matches!(kind, Requisite::Require | Requisite::Watch | Requisite::Onchanges | Requisite::Prereq)
}

const fn is_watch(kind: Requisite) -> bool {
    matches!(kind, Requisite::Watch | Requisite::WatchAny)
}

fn require_failed(ids: &[String]) -> Outcome {
    let mut ids = ids.to_vec();
    ids.sort();
    ids.dedup();
    Outcome::new(
        Verdict::Skipped(SkipReason::RequireFailed),
        format!("One or more requisite failed: {}", ids.join(", ")),
    )
}

/// With `onchanges`, all of whose targets would stay as they are, a state does not run.
fn unchanged(seen: &[&Seen]) -> Option<Outcome> {
    if seen.is_empty() || seen.iter().any(|s| s.changes) {
        return None;
    }
    if seen.iter().any(|s| s.is_unknown()) {
        return Some(Outcome::unknown("it runs only if a state that nobody can foresee changes something"));
    }
    let verdict = Verdict::Skipped(SkipReason::OnchangesNotMet);
    Some(Outcome::new(verdict, "State was not run because none of the onchanges reqs changed"))
}
