//! What the dispatcher of another process has assigned to this node; and jobs that the database lists as here and that are not.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::Instant;
use turnwise_core::{
    Fence, JobId, JobState,
    lifecycle::{self, Event, JobFacts, Outcome},
    pace,
};
use turnwise_store::{Author, Load, Settle, Settled, Settlement, StoreError};

use crate::{life::Life, trace::Record};

/// Whether there was any; `None`: it could not be read.
pub(crate) async fn read_mail(life: &Life) -> Option<bool> {
    let (_look, known) = life.desk.look();
    match life.store.assignments(life.incarnation, known).await {
        Ok(mail) => {
            let any = !mail.batches.is_empty();
            if life.desk.deliver(mail) {
                life.outbox.wake();
            }
            Some(any)
        }
        Err(error) => {
            life.node.logs.no_answer("could not read the mail", &error);
            None
        }
    }
}

/// Brings in what other processes have assigned to this node, and which of its jobs shall stop.
pub(crate) async fn mail(life: Arc<Life>) {
    let bell = &life.bell;
    let mut missing = BTreeSet::new();
    let mut next_check = Instant::now() + check_interval(&life);
    loop {
        let read = read_mail(&life).await.is_some();
        // Before the look: what makes it unsure again meanwhile is looked at again.
        let unsure = life.unsure.swap(false, Ordering::AcqRel);
        if unsure || Instant::now() >= next_check {
            next_check = Instant::now() + check_interval(&life);
            match check(&life, unsure, &mut missing).await {
                Ok(()) => {}
                Err(error) => {
                    life.node.logs.no_answer("could not look at what is said to be here", &error);
                    life.unsure.fetch_or(unsure, Ordering::AcqRel);
                }
            }
        }
        tokio::select! {
            biased;
            () = life.over.wait() => return,
            () = bell.mail.notified() => {}
            () = tokio::time::sleep(look_again(&life, read)) => {}
            () = tokio::time::sleep_until(next_check) => {}
        }
    }
}

/// How often a node compares what the database lists as in its hands with what is. Twelve beats: what is missing twice was
/// given to it long ago, and is not in flight.
fn check_interval(life: &Life) -> Duration {
    life.node.config.lease * 4
}

/// Gives back what is said to be here and is not: twice in a row, or once if the database has another lineage. Ends in flight
/// count as here.
async fn check(life: &Life, unsure: bool, missing: &mut BTreeSet<(JobId, Fence)>) -> Result<(), StoreError> {
    let said = said_to_be_here(life, unsure).await?;
    if unsure {
        let gone = life.desk.drop_what_was_taken_back(&said);
        if !gone.is_empty() {
            tracing::warn!(
                jobs = gone.len(),
                "the database has taken back that jobs were given to this node; their runs are stopped"
            );
        }
        gone.iter().for_each(|(job, fence)| life.trace(|| Record::GiveUp { job: *job, fence: fence.0 }));
    }
    let now = said.into_iter().filter(|(id, fence)| !life.desk.holds(*id, *fence));
    let (back, rest): (BTreeSet<_>, BTreeSet<_>) = now.partition(|job| unsure || missing.contains(job));
    give_back(life, &back).await?;
    *missing = rest;
    Ok(())
}

/// A process that assigns jobs to this node rings for it. The look without a ring is for a bell whose connection is cut without its
/// having noticed yet.
fn look_again(life: &Life, read: bool) -> Duration {
    let quiet = read && life.bell.hears() && !life.unsure.load(Ordering::Acquire);
    pace::next_mail(life.node.config.poll_interval, quiet)
}

/// Jobs that the database lists as in this node's hands. If `unsure`, the batches are not trusted: the ends of one may have been
/// taken back after this node called it done.
async fn said_to_be_here(life: &Life, unsure: bool) -> Result<BTreeSet<(JobId, Fence)>, StoreError> {
    let load = if unsure { Load::HeldBy(life.incarnation) } else { Load::InHands(Some(life.incarnation)) };
    let page = life.store.load(load).await?;
    Ok(page.jobs.iter().map(|head| (head.id, head.fence)).collect())
}

/// Gives these back, without spending an attempt. A job that is just in flight to this node goes back as well, and comes again.
async fn give_back(life: &Life, jobs: &BTreeSet<(JobId, Fence)>) -> Result<(), StoreError> {
    let mut settlements = Vec::new();
    for &(id, fence) in jobs {
        let Some(job) = life.store.job(id).await? else { continue };
        // Should it still arrive, it is not begun.
        if (job.fence, job.state.assigned()) != (fence, true) || !life.desk.disown(id, fence) {
            continue;
        }
        let event = Event::Ended(Outcome::Interrupted);
        let to = lifecycle::decide(&JobFacts::from(&job), &event, life.node.clock.now(), 0.0);
        settlements.push(Settlement {
            job: job.id,
            fence: job.fence,
            saw_cancel: job.cancel_requested,
            to: to.expect("an assigned job may end in every way"),
            noted: true,
            started_at: None,
            finished_at: None,
        });
    }
    if settlements.is_empty() {
        return Ok(());
    }
    tracing::warn!(jobs = settlements.len(), "jobs are said to be here and are not; they go back");
    let author = Author::Node { node: life.incarnation, told: None };
    let settle = Settle { author, settlements, done: Vec::new() };
    let replies = life.store.settle(settle.clone()).await?;
    let locked = replies.contains(&Settled::Locked);
    for (settlement, _) in settle.settlements.iter().zip(replies).filter(|(_, reply)| *reply == Settled::Applied) {
        let state = settlement.to.state(JobState::Scheduled);
        life.trace(|| Record::Settle { job: settlement.job, fence: settlement.fence.0, state });
    }
    if locked {
        // An error, so that the check is repeated: nothing else would give the job back.
        return Err(StoreError::transient("give back", "an open transaction holds a job that is said to be here"));
    }
    Ok(())
}
