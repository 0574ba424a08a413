//! What jobs are charged: what they are expected to cost when they are picked, what they really cost when they end.

use std::time::Duration;

use super::{Scheduler, rows::Ties, table::Index};
use crate::{
    backlog::Slot,
    settings::Fairness,
    time::Timestamp,
    turn::{Account, Charge},
};

/// What a run costs at least where time is counted. To assign a job and to write its end takes time, too. And a shorter time
/// depends more on the machine than on the job: groups with equal jobs would drift apart by it, and a batch would be picked from
/// all over the database instead of in the order in which the jobs lie there.
pub(super) const LEAST_COST: Duration = Duration::from_millis(1);
/// What one job costs where turns are counted.
pub(super) const ONE_TURN: Duration = Duration::from_secs(1);
/// How often long runs are charged while they run, and how far a run must be over its estimate for it.
const LIVE_CHARGE: Duration = Duration::from_millis(250);

impl Scheduler {
    /// Charges a group and its queue what a job is expected to cost, moves the virtual times, and returns the cost.
    pub(super) fn charge(&mut self, ties: Ties) -> Duration {
        let Ties { group: at, queue: queue_at, .. } = ties;
        let cost = self.kinds[ties.kind].expected();
        self.picks = self.picks.next();
        let served = self.picks;
        let queue = &mut self.queues[queue_at];
        let cost = match queue.settings.fairness {
            Fairness::Time => cost.max(LEAST_COST),
            Fairness::Turns => ONE_TURN,
        };
        let weight = self.owners[ties.owner].weight();
        let used = self.groups[at].used(weight);
        self.tallies.advance(queue_at, queue.now, used);
        queue.now = queue.now.max(used);
        let class = self.kinds[ties.kind].class();
        if let Some(turns) = queue.turns.iter_mut().find(|turns| turns.class() == class) {
            turns.now = turns.now.max(used);
        }
        let tree = &mut self.trees[queue.tree as usize];
        tree.now = tree.now.max(queue.used());
        let before = queue.account;
        let charge = Charge::of(cost, queue.settings.weight);
        queue.account.charge = before.charge.plus(charge);
        queue.account.served = served;
        if queue.entered {
            self.trees[queue.tree as usize].turns.change(before, queue.account, queue_at);
        }
        let charge = if weight == queue.settings.weight { charge } else { Charge::of(cost, weight) };
        self.change_account(at, |account| {
            account.charge = account.charge.plus(charge);
            account.served = served;
        });
        cost
    }

    /// Replaces the cost that was charged by the real one.
    pub(super) fn correct(&mut self, at: Index, charged: Duration, ran: Duration) {
        if charged == ran {
            return;
        }
        let queue_at = self.groups[at].queue;
        let owner = self.groups[at].owner;
        let weight = self.owners[owner].weight();
        let fix = |account: &mut Account, weight| {
            account.charge = account.charge.plus(Charge::of(ran, weight)).minus(Charge::of(charged, weight));
        };
        self.change_account(at, |account| fix(account, weight));
        let queue = &mut self.queues[queue_at];
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
        let Self { flights, queues, groups, kinds, backlog, .. } = self;
        for (slot, flight) in flights.iter_mut().filter(|(_, flight)| flight.unused > Duration::ZERO) {
            let Some(since) = flight.runs_since else { continue };
            let unused = flight.unused.min(flight.charged.saturating_sub(now.since(since)));
            queues[kinds[backlog.kind(slot)].queue].unused -= flight.unused - unused;
            groups[backlog.group(slot)].give_back(flight.unused - unused);
            flight.unused = unused;
        }
        let long: Vec<(Slot, Duration, Duration)> = self
            .flights
            .iter()
            .filter_map(|(slot, flight)| Some((slot, flight.charged, now.since(flight.runs_since?))))
            .filter(|(_, charged, elapsed)| *elapsed > *charged + LIVE_CHARGE)
            .collect();
        for (slot, charged, elapsed) in long {
            let queue = self.queue_of(slot);
            if self.queues[queue].settings.fairness == Fairness::Time {
                self.correct(self.backlog.group(slot), charged, elapsed);
                self.flights.set_charged(slot, elapsed);
            }
        }
    }
}
