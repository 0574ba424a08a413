//! Following: a scheduler that gives nothing out, and is kept at what another one does.
//!
//! What the other one gives to a node costs the same here: places, tokens, charges, and the queue's virtual time moves on by it. So
//! whose turn is next is the same in both, for as long as this one hears of everything. Not so where a group has a rate: random runs have
//! shown a difference that is not understood yet, so the forecast of such a group may be wrong.

use std::time::Duration;

use super::{Scheduler, Settled, charge::LEAST_COST, rows::Ties};
use crate::{
    backlog::Place,
    job::{JobHead, JobId},
    name::{QueueName, TaskName},
    settings::Fairness,
    time::Timestamp,
};

impl Scheduler {
    /// These jobs are in nodes' hands. Those that were at rest until now have been given to them since.
    pub fn follow_given(&mut self, now: Timestamp, heads: Vec<JobHead>) {
        for mut head in heads {
            let known = self.backlog.find(head.id);
            let flies = known.is_some_and(|slot| {
                self.backlog.place(slot) == Place::Assigned && self.backlog.fence(slot) >= head.fence
            });
            if !flies {
                self.take_in_for(now, &mut head, true);
            }
        }
    }

    /// These runs have ended. One that was not known to have begun began and ended since.
    pub fn follow_settled(&mut self, now: Timestamp, settled: Vec<Settled>) {
        for settled in settled {
            let slot = self.backlog.find(settled.id);
            if let (Some(slot), Some(ran)) = (slot, settled.ran)
                && self.backlog.place(slot) != Place::Assigned
                && self.backlog.fence(slot) < settled.fence
            {
                let ties = self.ties(slot);
                let charged = self.pay(now, ties);
                if self.queues[ties.queue].settings.fairness == Fairness::Time {
                    self.correct(ties.group, charged, ran.max(LEAST_COST));
                }
                // What its tokens have closed leaves its line.
                self.refresh_group(now, ties.group);
                self.refresh_queue(now, ties.queue);
                self.refresh_limited(now, ties.owner);
            }
            self.settle(now, settled);
        }
    }

    /// What a job costs that another scheduler has picked, as if it had been picked here.
    pub(super) fn pay(&mut self, now: Timestamp, ties: Ties) -> Duration {
        self.take_tokens(now, ties);
        self.charge(ties)
    }

    /// The jobs that it knows to be in nodes' hands.
    pub fn in_hands(&self) -> Vec<JobId> {
        let mut ids: Vec<_> = self.flights.iter().map(|(slot, _)| self.backlog.id(slot)).collect();
        ids.sort_unstable();
        ids
    }

    /// Rates begin anew, as they do when a dispatcher begins.
    pub fn begin_rates(&mut self, now: Timestamp) {
        self.empty_buckets(now);
        // Whatever a rate has closed by this leaves its line.
        self.see_settings(now, self.settings.clone());
    }

    /// How long a run of this queue and task usually takes, if any has ended.
    pub fn usual_time(&self, queue: &QueueName, task: &TaskName) -> Option<Duration> {
        let (queue, task) = (self.queues.find(queue)?, self.tasks.find(task)?);
        self.kinds.iter().find(|kind| (kind.queue, kind.task) == (queue, task))?.cost
    }
}
