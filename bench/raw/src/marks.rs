//! How quick the first and the last jobs of a drain were.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Rates are told of the first and of the last so many jobs.
const STRETCH: usize = 10_000;

pub(crate) struct Marks {
    begun: Instant,
    ended: usize,
    /// When the first batch had ended, and each that made another stretch full; and how many had ended then.
    seen: Vec<(Instant, usize)>,
}

impl Marks {
    pub(crate) fn begin() -> Marks {
        Marks { begun: Instant::now(), ended: 0, seen: Vec::new() }
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended
    }

    pub(crate) fn over(&self, limit: Duration) -> bool {
        self.begun.elapsed() >= limit
    }

    pub(crate) fn add(&mut self, jobs: usize) {
        let before = self.ended;
        self.ended += jobs;
        if before == 0 || before / STRETCH != self.ended / STRETCH {
            self.seen.push((Instant::now(), self.ended));
        }
    }

    /// The answer to `drain`.
    pub(crate) fn told(&self, limit: Duration, settings: &str) -> Value {
        let took = self.begun.elapsed();
        let between = |from: usize| -> Option<f64> {
            let ((began, before), (ended, after)) = (self.seen.get(from)?, self.seen.get(from + 1)?);
            Some(crate::rate(after - before, ended.duration_since(*began)))
        };
        let stretches = self.seen.len().saturating_sub(1);
        let (first, last) = if stretches < 2 { (None, None) } else { (between(0), between(stretches - 1)) };
        json!({
            "jobs": self.ended, "cut": took >= limit, "per_second": crate::rate(self.ended, took),
            "first_10k_per_second": first, "last_10k_per_second": last, "settings": settings,
        })
    }
}
