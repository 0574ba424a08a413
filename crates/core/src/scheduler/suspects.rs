//! Suspects: a job that was there when two nodes died runs alone on its node.
//!
//! Draining a node takes as long as the jobs that run there. So a suspect takes its place in every limit, and its tokens, when
//! the node is chosen: if it took them only when the node is empty, other jobs would take them first, again and again. And no
//! node is chosen for a suspect that could not begin once the node is empty.

use std::collections::{HashMap, VecDeque};

use super::{
    Pick, Scheduler,
    gates::{Closed, Keeper},
    table::Index,
};
use crate::{
    backlog::{Place, Slot},
    time::Timestamp,
};

/// Suspects that are ready, and how they share the time with all other jobs.
#[derive(Debug, Clone)]
pub(super) struct Suspects {
    line: VecDeque<Slot>,
    /// Since when a node is kept for a suspect, or was the last time.
    since: Timestamp,
    /// Until when no node is kept for one.
    rest_until: Timestamp,
}

impl Default for Suspects {
    fn default() -> Self {
        Self { line: VecDeque::new(), since: Timestamp::MIN, rest_until: Timestamp::MIN }
    }
}

impl Suspects {
    pub(super) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.line.iter().copied()
    }

    pub(super) fn add(&mut self, slot: Slot) {
        self.line.push_back(slot);
    }

    /// When the next suspect may have a node, if any waits.
    pub(super) fn rested_at(&self) -> Option<Timestamp> {
        (!self.line.is_empty()).then_some(self.rest_until)
    }

    pub(super) fn keep_a_node(&mut self, now: Timestamp) {
        self.since = now;
    }

    /// All other jobs have the node now, for as long as the suspect kept it.
    pub(super) fn give_the_node_back(&mut self, now: Timestamp) {
        self.rest_until = now.plus(now.since(self.since));
    }
}

impl Scheduler {
    /// When suspects have rested, if time alone brings one of them to a node.
    pub(super) fn next_suspect(&self, now: Timestamp) -> Option<Timestamp> {
        let rested = self.suspects.rested_at().filter(|_| !self.fleet.has_a_suspect())?;
        // If they have rested and none runs all the same, time alone will not help.
        (rested > now && self.anybody_in_line()).then_some(rested)
    }

    /// Whether suspects leave all nodes to other jobs at this time.
    fn suspects_rest(&self, now: Timestamp) -> bool {
        now < self.suspects.rest_until && self.anybody_in_line()
    }

    /// Gives a node back that is kept free for a suspect which may not start: a person has paused its queue or group, a window has
    /// begun, or a limit was lowered. Until that changes, other jobs may have the node.
    pub(super) fn release_suspects_that_may_not_run(&mut self, now: Timestamp) {
        for at in self.fleet.indexes() {
            if let Some(slot) = self.fleet[at].suspect().and_then(|id| self.backlog.find(id))
                && self.backlog.place(slot) == Place::Reserved
                && (!self.could_run_alone(slot, at)
                    || self.is_shut(now, slot)
                    || (self.is_full(slot, &[]) && self.is_full(slot, &self.flights_on(at))))
            {
                self.unreserve(now, slot);
                self.put_ready(now, slot);
            }
        }
    }

    /// One node at a time drains for one suspect, and afterwards all other jobs have the node for as long as the suspect
    /// kept it: a handful of suspects can stop neither the fleet nor a single node.
    pub(super) fn reserve_for_a_suspect(&mut self, now: Timestamp) {
        if self.suspects.line.is_empty() || self.fleet.has_a_suspect() {
            return;
        }
        if self.suspects_rest(now) {
            return;
        }
        let mut flights: HashMap<Index, Vec<Slot>> = HashMap::new();
        for _ in 0..self.suspects.line.len() {
            let Some(slot) = self.suspects.line.pop_front() else { return };
            match self.backlog.place(slot) {
                Place::Ready => {}
                Place::Dead => {
                    self.backlog.bury(slot);
                    continue;
                }
                _ => continue,
            }
            let freest = self
                .fleet
                .indexes()
                .filter(|&at| self.could_run_alone(slot, at))
                .min_by_key(|&at| self.fleet[at].in_flight())
                .filter(|_| !self.is_shut(now, slot));
            // The jobs that fill a limit may run on the node that is to be drained.
            let mut drains = |at: Index| {
                !self.is_full(slot, &[])
                    || !self.is_full(slot, flights.entry(at).or_insert_with(|| self.flights_on(at)))
            };
            match freest.filter(|&at| drains(at)) {
                Some(at) => return self.reserve(now, slot, at),
                None => self.suspects.add(slot),
            }
        }
    }

    pub(super) fn start_reserved_suspects(&mut self, now: Timestamp, picks: &mut Vec<Pick>) {
        for at in self.fleet.indexes() {
            let seat = &self.fleet[at];
            if seat.in_flight() == 0
                && let Some(slot) = seat.suspect().and_then(|id| self.backlog.find(id))
                && self.backlog.place(slot) == Place::Reserved
                && !self.is_full(slot, &[])
            {
                let ties = self.ties(slot);
                self.queues[ties.queue].begun.take_if(|begun| *begun == slot);
                picks.push(self.hand_over(now, slot, ties, at));
            }
        }
    }

    fn reserve(&mut self, now: Timestamp, slot: Slot, at: Index) {
        self.backlog.set_place(slot, Place::Reserved);
        self.fleet[at].keep_for(self.backlog.id(slot));
        self.suspects.keep_a_node(now);
        let ties = self.ties(slot);
        self.take_places(ties);
        self.take_tokens(now, ties);
        self.refresh_queue(now, ties.queue);
        self.refresh_limited(now, ties.owner);
    }

    /// Gives back the node and the places. The tokens stay spent: at worst fewer jobs begin than the rate allows.
    pub(super) fn unreserve(&mut self, now: Timestamp, slot: Slot) {
        let id = self.backlog.id(slot);
        for seat in self.fleet.iter_mut() {
            seat.keep_no_longer_for(id);
        }
        self.backlog.set_place(slot, Place::Manual);
        let ties = self.ties(slot);
        self.give_places(ties);
        self.refresh_queue(now, ties.queue);
        self.refresh_limited(now, ties.owner);
        if let Some(key) = ties.key {
            self.unpark(now, key);
        }
    }

    fn could_run_alone(&self, slot: Slot, at: Index) -> bool {
        let class = self.kinds[self.backlog.kind(slot)].class();
        self.kinds.class(class).able(at) && self.fleet[at].node().slots > 0
    }

    fn flights_on(&self, at: Index) -> Vec<Slot> {
        self.flights.iter().filter(|(_, flight)| flight.seat == Some(at)).map(|(slot, _)| slot).collect()
    }

    /// Whether a gate other than a limit keeps it. A rate wakes the scheduler when it allows the next start.
    fn is_shut(&self, now: Timestamp, slot: Slot) -> bool {
        let ties = self.ties(slot);
        // A reserved suspect has its tokens already.
        let reserved = self.backlog.place(slot) == Place::Reserved;
        let shuts = |gate: Closed| match gate {
            Closed::Limit => false,
            Closed::Rate(_) => !reserved,
            gate @ (Closed::Paused | Closed::Waiting | Closed::Window | Closed::Reading) => gate.holds(),
        };
        self.queues[ties.queue].begun.is_some_and(|begun| begun != slot)
            || ties.keepers().any(|keeper| self.closed_gates(now, keeper).into_iter().any(shuts))
    }

    /// Whether a limit has no place for it, even when the jobs in `leaving` have ended.
    fn is_full(&self, slot: Slot, leaving: &[Slot]) -> bool {
        let own = u32::from(self.backlog.place(slot) == Place::Reserved);
        let is_kept = |other: Slot, keeper: Keeper| self.ties(other).keepers().any(|of| of == keeper);
        self.ties(slot).keepers().any(|keeper| {
            let (in_flight, limit) = self.limit(keeper);
            let leaving = || leaving.iter().filter(|&&other| is_kept(other, keeper)).count();
            limit.is_some_and(|limit| (in_flight - own) as usize >= limit as usize + leaving())
        })
    }
}
