//! Chance that can be repeated: every choice of a run comes from its seed.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

#[derive(Debug)]
pub(crate) struct Chance(StdRng);

impl Chance {
    /// A stream of its own for each `purpose`, so that one more draw here does not change what is drawn there.
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        Self(StdRng::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ purpose.rotate_left(32)))
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.0.random()
    }

    /// From `low` to `high`, both included.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0.random_range(low..=high)
    }

    pub(crate) fn count(&mut self, low: u32, high: u32) -> u32 {
        self.0.random_range(low..=high)
    }

    pub(crate) fn index(&mut self, length: usize) -> usize {
        self.0.random_range(0..length)
    }

    pub(crate) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.index(all.len())]
    }

    pub(crate) fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// True with this probability.
    pub(crate) fn says(&mut self, probability: f64) -> bool {
        self.0.random::<f64>() < probability
    }
}
