//! Whether every submitter knows that the dispatcher sleeps, and rings.

use std::time::Duration;

use turnwise_store::Writers;

/// The first look for what came without a ring; each later one waits twice as long, up to a thousand times this.
const SOON: Duration = Duration::from_millis(10);

/// A submitter reads whether the dispatcher sleeps once it has begun to write its jobs, and may commit much later. So submitters
/// that were writing when the dispatcher fell asleep may commit jobs without a ring; when their transactions are over, all
/// submitters ring.
#[derive(Debug, Default)]
pub(super) struct Ringing {
    /// A writer that began after all that were writing then.
    mark: Option<u64>,
    over: bool,
    looks: u32,
}

impl Ringing {
    /// The writers that the news report. `asleep`: whether the dispatcher asked for the news asleep.
    pub(super) fn hear(&mut self, asleep: bool, writers: Writers) {
        if !asleep {
            *self = Self::default();
            return;
        }
        self.looks += u32::from(self.mark.is_some());
        self.over |= writers.over >= *self.mark.get_or_insert(writers.next);
    }

    /// When to look for jobs of submitters that may not ring. `None`: all ring.
    pub(super) fn look_again(&self) -> Option<Duration> {
        (!self.over && self.mark.is_some()).then(|| SOON * (1 << self.looks.min(10)))
    }

    pub(super) fn all_ring(&self) -> bool {
        self.over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writers(over: u64, next: u64) -> Writers {
        Writers { over, next }
    }

    #[test]
    fn all_ring_when_the_writers_from_before_the_sleep_are_over() {
        let mut ringing = Ringing::default();
        ringing.hear(true, writers(5, 9));
        assert_eq!((ringing.all_ring(), ringing.look_again()), (false, Some(SOON)));
        ringing.hear(true, writers(8, 20));
        assert_eq!((ringing.all_ring(), ringing.look_again()), (false, Some(SOON * 2)), "one from before is writing");
        ringing.hear(true, writers(9, 30));
        assert_eq!((ringing.all_ring(), ringing.look_again()), (true, None));
        ringing.hear(true, writers(12, 40));
        assert!(ringing.all_ring(), "later submitters know");
    }

    #[test]
    fn where_no_submitter_writes_all_ring_at_once() {
        let mut ringing = Ringing::default();
        ringing.hear(true, writers(9, 9));
        assert_eq!((ringing.all_ring(), ringing.look_again()), (true, None));
    }

    #[test]
    fn where_one_at_a_time_writes_no_look_is_needed() {
        let mut ringing = Ringing::default();
        ringing.hear(true, Writers::default());
        assert_eq!((ringing.all_ring(), ringing.look_again()), (true, None));
    }

    #[test]
    fn a_dispatcher_that_was_awake_begins_anew() {
        let mut ringing = Ringing::default();
        ringing.hear(true, writers(9, 9));
        ringing.hear(false, writers(9, 9));
        assert!(!ringing.all_ring());
        ringing.hear(true, writers(9, 12));
        assert!(!ringing.all_ring());
    }
}
