//! Which node dispatched when, as far as this server's pages have seen: the database keeps no history of it.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use turnwise::Timestamp;

/// Changes are told for so long.
const TOLD: Duration = Duration::from_secs(3_600);
/// At most so many, the last ones.
const MOST: usize = 20;

/// Another node dispatches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    /// When it was seen.
    pub(crate) at: Timestamp,
    pub(crate) from: String,
    pub(crate) to: String,
}

#[derive(Debug, Default)]
struct Seen {
    last: Option<String>,
    changes: VecDeque<Change>,
}

/// What was seen.
#[derive(Debug, Default)]
pub(crate) struct Leads(Mutex<Seen>);

impl Leads {
    /// Notes which node dispatches now; the changes of the last hour, the last one first.
    pub(crate) fn note(&self, node: Option<&str>, now: Timestamp) -> Vec<Change> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = node {
            let last = seen.last.replace(node.to_owned());
            if let Some(from) = last.filter(|last| last != node) {
                seen.changes.push_front(Change { at: now, from, to: node.to_owned() });
                seen.changes.truncate(MOST);
            }
        }
        seen.changes.iter().filter(|change| change.at.plus(TOLD) > now).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_dispatcher_is_told_for_an_hour() {
        let (leads, begin) = (Leads::default(), Timestamp::from_micros(0));
        let at = |minutes: u64| begin.plus(Duration::from_secs(minutes * 60));
        assert_eq!(leads.note(Some("a"), at(0)), []);
        assert_eq!(leads.note(Some("a"), at(1)), []);
        // While none dispatches nothing is known.
        assert_eq!(leads.note(None, at(2)), []);
        let change = Change { at: at(3), from: "a".to_owned(), to: "b".to_owned() };
        assert_eq!(leads.note(Some("b"), at(3)), std::slice::from_ref(&change));
        assert_eq!(leads.note(Some("b"), at(62)), [change]);
        assert_eq!(leads.note(Some("b"), at(63)), []);
    }
}
