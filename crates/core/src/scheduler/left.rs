//! Whether something is left for some nodes to do now. Asked whenever a process has nothing in its hands, so it looks at
//! what stands in line and at the few that limits keep out of it, never at all jobs.

use super::{Scheduler, tables::*};
use crate::{
    backlog::{Place, Slot},
    node::Incarnation,
    time::Timestamp,
};

impl Scheduler {
    /// Whether these nodes have something in their hands, or a job that is due waits for one of them: for a slot, a limit or a
    /// rate. What is due later, waits for other jobs, or is paused, is not left now (see [`crate::left`]). Of a node that is not
    /// known yet, nothing is known.
    pub fn has_left_for(&self, now: Timestamp, nodes: &[Incarnation]) -> bool {
        let seats: Vec<Index> = nodes.iter().filter_map(|node| self.seat_index.get(node).copied()).collect();
        let busy = |seat: &Seat| seat.in_flight > 0 || seat.suspect.is_some();
        self.loading
            || seats.len() < nodes.len()
            || seats.iter().any(|&seat| busy(&self.seats[seat as usize]))
            || (0..index(self.queues.len())).any(|queue| self.stands_in_line(now, queue, &seats))
            || self.suspects.iter().any(|&slot| self.waits_for_its_turn(now, slot, &seats))
            || self.limited_jobs().any(|slot| self.waits_for_its_turn(now, slot, &seats))
    }

    fn stands_in_line(&self, now: Timestamp, at: Index, seats: &[Index]) -> bool {
        let queue = &self.queues[at as usize];
        let line = || queue.line.as_slice().iter().copied().chain(queue.begun);
        !self.is_shut_by_hand(now, at)
            && (queue.turns.iter().any(|turns| !turns.is_empty() && self.able(turns.class(), seats))
                || line().any(|slot| self.waits_for_its_turn(now, slot, seats)))
    }

    /// Ready jobs that stand in no line: of groups that something is set for, and of keys at their limits.
    fn limited_jobs(&self) -> impl Iterator<Item = Slot> {
        let open = self.settings.groups.iter().filter(|(_, settings)| settings.paused.is_none());
        let owners = open.filter_map(|(name, _)| self.owner_named(name));
        let groups = owners.flat_map(|owner| self.groups_of(owner));
        let lanes = groups.flat_map(|group| self.groups[group as usize].lanes.as_slice());
        let parked = self.keys.iter().flat_map(|key| key.parked.values()).flat_map(|jobs| jobs.as_slice());
        lanes.flat_map(|lane| lane.jobs.slots(&self.backlog)).chain(parked.copied())
    }

    fn waits_for_its_turn(&self, now: Timestamp, slot: Slot, seats: &[Index]) -> bool {
        if !matches!(self.backlog.place(slot), Place::Ready | Place::Parked) {
            return false;
        }
        let kind = &self.kinds[self.backlog.kind(slot) as usize];
        let owner = self.groups[self.backlog.group(slot) as usize].owner;
        self.able(kind.class, seats)
            && !self.is_shut_by_hand(now, kind.queue)
            && self.owner_gate(now, owner) != Some(Closed::Paused)
    }

    fn is_shut_by_hand(&self, now: Timestamp, queue: Index) -> bool {
        matches!(self.queue_gate(now, queue), Some(Closed::Paused | Closed::Waiting | Closed::Hours))
    }

    fn able(&self, class: Index, seats: &[Index]) -> bool {
        seats.iter().any(|&seat| self.classes[class as usize].able[seat as usize])
    }
}
