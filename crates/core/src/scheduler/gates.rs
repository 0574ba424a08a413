//! Gates: `Some` says what is closed.

use super::{Scheduler, tables::*};
use crate::{name::QueueName, settings::Concurrency, time::Timestamp};

impl Scheduler {
    /// Sealed and empty; not before the backlog is read.
    pub(super) fn finished(&self, at: Index) -> bool {
        let queue = &self.queues[at as usize];
        queue.settings.sealed.is_some() && queue.jobs == 0 && !self.loading
    }

    /// The first queue that is not finished and that this one waits for.
    pub(super) fn waits_for(&self, at: Index) -> Option<&QueueName> {
        let unfinished = |name: &&QueueName| !self.queue_index.get(*name).is_some_and(|&queue| self.finished(queue));
        self.queues[at as usize].settings.after.iter().find(unfinished)
    }

    pub(super) fn queue_gate(&self, now: Timestamp, at: Index) -> Option<Closed> {
        let queue = &self.queues[at as usize];
        if queue.settings.paused.is_some() {
            return Some(Closed::Paused);
        }
        if self.waits_for(at).is_some() {
            return Some(Closed::Waiting);
        }
        let limit = match queue.settings.concurrency {
            Concurrency::Unlimited => u32::MAX,
            Concurrency::AtMost(limit) => limit,
            Concurrency::Serial if self.loading => 0,
            Concurrency::Serial => 1,
        };
        closed_by(queue.in_flight, Some(limit), queue.bucket.as_ref(), now)
    }

    pub(super) fn owner_gate(&self, now: Timestamp, at: Index) -> Option<Closed> {
        let owner = &self.owners[at as usize];
        let special = owner.special.as_ref()?;
        if special.settings.paused.is_some() {
            return Some(Closed::Paused);
        }
        closed_by(owner.in_flight, special.settings.concurrency, special.bucket.as_ref(), now)
    }

    pub(super) fn task_gate(&self, now: Timestamp, at: Index) -> Option<Closed> {
        let task = &self.tasks[at as usize];
        closed_by(task.in_flight, task.settings.concurrency, task.bucket.as_ref(), now)
    }

    pub(super) fn key_gate(&self, now: Timestamp, at: Index) -> Option<Closed> {
        let key = &self.keys[at as usize];
        closed_by(key.in_flight, key.settings.concurrency, key.bucket.as_ref(), now)
    }
}
