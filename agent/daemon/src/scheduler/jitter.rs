//! Seed in, pseudo-random numbers out: the same seed gives the same numbers.

use std::time::Duration;

use zagent_config::backoff::scale_by_random;

/// Endless number sequence.
#[derive(Clone, Debug)]
pub struct Jitter {
    state: u64,
}

impl Jitter {
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next number.
    pub fn next_number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix_bits(self.state)
    }

    /// A duration multiplied by a random factor between the two, in thousandths.
    pub fn scale_randomly(&mut self, time: Duration, least: u64, most: u64) -> Duration {
        scale_by_random(time, (least, most), self.next_number())
    }
}

/// Mixes the bits of a number so that similar inputs differ widely.
pub const fn mix_bits(number: u64) -> u64 {
    let mut z = number;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Hash of a seed and a text.
pub fn hash_text(seed: u64, text: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.update(text.as_bytes());
    let hash = hasher.finalize();
    hash.as_bytes()[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A random part of a duration, from zero up to all of it, exclusive.
pub fn fraction_of(time: Duration, number: u64) -> Duration {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(if millis == 0 { 0 } else { number % millis })
}
