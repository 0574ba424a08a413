//! How times spread: what they come to on average, and how long all but the longest few of them are.

use std::time::Duration;

/// Some times, summed up. Percentiles are exact, by nearest rank: each is one of the times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spread {
    /// How many there are. The rest is zero if there are none.
    pub count: usize,
    pub mean: Duration,
    /// Half of them are not longer.
    pub p50: Duration,
    /// 95 of 100 are not longer.
    pub p95: Duration,
    pub longest: Duration,
}

impl Spread {
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let total: Duration = times.iter().sum();
        Self {
            count: times.len(),
            mean: total.checked_div(u32::try_from(times.len()).unwrap_or(u32::MAX)).unwrap_or_default(),
            p50: percentile(&times, 50),
            p95: percentile(&times, 95),
            longest: times.last().copied().unwrap_or_default(),
        }
    }
}

/// The least of these times, given in order, that so many of a hundred are not longer than; zero if there are none.
fn percentile(times: &[Duration], of_hundred: usize) -> Duration {
    let rank = times.len().saturating_mul(of_hundred).div_ceil(100);
    times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(times: impl IntoIterator<Item = u64>) -> Spread {
        Spread::of(times.into_iter().map(Duration::from_secs).collect())
    }

    #[test]
    fn percentiles_are_times_that_were_there() {
        let hundred = seconds((1..=100).rev());
        let secs = [hundred.p50, hundred.p95, hundred.longest].map(|time| time.as_secs());
        assert_eq!((hundred.count, secs, hundred.mean), (100, [50, 95, 100], Duration::from_millis(50_500)));
        let two = seconds([9, 1]);
        assert_eq!((two.p50, two.p95), (Duration::from_secs(1), Duration::from_secs(9)));
        let one = seconds([7]);
        assert_eq!((one.p50, one.p95, one.longest), (one.mean, one.mean, Duration::from_secs(7)));
        assert_eq!(seconds([]), Spread::default());
    }

    proptest! {
        #[test]
        fn as_many_as_a_percentile_says_are_not_longer_and_no_shorter_time_would_do(
            times in prop::collection::vec(0..40_u64, 1..200)
        ) {
            let spread = seconds(times.clone());
            for (of_hundred, bound) in [(50, spread.p50), (95, spread.p95)] {
                let up_to = |longest: u64| times.iter().filter(|time| **time <= longest).count() * 100;
                prop_assert!(up_to(bound.as_secs()) >= of_hundred * times.len());
                if let Some(shorter) = bound.as_secs().checked_sub(1) {
                    prop_assert!(up_to(shorter) < of_hundred * times.len());
                }
            }
        }
    }
}
