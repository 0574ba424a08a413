//! Decisions of a store that follow from a row alone: the answer to a settle, and which node leads. The memory store and SQLite
//! ask here; PostgreSQL decides the same in SQL, and the conformance suite compares.

use turnwise_core::{Fence, Incarnation, JobState, Timestamp};

use crate::{Beat, Epoch, Lineage, Settled, Settlement, Term};

/// As much of a job, unfinished or in history, as the answer to a settle depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettleFacts {
    pub state: JobState,
    pub fence: Fence,
    pub node: Option<Incarnation>,
    pub cancel_requested: bool,
    /// When its last run began.
    pub started_at: Option<Timestamp>,
}

impl SettleFacts {
    pub fn in_hands_of(&self, node: Incarnation) -> bool {
        self.state.assigned() && self.node == Some(node)
    }
}

/// The answer to a settle of a job of `node` for which nothing is written; `None`: it is to be written, and the answer is
/// [`Settled::Applied`]. `lost`: the settle comes not from the node, but from the dispatcher that takes the lost node's jobs.
pub fn answer(settlement: &Settlement, node: Incarnation, lost: bool, found: Option<SettleFacts>) -> Option<Settled> {
    let Some(found) = found else { return Some(Settled::Gone) };
    let edited_since = !found.state.assigned() && found.fence.only_edited_since(settlement.fence);
    if found.fence != settlement.fence && !edited_since {
        Some(Settled::Superseded)
    } else if !found.state.assigned() {
        // At its end or at rest at this fence, perhaps edited since: an earlier settle of the node with the same fence has put it
        // there. But a failover may have given the fence out again: then the run that was written is another one, which began at
        // another time.
        let other_run = settlement.started_at.is_some() && settlement.started_at != found.started_at;
        Some(if lost || other_run { Settled::Superseded } else { Settled::Applied })
    } else if !found.in_hands_of(node) {
        Some(Settled::Superseded)
    } else if found.cancel_requested && !settlement.saw_cancel {
        Some(Settled::CancelRequested)
    } else {
        None
    }
}

/// Which node leads, until when, and in which lineage it took the lead.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lead {
    pub holder: Option<Incarnation>,
    pub epoch: Epoch,
    pub until: Option<Timestamp>,
    pub lineage: Option<Lineage>,
}

impl Lead {
    /// The epoch in which the node that sent `beat` leads; `None`: another node does. A lead is free when no node has it, when its
    /// lease is over, when the node that asks has found it to be over, and when it was taken in another lineage.
    pub fn asked(&self, beat: &Beat, lineage: Lineage, now: Timestamp) -> Option<Epoch> {
        let here = self.lineage == Some(lineage);
        let over = |until| until < now || beat.over == Some(Term { epoch: self.epoch, until });
        match self.holder {
            Some(holder) if holder == beat.node && here => Some(self.epoch),
            Some(_) if here && self.until.is_some_and(|until| !over(until)) => None,
            _ => Some(self.epoch.next(self.lineage, lineage)),
        }
    }

    /// Whether this node leads in this epoch, in a database of this lineage.
    pub fn is_held(&self, holder: Incarnation, epoch: Epoch, lineage: Lineage) -> bool {
        (self.holder, self.epoch, self.lineage) == (Some(holder), epoch, Some(lineage))
    }
}
