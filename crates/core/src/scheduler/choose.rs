//! Choosing: whose turn it is, down the tree.

use super::{
    Pick, Scheduler,
    gates::Keeper,
    groups::Group,
    lanes::{Lane, Rank},
    rows::Ties,
    table::Index,
    turns::GroupTurns,
};
use crate::{
    backlog::{Place, Slot},
    time::Timestamp,
};

impl Scheduler {
    pub(super) fn pick_batch(&mut self, now: Timestamp) -> Vec<Pick> {
        let mut picks = Vec::new();
        self.release_suspects_that_may_not_run(now);
        self.reserve_for_a_suspect(now);
        self.start_reserved_suspects(now, &mut picks);
        // With how many more each may be given in this batch.
        let mut seats: Vec<(Index, usize)> = self
            .fleet
            .indexes()
            .filter(|&seat| self.fleet[seat].has_room())
            .map(|seat| (seat, self.fleet[seat].share()))
            .collect();
        // A node that asks for more than the usual batch gets it.
        let most = seats.iter().map(|(_, share)| *share).filter(|share| *share < usize::MAX).max();
        let most = most.map_or(self.batch, |most| self.batch.max(most));
        while picks.len() < most
            && let Some(at) = (0..seats.len()).min_by_key(|&at| self.fleet[seats[at].0].fullness())
        {
            let (seat, share) = &mut seats[at];
            match self.pick_for(now, *seat) {
                Some(slot) => {
                    let ties = self.ties(slot);
                    self.take_tokens(now, ties);
                    // Room for as many as last time: batches are mostly alike.
                    if picks.capacity() == 0 {
                        picks.reserve_exact(self.last_batch);
                    }
                    picks.push(self.hand_over(now, slot, ties, *seat));
                    *share -= 1;
                    if *share == 0 || !self.fleet[*seat].has_room() {
                        seats.swap_remove(at);
                    }
                }
                None => drop(seats.swap_remove(at)),
            }
        }
        if !picks.is_empty() {
            self.last_batch = picks.len();
        }
        picks
    }

    /// Into the node's hands: counted against every limit, charged to its group and queue.
    pub(super) fn hand_over(&mut self, now: Timestamp, slot: Slot, ties: Ties, seat: Index) -> Pick {
        let charged = self.charge(ties);
        self.enter_flight(now, slot, ties, Some(seat), Place::Picked, charged);
        self.refresh_group(now, ties.group);
        self.refresh_queue(now, ties.queue);
        self.refresh_limited(now, ties.owner);
        if let Some(key) = ties.key {
            self.unpark(now, key);
        }
        Pick {
            job: self.backlog.id(slot),
            fence: self.backlog.fence(slot),
            node: self.fleet[seat].node().incarnation,
            limited: self.is_limited(ties),
        }
    }

    /// The next queue in turn, its next group in turn, that group's next job that this node can run.
    pub(super) fn pick_for(&mut self, now: Timestamp, seat: Index) -> Option<Slot> {
        let tree = self.fleet[seat].tree() as usize;
        let mut turn = self.trees[tree].turns.first();
        while let Some((account, queue)) = turn {
            if let Some(slot) = self.pick_from(now, queue, seat) {
                return Some(slot);
            }
            // The queue may have left the line meanwhile; the next one is still the one after its account.
            turn = self.trees[tree].turns.after((account, queue));
        }
        None
    }

    pub(super) fn pick_from(&mut self, now: Timestamp, at: Index, seat: Index) -> Option<Slot> {
        let queue = &self.queues[at];
        if queue.full_on(seat) {
            return None;
        }
        if queue.serial() {
            return self.pick_from_line(now, at, seat);
        }
        loop {
            let queue = &self.queues[at];
            let open = |turns: &&GroupTurns| self.class_open(now, turns.class(), seat);
            let first = queue.turns.iter().filter(open).filter_map(|turns| turns.first(&self.groups)).min();
            let (_, group) = first?;
            // A group without ready jobs leaves the line in `refresh_group`; if this job is picked, that is after it is charged.
            match self.take_from_group(now, group, seat) {
                Some(slot) if !self.park_on_key(now, slot) => return Some(slot),
                // The job went to its key's list, or the group had only dead entries.
                Some(_) | None => self.refresh_group(now, group),
            }
        }
    }

    /// A job whose key is at its limit waits on the key's list instead of at the head of its lane.
    pub(super) fn park_on_key(&mut self, now: Timestamp, slot: Slot) -> bool {
        let Some(key) = self.key_of(slot) else { return false };
        if self.gate(now, Keeper::Key(key)).is_none() {
            return false;
        }
        self.backlog.set_place(slot, Place::Parked);
        let backlog = &self.backlog;
        let lane = self.keys[key].parked.entry((backlog.group(slot), backlog.kind(slot))).or_default();
        lane.push(slot, |a, b| backlog.by_rank(a, b));
        true
    }

    /// In a serial queue the first in line goes first, or none does.
    pub(super) fn pick_from_line(&mut self, now: Timestamp, at: Index, seat: Index) -> Option<Slot> {
        self.drop_dead_line(at);
        let slot = self.head_of_line(at).filter(|&slot| self.head_open(now, slot, seat))?;
        let backlog = &self.backlog;
        let queue = &mut self.queues[at];
        if queue.begun.is_none() {
            queue.line.pop(|a, b| backlog.by_seq(a, b));
        }
        queue.begun = None;
        Some(slot)
    }

    /// Due stuck jobs first, whatever their priority; then the class that the scheme prefers, then the other one.
    pub(super) fn take_from_group(&mut self, now: Timestamp, at: Index, seat: Index) -> Option<Slot> {
        // Most groups have jobs of one kind and rank: for them the rest of this function would change nothing.
        if let [lane] = self.groups[at].lanes.as_slice() {
            let open = self.class_open(now, self.kinds[lane.kind].class(), seat);
            return open.then(|| self.take_from_lane(at, 0)).flatten();
        }
        self.drop_dead(at);
        let group = &self.groups[at];
        let scheme = self.owners[group.owner]
            .scheme()
            .or(self.queues[group.queue].settings.scheme)
            .unwrap_or(self.settings.installation.scheme);
        let preferred = scheme.preferred(group.count);
        let ranks = [Rank::Stuck, Rank::Class(preferred), Rank::Class(preferred.other())];
        let lane = ranks.into_iter().find_map(|rank| self.first_lane(now, group, rank, seat))?;
        self.take_from_lane(at, lane)
    }

    /// The first of a lane that lives, counted for the scheme.
    fn take_from_lane(&mut self, at: Index, lane: usize) -> Option<Slot> {
        let group = &mut self.groups[at];
        let lane = &mut group.lanes.as_mut_slice()[lane];
        loop {
            let slot = lane.pop(&self.backlog)?;
            if self.backlog.place(slot) != Place::Dead {
                group.count = group.count.wrapping_add(u32::from(lane.rank != Rank::Stuck));
                return Some(slot);
            }
            self.backlog.bury(slot);
        }
    }

    /// Which of a group's lanes of this rank, among those this node can run, has the job that comes first.
    fn first_lane(&self, now: Timestamp, group: &Group, rank: Rank, seat: Index) -> Option<usize> {
        let open = |lane: &Lane| self.class_open(now, self.kinds[lane.kind].class(), seat);
        let lanes = group.lanes.as_slice().iter().enumerate().filter(|(_, lane)| lane.rank == rank && open(lane));
        let firsts = lanes.filter_map(|(at, lane)| Some((at, lane.first(&self.backlog)?)));
        let first = firsts.reduce(|best, other| if rank.before(&self.backlog, other.1, best.1) { other } else { best });
        first.map(|(at, _)| at)
    }
}
