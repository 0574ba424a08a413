//! Into nodes' hands and out of them: what is counted and what is charged.

use std::time::Duration;

use super::{LEAST_COST, LIVE_CHARGE, ONE_TURN, Scheduler, UNKNOWN_COST, tables::*};
use crate::{
    backlog::{Place, Slot},
    lifecycle::ALONE_CRASHES,
    settings::Fairness,
    time::Timestamp,
    turn::{Account, Charge},
};

impl Scheduler {
    /// Counts a job against every limit that concerns it.
    pub(super) fn take_places(&mut self, slot: Slot) {
        self.each_place(slot, |in_flight| *in_flight += 1);
    }

    pub(super) fn give_places(&mut self, slot: Slot) {
        self.each_place(slot, |in_flight| *in_flight -= 1);
    }

    fn each_place(&mut self, slot: Slot, change: impl Fn(&mut u32)) {
        let kind = &self.kinds[self.backlog.kind(slot) as usize];
        let owner = self.groups[self.backlog.group(slot) as usize].owner;
        change(&mut self.queues[kind.queue as usize].in_flight);
        change(&mut self.owners[owner as usize].in_flight);
        change(&mut self.tasks[kind.task as usize].in_flight);
        if let Some(key) = self.extras.get(&slot).and_then(|extra| extra.key) {
            change(&mut self.keys[key as usize].in_flight);
        }
    }

    pub(super) fn enter_flight(&mut self, now: Timestamp, slot: Slot, seat: Option<Index>, place: Place) {
        // A suspect had its places before.
        if self.backlog.place(slot) != Place::Reserved {
            self.take_places(slot);
        }
        self.backlog.set_place(slot, place);
        let kind = &self.kinds[self.backlog.kind(slot) as usize];
        let known = kind.cost;
        let cost = known.unwrap_or(UNKNOWN_COST);
        let queue = &mut self.queues[kind.queue as usize];
        self.groups[self.backlog.group(slot) as usize].in_flight += 1;
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
                charged: Duration::ZERO,
                unused: Duration::ZERO,
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

    /// Whether the node that has this job is gone: how long it ran there, nobody tells.
    pub(super) fn node_is_lost(&self, slot: Slot) -> bool {
        let seat = self.flights.get(&slot).and_then(|flight| flight.seat);
        seat.is_none_or(|seat| !self.seats[seat as usize].alive)
    }

    /// Out of a node's hands. `used`: how long it really had its slot; `None`: it never had it, and costs nothing.
    pub(super) fn leave_flight(&mut self, now: Timestamp, slot: Slot, used: Option<Duration>) {
        let Some(flight) = self.flights.remove(&slot) else { return };
        self.backlog.set_place(slot, Place::Manual);
        self.give_places(slot);
        let (queue, group) = (self.queue_of(slot), self.backlog.group(slot));
        self.queues[queue as usize].unused -= flight.unused;
        self.groups[group as usize].in_flight -= 1;
        let key = self.extras.get(&slot).and_then(|extra| extra.key);
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
        self.refresh_owner_of(now, slot);
        if let Some(key) = key {
            self.unpark(now, key);
        }
    }

    /// Charges a group and its queue what a job is expected to cost, and moves the virtual times.
    pub(super) fn charge(&mut self, slot: Slot, cost: Duration) {
        let at = self.backlog.group(slot);
        let queue_at = self.groups[at as usize].queue;
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
        queue.account.charge = before.charge.plus(Charge::of(cost, queue.settings.weight));
        queue.account.served = served;
        if queue.entered {
            self.trees[queue.tree as usize].turns.change(before, queue.account, queue_at);
        }
        let weight = self.owners[self.groups[at as usize].owner as usize].weight();
        self.change_account(at, |account| {
            account.charge = account.charge.plus(Charge::of(cost, weight));
            account.served = served;
        });
        if let Some(flight) = self.flights.get_mut(&slot) {
            flight.charged = cost;
            // A turn costs what it is expected to.
            if self.queues[queue_at as usize].settings.fairness == Fairness::Time {
                flight.unused = cost;
                self.queues[queue_at as usize].unused += cost;
            }
        }
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
