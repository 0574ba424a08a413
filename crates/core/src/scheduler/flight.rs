//! Into nodes' hands and out of them: what is counted and what is charged.

use std::time::Duration;

use super::{LEAST_COST, LIVE_CHARGE, ONE_TURN, Scheduler, tables::*};
use crate::{
    JobId,
    backlog::{Place, Slot},
    estimate::UNKNOWN_COST,
    lifecycle::ALONE_CRASHES,
    settings::Fairness,
    time::Timestamp,
    turn::{Account, Charge},
};

impl Scheduler {
    /// Counts a job against every limit that concerns it.
    pub(super) fn take_places(&mut self, ties: Ties) {
        self.each_place(ties, |in_flight| *in_flight += 1);
    }

    pub(super) fn give_places(&mut self, ties: Ties) {
        self.each_place(ties, |in_flight| *in_flight -= 1);
    }

    fn each_place(&mut self, ties: Ties, change: impl Fn(&mut u32)) {
        change(&mut self.queues[ties.queue as usize].in_flight);
        change(&mut self.owners[ties.owner as usize].in_flight);
        change(&mut self.tasks[ties.task as usize].in_flight);
        if let Some(key) = ties.key {
            change(&mut self.keys[key as usize].in_flight);
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
        // A suspect had its places before.
        if self.backlog.place(slot) != Place::Reserved {
            self.take_places(ties);
        }
        self.backlog.set_place(slot, place);
        let known = self.kinds[ties.kind as usize].cost;
        let cost = known.unwrap_or(UNKNOWN_COST);
        let queue = &mut self.queues[ties.queue as usize];
        // A turn costs what it is expected to.
        let unused = if queue.settings.fairness == Fairness::Time { charged } else { Duration::ZERO };
        queue.unused += unused;
        self.groups[ties.group as usize].in_flight += 1;
        if let Some(seat) = seat {
            *queue.on_seat(seat) += 1;
            let crashes = self.extras.get(&slot).map_or(0, |extra| extra.crashes);
            let seat = &mut self.seats[seat as usize];
            seat.in_flight += 1;
            seat.load += cost;
            seat.guesses += u32::from(known.is_none());
            if crashes >= ALONE_CRASHES {
                let id = self.backlog.id(slot);
                // Read as it ran already: how long it has kept the node, nobody tells.
                if seat.suspect != Some(id) {
                    self.suspect_since = now;
                }
                seat.suspect = Some(id);
            }
        }
        self.flown += 1;
        let number = self.flown;
        let runs = match seat {
            Some(seat) => self.seats[seat as usize].board(slot, number),
            None => true,
        };
        self.flights.insert(
            slot,
            Flight {
                seat,
                runs_since: runs.then_some(now),
                number,
                cost: if known.is_some() { cost } else { Duration::MAX },
                charged,
                unused,
            },
        );
    }

    /// A run has made room on its node: the next in turn begins.
    pub(super) fn begin_next(&mut self, now: Timestamp, seat: Index) {
        let seat = &mut self.seats[seat as usize];
        while seat.running < seat.node.slots
            && let Some((slot, number)) = seat.buffer.pop_front()
        {
            if let Some(flight) = self.flights.get_mut(&slot).filter(|flight| flight.number == number) {
                flight.runs_since = Some(now);
                seat.running += 1;
            }
        }
    }

    /// What a job that leaves its node's hands without a word has used: the node is lost, or somebody decided otherwise.
    pub(super) fn used_so_far(&self, now: Timestamp, slot: Slot) -> Option<Duration> {
        let flight = self.flights.get(&slot)?;
        Some(flight.charged.min(now.since(flight.runs_since?)))
    }

    /// At most `limit` jobs that are in the hands of nodes which are not there.
    pub fn orphans(&self, limit: usize) -> Vec<JobId> {
        let orphans = self.flights.keys().copied().filter(|slot| self.node_is_lost(*slot));
        let mut orphans: Vec<_> = orphans.take(limit).map(|slot| self.backlog.id(slot)).collect();
        orphans.sort_unstable();
        orphans
    }

    /// Whether the node that has this job is gone: how long it ran there, nobody tells.
    pub(super) fn node_is_lost(&self, slot: Slot) -> bool {
        let seat = self.flights.get(&slot).and_then(|flight| flight.seat);
        seat.is_none_or(|seat| !self.seats[seat as usize].alive)
    }

    /// Out of a node's hands. `used`: how long it really had its slot; `None`: it never had it, and costs nothing.
    pub(super) fn leave_flight(&mut self, now: Timestamp, slot: Slot, ties: Ties, used: Option<Duration>) {
        let Some(flight) = self.flights.remove(&slot) else { return };
        self.backlog.set_place(slot, Place::Manual);
        let Ties { queue, group, key, .. } = ties;
        self.give_places(ties);
        self.queues[queue as usize].unused -= flight.unused;
        self.groups[group as usize].in_flight -= 1;
        if let Some(seat) = flight.seat {
            *self.queues[queue as usize].on_seat(seat) -= 1;
            let at = seat;
            let seat = &mut self.seats[at as usize];
            seat.in_flight -= 1;
            seat.running -= u32::from(flight.runs_since.is_some());
            if flight.cost == Duration::MAX {
                seat.guesses -= 1;
                seat.load = seat.load.saturating_sub(UNKNOWN_COST);
            } else {
                seat.load = seat.load.saturating_sub(flight.cost);
            }
            if seat.suspect == Some(self.backlog.id(slot)) {
                seat.suspect = None;
                self.suspects_rest_until = now.plus(now.since(self.suspect_since));
            }
            self.begin_next(now, at);
        }
        match self.queues[queue as usize].settings.fairness {
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

    /// Charges a group and its queue what a job is expected to cost, says how much, and moves the virtual times.
    pub(super) fn charge(&mut self, ties: Ties) -> Duration {
        let Ties { group: at, queue: queue_at, .. } = ties;
        let cost = self.kinds[ties.kind as usize].cost.unwrap_or(UNKNOWN_COST);
        self.picks = self.picks.next();
        let served = self.picks;
        let queue = &mut self.queues[queue_at as usize];
        let cost = match queue.settings.fairness {
            Fairness::Time => cost.max(LEAST_COST),
            Fairness::Turns => ONE_TURN,
        };
        queue.now = queue.now.max(self.groups[at as usize].account.charge);
        let tree = &mut self.trees[queue.tree as usize];
        tree.now = tree.now.max(queue.account.charge);
        let before = queue.account;
        let charge = Charge::of(cost, queue.settings.weight);
        queue.account.charge = before.charge.plus(charge);
        queue.account.served = served;
        if queue.entered {
            self.trees[queue.tree as usize].turns.change(before, queue.account, queue_at);
        }
        let weight = self.owners[ties.owner as usize].weight();
        let charge = if weight == queue.settings.weight { charge } else { Charge::of(cost, weight) };
        self.change_account(at, |account| {
            account.charge = account.charge.plus(charge);
            account.served = served;
        });
        cost
    }

    /// Replaces what was charged by what it really was.
    pub(super) fn correct(&mut self, at: Index, charged: Duration, ran: Duration) {
        if charged == ran {
            return;
        }
        let queue_at = self.groups[at as usize].queue;
        let owner = self.groups[at as usize].owner;
        let weight = self.owners[owner as usize].weight();
        let fix = |account: &mut Account, weight| {
            account.charge = account.charge.plus(Charge::of(ran, weight)).minus(Charge::of(charged, weight));
        };
        self.change_account(at, |account| fix(account, weight));
        let queue = &mut self.queues[queue_at as usize];
        let before = queue.account;
        fix(&mut queue.account, queue.settings.weight);
        if queue.entered {
            self.trees[queue.tree as usize].turns.change(before, queue.account, queue_at);
        }
    }

    /// A run that takes longer than expected is charged while it runs, so that its group does not get more turns on credit.
    pub(super) fn charge_long_runs(&mut self, now: Timestamp) {
        if now.since(self.charged_live) < LIVE_CHARGE {
            return;
        }
        self.charged_live = now;
        let Self { flights, queues, kinds, backlog, .. } = self;
        for (&slot, flight) in flights.iter_mut().filter(|(_, flight)| flight.unused > Duration::ZERO) {
            let Some(since) = flight.runs_since else { continue };
            let unused = flight.unused.min(flight.charged.saturating_sub(now.since(since)));
            queues[kinds[backlog.kind(slot) as usize].queue as usize].unused -= flight.unused - unused;
            flight.unused = unused;
        }
        let long: Vec<(Slot, Duration, Duration)> = self
            .flights
            .iter()
            .filter_map(|(&slot, flight)| Some((slot, flight.charged, now.since(flight.runs_since?))))
            .filter(|(_, charged, elapsed)| *elapsed > *charged + LIVE_CHARGE)
            .collect();
        for (slot, charged, elapsed) in long {
            let queue = self.queue_of(slot);
            if self.queues[queue as usize].settings.fairness == Fairness::Time {
                self.correct(self.backlog.group(slot), charged, elapsed);
                if let Some(flight) = self.flights.get_mut(&slot) {
                    flight.charged = elapsed;
                }
            }
        }
    }
}
