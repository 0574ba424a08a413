//! Whether something is left for some nodes to do now. A process asks whenever it has nothing in its hands, so this looks only at
//! what stands in line and at the few jobs that limits keep out of it, never at all jobs.

use super::{Scheduler, fleet::Seat, gates::Keeper, table::Index};
use crate::{
    backlog::{Place, Slot},
    node::Incarnation,
    time::Timestamp,
};

impl Scheduler {
    /// Whether these nodes have something in their hands, or a job that is due waits for one of them: for a slot, a limit or a
    /// rate. What is due later, waits for other jobs, or is paused, is not left now (see [`crate::remaining`]). For a node that the
    /// scheduler does not know yet, the answer is yes.
    pub fn has_work_for(&self, now: Timestamp, nodes: &[Incarnation]) -> bool {
        let seats: Vec<Index> = nodes.iter().filter_map(|node| self.fleet.find(*node)).collect();
        let busy = |seat: &Seat| seat.in_flight() > 0 || seat.suspect().is_some();
        self.loading
            || seats.len() < nodes.len()
            || seats.iter().any(|&seat| busy(&self.fleet[seat]))
            || self.queues.indexes().any(|queue| self.stands_in_line(now, queue, &seats))
            || self.suspects.iter().any(|slot| self.waits_for_its_turn(now, slot, &seats))
            || self.limited_jobs().any(|slot| self.waits_for_its_turn(now, slot, &seats))
    }

    fn stands_in_line(&self, now: Timestamp, at: Index, seats: &[Index]) -> bool {
        let queue = &self.queues[at];
        let line = || queue.line.as_slice().iter().copied().chain(queue.begun);
        !self.is_held(now, Keeper::Queue(at))
            && (queue.turns.iter().any(|turns| !turns.is_empty() && self.able(turns.class(), seats))
                || line().any(|slot| self.waits_for_its_turn(now, slot, seats)))
    }

    /// Ready jobs that stand in no line: those of groups with settings, and those whose key is at its limit.
    fn limited_jobs(&self) -> impl Iterator<Item = Slot> {
        let open = self.settings.groups.iter().filter(|(_, settings)| settings.paused.is_none());
        let owners = open.filter_map(|(name, _)| self.owners.find(name));
        let groups = owners.flat_map(|owner| self.groups_of(owner));
        let lanes = groups.flat_map(|group| self.groups[group].lanes.as_slice());
        let parked = self.keys.iter().flat_map(|key| key.parked.values()).flat_map(|jobs| jobs.as_slice());
        lanes.flat_map(|lane| lane.slots(&self.backlog)).chain(parked.copied())
    }

    fn waits_for_its_turn(&self, now: Timestamp, slot: Slot, seats: &[Index]) -> bool {
        if !matches!(self.backlog.place(slot), Place::Ready | Place::Parked) {
            return false;
        }
        let ties = self.ties(slot);
        self.able(self.kinds[ties.kind].class(), seats) && !ties.keepers().any(|keeper| self.is_held(now, keeper))
    }

    fn able(&self, class: Index, seats: &[Index]) -> bool {
        seats.iter().any(|&seat| self.kinds.class(class).able(seat))
    }
}
