//! Failures in a row in, the wait before the next attempt out.
//!
//! Law: pure. The same arguments give the same wait; a caller that wants different waits per node gives a
//! number from a seed of its own (held by `waits_grow_up_to_the_limit`, `jitter_stays_in_its_bounds`).

use std::time::Duration;

/// Waits that grow with each failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    factor: u32,
}

impl Backoff {
    /// `base`, doubled with each attempt, at most `max`.
    #[must_use]
    pub const fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, factor: 2 }
    }

    /// The same with another factor per attempt.
    #[must_use]
    pub const fn with_factor(mut self, factor: u32) -> Self {
        self.factor = factor;
        self
    }

    /// The wait of an attempt; that of attempt 0 is the base.
    #[must_use]
    pub fn delay(self, attempt: u32) -> Duration {
        let grown = self.factor.checked_pow(attempt).and_then(|factor| self.base.checked_mul(factor));
        grown.unwrap_or(self.max).min(self.max)
    }

    /// A wait from zero up to that of the attempt, exclusive, by a random number: spreads attempts the most.
    #[must_use]
    pub fn full_jitter(self, attempt: u32, random: u64) -> Duration {
        let most = u64::try_from(self.delay(attempt).as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(random % most.max(1))
    }

    /// A wait from half of that of the attempt up to all of it, by a random number: spreads attempts and still waits.
    #[must_use]
    pub fn half_jitter(self, attempt: u32, random: u64) -> Duration {
        scale_by_random(self.delay(attempt), (500, 1000), random)
    }
}

/// A duration times a factor between two, in thousandths, by a random number.
#[must_use]
pub fn scale_by_random(time: Duration, (least, most): (u64, u64), random: u64) -> Duration {
    let thousandths = least + random % (most - least + 1);
    let nanos = time.as_nanos().saturating_mul(thousandths.into()) / 1000;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(30));

    #[test]
    fn waits_grow_up_to_the_limit() {
        let seconds = |backoff: Backoff| (0..6).map(|n| backoff.delay(n).as_secs()).collect::<Vec<_>>();
        assert_eq!(seconds(BACKOFF), [2, 4, 8, 16, 30, 30]);
        assert_eq!(seconds(BACKOFF.with_factor(5)), [2, 10, 30, 30, 30, 30]);
        assert_eq!(BACKOFF.delay(u32::MAX), Duration::from_secs(30));
        let small_limit = Backoff::new(Duration::from_secs(9), Duration::from_secs(1));
        assert_eq!(small_limit.delay(0), Duration::from_secs(1));
    }

    #[test]
    fn jitter_stays_in_its_bounds() {
        for random in [0, 1, 499, 500, 501, u64::MAX / 3, u64::MAX] {
            for attempt in 0..8 {
                let whole = BACKOFF.delay(attempt);
                assert!(BACKOFF.full_jitter(attempt, random) < whole);
                let half = BACKOFF.half_jitter(attempt, random);
                assert!(whole / 2 <= half && half <= whole, "{half:?} of {whole:?}");
            }
        }
        assert_eq!(Backoff::new(Duration::ZERO, Duration::ZERO).full_jitter(3, 7), Duration::ZERO);
        assert_eq!(scale_by_random(Duration::from_secs(10), (1000, 1100), 100), Duration::from_secs(11));
    }
}
