//! What the handlers saw.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Error;

/// Rates are told of the first and of the last so many jobs.
const STRETCH: u64 = 10_000;

/// When single jobs started is kept for so many: a drain needs none of it.
const KEPT: usize = 20_000;

static COUNT: AtomicU64 = AtomicU64::new(0);
/// When the first handler ran, and each that makes another stretch full.
static MARKS: Mutex<Vec<Instant>> = Mutex::new(Vec::new());
static STARTS: LazyLock<Mutex<HashMap<u64, Instant>>> = LazyLock::new(Mutex::default);

/// Called by each handler when it starts.
pub fn ran(id: u64) {
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    if count == 1 || count.is_multiple_of(STRETCH) {
        MARKS.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
    }
    if count < KEPT as u64 {
        STARTS.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Instant::now());
    }
}

pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

pub(crate) async fn wait_for(jobs: u64, limit: Duration) -> Result<(), Error> {
    let begun = Instant::now();
    while count() < jobs {
        if begun.elapsed() > limit {
            return Err(format!("{} of {jobs} jobs had started after {} s", count(), limit.as_secs()).into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// Jobs a second over the first and the last stretch; the time to load the backlog is in neither.
pub(crate) fn ends() -> (Option<f64>, Option<f64>) {
    let marks = MARKS.lock().unwrap_or_else(PoisonError::into_inner);
    let rate = |from: usize| Some(STRETCH as f64 / (*marks.get(from + 1)? - *marks.get(from)?).as_secs_f64());
    if marks.len() < 3 { (None, None) } else { (rate(0), rate(marks.len() - 2)) }
}

/// p50, p95 and p99 in milliseconds; a handler that starts before its submitter hears of it counts as 0.
pub(crate) fn percentiles(submitted: &[Instant]) -> (f64, f64, f64) {
    let starts = STARTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut waits: Vec<f64> = (0u64..)
        .zip(submitted)
        .filter_map(|(id, at)| Some(starts.get(&id)?.saturating_duration_since(*at).as_secs_f64() * 1e3))
        .collect();
    waits.sort_by(f64::total_cmp);
    let at = |hundredths: usize| waits[(waits.len() * hundredths).div_ceil(100).max(1) - 1];
    (at(50), at(95), at(99))
}
