//! The pace of a dispatcher: how much it gives out while it reads the backlog, and when it looks for news.

use std::time::Duration;

/// How often a busy dispatcher looks for what is new: submitters do not ring for one that is awake.
const BUSY_LOOK: Duration = Duration::from_millis(20);
/// Poll intervals between two looks for news, while everybody rings and every ring is heard.
const QUIET_POLLS: u32 = 5;
/// Before the next look after one that failed, at most.
const FAILED_LOOK: Duration = Duration::from_secs(1);
/// Rounds without a pause after which submitters need not ring: the dispatcher looks anyway.
const BUSY_ROUNDS: u32 = 8;

/// Of the jobs that were read from the backlog, how many more may be given out as runs end, if `given` were given out since reading
/// began. Turns are taken among the jobs that are known; so the backlog is to be read quicker than they run.
pub fn ends_wanted(read: u64, given: u64) -> usize {
    usize::try_from((read * 2 / 5).saturating_sub(given)).unwrap_or(usize::MAX)
}

/// Whether a dispatcher that has given out `given` jobs since its last look for news, which was `since` ago, should look again.
pub fn should_look(given: u64, look_every: u32, since: Duration) -> bool {
    given >= u64::from(look_every) || (given > 0 && since >= BUSY_LOOK)
}

/// When it should, if it gives out no more: what was given out may be all there is, and then is the time to look for what no bell
/// told of.
pub fn look_after(given: u64, since: Duration) -> Option<Duration> {
    (given > 0).then(|| BUSY_LOOK.saturating_sub(since))
}

/// When to look without a ring. `all_ring`: every submitter knows that the dispatcher sleeps, and rings; `hears`: every ring is heard;
/// `sealed`: a sealed queue waits for writers, who do not ring when they end without a job.
pub fn next_poll(poll: Duration, hears: bool, all_ring: bool, sealed: bool) -> Duration {
    if hears && all_ring && !sealed { poll.saturating_mul(QUIET_POLLS) } else { poll }
}

/// When to look again after a look that failed: what was to be found is there still.
pub fn poll_after_failure(poll: Duration) -> Duration {
    poll.min(FAILED_LOOK)
}

/// Whether a dispatcher that sleeps stays asleep, after `rounds` without a pause.
pub fn stays_asleep(rounds: u32) -> bool {
    rounds < BUSY_ROUNDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_the_backlog_is_read_at_most_two_fifths_of_it_are_given_out() {
        assert_eq!((ends_wanted(0, 0), ends_wanted(1_000, 0), ends_wanted(1_000, 399)), (0, 400, 1));
        assert_eq!((ends_wanted(1_000, 400), ends_wanted(1_000, 5_000)), (0, 0));
    }

    #[test]
    fn a_dispatcher_that_gives_nothing_out_need_not_look() {
        let long = Duration::from_secs(60);
        assert!(!should_look(0, 1_000, long) && look_after(0, long).is_none());
        assert!(should_look(1_000, 1_000, Duration::ZERO) && !should_look(999, 1_000, Duration::ZERO));
        assert!(should_look(1, 1_000, BUSY_LOOK));
        assert_eq!(look_after(1, Duration::from_millis(5)), Some(Duration::from_millis(15)));
    }

    #[test]
    fn polls_are_rare_only_where_every_ring_comes_and_is_heard() {
        let poll = Duration::from_secs(1);
        assert_eq!(next_poll(poll, true, true, false), poll * 5);
        for (hears, all_ring, sealed) in [(false, true, false), (true, false, false), (true, true, true)] {
            assert_eq!(next_poll(poll, hears, all_ring, sealed), poll);
        }
        assert_eq!(poll_after_failure(Duration::from_secs(30)), FAILED_LOOK);
    }
}
