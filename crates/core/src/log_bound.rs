//! How much is logged: so many lines of a kind in a span of time, and then how many were left out; and the few lines about an outage of
//! the database.
//!
//! A moment is given as the time since a fixed starting point, by a monotonic clock.

use std::time::Duration;

/// Lines of one kind in a [`SPAN`], at most.
pub const LINES: u32 = 10;
/// After it, a kind that was left out is counted in one line, and an outage is logged again.
pub const SPAN: Duration = Duration::from_secs(10);

/// What was logged of one kind of line in the present span.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bound {
    begun: Option<Duration>,
    lines: u32,
    left_out: u64,
}

impl Bound {
    /// Whether a line of this kind may be logged now. One that may not is counted.
    pub fn admits(&mut self, at: Duration) -> bool {
        if self.is_over(at) && self.left_out == 0 {
            *self = Self { begun: Some(at), ..Self::default() };
        }
        if self.lines < LINES {
            self.lines += 1;
            return true;
        }
        self.left_out += 1;
        false
    }

    /// How many lines were left out, once the span is over in which they were, and how long that was.
    pub fn take_left_out(&mut self, at: Duration) -> Option<(u64, Duration)> {
        if self.is_over(at) { self.take_rest(at) } else { None }
    }

    /// How many lines were left out so far, and in how long: for a node that stops, whose span has no end.
    pub fn take_rest(&mut self, at: Duration) -> Option<(u64, Duration)> {
        let begun = self.begun.filter(|_| self.left_out > 0)?;
        let left_out = self.left_out;
        *self = Self::default();
        Some((left_out, at.saturating_sub(begun)))
    }

    fn is_over(&self, at: Duration) -> bool {
        self.begun.is_none_or(|begun| at.saturating_sub(begun) >= SPAN)
    }
}

/// A line about an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutageLine {
    /// A call failed, and the one before it did not.
    Begun,
    /// Calls have failed for so long.
    GoesOn(Duration),
    /// A call was answered again, after so long.
    Over(Duration),
}

/// Whether the database answers, as its callers report it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Outage {
    since: Option<Duration>,
    told: Duration,
    last: Duration,
}

impl Outage {
    /// A call failed; the line to log about it, if any.
    pub fn failed(&mut self, at: Duration) -> Option<OutageLine> {
        self.last = at;
        let Some(since) = self.since else {
            (self.since, self.told) = (Some(at), at);
            return Some(OutageLine::Begun);
        };
        (at.saturating_sub(self.told) >= SPAN).then(|| {
            self.told = at;
            OutageLine::GoesOn(at.saturating_sub(since))
        })
    }

    /// A call that was `sent` then is answered. If another one failed since it was sent, the outage is not over.
    pub fn answered(&mut self, sent: Duration, at: Duration) -> Option<OutageLine> {
        let since = self.since.filter(|_| sent >= self.last)?;
        self.since = None;
        Some(OutageLine::Over(at.saturating_sub(since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_left_out_of_a_span_is_counted_once() {
        let mut bound = Bound::default();
        let logged = (0..322).filter(|_| bound.admits(s(1))).count();
        assert_eq!(logged, LINES as usize);
        assert_eq!(bound.take_left_out(s(10)), None, "the span is not over");
        assert_eq!(bound.take_left_out(s(11)), Some((312, s(10))));
        assert_eq!(bound.take_left_out(s(12)), None);
        assert!(bound.admits(s(12)), "a new span");
    }

    #[test]
    fn what_was_left_out_is_counted_before_its_span_is_over_if_no_more_follows() {
        let mut bound = Bound::default();
        let logged = (0..30).filter(|_| bound.admits(s(1))).count();
        assert_eq!((logged, bound.take_left_out(s(3)), bound.take_rest(s(3))), (10, None, Some((20, s(2)))));
        assert_eq!(bound.take_rest(s(3)), None);
    }

    #[test]
    fn few_lines_are_all_logged() {
        let mut bound = Bound::default();
        assert!((0..1_000).all(|at| bound.admits(s(2 * at))));
        assert_eq!(bound.take_left_out(s(10_000)), None);
    }

    #[test]
    fn nothing_that_was_left_out_is_forgotten() {
        let mut bound = Bound::default();
        let calls = 5_000;
        let (mut logged, mut left_out) = (0, 0);
        for call in 0..calls {
            let at = Duration::from_millis(call * 7);
            left_out += bound.take_left_out(at).map_or(0, |(lines, _)| lines);
            logged += u64::from(bound.admits(at));
        }
        left_out += bound.take_left_out(s(1_000)).map_or(0, |(lines, _)| lines);
        assert_eq!(logged + left_out, calls);
        assert!(logged <= 5 * u64::from(LINES), "{logged} lines in 35 seconds");
    }

    #[test]
    fn an_outage_is_a_line_when_it_begins_one_every_ten_seconds_and_one_at_its_end() {
        let mut outage = Outage::default();
        assert_eq!(outage.answered(s(1), s(1)), None);
        assert_eq!(outage.failed(s(2)), Some(OutageLine::Begun));
        let lines: Vec<_> = (3..35).filter_map(|at| outage.failed(s(at))).collect();
        assert_eq!(lines, [s(10), s(20), s(30)].map(OutageLine::GoesOn));
        assert_eq!(outage.answered(s(33), s(35)), None, "another call failed after this one was sent");
        assert_eq!(outage.answered(s(35), s(36)), Some(OutageLine::Over(s(34))));
        assert_eq!(outage.answered(s(37), s(37)), None);
        assert_eq!(outage.failed(s(40)), Some(OutageLine::Begun));
    }
}
