//! A plan in, the order its states would run in out.

use zagent_compiler::{Compat, Plan};

/// Indices of all chunks that run: level by level, or one after the other as Salt runs them.
pub(super) fn order(plan: &Plan, compat: Compat) -> Vec<usize> {
    let all = match compat {
        Compat::Strict => by_level(plan),
        Compat::Salt => (0..plan.chunks.len()).collect(),
    };
    // The check of a prereq's target is asked for by whom it concerns; it is no run of its own.
    all.into_iter().filter(|i| !plan.chunks[*i].prereq.check).collect()
}

/// The level of each chunk, from zero.
pub(super) fn levels(plan: &Plan) -> Vec<usize> {
    let mut of = vec![0; plan.chunks.len()];
    for (number, level) in plan.graph.levels.iter().enumerate() {
        for i in level {
            if let Some(place) = of.get_mut(*i) {
                *place = number;
            }
        }
    }
    of
}

fn by_level(plan: &Plan) -> Vec<usize> {
    let mut all: Vec<usize> = plan.graph.levels.iter().flatten().copied().collect();
    let mut there = vec![false; plan.chunks.len()];
    all.retain(|i| there.get_mut(*i).is_some_and(|t| !std::mem::replace(t, true)));
    all.extend((0..plan.chunks.len()).filter(|i| !there[*i]));
    all
}
