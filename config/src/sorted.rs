//! Items in, the same in order out: maps, sets and lists for places where nothing waits for them.
//!
//! The standard library compiles its sort once more for every type and every comparison, 4 to 5 kB each, also for a
//! `collect()` into a `BTreeMap` or a `BTreeSet`. Here one sort serves all. A compile and a run use the standard library where
//! it counts.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Iterators that end in a sorted map or set.
pub trait CollectSorted: Iterator + Sized {
    /// A map; of equal keys, the last one wins.
    fn into_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        for (key, value) in self {
            map.insert(key, value);
        }
        map
    }

    /// A set.
    fn into_set<T: Ord>(self) -> BTreeSet<T>
    where
        Self: Iterator<Item = T>,
    {
        let mut set = BTreeSet::new();
        for item in self {
            set.insert(item);
        }
        set
    }
}

impl<I: Iterator> CollectSorted for I {}

/// Sorts a list; equal items stay in their order.
pub fn sort_by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let swaps = sorting_swaps(items.len(), &mut |a, b| compare(&items[a], &items[b]));
    for (a, b) in swaps {
        items.swap(a, b);
    }
}

/// Sorts a list by a key; items with equal keys stay in their order.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    sort_by(items, |a, b| key(a).cmp(&key(b)));
}

/// The swaps that sort a list of this length.
fn sorting_swaps(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<(usize, usize)> {
    // Where the item comes from that belongs at each place.
    let mut from: Vec<usize> = (0..len).collect();
    from.sort_by(|a, b| compare(*a, *b));
    let mut swaps = Vec::new();
    for start in 0..len {
        let mut at = start;
        // Each item goes to its place along the cycle that it is part of.
        while from[at] != start {
            let next = std::mem::replace(&mut from[at], at);
            swaps.push((at, next));
            at = next;
        }
        from[at] = at;
    }
    swaps
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn maps_and_sets_are_those_of_the_standard_library() {
        let pairs = [("b", 1), ("a", 2), ("b", 3)];
        assert_eq!(pairs.into_iter().into_map(), pairs.into_iter().collect::<BTreeMap<_, _>>());
        assert_eq!([3, 1, 3].into_iter().into_set(), BTreeSet::from([1, 3]));
    }

    proptest! {
        #[test]
        fn lists_are_sorted_as_the_standard_library_does(items in prop::collection::vec((0_u8..9, any::<u16>()), 0..60)) {
            let (mut ours, mut theirs) = (items.clone(), items);
            sort_by_key(&mut ours, |(key, _)| *key);
            theirs.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(&ours, &theirs);
            sort_by(&mut ours, |a, b| b.1.cmp(&a.1));
            theirs.sort_by_key(|item| std::cmp::Reverse(item.1));
            prop_assert_eq!(ours, theirs);
        }
    }
}
