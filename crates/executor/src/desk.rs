//! The jobs in this node's hands: they are accepted, taken by workers, begun, and released when their ends are written.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use foldhash::{HashMap, HashSet};
use tokio::{
    sync::{Notify, futures::Notified},
    time::Instant,
};
use turnwise_core::{Fence, JobId, State, Timestamp, job::AssignedJob, lifecycle::WATCHED_CRASHES, pool::Pool};
use turnwise_store::{BatchId, Delivery, Lineage, Note};

use crate::{batches::Batches, lock::locked, run::Run, slots::Slots, stop_sign::StopSign};

/// Jobs that were given back and are remembered, at most. One that is forgotten and comes late runs once more than it should.
const DISOWNED: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Desk {
    jobs: Mutex<Jobs>,
    most_slots: u32,
    /// Rung once per job that a worker may take.
    ready: Notify,
    /// There are more slots than before, or fewer.
    resized: Notify,
    /// Slots whose tasks were abandoned and have not returned.
    abandoned: AtomicU32,
}

#[derive(Debug)]
struct Jobs {
    slots: Slots,
    buffer: VecDeque<JobId>,
    held: HashMap<JobId, Held>,
    last_job: Option<Instant>,
    batches: Batches,
    /// Jobs that were given back because they were not here.
    disowned: HashSet<(Option<Lineage>, JobId, Fence)>,
    /// Of the database that answered the last beat.
    lineage: Option<Lineage>,
}

#[derive(Debug)]
struct Held {
    job: Arc<AssignedJob>,
    batch: BatchId,
    run: Arc<Run>,
    since: Instant,
    phase: Phase,
    cancel: bool,
    /// Of the database that gave it. Fences of two lineages say nothing about each other.
    lineage: Option<Lineage>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
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

/// A run that does not even listen when its time is over: its task blocks the thread it runs on.
pub(crate) struct Abandoned {
    pub(crate) job: Arc<AssignedJob>,
    pub(crate) run: Arc<Run>,
    pub(crate) started_at: Timestamp,
    pub(crate) limit: Duration,
}

impl Desk {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            jobs: Mutex::new(Jobs::new(pool)),
            most_slots: pool.max,
            ready: Notify::new(),
            resized: Notify::new(),
            abandoned: AtomicU32::new(0),
        }
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        locked(&self.jobs)
    }

    // --- jobs come ------------------------------------------------------------------------------------------------

    /// This process's own dispatcher is about to assign this batch: the mail is not to deliver it as well. `false`: it has already.
    pub(crate) fn expect(&self, batch: BatchId) -> bool {
        self.jobs().batches.expect(batch)
    }

    /// It is not known whether the batch was assigned: the mail shall deliver it if it was.
    pub(crate) fn unexpect(&self, batch: BatchId) {
        self.jobs().batches.unexpect(batch);
    }

    /// Before a look at the mail: what need not be brought. The look is over when it is dropped.
    pub(crate) fn look(&self) -> (Look<'_>, Vec<BatchId>) {
        let known = self.jobs().batches.begin_look();
        (Look(self), known)
    }

    /// Jobs from the reply to this process's own dispatcher.
    pub(crate) fn accept(&self, batch: BatchId, assigned: Vec<AssignedJob>) {
        let mut jobs = self.jobs();
        let count = jobs.accept(batch, assigned);
        self.resize(&mut jobs);
        drop(jobs);
        self.wake_workers(count);
    }

    /// What the mail brought; a delivery that is known already is left alone. All of it in one go: a worker that one cancel
    /// sets free must not begin a job that the next one stops. Whether a batch is done with that.
    pub(crate) fn deliver(&self, deliveries: Vec<Delivery>) -> bool {
        let mut jobs = self.jobs();
        let mut count = 0;
        for delivery in deliveries {
            if !jobs.batches.arrive(delivery.batch) {
                continue;
            }
            for id in &delivery.cancel {
                if let Some(held) = jobs.held.get_mut(id) {
                    held.cancel = true;
                    held.run.stop.raise();
                }
            }
            if delivery.jobs.is_empty() {
                jobs.batches.add_done([delivery.batch]);
            }
            count += jobs.accept(delivery.batch, delivery.jobs);
        }
        self.resize(&mut jobs);
        let any_done = jobs.batches.any_done();
        drop(jobs);
        self.wake_workers(count);
        any_done
    }

    /// The database that answered the last beat. Whether it is another one than before: then it may have taken commits back.
    pub(crate) fn heard_from(&self, lineage: Lineage) -> bool {
        self.jobs().lineage.replace(lineage).is_some_and(|last| last != lineage)
    }

    // --- workers take them ----------------------------------------------------------------------------------------

    /// The next job for a worker, once there is one and it `may_begin`; `None` when the life is over.
    pub(crate) async fn next(
        &self,
        over: &StopSign,
        may_begin: impl Fn() -> bool,
    ) -> Option<(Arc<AssignedJob>, Arc<Run>)> {
        loop {
            let ready = self.ready.notified();
            tokio::pin!(ready);
            // Listening before looking: a ring in between is not missed.
            ready.as_mut().enable();
            if over.is_up() {
                return None;
            }
            if may_begin()
                && let Some(next) = self.pop()
            {
                return Some(next);
            }
            tokio::select! {
                biased;
                () = over.wait() => {}
                () = ready => {}
            }
        }
    }

    fn pop(&self) -> Option<(Arc<AssignedJob>, Arc<Run>)> {
        let mut jobs = self.jobs();
        if !jobs.slots.any_free() {
            return None;
        }
        let next = jobs.pop()?;
        jobs.slots.take();
        self.resize(&mut jobs);
        Some(next)
    }

    pub(crate) fn wake_all_workers(&self) {
        self.wake_workers(usize::MAX);
    }

    fn wake_workers(&self, count: usize) {
        for _ in 0..count.min(self.most_slots as usize) {
            self.ready.notify_one();
        }
    }

    // --- slots ----------------------------------------------------------------------------------------------------

    /// A worker is through with a job that took this long.
    pub(crate) fn slot_is_free(&self, ran: Duration) {
        self.jobs().slots.free(ran);
    }

    /// Closes slots that no job needs.
    pub(crate) fn close_slots(&self) {
        self.resize(&mut self.jobs());
    }

    fn resize(&self, jobs: &mut Jobs) {
        if let Some(before) = jobs.slots.resize(jobs.buffer.len()) {
            self.resized.notify_one();
            self.wake_workers(jobs.slots.open().saturating_sub(before) as usize);
        }
    }

    pub(crate) fn resized(&self) -> Notified<'_> {
        self.resized.notified()
    }

    /// Slots that can take work.
    pub(crate) fn slots(&self) -> u32 {
        self.jobs().slots.open().saturating_sub(self.abandoned.load(Ordering::Acquire))
    }

    // --- jobs run -------------------------------------------------------------------------------------------------

    /// The task begins.
    pub(crate) fn begun(&self, job: &AssignedJob, started_at: Timestamp, limit: Option<Duration>) {
        if let Some(held) = self.jobs().held_at(job.id, job.fence) {
            held.phase = Phase::Running {
                since: Instant::now(),
                started_at,
                // A database that was failed over may hand a job out again that it knows to be running.
                written: held.job.counts.crashes >= WATCHED_CRASHES || held.job.state == State::Running,
                limit,
            };
        }
    }

    /// The run has been cut short and stops, in the time it has for that: it is not abandoned.
    pub(crate) fn stopping(&self, job: &AssignedJob) {
        if let Some(held) = self.jobs().held_at(job.id, job.fence)
            && let Phase::Running { limit, .. } = &mut held.phase
        {
            *limit = None;
        }
    }

    /// The run is over. `false`: it was abandoned, and its end is written already. Decided under the lock, as it was when it was
    /// abandoned: one of the two settles the run.
    pub(crate) fn end(&self, job: &AssignedJob, run: Option<&Run>) -> bool {
        let mut jobs = self.jobs();
        if run.is_some_and(Run::was_abandoned) {
            return false;
        }
        if let Some(held) = jobs.held_at(job.id, job.fence) {
            held.phase = Phase::Ended;
        }
        true
    }

    /// Whether the run's end is not known.
    pub(crate) fn has_not_ended(&self, job: &AssignedJob) -> bool {
        self.jobs().held_at(job.id, job.fence).is_some_and(|held| held.phase != Phase::Ended)
    }

    /// Abandons runs that have taken longer than they may, by `grace`. Their slots are gone until their tasks return.
    pub(crate) fn abandon(&self, grace: Duration) -> Vec<Abandoned> {
        let mut abandoned = Vec::new();
        for held in self.jobs().held.values_mut() {
            if let Phase::Running { since, started_at, limit: Some(limit), .. } = held.phase
                && since.elapsed() > limit.saturating_add(grace)
            {
                held.phase = Phase::Ended;
                held.run.abandon();
                self.abandoned.fetch_add(1, Ordering::AcqRel);
                abandoned.push(Abandoned { job: held.job.clone(), run: held.run.clone(), started_at, limit });
            }
        }
        abandoned.sort_unstable_by_key(|abandoned| abandoned.job.id);
        abandoned
    }

    /// The task of an abandoned run has returned.
    pub(crate) fn abandoned_returned(&self) {
        self.abandoned.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether a cancel has been asked for since the job was assigned.
    pub(crate) fn cancel_wanted(&self, id: JobId) -> bool {
        self.jobs().held.get(&id).is_some_and(|held| held.cancel)
    }

    pub(crate) fn want_cancel(&self, id: JobId) {
        if let Some(held) = self.jobs().held.get_mut(&id) {
            held.cancel = true;
        }
    }

    /// Jobs that have run for a moment without the store knowing: `running` is to be written for them.
    pub(crate) fn still_running(&self, moment: Duration) -> Vec<(Arc<AssignedJob>, Timestamp)> {
        let jobs = self.jobs();
        let unwritten = jobs.held.values().filter_map(|held| match held.phase {
            Phase::Running { since, started_at, written: false, .. } if since.elapsed() >= moment => {
                Some((held.job.clone(), started_at))
            }
            _ => None,
        });
        let mut running: Vec<_> = unwritten.collect();
        running.sort_unstable_by_key(|(job, _)| job.id);
        running
    }

    pub(crate) fn running_written(&self, id: JobId) {
        if let Some(held) = self.jobs().held.get_mut(&id)
            && let Phase::Running { written, .. } = &mut held.phase
        {
            *written = true;
        }
    }

    /// What running jobs have said since the last time.
    pub(crate) fn take_notes(&self) -> Vec<Note> {
        let jobs = self.jobs();
        let running = jobs.held.values().filter(|held| matches!(held.phase, Phase::Running { .. }));
        let mut notes: Vec<_> = running.filter_map(|held| held.run.take_note(held.job.id, held.job.fence)).collect();
        notes.sort_unstable_by_key(|note| note.job);
        notes
    }

    /// It could not be written now.
    pub(crate) fn take_back(&self, note: Note) {
        if let Some(held) = self.jobs().held_at(note.job, note.fence) {
            held.run.put_back(note);
        }
    }

    /// Stops runs that a limit counts. Tells how many that were.
    pub(crate) fn stop_limited(&self) -> usize {
        self.stop(|held| held.job.limited && !held.run.stop.is_up())
    }

    /// Tells every running task to stop.
    pub(crate) fn interrupt(&self) {
        self.stop(|_| true);
    }

    fn stop(&self, which: impl Fn(&Held) -> bool) -> usize {
        let jobs = self.jobs();
        let held = jobs.held.values().filter(|held| which(held));
        let mut runs: Vec<_> = held.map(|held| (held.job.id, held.run.clone())).collect();
        drop(jobs);
        runs.sort_unstable_by_key(|(id, _)| *id);
        runs.iter().for_each(|(_, run)| run.stop.raise());
        runs.len()
    }

    // --- jobs go --------------------------------------------------------------------------------------------------

    /// These jobs are out of this node's hands.
    pub(crate) fn release(&self, released: impl Iterator<Item = (JobId, Fence)>) {
        let mut jobs = self.jobs();
        released.for_each(|(id, fence)| jobs.release(id, fence));
    }

    /// Jobs whose ends could not be written, out of this node's hands. Their batches are not done: what they name is how the
    /// dispatcher finds what a lost node has held.
    pub(crate) fn give_up(&self, given_up: impl Iterator<Item = (JobId, Fence)>) {
        let mut jobs = self.jobs();
        given_up.for_each(|(id, fence)| jobs.give_up(id, fence));
    }

    /// Takes back from the buffer what no worker has started: what lies there for `age`.
    pub(crate) fn take_unbegun(&self, age: Duration) -> Vec<Arc<AssignedJob>> {
        let mut jobs = self.jobs();
        let Jobs { buffer, held, .. } = &mut *jobs;
        let mut back = Vec::new();
        buffer.retain(|id| {
            let old = held.get(id).is_some_and(|held| held.since.elapsed() >= age);
            if old {
                back.push(held[id].job.clone());
            }
            !old
        });
        back
    }

    /// Batches that are through.
    pub(crate) fn take_done(&self) -> Vec<BatchId> {
        self.jobs().batches.take_done()
    }

    /// That they are through could not be written.
    pub(crate) fn put_back_done(&self, done: Vec<BatchId>) {
        self.jobs().batches.add_done(done);
    }

    /// The store has removed these batches; they cannot come again.
    pub(crate) fn forget_batches(&self, done: &[BatchId]) {
        self.jobs().batches.forget(done);
    }

    // --- what is here ---------------------------------------------------------------------------------------------

    pub(crate) fn holds(&self, id: JobId, fence: Fence) -> bool {
        self.jobs().held_at(id, fence).is_some()
    }

    /// Whether it is not here; then it is not taken any more, should it be on its way.
    pub(crate) fn disown(&self, id: JobId, fence: Fence) -> bool {
        let mut jobs = self.jobs();
        let absent = jobs.held_at(id, fence).is_none();
        if absent {
            if jobs.disowned.len() >= DISOWNED {
                jobs.disowned.clear();
            }
            let lineage = jobs.lineage;
            jobs.disowned.insert((lineage, id, fence));
        }
        absent
    }

    /// How many jobs are in this node's hands.
    pub(crate) fn count(&self) -> usize {
        self.jobs().held.len()
    }

    /// When the last jobs came; they may be over by now.
    pub(crate) fn last_job(&self) -> Option<Instant> {
        self.jobs().last_job
    }
}

/// A look at the mail that is under way.
pub(crate) struct Look<'a>(&'a Desk);

impl Drop for Look<'_> {
    fn drop(&mut self) {
        self.0.jobs().batches.end_look();
    }
}

impl Jobs {
    fn new(pool: Pool) -> Self {
        Self {
            slots: Slots::new(pool),
            buffer: VecDeque::new(),
            held: HashMap::default(),
            last_job: None,
            batches: Batches::default(),
            disowned: HashSet::default(),
            lineage: None,
        }
    }

    fn accept(&mut self, batch: BatchId, jobs: Vec<AssignedJob>) -> usize {
        let mut count = 0;
        let mut held_already = false;
        let since = Instant::now();
        for job in jobs {
            if !self.disowned.is_empty() && self.disowned.contains(&(self.lineage, job.id, job.fence)) {
                held_already = true;
                continue;
            }
            if let Some(held) = self.held.get(&job.id) {
                let fence = held.job.fence;
                let of_another_lineage = held.lineage.is_some() && held.lineage != self.lineage;
                if fence == job.fence || (fence > job.fence && !of_another_lineage) {
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
            self.held.insert(id, Held { job: Arc::new(job), batch, run, since, phase, cancel, lineage });
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

    fn pop(&mut self) -> Option<(Arc<AssignedJob>, Arc<Run>)> {
        while let Some(id) = self.buffer.pop_front() {
            if let Some(held) = self.held.get(&id) {
                return Some((held.job.clone(), held.run.clone()));
            }
        }
        None
    }

    /// The job as it was assigned with this fence; the same job may have come again with a newer one.
    fn held_at(&mut self, id: JobId, fence: Fence) -> Option<&mut Held> {
        self.held.get_mut(&id).filter(|held| held.job.fence == fence)
    }

    fn give_up(&mut self, id: JobId, fence: Fence) {
        if let Some(batch) = self.held_at(id, fence).map(|held| held.batch) {
            self.batches.keep(batch);
            self.release(id, fence);
        }
    }

    fn release(&mut self, id: JobId, fence: Fence) {
        if self.held_at(id, fence).is_none() {
            return;
        }
        let held = self.held.remove(&id).expect("just seen");
        self.batches.settle_one(held.batch);
    }
}

#[cfg(test)]
mod tests {
    use turnwise_core::{GroupName, Json, Priority, QueueName, RetryPolicy, TaskName, Terms, job::Counts};

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
            retry: RetryPolicy::None,
            terms: Terms::default(),
            state: State::Scheduled,
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
}
