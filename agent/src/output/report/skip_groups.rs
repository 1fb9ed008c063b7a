//! Skipped states in, groups with one reason and one cause out.
//!
//! Law: a state skipped because of another skipped state is attributed to the state that failed first (held by
//! `long_chains_of_skipped_states_are_attributed_to_the_first`).

use std::collections::{BTreeSet, HashMap};

use zagent_config::sorted::CollectSorted;
use zagent_run::{SkipReason, StateOutcome, StateStatus};

/// Salt's text before the failed requisites.
const SALT_REQUISITE_FAILED: &str = "One or more requisite failed: ";

/// States skipped for one reason.
#[derive(Debug, PartialEq)]
pub(super) struct SkipGroup<'r> {
    /// The reason.
    pub(super) reason: SkipReason,
    /// IDs of the states that caused it; empty when there is no single cause.
    pub(super) culprits: Vec<&'r str>,
    /// Skipped states, in run order.
    pub(super) states: Vec<&'r StateOutcome>,
}

/// Groups what was skipped, in the order of the first of each group.
pub(super) fn group_skipped(states: &[StateOutcome]) -> Vec<SkipGroup<'_>> {
    let mut blamed = BlameMap::default();
    let mut groups: Vec<SkipGroup<'_>> = Vec::new();
    let mut index: HashMap<(SkipReason, BTreeSet<&str>), usize> = HashMap::new();
    for state in states {
        let culprits = blamed.add_state(state);
        let Some(reason) = state.skip else { continue };
        let place = *index.entry((reason, culprits)).or_insert_with_key(|(_, culprits)| {
            groups.push(SkipGroup {
                reason,
                culprits: culprits.iter().copied().collect(),
                states: Vec::new(),
            });
            groups.len() - 1
        });
        groups[place].states.push(state);
    }
    groups
}

/// Causes found so far, by resource and `sls.id`. The requisites of a state come before it.
#[derive(Default)]
struct BlameMap<'r>(HashMap<(Option<&'r str>, String), BTreeSet<&'r str>>);

impl<'r> BlameMap<'r> {
    /// Adds one state, and returns the causes when it was skipped.
    fn add_state(&mut self, state: &'r StateOutcome) -> BTreeSet<&'r str> {
        let resource = state.resource.as_deref();
        let culprits = match state.status() {
            StateStatus::Failed => BTreeSet::from([state.shown_id()]),
            StateStatus::Skipped => {
                let names = state.comment.strip_prefix(SALT_REQUISITE_FAILED).unwrap_or_default();
                let found = names.split(", ").filter_map(|n| self.0.get(&(resource, n.trim().to_owned())));
                found.flatten().copied().into_set()
            }
            _ => return BTreeSet::new(),
        };
        let of_name = self.0.entry((resource, format!("{}.{}", state.sls, state.id))).or_default();
        of_name.extend(culprits.iter().copied());
        culprits
    }
}
