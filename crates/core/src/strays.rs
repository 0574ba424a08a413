//! Jobs that are said to be in a node's hands and are in none: how often they are looked for, and what becomes of one.
//!
//! A node gives back what its own batches name and it does not have. A job that no batch names, or that is in the hands of a node which is
//! in no table, is found by the dispatcher, which reads all unfinished jobs in pages, slowly and for ever.

use std::time::Duration;

use crate::lifecycle::{Event, Outcome};

/// How far the node is there that is said to have a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// Its lease runs.
    Living,
    /// It is in the table, and its lease is over, or it is lost: it is declared so, and all of its jobs go back.
    Silent,
    /// It is in no table.
    Unknown,
}

/// What follows for a job that has been in this node's hands, at the same fence, for two looks. `named`: by a batch, which stands until
/// all of its jobs are settled. `None`: nothing, here.
pub fn decide(holder: Holder, named: bool) -> Option<Event> {
    match (holder, named) {
        // It may have begun there, so this counts as any other loss.
        (Holder::Unknown, _) => Some(Event::NodeLost),
        // The node never had it, or has called its batch done: no attempt of the job is spent.
        (Holder::Living, false) => Some(Event::Ended(Outcome::Interrupted)),
        (Holder::Living, true) | (Holder::Silent, _) => None,
    }
}

/// After how long to look again. `lease`: of the node that dispatches; `busy`: jobs were given out since the last look; `suspected`: the last look
/// has found jobs that are in nodes' hands, which are to be looked at once more.
///
/// An idle dispatcher looks once a minute, with the usual lease: more would be more than one statement a second, with all the others.
pub fn next_look(lease: Duration, busy: bool, suspected: bool) -> Duration {
    if busy || suspected { lease } else { lease * 12 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_batch_names_or_no_node_has_goes_back() {
        assert_eq!(decide(Holder::Living, true), None);
        assert_eq!(decide(Holder::Living, false), Some(Event::Ended(Outcome::Interrupted)));
        for named in [true, false] {
            assert_eq!(decide(Holder::Silent, named), None, "its lease decides");
            assert_eq!(decide(Holder::Unknown, named), Some(Event::NodeLost));
        }
    }

    #[test]
    fn an_idle_dispatcher_looks_twelve_times_less_often() {
        let lease = Duration::from_secs(5);
        assert_eq!(next_look(lease, false, false), Duration::from_secs(60));
        assert_eq!((next_look(lease, true, false), next_look(lease, false, true)), (lease, lease));
    }
}
