//! The jobs in this node's hands: they are accepted, taken by workers, begun, and released when their ends are written.

mod batches;
mod jobs;
mod slots;

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, futures::Notified},
    time::Instant,
};
use turnwise_core::{
    Fence, JobId, JobState, TaskName, Timestamp, job::AssignedJob, lifecycle::WATCHED_CRASHES, pool::Pool,
};
use turnwise_store::{BatchId, Lineage, Mail, Note};

use self::jobs::{JobInHand, Jobs, Phase};
use crate::{lock::locked, run::Run, stop_sign::StopSign};

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

/// A run that does not react when its time is over: its task blocks the thread it runs on.
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

    /// Before a look at the mail: the batches that it need not bring. The look is over when [`Look`] is dropped.
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
    pub(crate) fn deliver(&self, mail: Mail) -> bool {
        let mut jobs = self.jobs();
        let mut count = 0;
        for delivery in mail.batches {
            if !jobs.batches.arrive(delivery.batch) {
                continue;
            }
            if delivery.jobs.is_empty() {
                jobs.batches.add_done([delivery.batch]);
            }
            count += jobs.accept(delivery.batch, delivery.jobs);
        }
        for (id, fence) in mail.stop {
            if let Some(held) = jobs.held_at(id, fence) {
                held.cancel = true;
                held.run.stop.raise();
            }
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
        if let Some(before) = jobs.slots.resize(jobs.buffer.len(), jobs.bytes) {
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
                written: held.job.counts.crashes >= WATCHED_CRASHES || held.job.state == JobState::Running,
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

    /// How many tasks run.
    pub(crate) fn running(&self) -> usize {
        self.jobs().held.values().filter(|held| matches!(held.phase, Phase::Running { .. })).count()
    }

    pub(crate) fn running_jobs(&self) -> Vec<(JobId, TaskName)> {
        let jobs = self.jobs();
        let running = jobs.held.values().filter(|held| matches!(held.phase, Phase::Running { .. }));
        running.map(|held| (held.job.id, held.job.task.clone())).collect()
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

    /// Stops runs that a limit counts. Returns how many.
    pub(crate) fn stop_limited(&self) -> usize {
        self.stop(|held| held.job.limited && !held.run.stop.is_up())
    }

    /// Asks every running task to stop.
    pub(crate) fn interrupt(&self) {
        self.stop(|_| true);
    }

    fn stop(&self, which: impl Fn(&JobInHand) -> bool) -> usize {
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

    /// The database may have taken commits back, and lists `said` as here. Runs of jobs that it gave before and that are not
    /// among them are stopped, and their ends are not written.
    pub(crate) fn drop_what_was_taken_back(&self, said: &BTreeSet<(JobId, Fence)>) -> Vec<(JobId, Fence)> {
        let taken = self.jobs().take_what_was_taken_back(said);
        for held in &taken {
            if matches!(held.phase, Phase::Running { .. }) {
                held.run.abandon();
                self.abandoned.fetch_add(1, Ordering::AcqRel);
            }
            held.run.stop.raise();
        }
        taken.iter().map(|held| (held.job.id, held.job.fence)).collect()
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

    /// Whether the job is not here; then it is not accepted any more, should it still be in flight.
    pub(crate) fn disown(&self, id: JobId, fence: Fence) -> bool {
        self.jobs().disown(id, fence)
    }

    /// How many jobs are in this node's hands.
    pub(crate) fn count(&self) -> usize {
        self.jobs().held.len()
    }

    /// When the last jobs came; they may have ended since.
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
