//! Jobs that wait for jobs: they stand in no line until the last of those has ended.
//!
//! Which of those have not ended comes from the store, with the job ([`Awaits`]); each end after that is counted here. After an
//! end that is not known to be good, the job that waits is read from the store again: only the store's answer ends it.

use std::collections::{BTreeSet, HashMap};

use super::Scheduler;
use crate::{
    after::{Awaits, OnFailure, Verdict},
    backlog::Slot,
    job::JobId,
    time::Timestamp,
    why::Gate,
};

#[derive(Debug, Clone, Default)]
pub(super) struct Waits {
    jobs: HashMap<JobId, Waiting>,
    /// Pairs of an unfinished job and a job that waits for it.
    open: BTreeSet<(JobId, JobId)>,
    /// Jobs to be read again, collected since the last output.
    review: Vec<JobId>,
}

#[derive(Debug, Clone)]
struct Waiting {
    /// Whether it runs however the others end.
    runs_anyway: bool,
    awaits: Box<[JobId]>,
    /// How many of these are open.
    left: usize,
    /// The awaited job that did not end well: this job is being read again.
    bad: Option<JobId>,
}

impl Waits {
    /// Whether the job is here, waiting or being looked at.
    pub(super) fn holds(&self, id: JobId) -> bool {
        self.jobs.contains_key(&id)
    }

    pub(super) fn reviewed(&self, id: JobId) -> bool {
        self.jobs.get(&id).is_some_and(|waiting| waiting.bad.is_some())
    }

    pub(super) fn take_review(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.review)
    }

    pub(super) fn gate(&self, id: JobId) -> Option<Gate> {
        let waiting = self.jobs.get(&id)?;
        if let Some(job) = waiting.bad {
            return Some(Gate::AwaitedFailed { job });
        }
        let first = waiting.awaits.iter().find(|&&awaited| self.open.contains(&(awaited, id)))?;
        Some(Gate::Awaits { job: *first, others: waiting.left - 1 })
    }

    pub(super) fn forget(&mut self, id: JobId) {
        // In most installations no job waits for another.
        if self.jobs.is_empty() {
            return;
        }
        if let Some(waiting) = self.jobs.remove(&id) {
            for &awaited in &waiting.awaits {
                self.open.remove(&(awaited, id));
            }
        }
    }

    fn add(&mut self, id: JobId, awaits: Awaits) {
        let bad = match awaits.verdict() {
            Verdict::End(_) => awaits.ended_badly.map(|(job, _)| job),
            Verdict::Wait | Verdict::Run => None,
        };
        if bad.is_some() {
            self.review.push(id);
        } else {
            self.open.extend(awaits.open.iter().map(|&awaited| (awaited, id)));
        }
        let runs_anyway = awaits.on_failure == OnFailure::Run;
        self.jobs.insert(id, Waiting { runs_anyway, left: awaits.open.len(), awaits: awaits.open.into(), bad });
    }

    /// A job has ended that others may wait for. Returns the jobs that have nothing more to wait for.
    fn ended(&mut self, awaited: JobId, well: bool) -> Vec<JobId> {
        let first = (awaited, JobId::from_uuid(uuid::Uuid::nil()));
        let waiters: Vec<JobId> =
            self.open.range(first..).take_while(|(job, _)| *job == awaited).map(|(_, waiter)| *waiter).collect();
        let mut free = Vec::new();
        for waiter in waiters {
            self.open.remove(&(awaited, waiter));
            let Some(waiting) = self.jobs.get_mut(&waiter) else { continue };
            waiting.left -= 1;
            if !well && !waiting.runs_anyway {
                // From here on only the store decides about this job, whatever else ends.
                let awaits = waiting.awaits.clone();
                waiting.bad = Some(awaited);
                self.review.push(waiter);
                for &other in &awaits {
                    self.open.remove(&(other, waiter));
                }
            } else if waiting.left == 0 {
                self.jobs.remove(&waiter);
                free.push(waiter);
            }
        }
        free
    }
}

impl Scheduler {
    /// Takes in a job that waits for others, or is about to end because of one of them.
    pub(super) fn wait_for_jobs(&mut self, slot: Slot, awaits: Awaits) {
        self.watch_expiry(slot);
        self.waits.add(self.backlog.id(slot), awaits);
    }

    /// A job has ended. A job that waited only for this one enters its line as if it had just arrived.
    pub(super) fn awaited_ended(&mut self, now: Timestamp, id: JobId, well: bool) {
        if self.waits.open.is_empty() {
            return;
        }
        for waiter in self.waits.ended(id, well) {
            if let Some(slot) = self.backlog.find(waiter) {
                let due = self.backlog.due(slot);
                self.put_to_rest(now, slot, Some(due), false);
            }
        }
    }
}
