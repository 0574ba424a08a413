//! What a run is expected to take.

use std::time::Duration;

/// Before a task has run once. Nothing is prefetched on a guess; a charge is corrected when the job settles, so a small guess keeps
/// the error small.
pub const UNKNOWN_COST: Duration = Duration::from_millis(10);

/// What a run is expected to take, by what earlier runs have shown.
pub fn expected(cost: Option<Duration>) -> Duration {
    cost.unwrap_or(UNKNOWN_COST)
}

/// Having seen one more run: a moving average over about eight, quick to follow and slow to be fooled by one.
#[must_use]
pub fn learn(cost: Option<Duration>, ran: Duration) -> Duration {
    let Some(cost) = cost else { return ran };
    let nanos = (cost.as_nanos() * 7 + ran.as_nanos()) / 8;
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_runs_count_most_and_none_counts_alone() {
        let second = Duration::from_secs(1);
        assert_eq!(learn(None, second), second);
        assert_eq!(learn(Some(second), 9 * second), 2 * second);
        assert_eq!(learn(Some(Duration::MAX), Duration::MAX), Duration::from_nanos(u64::MAX));
    }
}
