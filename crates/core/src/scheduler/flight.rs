//! Into nodes' hands and out of them: what is counted and what is charged.

use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use super::{Scheduler, charge::LEAST_COST, rows::Ties, table::Index};
use crate::{
    JobId,
    backlog::{Place, Slot},
    settings::Fairness,
    time::Timestamp,
};

/// A job in a node's hands, or picked for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    /// `None`: a node that the scheduler does not know (lost, and its jobs not settled yet).
    pub(super) seat: Option<Index>,
    /// Since when it runs, as the dispatcher estimates it: a node runs its jobs in the order it gets them. `None`: it lies in the
    /// node's buffer.
    pub(super) runs_since: Option<Timestamp>,
    /// Distinguishes this flight from others of the same slot.
    number: u64,
    /// As added to its node's load; `None`: it was not known.
    cost: Option<Duration>,
    /// Of its arguments, as added to its node's.
    bytes: u32,
    /// As charged to its group so far.
    pub(super) charged: Duration,
    /// The part of that which was not used yet when long runs were last charged: it may be given back.
    pub(super) unused: Duration,
}

impl Flight {
    /// The part of its charge that it has used until `now`.
    pub(super) fn used(&self, now: Timestamp) -> Option<Duration> {
        Some(self.charged.min(now.since(self.runs_since?)))
    }
}

/// The jobs in nodes' hands.
#[derive(Debug, Clone)]
pub(super) struct Flights {
    by_slot: HashMap<Slot, Flight>,
    /// Counts flights, so that each has a number of its own.
    flown: u64,
}

impl Default for Flights {
    fn default() -> Self {
        Self { by_slot: HashMap::new(), flown: 0 }
    }
}

impl Flights {
    #[inline]
    pub(super) fn get(&self, slot: Slot) -> Option<&Flight> {
        self.by_slot.get(&slot)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Flight)> {
        self.by_slot.iter().map(|(slot, flight)| (*slot, flight))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (Slot, &mut Flight)> {
        self.by_slot.iter_mut().map(|(slot, flight)| (*slot, flight))
    }

    pub(super) fn set_charged(&mut self, slot: Slot, charged: Duration) {
        if let Some(flight) = self.by_slot.get_mut(&slot) {
            flight.charged = charged;
        }
    }

    #[inline]
    fn next_number(&mut self) -> u64 {
        self.flown += 1;
        self.flown
    }

    /// Marks it as running on its node, and returns whether it is still there.
    fn begin(&mut self, slot: Slot, number: u64, now: Timestamp) -> bool {
        let flight = self.by_slot.get_mut(&slot).filter(|flight| flight.number == number);
        flight.map(|flight| flight.runs_since = Some(now)).is_some()
    }
}

impl Scheduler {
    /// Counts a job against every limit that concerns it.
    pub(super) fn take_places(&mut self, ties: Ties) {
        self.each_place(ties, |in_flight| *in_flight += 1);
    }

    pub(super) fn give_places(&mut self, ties: Ties) {
        self.each_place(ties, |in_flight| *in_flight -= 1);
    }

    fn each_place(&mut self, ties: Ties, change: impl Fn(&mut u32)) {
        change(&mut self.queues[ties.queue].in_flight);
        change(&mut self.owners[ties.owner].in_flight);
        change(&mut self.tasks[ties.task].in_flight);
        if let Some(key) = ties.key {
            change(&mut self.keys[key].in_flight);
        }
    }

    /// `charged`: what its group was charged for it.
    pub(super) fn enter_flight(
        &mut self,
        now: Timestamp,
        slot: Slot,
        ties: Ties,
        seat: Option<Index>,
        place: Place,
        charged: Duration,
    ) {
        // A suspect that was reserved has its places already.
        if self.backlog.place(slot) != Place::Reserved {
            self.take_places(ties);
        }
        self.backlog.set_place(slot, place);
        let cost = self.kinds[ties.kind].cost;
        let queue = &mut self.queues[ties.queue];
        // Where turns are counted, the cost is fixed: none of it is unused.
        let unused = if queue.settings.fairness == Fairness::Time { charged } else { Duration::ZERO };
        queue.unused += unused;
        let group = &mut self.groups[ties.group];
        group.advance(unused);
        group.in_flight += 1;
        if let Some(seat) = seat {
            *queue.on_seat(seat) += 1;
            // If it was running already when it was read, it is not known for how long it has kept the node.
            if self.is_suspect(slot) && self.fleet[seat].keep_for(self.backlog.id(slot)) {
                self.suspects.keep_a_node(now);
            }
        }
        let number = self.flights.next_number();
        let bytes = self.args_bytes(slot);
        let runs = seat.is_none_or(|seat| self.fleet[seat].enter(slot, number, cost, bytes));
        let flight = Flight { seat, runs_since: runs.then_some(now), number, cost, bytes, charged, unused };
        self.flights.by_slot.insert(slot, flight);
    }

    /// A run has made room on its node: the next in turn begins.
    pub(super) fn begin_next(&mut self, now: Timestamp, seat: Index) {
        let Self { fleet, flights, .. } = self;
        fleet[seat].begin_next(|slot, number| flights.begin(slot, number, now));
    }

    /// What a job has used that leaves its node's hands without a report: the node is lost, or a person has decided otherwise.
    pub(super) fn used_so_far(&self, now: Timestamp, slot: Slot) -> Option<Duration> {
        self.flights.get(slot)?.used(now)
    }

    /// At most `limit` jobs that are in the hands of nodes which are not there.
    pub fn orphans(&self, limit: usize) -> Vec<JobId> {
        let orphans = self.flights.by_slot.keys().copied().filter(|slot| self.node_is_lost(*slot));
        let mut orphans: Vec<_> = orphans.take(limit).map(|slot| self.backlog.id(slot)).collect();
        orphans.sort_unstable();
        orphans
    }

    /// Whether the node that has this job is gone: it will not report how long the job ran.
    pub(super) fn node_is_lost(&self, slot: Slot) -> bool {
        let seat = self.flights.get(slot).and_then(|flight| flight.seat);
        seat.is_none_or(|seat| !self.fleet[seat].is_alive())
    }

    /// Takes a job out of a node's hands. `used`: how long it really had its slot; `None`: it never had one, and costs nothing.
    pub(super) fn leave_flight(&mut self, now: Timestamp, slot: Slot, ties: Ties, used: Option<Duration>) {
        let Some(flight) = self.flights.by_slot.remove(&slot) else { return };
        self.backlog.set_place(slot, Place::Manual);
        let Ties { queue, group, key, .. } = ties;
        self.give_places(ties);
        self.queues[queue].unused -= flight.unused;
        let row = &mut self.groups[group];
        row.give_back(flight.unused);
        row.in_flight -= 1;
        if let Some(seat) = flight.seat {
            *self.queues[queue].on_seat(seat) -= 1;
            self.fleet[seat].leave(flight.runs_since.is_some(), flight.cost, flight.bytes);
            if self.fleet[seat].keep_no_longer_for(self.backlog.id(slot)) {
                self.suspects.give_the_node_back(now);
            }
            self.begin_next(now, seat);
        }
        match self.queues[queue].settings.fairness {
            Fairness::Time => {
                let cost = used.map_or(Duration::ZERO, |used| used.max(LEAST_COST));
                self.correct(group, flight.charged, cost);
            }
            // A turn that came to nothing is given back.
            Fairness::Turns if used.is_none() => self.correct(group, flight.charged, Duration::ZERO),
            Fairness::Turns => {}
        }
        self.refresh_queue(now, queue);
        self.refresh_limited(now, ties.owner);
        if let Some(key) = key {
            self.unpark(now, key);
        }
    }
}
