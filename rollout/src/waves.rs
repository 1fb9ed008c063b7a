//! A clock-mode record and a node in, the moment when it may start out.
//!
//! Law: pure, and without knowledge of the fleet. A node has a position between 0 and 1 by the hash of rollout, stratum
//! and id; each wave takes its share of that range, the first one small, each twice the one before. So every large
//! enough stratum has nodes in every wave, and nobody can predict which (held by `waves_begin_small_and_double`,
//! `a_large_stratum_is_in_every_wave_by_its_share`, `no_node_is_always_the_first`).
//!
//! A wave lasts as long as pause and soak of the record together: its nodes start one after the other during the pause
//! (so that they do not all send the same requests at once), and have passed their soak when the next wave starts. With
//! the first wave at [`FIRST_WAVE_PERCENT`] there are five waves, and the last node starts before [`spread`] is over.

use std::time::Duration;

use jiff::Timestamp;
use zagent_config::ids::NodeId;

use crate::BatchSize;
use crate::phase::saturating_after;
use crate::record::{RolloutMode, RolloutProfile, RolloutRecord, RolloutStatus};

/// Percent of the nodes in the first wave, unless the batch size of the record is a percentage.
pub const FIRST_WAVE_PERCENT: u8 = 5;

/// When a node may start; `None` while it may not: the rollout is halted, or not in clock mode.
#[must_use]
pub fn release_at(record: &RolloutRecord, node: &NodeId, stratum: &str) -> Option<Timestamp> {
    // A node that comes late to a rollout that is over still takes part: nothing waits for it any more.
    let goes = matches!(record.state, RolloutStatus::Rolling | RolloutStatus::Completed);
    if record.mode != RolloutMode::Clock || record.dry_run || !goes {
        return None;
    }
    let place = node_position(record, node, stratum);
    let ends = wave_ends(record);
    let wave = ends.iter().position(|end| place < *end).unwrap_or(ends.len() - 1);
    let from = if wave == 0 { 0.0 } else { ends[wave - 1] };
    let inside = ((place - from) / (ends[wave] - from)).clamp(0.0, 1.0);
    let begins = saturating_after(
        first_start(record),
        total_length(record).saturating_mul(u32::try_from(wave).unwrap_or(u32::MAX)),
    );
    Some(saturating_after(begins, record.batch_pause.0.mul_f64(inside)))
}

/// When each wave starts.
#[must_use]
pub fn wave_starts(record: &RolloutRecord) -> Vec<Timestamp> {
    spaced_times(first_start(record), total_length(record), wave_shares(record).len())
}

/// This many moments, at equal distances.
pub(crate) fn spaced_times(first: Timestamp, each: Duration, count: usize) -> Vec<Timestamp> {
    std::iter::successors(Some(first), |moment| Some(saturating_after(*moment, each))).take(count).collect()
}

/// The cumulative percentage of nodes for each wave.
#[must_use]
pub fn wave_shares(record: &RolloutRecord) -> Vec<u8> {
    let first = match (record.profile, record.batch_size) {
        (RolloutProfile::Normal, BatchSize::Percent(share)) => share.clamp(1, 100),
        _ => FIRST_WAVE_PERCENT,
    };
    if record.profile == RolloutProfile::Emergency {
        return vec![first, 100];
    }
    let (mut share, mut sum, mut all) = (u32::from(first), 0, vec![]);
    while sum < 100 {
        sum = (sum + share).min(100);
        share *= 2;
        all.push(u8::try_from(sum).unwrap_or(100));
    }
    all
}

/// The maximum time between the first node and the last one.
#[must_use]
pub fn total_spread(record: &RolloutRecord) -> Duration {
    total_length(record).saturating_mul(u32::try_from(wave_ends(record).len()).unwrap_or(u32::MAX))
}

fn first_start(record: &RolloutRecord) -> Timestamp {
    record.started.unwrap_or(record.created)
}

fn total_length(record: &RolloutRecord) -> Duration {
    record.soak_time.0.saturating_add(record.batch_pause.0)
}

/// The upper bounds of the waves between 0 and 1; never empty.
fn wave_ends(record: &RolloutRecord) -> Vec<f64> {
    wave_shares(record).into_iter().map(|share| f64::from(share) / 100.0).collect()
}

/// The position of a node between 0 and 1.
fn node_position(record: &RolloutRecord, node: &NodeId, stratum: &str) -> f64 {
    let mut hasher = blake3::Hasher::new();
    for part in [record.id.as_str(), stratum, node.as_str()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let hash = hasher.finalize();
    let mut first = [0; 4];
    first.copy_from_slice(&hash.as_bytes()[..4]);
    f64::from(u32::from_le_bytes(first)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::driver_logic::tests::{at, id, record};
    use crate::{Span, driver_logic};

    fn by_clock() -> RolloutRecord {
        RolloutRecord {
            mode: RolloutMode::Clock,
            state: RolloutStatus::Rolling,
            started: Some(at(0)),
            batch_size: BatchSize::Nodes(3),
            ..record(&[])
        }
    }

    #[test]
    fn waves_begin_small_and_double() {
        let record = by_clock();
        assert_eq!(wave_shares(&record), [5, 15, 35, 75, 100]);
        assert_eq!(wave_starts(&record), [at(0), at(90), at(180), at(270), at(360)]);
        assert_eq!(total_spread(&record), Duration::from_secs(450));
        for (size, wanted) in [(1, vec![1, 3, 7, 15, 31, 63, 100]), (40, vec![40, 100]), (100, vec![100])] {
            let record = RolloutRecord { batch_size: BatchSize::Percent(size), ..record.clone() };
            assert_eq!(wave_shares(&record), wanted);
        }
        assert_eq!(wave_shares(&RolloutRecord { profile: RolloutProfile::Emergency, ..record }), [5, 100]);
    }

    #[test]
    fn a_large_stratum_is_in_every_wave_by_its_share() {
        let record = by_clock();
        for stratum in ["Debian/x86_64/web", "Ubuntu/aarch64/db"] {
            let mut counts = [0usize; 5];
            for n in 0..4000 {
                let release = release_at(&record, &id(&format!("node-{n}")), stratum).unwrap();
                let wave = wave_starts(&record).iter().rposition(|begin| *begin <= release).unwrap();
                counts[wave] += 1;
            }
            for (count, share) in counts.into_iter().zip([5, 10, 20, 40, 25]) {
                assert!(count.abs_diff(share * 40) < 120, "{counts:?}");
            }
        }
    }

    #[test]
    fn no_node_is_always_the_first() {
        let place = |rollout: &str, stratum: &str| {
            release_at(&RolloutRecord { id: id(rollout), ..by_clock() }, &id("web-1"), stratum)
        };
        assert_ne!(place("r1", "a"), place("r2", "a"));
        assert_ne!(place("r1", "a"), place("r1", "b"));
        assert_eq!(place("r1", "a"), place("r1", "a"));
    }

    #[test]
    fn a_push_pauses_the_waves_and_missed_ones_start_later() {
        let record = by_clock();
        let release = |record: &RolloutRecord| release_at(record, &id("web-1"), "-");
        let paused = driver_logic::pause(&record, "wait", at(100)).unwrap();
        assert_eq!(release(&paused), None);
        let resumed = driver_logic::resume(&paused, at(700)).unwrap();
        assert_eq!(
            release(&resumed),
            release(&record).map(|at| saturating_after(at, Duration::from_secs(600)))
        );
        assert_eq!(release(&driver_logic::abort(&record, "stop", at(1))), None);
        assert_eq!(driver_logic::abort(&record, "stop", at(1)).state, RolloutStatus::Aborted);
        for no in [
            RolloutRecord { mode: RolloutMode::Driver, ..record.clone() },
            RolloutRecord { dry_run: true, ..record.clone() },
            RolloutRecord { state: RolloutStatus::Created, ..record.clone() },
        ] {
            assert_eq!(release(&no), None);
        }
        assert!(release(&RolloutRecord { state: RolloutStatus::Completed, ..record }).is_some());
    }

    proptest! {
        #[test]
        fn a_node_begins_inside_a_wave_and_within_the_spread(
            name in "[a-z]{1,9}",
            share in 1u8..=100,
            soak in 0u64..100_000,
            pause in 0u64..100_000,
            emergency in any::<bool>(),
        ) {
            let record = RolloutRecord {
                batch_size: BatchSize::Percent(share),
                soak_time: Span::seconds(soak),
                batch_pause: Span::seconds(pause),
                profile: if emergency { RolloutProfile::Emergency } else { RolloutProfile::Normal },
                ..by_clock()
            };
            let release = release_at(&record, &id(&name), "x").unwrap();
            let inside = |begin: &Timestamp| {
                *begin <= release && release <= saturating_after(*begin, record.batch_pause.0)
            };
            prop_assert!(wave_starts(&record).iter().any(inside));
            prop_assert!(release <= saturating_after(at(0), total_spread(&record)));
        }
    }
}
