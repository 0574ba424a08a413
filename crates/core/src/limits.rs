//! Token buckets: how many starts a rate allows now, and when it allows the next.

use std::time::Duration;

use crate::{settings::Rate, time::Timestamp};

/// Begins empty: a new dispatcher does not know how many jobs were started just before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    rate: Rate,
    /// When the bucket was (or will be) exactly empty: it holds the tokens that have come in since.
    empty_at: Timestamp,
}

impl Bucket {
    pub(crate) fn new(rate: Rate, now: Timestamp) -> Self {
        Self { rate, empty_at: now }
    }

    /// A changed rate counts from what the bucket holds now.
    pub(crate) fn change(&mut self, rate: Rate, now: Timestamp) {
        if rate != self.rate {
            *self = Self { rate, empty_at: self.empty_at.max(now) };
        }
    }

    /// It begins anew, with no token in it.
    pub(crate) fn empty(&mut self, now: Timestamp) {
        self.empty_at = now;
    }

    /// One token's worth of time. Rounded up: never more than the rate.
    fn token(&self) -> Duration {
        let micros = self.rate.per.as_micros().div_ceil(u128::from(self.rate.count));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX).max(1))
    }

    /// When the next start is allowed; in the past or now if it is allowed now.
    pub(crate) fn next(&self) -> Timestamp {
        self.empty_at.plus(self.token())
    }

    pub(crate) fn allows(&self, now: Timestamp) -> bool {
        self.next() <= now
    }

    /// Takes one token, which must be there.
    pub(crate) fn take(&mut self, now: Timestamp) {
        let fullest = now.minus(self.token().saturating_mul(self.rate.burst));
        self.empty_at = self.empty_at.max(fullest).plus(self.token());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In any window no more than the burst and what flows in.
        #[test]
        fn never_more_than_the_rate(count in 1u32..20, burst in 1u32..20, steps in proptest::collection::vec(0u64..3_000_000, 1..300)) {
            let rate = Rate { count, per: Duration::from_secs(10), burst };
            let mut now = Timestamp::from_micros(0);
            let mut bucket = Bucket::new(rate, now);
            let mut starts: Vec<Timestamp> = Vec::new();
            for step in steps {
                now = now.plus(Duration::from_micros(step));
                if bucket.allows(now) {
                    bucket.take(now);
                    starts.push(now);
                }
            }
            for (n, first) in starts.iter().enumerate() {
                for (m, last) in starts.iter().enumerate().skip(n) {
                    let window = last.since(*first).as_secs_f64();
                    let allowed = f64::from(burst) + window * f64::from(count) / 10.0;
                    prop_assert!((m - n + 1) as f64 <= allowed + 1e-6, "{} starts in {window} s", m - n + 1);
                }
            }
        }
    }

    #[test]
    fn a_rested_bucket_allows_its_burst_at_once() {
        let mut bucket = Bucket::new("10/1s,3".parse().unwrap(), Timestamp::from_micros(0));
        let now = Timestamp::from_micros(60_000_000);
        let mut started = 0;
        while bucket.allows(now) {
            bucket.take(now);
            started += 1;
        }
        assert_eq!(started, 3);
        assert_eq!(bucket.next(), now.plus(Duration::from_millis(100)));
    }
}
