//! How long something took, in forty buckets on a log scale: four for each power of ten, from 0.1 ms to more than three days. A quantile
//! that is read from them is at most a third off.

use std::time::Duration;

/// Buckets of a histogram.
pub const BUCKETS: usize = 40;

/// The greatest time that each bucket holds, in microseconds; the last bucket holds all that is longer.
pub const BOUNDS: [u64; BUCKETS - 1] = bounds();

const fn bounds() -> [u64; BUCKETS - 1] {
    // Powers of the fourth root of ten.
    let steps = [100, 178, 316, 562];
    let mut bounds = [0; BUCKETS - 1];
    let mut at = 0;
    let mut power = 1;
    while at < bounds.len() {
        bounds[at] = steps[at % 4] * power;
        at += 1;
        if at % 4 == 0 {
            power *= 10;
        }
    }
    bounds
}

/// By how many bits a number has: the bucket of the least such number.
const FIRST: [u8; 65] = first();

#[allow(clippy::cast_possible_truncation)] // forty buckets
const fn first() -> [u8; 65] {
    let mut first = [0; 65];
    let mut bits = 1;
    while bits < first.len() {
        let least = 1_u64 << (bits - 1);
        let mut bucket = first[bits - 1] as usize;
        while bucket < BOUNDS.len() && BOUNDS[bucket] < least {
            bucket += 1;
        }
        first[bits] = bucket as u8;
        bits += 1;
    }
    first
}

/// The bucket that holds this many microseconds: within one power of two there are two bounds at most.
#[inline]
pub fn bucket_of(micros: u64) -> usize {
    let mut bucket = usize::from(FIRST[(u64::BITS - micros.leading_zeros()) as usize]);
    while bucket < BOUNDS.len() && BOUNDS[bucket] < micros {
        bucket += 1;
    }
    bucket
}

/// How times are spread: how many fell into each of the buckets of [`BOUNDS`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// How many times fell into each bucket.
    pub buckets: [u64; BUCKETS],
    /// All times together, in microseconds.
    pub micros: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], micros: 0 }
    }
}

impl Histogram {
    /// How many times there are in all.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Histogram) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(mine, other)| *mine = mine.saturating_add(other));
        self.micros = self.micros.saturating_add(other.micros);
    }

    /// A time that at least this part of all is not longer than: the bound of the bucket that it falls into. `None`: there are none, or it
    /// is in the last bucket, which has no bound.
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let count = self.count();
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // for people
        let wanted = ((count as f64 * part).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let at = self.buckets.iter().position(|bucket| {
            seen += bucket;
            seen >= wanted
        })?;
        BOUNDS.get(at).map(|bound| Duration::from_micros(*bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buckets_are_forty_and_each_is_nearly_twice_the_last() {
        assert_eq!((BOUNDS[0], BOUNDS[4], BOUNDS[38]), (100, 1_000, 316_000_000_000));
        assert!(BOUNDS.windows(2).all(|two| (1.7..1.9).contains(&(two[1] as f64 / two[0] as f64))));
        assert_eq!((bucket_of(0), bucket_of(100), bucket_of(101), bucket_of(u64::MAX)), (0, 0, 1, 39));
        let around = |at: u64| [at.saturating_sub(1), at, at.saturating_add(1)];
        let numbers = BOUNDS.into_iter().chain((0..64).map(|bits| 1 << bits)).flat_map(around);
        for micros in numbers {
            assert_eq!(bucket_of(micros), BOUNDS.partition_point(|bound| *bound < micros), "{micros}");
        }
    }

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        histogram.buckets[bucket_of(900)] = 99;
        histogram.buckets[bucket_of(2_000_000)] = 1;
        assert_eq!(histogram.quantile(0.5), Some(Duration::from_millis(1)));
        assert_eq!(histogram.quantile(0.99), Some(Duration::from_millis(1)));
        assert_eq!(histogram.quantile(1.0), Some(Duration::from_micros(3_160_000)));
        histogram.buckets[BUCKETS - 1] = 1_000;
        assert_eq!(histogram.quantile(0.5), None, "longer than any bound");
    }
}
