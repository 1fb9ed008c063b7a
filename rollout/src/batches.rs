//! Node ids and a batch size in, the batches of a rollout out.
//!
//! Law: pure and deterministic. The same nodes in any order give the same batches; every node is in exactly one; the
//! first batch is never empty, and never contains all nodes when there are two or more (held by `canaries_go_first`,
//! `rollout/src/plan/tests.rs`).

use std::collections::BTreeSet;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use zagent_config::sorted::CollectSorted;

/// How many nodes are in a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum BatchSize {
    /// This many nodes.
    Nodes(usize),
    /// This percentage of all nodes, rounded down, at least one.
    Percent(u8),
}

impl BatchSize {
    /// The size for a fleet of `total` nodes: at least one, and less than all of two or more.
    #[must_use]
    pub fn nodes_per_batch(self, total: usize) -> usize {
        let wanted = match self {
            Self::Nodes(n) => n,
            Self::Percent(p) => total.saturating_mul(usize::from(p.min(100))) / 100,
        };
        wanted.clamp(1, total.saturating_sub(1).max(1))
    }
}

/// The error for an invalid batch size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a batch size: write a number of nodes (`5`) or a percentage (`10%`)")]
pub struct BatchSizeError(String);

/// A batch size in a record: `5` or `10%`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Nodes(usize),
    Share(String),
}

impl TryFrom<Written> for BatchSize {
    type Error = BatchSizeError;

    fn try_from(written: Written) -> Result<Self, BatchSizeError> {
        match written {
            Written::Nodes(nodes) => nodes.to_string().parse(),
            Written::Share(text) => text.parse(),
        }
    }
}

impl From<BatchSize> for Written {
    fn from(size: BatchSize) -> Self {
        match size {
            BatchSize::Nodes(nodes) => Self::Nodes(nodes),
            BatchSize::Percent(_) => Self::Share(size.to_string()),
        }
    }
}

impl std::fmt::Display for BatchSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nodes(nodes) => write!(f, "{nodes}"),
            Self::Percent(share) => write!(f, "{share}%"),
        }
    }
}

impl FromStr for BatchSize {
    type Err = BatchSizeError;

    fn from_str(text: &str) -> Result<Self, BatchSizeError> {
        let bad = || BatchSizeError(text.to_owned());
        match text.trim().strip_suffix('%') {
            Some(share) => match share.trim().parse() {
                Ok(p @ 1..=100) => Ok(Self::Percent(p)),
                _ => Err(bad()),
            },
            None => match text.trim().parse() {
                Ok(n @ 1..) => Ok(Self::Nodes(n)),
                _ => Err(bad()),
            },
        }
    }
}

/// Splits `nodes` into batches: the `canaries` among them first, then the others by id.
///
/// Canaries get their own batches unless no other node would remain.
#[must_use]
pub fn split_batches<'n>(
    nodes: impl IntoIterator<Item = &'n str>,
    canaries: impl IntoIterator<Item = &'n str>,
    size: BatchSize,
) -> Vec<Vec<&'n str>> {
    let nodes: BTreeSet<&str> = nodes.into_iter().into_set();
    let first: BTreeSet<&str> = canaries.into_iter().filter(|c| nodes.contains(c)).into_set();
    let rest: Vec<&str> = nodes.difference(&first).copied().collect();
    let first: Vec<&str> = first.into_iter().collect();
    let size = size.nodes_per_batch(nodes.len());
    first.chunks(size).chain(rest.chunks(size)).map(<[&str]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_and_bad_ones_refused() {
        assert_eq!("5".parse(), Ok(BatchSize::Nodes(5)));
        assert_eq!(" 10% ".parse(), Ok(BatchSize::Percent(10)));
        for bad in ["0", "0%", "101%", "-1", "many", "", "%"] {
            assert!(bad.parse::<BatchSize>().is_err(), "{bad}");
        }
    }

    #[test]
    fn canaries_go_first() {
        let got = split_batches(["web-1", "web-2", "db-1", "db-2"], ["web-2", "gone"], BatchSize::Nodes(2));
        assert_eq!(got, [vec!["web-2"], vec!["db-1", "db-2"], vec!["web-1"]]);
    }

    fn size() -> impl Strategy<Value = BatchSize> {
        prop_oneof![(0usize..50).prop_map(BatchSize::Nodes), (0u8..=120).prop_map(BatchSize::Percent)]
    }

    proptest! {
        #[test]
        fn every_node_once_and_never_all_at_once(
            nodes in proptest::collection::btree_set("[a-d]{1,3}", 0..40),
            canaries in proptest::collection::btree_set("[a-d]{1,3}", 0..5),
            size in size(),
        ) {
            let got = split_batches(nodes.iter().map(String::as_str), canaries.iter().map(String::as_str), size);
            let mut seen: Vec<&str> = got.iter().flatten().copied().collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, nodes.iter().map(String::as_str).collect::<Vec<_>>());
            prop_assert!(got.iter().all(|b| !b.is_empty() && b.len() <= size.nodes_per_batch(nodes.len())));
            if nodes.len() >= 2 {
                prop_assert!(got.len() >= 2);
            }
            let with_canary = got.iter().take_while(|b| b.iter().all(|n| canaries.contains(*n))).flatten().count();
            prop_assert_eq!(with_canary, nodes.intersection(&canaries).count());
        }

        #[test]
        fn the_order_given_does_not_matter(mut nodes in proptest::collection::vec("[a-f]{1,2}", 1..30), size in size()) {
            let forth = split_batches(nodes.iter().map(String::as_str), [], size).into_iter().map(|b| b.join(",")).collect::<Vec<_>>();
            nodes.reverse();
            let back = split_batches(nodes.iter().map(String::as_str), [], size).into_iter().map(|b| b.join(",")).collect::<Vec<_>>();
            prop_assert_eq!(forth, back);
        }
    }
}
