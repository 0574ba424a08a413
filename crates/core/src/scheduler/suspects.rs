//! Suspects: a job that was there when two nodes died runs alone on its node.
//!
//! Draining a node takes as long as what runs there. So a suspect has its place in every limit, and its tokens, from the
//! moment the node is chosen: if it took them when the node is empty, others would have them by then, time and again. And no
//! node is chosen for one that could not begin once the node is empty.

use std::collections::HashMap;

use super::{Pick, Scheduler, tables::*};
use crate::{
    backlog::{Place, Slot},
    time::Timestamp,
};

impl Scheduler {
    /// A person has paused what a node is kept free for, or the clock has, or a limit was lowered: until that ends others may
    /// have the node.
    pub(super) fn release_suspects_that_may_not_run(&mut self, now: Timestamp) {
        for at in 0..self.seats.len() {
            if let Some(slot) = self.seats[at].suspect.and_then(|id| self.backlog.find(id))
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

    /// One node at a time drains for one suspect, and after it everybody else has the node for as long as the suspect
    /// kept it: a handful of suspects can stop neither the fleet nor a single node.
    pub(super) fn reserve_for_a_suspect(&mut self, now: Timestamp) {
        if self.suspects.is_empty() || self.seats.iter().any(|seat| seat.suspect.is_some()) {
            return;
        }
        if self.suspects_rest(now) {
            return;
        }
        let mut flights: HashMap<usize, Vec<Slot>> = HashMap::new();
        for _ in 0..self.suspects.len() {
            let Some(slot) = self.suspects.pop_front() else { return };
            match self.backlog.place(slot) {
                Place::Ready => {}
                Place::Dead => {
                    self.backlog.bury(slot);
                    continue;
                }
                _ => continue,
            }
            let freest = (0..self.seats.len())
                .filter(|&at| self.could_run_alone(slot, at))
                .min_by_key(|&at| self.seats[at].in_flight)
                .filter(|_| !self.is_shut(now, slot));
            // What fills a limit may be on the very node that is to be drained.
            let mut drains = |at: usize| {
                !self.is_full(slot, &[])
                    || !self.is_full(slot, flights.entry(at).or_insert_with(|| self.flights_on(at)))
            };
            match freest.filter(|&at| drains(at)) {
                Some(at) => return self.reserve(now, slot, at),
                None => self.suspects.push_back(slot),
            }
        }
    }

    pub(super) fn start_reserved_suspects(&mut self, now: Timestamp, picks: &mut Vec<Pick>) {
        for at in 0..self.seats.len() {
            let seat = &self.seats[at];
            if seat.in_flight == 0
                && let Some(slot) = seat.suspect.and_then(|id| self.backlog.find(id))
                && self.backlog.place(slot) == Place::Reserved
                && !self.is_full(slot, &[])
            {
                let ties = self.ties(slot);
                self.queues[ties.queue as usize].begun.take_if(|begun| *begun == slot);
                picks.push(self.hand_over(now, slot, ties, index(at)));
            }
        }
    }

    fn reserve(&mut self, now: Timestamp, slot: Slot, at: usize) {
        self.backlog.set_place(slot, Place::Reserved);
        self.seats[at].suspect = Some(self.backlog.id(slot));
        self.suspect_since = now;
        let ties = self.ties(slot);
        self.take_places(ties);
        self.take_tokens(now, ties);
        self.refresh_queue(now, ties.queue);
        self.refresh_limited(now, ties.owner);
    }

    /// Gives back the node and the places. The tokens are gone: at worst fewer begin than the rate allows.
    pub(super) fn unreserve(&mut self, now: Timestamp, slot: Slot) {
        let id = self.backlog.id(slot);
        self.seats.iter_mut().filter(|seat| seat.suspect == Some(id)).for_each(|seat| seat.suspect = None);
        self.backlog.set_place(slot, Place::Manual);
        let ties = self.ties(slot);
        self.give_places(ties);
        self.refresh_queue(now, ties.queue);
        self.refresh_limited(now, ties.owner);
        if let Some(key) = ties.key {
            self.unpark(now, key);
        }
    }

    fn could_run_alone(&self, slot: Slot, at: usize) -> bool {
        let class = self.kinds[self.backlog.kind(slot) as usize].class;
        self.classes[class as usize].able[at] && self.seats[at].node.slots > 0
    }

    fn flights_on(&self, at: usize) -> Vec<Slot> {
        let on = |flight: &Flight| flight.seat == Some(index(at));
        self.flights.iter().filter(|(_, flight)| on(flight)).map(|(slot, _)| *slot).collect()
    }

    /// Whether more than a limit keeps it. Rates wake the scheduler when they allow the next.
    fn is_shut(&self, now: Timestamp, slot: Slot) -> bool {
        let kind = &self.kinds[self.backlog.kind(slot) as usize];
        let queue = &self.queues[kind.queue as usize];
        let at = self.groups[self.backlog.group(slot) as usize].owner;
        let special = self.owners[at as usize].special.as_ref();
        let key = self.extras.get(&slot).and_then(|extra| extra.key).map(|key| &self.keys[key as usize]);
        let task = &self.tasks[kind.task as usize];
        let buckets =
            [queue.bucket, special.and_then(|s| s.bucket), task.bucket, key.and_then(|key| key.bucket)].into_iter();
        let by_hand = |closed| matches!(closed, Closed::Paused | Closed::Waiting | Closed::Hours);
        let reserved = self.backlog.place(slot) == Place::Reserved;
        queue.begun.is_some_and(|begun| begun != slot)
            || self.queue_gate(now, kind.queue).is_some_and(by_hand)
            || self.owner_gate(now, at).is_some_and(by_hand)
            || (!reserved && buckets.flatten().any(|bucket| !bucket.allows(now)))
    }

    /// Whether a limit has no place for it, even when these have ended.
    fn is_full(&self, slot: Slot, leaving: &[Slot]) -> bool {
        let own = u32::from(self.backlog.place(slot) == Place::Reserved);
        let full = |in_flight: u32, limit: Option<u32>, same: &dyn Fn(Slot) -> bool| {
            let leaving = || leaving.iter().filter(|&&other| same(other)).count();
            limit.is_some_and(|limit| (in_flight - own) as usize >= limit as usize + leaving())
        };
        let task_of = |slot: Slot| self.kinds[self.backlog.kind(slot) as usize].task;
        let owner_of = |slot: Slot| self.groups[self.backlog.group(slot) as usize].owner;
        let key_of = |slot: Slot| self.extras.get(&slot).and_then(|extra| extra.key);
        let (queue, task, owner, key) = (self.queue_of(slot), task_of(slot), owner_of(slot), key_of(slot));
        let owner_info = &self.owners[owner as usize];
        let owner_limit = owner_info.special.as_ref().and_then(|special| special.settings.concurrency);
        let task_info = &self.tasks[task as usize];
        full(self.queues[queue as usize].in_flight, self.queue_limit(queue), &|other| self.queue_of(other) == queue)
            || full(owner_info.in_flight, owner_limit, &|other| owner_of(other) == owner)
            || full(task_info.in_flight, task_info.settings.concurrency, &|other| task_of(other) == task)
            || key
                .map(|key| &self.keys[key as usize])
                .is_some_and(|info| full(info.in_flight, info.settings.concurrency, &|other| key_of(other) == key))
    }
}
