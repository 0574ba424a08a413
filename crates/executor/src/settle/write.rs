//! Writing ends until the store has taken them, whole or in parts.

use std::sync::atomic::Ordering;

use turnwise_core::{
    Failure, Fence, JobId, JobState,
    job::AssignedJob,
    lifecycle::Outcome,
    scheduler::{self, Rest},
};
use turnwise_store::{Author, BatchId, Epoch, Settle, Settled, Settlement, StoreError};

use super::decide::{Follows, Item, decide_on};
use crate::{
    backoff::Backoff,
    event,
    life::Life,
    logs::{FailedRun, Kind},
    outbox::{Ended, Outgoing},
    trace::Record,
    worker::job_event,
};

/// Writes of nothing but one end that panicked, before the end is replaced by one that says so.
const ALONE: u32 = 3;

/// What was taken to be written, until it is. Dropped before, by a panic, all of it goes back.
pub(super) struct Unwritten<'a> {
    life: &'a Life,
    pub(super) batch: Vec<Outgoing>,
    /// To be written after the batch.
    later: Vec<Outgoing>,
    /// Batches that are done when all of this is written.
    pub(super) done: Vec<BatchId>,
}

impl<'a> Unwritten<'a> {
    pub(super) fn new(life: &'a Life, batch: Vec<Outgoing>) -> Self {
        Self { life, batch, later: Vec::new(), done: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.later.is_empty() && self.done.is_empty()
    }

    /// The batch is written, or the dispatcher takes its jobs over.
    fn is_through(&mut self) -> Vec<Outgoing> {
        if self.later.is_empty() {
            self.done.clear();
        }
        std::mem::take(&mut self.batch)
    }
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        if self.is_empty() {
            return;
        }
        let alone = self.batch.len() == 1;
        self.life.outbox.write_fewer(self.batch.len());
        for outgoing in &mut self.batch {
            if let Outgoing::Ended(Ended { panicked, .. }) = outgoing {
                panicked.any = true;
                panicked.alone += u32::from(alone);
            }
        }
        let all = std::mem::take(&mut self.batch).into_iter().chain(std::mem::take(&mut self.later));
        self.life.desk.put_back_done(std::mem::take(&mut self.done));
        self.life.outbox.send_again(all);
    }
}

/// Writes the ends. A batch that the store cannot take as it is, is written in halves, until the one job that spoils it is
/// alone; that one fails, and its neighbours are none the worse for it.
pub(super) async fn write(life: &Life, mut unwritten: Unwritten<'_>) {
    while !unwritten.is_empty() {
        if unwritten.batch.is_empty() {
            unwritten.batch = std::mem::take(&mut unwritten.later);
        }
        if let [Outgoing::Ended(Ended { outcome, panicked, .. })] = &mut unwritten.batch[..]
            && panicked.alone >= ALONE
        {
            *outcome = cannot_be_stored("writing it panicked");
        }
        let told = life.term.epoch();
        let (follows, settlements): (Vec<_>, Vec<_>) =
            unwritten.batch.iter().map(|outgoing| decide_on(life, outgoing)).unzip();
        let author = Author::Node { node: life.incarnation, told };
        // The batches are done when all of their jobs are: with the part that is written last.
        let done = if unwritten.later.is_empty() { unwritten.done.clone() } else { Vec::new() };
        let settle = Settle { author, settlements, done };
        match write_until_answered(life, &settle).await {
            Written::Replies { replies, again } => {
                let items = unwritten.is_through().into_iter().zip(follows);
                let items = items.map(|(outgoing, follows)| Item::of(outgoing, follows)).collect();
                life.outbox.write_more();
                life.desk.forget_batches(&settle.done);
                finish(life, told, items, settle.settlements, replies, again);
            }
            // The dispatcher that takes the jobs removes the batches as well.
            Written::GaveUp => drop(unwritten.is_through()),
            Written::Broken(_) if unwritten.batch.len() > 1 => {
                let mut second = unwritten.batch.split_off(unwritten.batch.len() / 2);
                second.append(&mut unwritten.later);
                unwritten.later = second;
            }
            // Not even that it cannot be stored can be. Its neighbours need not wait for it.
            Written::Broken(_) if settle.settlements.iter().any(spoilt_already) => {
                life.outbox.put_off(std::mem::take(&mut unwritten.batch));
            }
            Written::Broken(error) => {
                let alone = unwritten.batch.pop().expect("one job is left");
                unwritten.batch.push(spoilt(alone, &error));
            }
        }
    }
}

/// Ends that could not be written while there was time. The dispatcher takes their jobs over when the lease has expired.
pub(super) fn give_up_put_off(life: &Life) {
    let jobs: Vec<(JobId, Fence)> = life.outbox.take_all_put_off().iter().filter_map(Outgoing::ends).collect();
    if !jobs.is_empty() {
        tracing::error!(jobs = jobs.len(), "ends could not be written; the jobs will run again");
        jobs.iter().for_each(|(job, fence)| {
            life.trace(|| Record::GiveUp { job: *job, fence: fence.0 });
        });
        life.desk.give_up(jobs.into_iter());
    }
}

/// What a job failed for whose end cannot be stored.
const SPOILT: &str = "its end could not be stored";

pub(crate) fn cannot_be_stored(error: impl std::fmt::Display) -> Outcome {
    Outcome::Fail(Failure::new(format!("{SPOILT}: {error}")))
}

enum Written {
    /// `again`: an earlier try may have been written.
    Replies { replies: Vec<Settled>, again: bool },
    /// The dispatcher takes over what could not be written.
    GaveUp,
    /// The store cannot take this as it is.
    Broken(StoreError),
}

/// Repeats until the store answers, or the node has been declared lost or is to stop while the store is out of reach.
async fn write_until_answered(life: &Life, settle: &Settle) -> Written {
    let mut backoff = Backoff::default();
    let mut again = false;
    loop {
        match life.store.settle(settle.clone()).await {
            Ok(replies) => return Written::Replies { replies, again },
            Err(error) => {
                if error.is_transient() {
                    life.node.logs.no_answer("could not settle", &error);
                } else if !settle.settlements.is_empty() && life.node.logs.may(Kind::Refused) {
                    tracing::warn!(%error, jobs = settle.settlements.len(), "could not settle; trying again");
                }
                if life.is_hopeless() {
                    if !settle.settlements.is_empty() {
                        tracing::error!(jobs = settle.settlements.len(), "giving up; the jobs will run again");
                    }
                    for Settlement { job, fence, .. } in &settle.settlements {
                        life.trace(|| Record::GiveUp { job: *job, fence: fence.0 });
                    }
                    life.desk.give_up(settle.settlements.iter().map(|settlement| (settlement.job, settlement.fence)));
                    return Written::GaveUp;
                }
                if matches!(error, StoreError::Broken { .. }) && !settle.settlements.is_empty() {
                    return Written::Broken(error);
                }
                again = true;
                backoff.wait(&life.node.chance).await;
            }
        }
    }
}

pub(crate) fn spoilt_already(settlement: &Settlement) -> bool {
    settlement.to.error.as_ref().is_some_and(|error| error.chain[0].starts_with(SPOILT))
}

pub(crate) fn finish(
    life: &Life,
    told: Option<Epoch>,
    items: Vec<Item>,
    settlements: Vec<Settlement>,
    replies: Vec<Settled>,
    again: bool,
) {
    let mut out_of_hands: Vec<(JobId, Fence)> = Vec::with_capacity(items.len());
    let mut to_dispatcher = Vec::new();
    let (mut written, mut handed_back) = (0, 0);
    for ((item, settlement), reply) in items.into_iter().zip(&settlements).zip(replies) {
        if reply == Settled::Locked {
            // An open transaction of another session holds its row: it is tried again, beside the others.
            life.outbox.put_off(vec![item.back()]);
            continue;
        }
        match item {
            Item::Begin { job, may_start } => {
                let go = reply == Settled::Applied;
                if go {
                    life.desk.running_written(job.id);
                } else {
                    refused(life, settlement);
                    out_of_hands.push((job.id, job.fence));
                }
                // An error means that the worker is gone.
                let _ = may_start.send(go);
            }
            Item::Ended { ended, follows: Follows { attempt, state, rest, error } } => {
                // After a lost reply, no trace of a job means that the first try went through.
                let again = again || ended.panicked.any;
                let applied_now = reply == Settled::Applied || (again && reply == Settled::Gone);
                if reply == Settled::CancelRequested {
                    life.desk.want_cancel(ended.job.id);
                    life.outbox.send(Outgoing::Ended(ended));
                    continue;
                }
                out_of_hands.push((ended.job.id, ended.job.fence));
                if !applied_now {
                    refused(life, settlement);
                    continue;
                }
                written += 1;
                handed_back += u64::from(ended.outcome == Outcome::Interrupted && !state.finished());
                life.trace(|| Record::Settle { job: ended.job.id, fence: ended.job.fence.0, state });
                if let Some(error) = &error {
                    log_failure(life, &ended.job, attempt, error, state, rest.as_ref());
                }
                if told.is_some() {
                    to_dispatcher.push(scheduler::Settled {
                        id: ended.job.id,
                        fence: ended.job.fence,
                        ran: settlement.ran(),
                        rest,
                        failed: state == JobState::Failed,
                        well: state == JobState::Success,
                        error: settlement.to.fingerprint(),
                    });
                }
                if life.node.hub.listened_to()
                    && let Some(event) = event::Event::settled(state, job_event(&ended.job, attempt, error))
                {
                    life.node.hub.tell(event);
                }
            }
        }
    }
    let counters = &life.node.counters;
    counters.settled.fetch_add(written - handed_back, Ordering::Relaxed);
    counters.written.fetch_add(written, Ordering::Relaxed);
    life.desk.release(out_of_hands.into_iter());
    life.term.report(told, to_dispatcher);
}

/// A run that went wrong. What a person has cancelled is no news to that person.
fn log_failure(life: &Life, job: &AssignedJob, attempt: u32, error: &str, state: JobState, rest: Option<&Rest>) {
    let run = FailedRun { job: job.id, task: &job.task, group: &job.group, attempt, error };
    match (state, rest) {
        (JobState::Failed, _) => life.node.logs.failed(&run),
        (_, Some(rest)) => life.node.logs.retried(&run, rest.due, rest.next.as_ref()),
        _ => {}
    }
}

/// The job is in other hands: the end of this run does not count. That is counted and logged.
fn refused(life: &Life, settlement: &Settlement) {
    life.node.counters.stale.fetch_add(1, Ordering::Relaxed);
    life.trace(|| Record::Stale { job: settlement.job, fence: settlement.fence.0 });
    if life.node.logs.may(Kind::Stale) {
        tracing::warn!(job = %settlement.job, fence = settlement.fence.0, "a stale settle was refused: the job is in other hands");
    }
}

/// The end that cannot be stored, or the `running`: replaced by an end that says so.
fn spoilt(alone: Outgoing, error: &StoreError) -> Outgoing {
    let outcome = cannot_be_stored(error);
    Outgoing::Ended(match alone {
        Outgoing::Ended(ended) => Ended { outcome, ..ended },
        Outgoing::Begin { job, may_start } => {
            // An error means that the worker is gone.
            let _ = may_start.send(false);
            Ended { outcome, ..Ended::unbegun(job) }
        }
        Outgoing::Step { .. } => unreachable!("steps are written with the notes"),
    })
}
