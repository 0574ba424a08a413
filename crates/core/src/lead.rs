//! Whether a node should dispatch: not for a while after one of its control loops panicked.

use std::time::Duration;

/// After the first panic: long enough for another node to take the lead.
const FIRST: Duration = Duration::from_secs(1);
/// What a panic costs a fleet of one node, at most: data that makes every dispatcher panic is met about once a minute.
const LONGEST: Duration = Duration::from_secs(60);
/// A node that went so long without a panic counts as sound again.
const SOUND: Duration = Duration::from_secs(300);

/// How often the control loops of a node have panicked in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Panics(u32);

impl Panics {
    /// After one more, the last one being `since` ago (`None`: there was none).
    #[must_use]
    pub fn one_more(self, since: Option<Duration>) -> Self {
        match since {
            Some(since) if since < SOUND => Self(self.0.saturating_add(1)),
            _ => Self(1),
        }
    }

    /// How long the node does not offer to dispatch, from the last panic on.
    pub fn hold_off(self) -> Duration {
        match self.0.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => FIRST.saturating_mul(1 << doublings.min(16)).min(LONGEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_panic_in_a_row_keeps_a_node_from_leading_for_longer_up_to_a_minute() {
        let mut panics = Panics::default();
        assert_eq!(panics.hold_off(), Duration::ZERO);
        let mut waits = Vec::new();
        let mut since = None;
        for _ in 0..100 {
            panics = panics.one_more(since);
            waits.push(panics.hold_off().as_secs());
            since = Some(panics.hold_off());
        }
        assert_eq!(waits[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(waits[99], 60);
        assert_eq!(panics.one_more(Some(Duration::from_secs(300))).hold_off(), FIRST);
    }
}
