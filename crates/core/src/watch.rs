//! How long changes stay readable for watchers after the dispatcher has read them.

use std::{collections::VecDeque, time::Duration};

use crate::Timestamp;

/// A watcher that comes back within this time has missed nothing.
pub const KEEP_CHANGES: Duration = Duration::from_secs(60);

/// Looks that are closer to one another than this are one: with [`KEEP_CHANGES`] it bounds how many are kept in mind.
const APART: Duration = Duration::from_secs(10);

/// How far the dispatcher had read, and when: what it had read by the oldest of these looks may be deleted.
///
/// The times are the database's. After its clock was set forward, changes are deleted earlier, and watchers that missed some are
/// which the store says; after it was set back, they stay at most [`KEEP_CHANGES`] longer.
#[derive(Debug, Clone)]
pub struct Looks<C>(VecDeque<(Timestamp, C)>);

impl<C> Default for Looks<C> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<C> Looks<C> {
    /// At this time, everything up to the cursor had been read.
    pub fn note(&mut self, now: Timestamp, cursor: C) {
        // A look in the future is one from before the clock was set back.
        self.0.iter_mut().for_each(|(at, _)| *at = (*at).min(now));
        if self.0.back().is_none_or(|(at, _)| at.plus(APART) <= now) {
            self.0.push_back((now, cursor));
        }
    }

    /// Up to where changes are kept no longer.
    pub fn deletable(&mut self, now: Timestamp) -> Option<&C> {
        let is_old = |at: Timestamp| at.plus(KEEP_CHANGES) <= now;
        while self.0.get(1).is_some_and(|(at, _)| is_old(*at)) {
            self.0.pop_front();
        }
        self.0.front().filter(|(at, _)| is_old(*at)).map(|(_, cursor)| cursor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn what_was_read_is_deletable_a_minute_later_and_not_before() {
        let mut looks = Looks::default();
        assert_eq!(looks.deletable(at(0)), None);
        looks.note(at(0), "first");
        looks.note(at(30), "second");
        assert_eq!(looks.deletable(at(59)), None);
        assert_eq!(looks.deletable(at(60)), Some(&"first"));
        assert_eq!(looks.deletable(at(89)), Some(&"first"));
        assert_eq!(looks.deletable(at(1_000)), Some(&"second"));
        assert_eq!(looks.deletable(at(1_000)), Some(&"second"), "a prune that has more to do asks again");
    }

    #[test]
    fn few_looks_are_kept_in_mind_however_often_it_looks() {
        let mut looks = Looks::default();
        for second in 0..10_000 {
            looks.note(at(second), second);
            let deletable = looks.deletable(at(second)).copied();
            assert!(deletable.is_none_or(|read| read <= second - 60), "{second}: {deletable:?}");
            assert!(looks.0.len() <= 8, "{second}: {}", looks.0.len());
        }
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_changes_a_minute_longer_at_most() {
        let mut looks = Looks::default();
        looks.note(at(5_000), "before");
        looks.note(at(10), "after");
        assert_eq!(looks.deletable(at(69)), None);
        assert_eq!(looks.deletable(at(70)), Some(&"before"));
        looks.note(at(80), "later");
        assert_eq!(looks.deletable(at(140)), Some(&"later"));
    }
}
