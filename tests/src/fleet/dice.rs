//! A seed in, numbers out: always the same ones.

/// Random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// A generator with this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ 0x5DEE_CE66_D1CE_4E5B)
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.abs_diff(low).saturating_add(1);
        low.wrapping_add_unsigned(self.roll() % span)
    }

    /// A number from `low` to `high`, both included.
    pub fn count(&mut self, low: usize, high: usize) -> usize {
        low + (self.roll() % (high - low + 1) as u64) as usize
    }

    /// True this many times in a thousand.
    pub fn per_mille(&mut self, share: u64) -> bool {
        share > 0 && self.roll() % 1000 < share
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.roll() % from.len() as u64) as usize]
    }
}
