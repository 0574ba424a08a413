//! The pace of a dispatcher: how much it gives out while it reads the backlog, and when it looks for news.

use std::time::Duration;

/// How often a busy dispatcher looks for what is new: submitters do not ring for one that is awake.
const BUSY_LOOK: Duration = Duration::from_millis(20);
/// Between two looks without a ring, unless another span is set.
pub const POLL: Duration = Duration::from_secs(1);
/// The same while every ring arrives, and so for a look that only a lost ring makes necessary.
pub const QUIET_POLL: Duration = Duration::from_secs(5);
/// The same for a node's mail. Twice as long: with its beats, an idle node sends less than one statement a second.
pub const QUIET_MAIL: Duration = Duration::from_secs(10);
/// Before the next look after one that failed, at most.
const FAILED_LOOK: Duration = Duration::from_secs(1);
/// Rounds without a pause after which submitters need not ring: the dispatcher looks anyway.
const BUSY_ROUNDS: u32 = 8;

/// How many more of the jobs that were read from the backlog may be given out as runs end, if `given` were given out
/// since reading began. Turns are taken only among jobs that have been read, so the backlog must be read faster than
/// its jobs run.
pub fn ends_wanted(read: u64, given: u64) -> usize {
    usize::try_from((read * 2 / 5).saturating_sub(given)).unwrap_or(usize::MAX)
}

/// Whether a dispatcher that has given out `given` jobs since its last look for news, which was `since` ago, should
/// look again.
pub fn should_look(given: u64, look_every: u32, since: Duration) -> bool {
    given >= u64::from(look_every) || (given > 0 && since >= BUSY_LOOK)
}

/// After how long it should look if it gives out no more: what was given out may be all that is known, and submitters
/// do not ring for a busy dispatcher.
pub fn look_after(given: u64, since: Duration) -> Option<Duration> {
    (given > 0).then(|| BUSY_LOOK.saturating_sub(since))
}

/// After how long to look for news without a ring. `set`: by the node's `poll_interval`, which then counts whatever
/// rings. `arrives`: every ring arrives; `all_ring`: every submitter knows that the dispatcher sleeps, and rings;
/// `sealed`: a sealed queue waits for open transactions, which do not ring when they end without a job.
pub fn next_poll(set: Option<Duration>, arrives: bool, all_ring: bool, sealed: bool) -> Duration {
    set.unwrap_or(if arrives && all_ring && !sealed { QUIET_POLL } else { POLL })
}

/// After how long a node looks at its mail without a ring; as [`next_poll`].
pub fn next_mail(set: Option<Duration>, arrives: bool) -> Duration {
    set.unwrap_or(if arrives { QUIET_MAIL } else { POLL })
}

/// After how long to look again if a look failed: the news is still unread.
pub fn poll_after_failure(set: Option<Duration>) -> Duration {
    set.unwrap_or(POLL).min(FAILED_LOOK)
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
    fn polls_are_rare_only_where_all_ring_and_every_ring_arrives() {
        assert_eq!(next_poll(None, true, true, false), QUIET_POLL);
        for (arrives, all_ring, sealed) in [(false, true, false), (true, false, false), (true, true, true)] {
            assert_eq!(next_poll(None, arrives, all_ring, sealed), POLL);
        }
        assert_eq!((next_mail(None, true), next_mail(None, false)), (QUIET_MAIL, POLL));
        assert_eq!(poll_after_failure(Some(Duration::from_secs(30))), FAILED_LOOK);
    }

    #[test]
    fn an_interval_that_is_set_is_the_one_that_is_kept() {
        for set in [Duration::from_millis(20), Duration::from_secs(1), Duration::from_secs(60)] {
            for arrives in [true, false] {
                assert_eq!((next_poll(Some(set), arrives, true, false), next_mail(Some(set), arrives)), (set, set));
            }
        }
    }
}
