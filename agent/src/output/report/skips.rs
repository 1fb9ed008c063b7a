//! Skipped states in, groups with one reason and one culprit out.
//!
//! Law: who was skipped because somebody was skipped is blamed on whoever failed first.

use std::collections::{BTreeSet, HashMap};

use crate::run::{Outcome, SkipReason, Standing};

/// What Salt says before it names the requisites that failed.
const FAILED: &str = "One or more requisite failed: ";

/// States that were skipped for one reason.
#[derive(Debug, PartialEq)]
pub(super) struct Group<'r> {
    /// The reason.
    pub(super) reason: SkipReason,
    /// The ids of those to blame; empty when no single one is.
    pub(super) culprits: Vec<&'r str>,
    /// Who was skipped, in run order.
    pub(super) states: Vec<&'r Outcome>,
}

impl SkipReason {
    /// True when it is a trouble; else the state was simply not needed.
    pub(super) const fn is_trouble(self) -> bool {
        matches!(self, Self::RequireFailed | Self::FailhardAbort | Self::Cancelled)
    }

    /// In words, after `because`.
    pub(super) const fn because(self) -> &'static str {
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

/// Groups what was skipped, in the order of the first of each group.
pub(super) fn groups(states: &[Outcome]) -> Vec<Group<'_>> {
    let mut blamed = Blamed::default();
    let mut groups: Vec<Group<'_>> = Vec::new();
    let mut index: HashMap<(SkipReason, BTreeSet<&str>), usize> = HashMap::new();
    for state in states {
        let culprits = blamed.note(state);
        let Some(reason) = state.skip else { continue };
        let place = *index.entry((reason, culprits)).or_insert_with_key(|(_, culprits)| {
            groups.push(Group { reason, culprits: culprits.iter().copied().collect(), states: Vec::new() });
            groups.len() - 1
        });
        groups[place].states.push(state);
    }
    groups
}

/// Who is to blame for what was seen so far, by `sls.id`. What a state waits for stands before it.
#[derive(Default)]
struct Blamed<'r>(HashMap<String, BTreeSet<&'r str>>);

impl<'r> Blamed<'r> {
    /// Notes one more state, and tells who is to blame when it was skipped.
    fn note(&mut self, state: &'r Outcome) -> BTreeSet<&'r str> {
        let culprits = match state.standing() {
            Standing::Failed => BTreeSet::from([state.id.as_str()]),
            Standing::Skipped => {
                let names = state.comment.strip_prefix(FAILED).unwrap_or_default();
                names.split(", ").filter_map(|n| self.0.get(n.trim())).flatten().copied().collect()
            }
            _ => return BTreeSet::new(),
        };
        let of_name = self.0.entry(format!("{}.{}", state.sls, state.id)).or_default();
        of_name.extend(culprits.iter().copied());
        culprits
    }
}
