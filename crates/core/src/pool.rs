//! How many slots a node has open: `core` at rest, more while its buffer is at its bound, never more than `max`.

use std::time::Duration;

/// Work a node may hold beyond its slots, as time per slot: enough to bridge a round trip, too little to hoard.
pub const PREFETCH: Duration = Duration::from_millis(50);
/// Bytes of long arguments beyond which a node is given only what it has a free slot for: they are in its memory, as are those of the
/// jobs that run.
pub const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// How long one of the `core` slots must have been free before the others close: longer than the lull between two bursts.
pub const REST: Duration = Duration::from_secs(10);

/// What is set for a node's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    pub core: u32,
    pub max: u32,
    pub queue_capacity: u32,
}

/// What a node sees of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Slots that are open now.
    pub open: u32,
    pub running: u32,
    /// Jobs that are here and have no slot yet.
    pub buffered: usize,
    /// Long arguments of all jobs that are here.
    pub bytes: u64,
    /// What a run takes; `None`: nothing has ended yet.
    pub cost: Option<Duration>,
    /// How long fewer than `core` have been running.
    pub at_rest: Duration,
}

impl Pool {
    pub fn fixed(&self) -> bool {
        self.max <= self.core
    }

    /// Slots to have open from now on. They double while all are busy and the buffer is at its bound: under a flood all are open
    /// after a few steps, and each step is announced to the fleet once. A job that runs always keeps its slot.
    pub fn open(&self, seen: &Seen) -> u32 {
        // The dispatcher gives no more ahead: a quarter is taken off here, too.
        let heavy = seen.bytes >= MOST_BYTES / 4 * 3;
        let full = seen.running >= seen.open && (heavy || seen.buffered >= self.bound(seen.open, seen.cost));
        if full {
            return seen.open.saturating_mul(2).max(1).min(self.max.max(seen.open));
        }
        if seen.at_rest >= REST { self.core.max(seen.running) } else { seen.open }
    }

    /// About how many jobs lie in the buffer when the dispatcher gives this node no more. The dispatcher counts running jobs as
    /// well and estimates costs by itself, so a quarter is taken off for the difference. The buffer holds no slow jobs, and none
    /// of a kind that has never ended yet: another node may be free for them.
    fn bound(&self, open: u32, cost: Option<Duration>) -> usize {
        let quick = match cost.map(|cost| cost.as_nanos()) {
            None => 0,
            Some(0) => u128::MAX,
            Some(cost) => ((PREFETCH * open).as_nanos() / cost * 3 / 4).saturating_sub(open.into()),
        };
        usize::try_from(quick).unwrap_or(usize::MAX).min(self.queue_capacity as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const POOL: Pool = Pool { core: 2, max: 7, queue_capacity: 100 };
    const QUICK: Option<Duration> = Some(Duration::from_millis(1));
    const SLOW: Option<Duration> = Some(Duration::from_secs(5));

    fn seen(open: u32, running: u32, buffered: usize, cost: Option<Duration>) -> Seen {
        Seen { open, running, buffered, bytes: 0, cost, at_rest: Duration::ZERO }
    }

    #[test]
    fn slots_open_when_all_are_busy_and_the_buffer_is_at_its_bound() {
        // Two slots begin a hundred jobs of a millisecond in fifty; the dispatcher gives a hundred with those that run.
        assert_eq!(POOL.open(&seen(2, 2, 72, QUICK)), 2);
        assert_eq!(POOL.open(&seen(2, 2, 73, QUICK)), 4);
        // Four slots begin one job of 150 ms in fifty: none beside those that run.
        let ordinary = Some(Duration::from_millis(150));
        assert_eq!(Pool { core: 4, max: 16, ..POOL }.open(&seen(4, 4, 0, ordinary)), 8);
        assert_eq!(POOL.open(&seen(2, 1, 100, QUICK)), 2, "a slot is free");
        assert_eq!(POOL.open(&seen(4, 4, 100, QUICK)), 7, "the capacity is the bound, and seven the most");
        assert_eq!(POOL.open(&seen(7, 7, 100, QUICK)), 7);
        let heavy = Seen { bytes: MOST_BYTES, ..seen(2, 2, 60, QUICK) };
        assert_eq!(POOL.open(&heavy), 4, "no more is given ahead of arguments so long");
    }

    #[test]
    fn for_slow_jobs_there_is_no_buffer_and_every_further_one_needs_a_slot() {
        assert_eq!(POOL.open(&seen(2, 2, 0, SLOW)), 4);
        assert_eq!(POOL.open(&seen(2, 2, 0, None)), 4, "it is not known how long they take");
        assert_eq!(POOL.open(&seen(2, 1, 0, SLOW)), 2);
        let without = Pool { queue_capacity: 0, ..POOL };
        assert_eq!(without.open(&seen(2, 2, 0, QUICK)), 4);
    }

    #[test]
    fn slots_close_when_a_core_slot_was_free_for_long() {
        let rested = |at_rest| POOL.open(&Seen { at_rest, ..seen(7, 1, 0, QUICK) });
        assert_eq!(rested(REST - Duration::from_millis(1)), 7);
        assert_eq!(rested(REST), 2);
    }

    #[test]
    fn a_pool_of_one_size_never_changes() {
        let pool = Pool { max: 2, ..POOL };
        assert!(pool.fixed() && !POOL.fixed());
        assert_eq!(pool.open(&seen(2, 2, 100, QUICK)), 2);
    }

    proptest! {
        #[test]
        fn there_are_never_more_than_max_nor_fewer_than_run(
            core in 1u32..50, more in 0u32..50, capacity in 0u32..200, buffered in 0usize..300, micros in 0u64..200_000,
            known: bool, millis in 0u64..20_000, open in 0u32..50, running in 0u32..50,
        ) {
            let pool = Pool { core, max: core + more, queue_capacity: capacity };
            let open = core + open % (more + 1);
            let running = running.min(open);
            let cost = known.then(|| Duration::from_micros(micros));
            let next = pool.open(&Seen { open, running, buffered, bytes: 0, cost, at_rest: Duration::from_millis(millis) });
            prop_assert!((core..=core + more).contains(&next) && next >= running);
        }
    }
}
