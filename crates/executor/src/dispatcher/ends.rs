//! Jobs that end without having begun: their time is over, or a job that they wait for did not end well. The store returns how
//! they stand, core decides what follows.

use std::time::Duration;

use foldhash::HashSet;
use tokio::time::Instant;
use turnwise_core::{
    Fence, JobHead, JobId, JobState, Timestamp, lifecycle, pace,
    scheduler::{self, Input},
};
use turnwise_store::{Intervention, Load, Settled, StoreError};

use super::Dispatcher;
use crate::{logs::FailedRun, trace::Record};

/// Rounds of consequences that follow one another, before everything else has its turn again.
const ROUNDS: u32 = 64;
/// Until a job is looked at again that was not to end yet.
const SOON: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Jobs that may have to end.
    due: Vec<JobId>,
    /// Those of them that an application's open transaction holds, that were not to end yet by the database's clock, or about which
    /// the store has not answered.
    held: Vec<JobId>,
    /// When these are tried again, if there are any.
    again: Option<Instant>,
}

impl Ends {
    pub(super) fn add(&mut self, jobs: Vec<JobId>) {
        self.due.extend(jobs);
    }

    pub(super) fn any_due(&self) -> bool {
        !self.due.is_empty()
    }

    pub(super) fn any(&self) -> bool {
        self.any_due() || !self.held.is_empty()
    }

    pub(super) fn next_try(&self) -> Option<Instant> {
        self.again
    }

    fn take(&mut self, most: usize) -> Vec<JobId> {
        let mut jobs: Vec<JobId> = self.due.drain(..self.due.len().min(most)).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// Not at once: an open transaction may stay open for long, and each try is a write.
    fn hold_back(&mut self, jobs: impl IntoIterator<Item = JobId>, wait: Duration) {
        self.held.extend(jobs);
        if !self.held.is_empty() {
            let again = Instant::now() + wait;
            self.again = Some(self.again.map_or(again, |known| known.min(again)));
        }
    }

    fn try_held_again(&mut self) {
        if self.again.is_some_and(|again| again <= Instant::now()) {
            self.due.append(&mut self.held);
            self.again = None;
        }
    }
}

impl Dispatcher<'_> {
    /// Ends the jobs that are to end; the others wait or come into line again. Other jobs may wait for one that ends here, so
    /// there are rounds of it.
    pub(super) async fn end_unrun(&mut self) -> Result<(), StoreError> {
        self.ends.try_held_again();
        let mut looked_at: HashSet<JobId> = HashSet::default();
        for _ in 0..ROUNDS {
            let jobs = self.ends.take(self.life.node.config.batch_size);
            if jobs.is_empty() {
                break;
            }
            // Each once: a job whose time is over by this node's clock and not by the database's comes again in a moment.
            let (jobs, again): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| looked_at.insert(*job));
            self.ends.hold_back(again, SOON);
            if jobs.is_empty() {
                continue;
            }
            // No reply: the next look shows what was written.
            if !self.end_batch(&jobs).await? {
                self.ends.hold_back(jobs, self.life.node.config.poll_interval.unwrap_or(pace::POLL));
                break;
            }
        }
        Ok(())
    }

    /// `false`: the store did not answer how they stand, or what became of them.
    async fn end_batch(&mut self, jobs: &[JobId]) -> Result<bool, StoreError> {
        let Some(page) = answered(self.life.store.load(Load::These(jobs.to_vec())).await)? else { return Ok(false) };
        self.life.node.clock.heard(page.now);
        let decided: Vec<_> = page.jobs.iter().filter_map(|head| end_of(head, page.now)).collect();
        // Before they are written: a dispatcher that dies meanwhile has recorded what it was about to do.
        for Intervention { job, fence, state, to, .. } in &decided {
            self.life.trace(|| Record::Unrun { job: *job, fence: fence.0, state: to.state(*state) });
        }
        let replies = if decided.is_empty() {
            Vec::new()
        } else {
            let Some(replies) = answered(self.life.store.control(decided.clone()).await)? else { return Ok(false) };
            replies
        };
        let replied = |wanted: Settled| {
            let replies = decided.iter().zip(&replies).filter(move |(_, reply)| **reply == wanted);
            replies.map(|(intervention, _)| intervention.job)
        };
        self.log_unrun(&page.jobs, &decided, &replies);
        let locked: HashSet<JobId> = replied(Settled::Locked).collect();
        let ended: HashSet<JobId> = replied(Settled::Applied).collect();
        self.ends.hold_back(locked.iter().copied(), self.life.node.config.poll_interval.unwrap_or(pace::POLL));
        // Jobs that another process decided about meanwhile are read again, and so are those that go on waiting, or no longer
        // need to.
        let is_left = |id: &JobId| !ended.contains(id) && !locked.contains(id);
        let left: Vec<JobId> = jobs.iter().copied().filter(is_left).collect();
        if !left.is_empty() {
            self.read_again(left).await?;
        }
        let settled = |Intervention { job: id, to, .. }: &Intervention| {
            let (id, error) = (*id, to.fingerprint());
            // No queue pauses for it: the error was the other job's.
            scheduler::Settled { id, fence: Fence(i64::MAX), ran: None, rest: None, failed: false, well: false, error }
        };
        let ended = decided.iter().filter(|decided| ended.contains(&decided.job)).map(settled).collect();
        self.act(Input::Settled(ended)).await?;
        Ok(true)
    }
}

impl Dispatcher<'_> {
    /// Those that ended as failed.
    fn log_unrun(&self, heads: &[JobHead], decided: &[Intervention], replies: &[Settled]) {
        for (Intervention { job, to, state, .. }, _) in
            decided.iter().zip(replies).filter(|(_, reply)| **reply == Settled::Applied)
        {
            let head = heads.iter().find(|head| head.id == *job);
            if let (JobState::Failed, Some(error), Some(head)) = (to.state(*state), &to.error, head) {
                let JobHead { task, group, .. } = head;
                let run = FailedRun { job: *job, task, group, attempt: to.counts.attempt, error: &error.text() };
                self.life.node.logs.failed(&run);
            }
        }
    }
}

/// `None`: no reply.
fn answered<T>(reply: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match reply {
        Err(error) if error.is_transient() => Ok(None),
        reply => reply.map(Some),
    }
}

/// What ends a job that has never begun, as long as it is what was read. `None`: nothing does, or it has begun.
fn end_of(head: &JobHead, now: Timestamp) -> Option<Intervention> {
    let to = lifecycle::end_unrun(head, now)?;
    Some(Intervention { job: head.id, state: head.state, fence: head.fence, to, line: None })
}
