//! The jobs themselves, and the batches they came in.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use foldhash::{HashMap, HashSet};
use tokio::time::Instant;
use turnwise_core::{
    Fence, JobId, Timestamp,
    job::{AssignedJob, long_args},
    pool::Pool,
};
use turnwise_store::{BatchId, Lineage};

use super::{batches::Batches, slots::Slots};
use crate::run::Run;

/// Jobs that were given back and are remembered, at most. One that is forgotten and comes late runs once more than it should.
const DISOWNED: usize = 10_000;

#[derive(Debug)]
pub(super) struct Jobs {
    pub(super) slots: Slots,
    pub(super) buffer: VecDeque<JobId>,
    pub(super) held: HashMap<JobId, JobInHand>,
    /// Long arguments of what is held.
    pub(super) bytes: u64,
    pub(super) last_job: Option<Instant>,
    pub(super) batches: Batches,
    /// Jobs that were given back because they were not here.
    disowned: HashSet<(Option<Lineage>, JobId, Fence)>,
    /// Of the database that answered the last beat.
    pub(super) lineage: Option<Lineage>,
}

#[derive(Debug)]
pub(super) struct JobInHand {
    pub(super) job: Arc<AssignedJob>,
    pub(super) batch: BatchId,
    pub(super) run: Arc<Run>,
    pub(super) since: Instant,
    pub(super) phase: Phase,
    pub(super) cancel: bool,
    /// Of the database that gave it. Fences of two lineages say nothing about each other.
    pub(super) lineage: Option<Lineage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Buffered,
    /// `written`: the store knows that it runs.
    Running {
        since: Instant,
        started_at: Timestamp,
        written: bool,
        /// How long it may take.
        limit: Option<Duration>,
    },
    Ended,
}

impl Jobs {
    pub(super) fn new(pool: Pool) -> Self {
        Self {
            slots: Slots::new(pool),
            buffer: VecDeque::new(),
            held: HashMap::default(),
            bytes: 0,
            last_job: None,
            batches: Batches::default(),
            disowned: HashSet::default(),
            lineage: None,
        }
    }

    pub(super) fn accept(&mut self, batch: BatchId, jobs: Vec<AssignedJob>) -> usize {
        let mut count = 0;
        let mut held_already = false;
        let since = Instant::now();
        for job in jobs {
            if !self.disowned.is_empty() && self.disowned.contains(&(self.lineage, job.id, job.fence)) {
                held_already = true;
                continue;
            }
            if let Some(held) = self.held.get_mut(&job.id) {
                let fence = held.job.fence;
                let of_another_lineage = held.lineage.is_some() && held.lineage != self.lineage;
                if fence == job.fence || (fence > job.fence && !of_another_lineage) {
                    if fence == job.fence {
                        held.lineage = self.lineage;
                    }
                    held_already = true;
                    continue;
                }
                if of_another_lineage {
                    // What it does was taken back with the commit that asked for it.
                    held.run.stop.raise();
                    self.buffer.retain(|buffered| *buffered != job.id);
                }
                // Else it came back before its last settle here was noted.
                self.release(job.id, fence);
            }
            let run = Arc::new(Run::default());
            if job.cancel_requested {
                run.stop.raise();
            }
            let cancel = job.cancel_requested;
            let id = job.id;
            let (lineage, phase) = (self.lineage, Phase::Buffered);
            self.bytes += bytes_of(&job);
            self.held.insert(id, JobInHand { job: Arc::new(job), batch, run, since, phase, cancel, lineage });
            self.buffer.push_back(id);
            count += 1;
        }
        if count > 0 {
            self.last_job = Some(since);
            self.batches.open(batch, count);
        } else if held_already && !self.batches.is_open(batch) {
            // All of it is here under another batch, which it is settled with.
            self.batches.add_done([batch]);
        }
        count
    }

    pub(super) fn pop(&mut self) -> Option<(Arc<AssignedJob>, Arc<Run>)> {
        while let Some(id) = self.buffer.pop_front() {
            if let Some(held) = self.held.get(&id) {
                return Some((held.job.clone(), held.run.clone()));
            }
        }
        None
    }

    /// The job as it was assigned with this fence; the same job may have come again with a newer one.
    pub(super) fn held_at(&mut self, id: JobId, fence: Fence) -> Option<&mut JobInHand> {
        self.held.get_mut(&id).filter(|held| held.job.fence == fence)
    }

    pub(super) fn give_up(&mut self, id: JobId, fence: Fence) {
        if let Some(batch) = self.held_at(id, fence).map(|held| held.batch) {
            self.batches.keep(batch);
            self.release(id, fence);
        }
    }

    pub(super) fn release(&mut self, id: JobId, fence: Fence) {
        if self.held_at(id, fence).is_none() {
            return;
        }
        let held = self.held.remove(&id).expect("just seen");
        self.bytes -= bytes_of(&held.job);
        self.batches.settle_one(held.batch);
    }

    /// Takes out what was given to this node by a database of another lineage, and is not among what is `said` to be here now: it
    /// was taken back with the commit that gave it. Another node may have it under the same fence, so its end must not be
    /// written. What has ended is left: its end may be what took it out of this node's hands.
    pub(super) fn take_what_was_taken_back(&mut self, said: &BTreeSet<(JobId, Fence)>) -> Vec<JobInHand> {
        let lineage = self.lineage;
        let others = self.held.values_mut().filter(|held| held.lineage.is_some() && held.lineage != lineage);
        let (here, gone): (Vec<_>, Vec<_>) = others
            .filter(|held| held.phase != Phase::Ended)
            .partition(|held| said.contains(&(held.job.id, held.job.fence)));
        let mut gone: Vec<JobId> = gone.into_iter().map(|held| held.job.id).collect();
        gone.sort_unstable();
        here.into_iter().for_each(|held| held.lineage = lineage);
        self.buffer.retain(|buffered| !gone.contains(buffered));
        let taken: Vec<JobInHand> = gone.iter().filter_map(|id| self.held.remove(id)).collect();
        for held in &taken {
            self.bytes -= bytes_of(&held.job);
            self.batches.settle_one(held.batch);
        }
        taken
    }

    pub(super) fn disown(&mut self, id: JobId, fence: Fence) -> bool {
        let absent = self.held_at(id, fence).is_none();
        if absent {
            if self.disowned.len() >= DISOWNED {
                self.disowned.clear();
            }
            self.disowned.insert((self.lineage, id, fence));
        }
        absent
    }
}

/// As the dispatcher counts them.
fn bytes_of(job: &AssignedJob) -> u64 {
    long_args(job.args.as_str().len()).into()
}

#[cfg(test)]
mod tests {
    use turnwise_core::{GroupName, JobState, Json, Priority, QueueName, RetryPolicy, TaskName, Terms, job::Counts};

    use super::*;

    fn job(number: u8) -> AssignedJob {
        AssignedJob {
            id: JobId::from_parts(u64::from(number), [0; 10]),
            fence: Fence(1),
            task: TaskName::new("t").unwrap(),
            args: Json::null(),
            queue: QueueName::default(),
            group: GroupName::default(),
            priority: Priority::default(),
            retry: Some(RetryPolicy::None),
            terms: Terms::default(),
            state: JobState::Scheduled,
            counts: Counts::default(),
            cancel_requested: false,
            submitted_at: Timestamp::MIN,
            limited: false,
        }
    }

    #[test]
    fn a_batch_is_done_with_its_last_job_unless_one_of_them_was_given_up() {
        let batch = |chance| BatchId::in_order(Timestamp::MIN, chance);
        let mut jobs = Jobs::new(Pool { core: 1, max: 1, queue_capacity: 0 });
        jobs.accept(batch(1), vec![job(1), job(2)]);
        jobs.accept(batch(2), vec![job(3), job(4)]);
        for number in [1, 2, 4] {
            jobs.release(job(number).id, Fence(1));
        }
        jobs.give_up(job(3).id, Fence(1));
        assert_eq!(jobs.batches.take_done(), [batch(1)]);
        jobs.accept(batch(3), vec![job(5), job(6)]);
        jobs.give_up(job(5).id, Fence(1));
        jobs.release(job(6).id, Fence(1));
        assert_eq!((jobs.batches.take_done(), jobs.held.len()), (vec![], 0));
    }

    #[test]
    fn what_a_failover_took_back_is_not_held_any_more_and_what_it_gave_again_is() {
        let batch = |number: u128| BatchId(uuid::Uuid::from_u128(number));
        let mut jobs = Jobs::new(Pool { core: 9, max: 9, queue_capacity: 0 });
        jobs.lineage = Some(Lineage(1));
        jobs.accept(batch(1), (1..=4).map(job).collect());
        jobs.held_at(job(4).id, Fence(1)).unwrap().phase = Phase::Ended;
        jobs.lineage = Some(Lineage(2));
        jobs.accept(batch(2), vec![job(3), job(5)]);
        let said = BTreeSet::from([(job(2).id, Fence(1))]);
        let taken: Vec<_> = jobs.take_what_was_taken_back(&said).into_iter().map(|held| held.job.id).collect();
        // The second is said to be here, the third was given again meanwhile, the fourth may be gone by its own end.
        assert_eq!(taken, [job(1).id]);
        assert_eq!(jobs.buffer, [2, 3, 4, 5].map(|number| job(number).id));
        assert!(jobs.take_what_was_taken_back(&BTreeSet::new()).is_empty(), "they are of this lineage by now");
    }
}
