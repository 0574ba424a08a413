//! Writing how runs ended: whatever has ended since the last write goes into the next one.

use std::{
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesOrdered};
use tokio::{sync::oneshot, time::Instant};
use turnwise_core::{
    Failure, Fence, JobId, Terms,
    job::AssignedJob,
    lifecycle::{self, Event, Outcome, Standing, Target},
    scheduler::{self, Rest},
};
use turnwise_store::{Author, BatchId, Load, Note, Settle, Settled, Settlement, StoreError};

use crate::{
    event,
    node::job_event,
    pulse::Backoff,
    shared::{Ended, Heard as NoteHeard, Life, Outgoing, fence_number},
    trace::Record,
};

/// A run that takes longer than this is shown as `running`; a shorter one saves the write.
const MOMENT: Duration = Duration::from_millis(200);
/// How often to look for such runs.
const SWEEP: Duration = Duration::from_millis(100);
/// A job that lies in the buffer longer is handed back: perhaps somebody else has a free slot.
const BUFFERED: Duration = Duration::from_secs(1);
/// But not more often than this: if nobody has, it comes straight back.
const HAND_BACK_PAUSE: Duration = Duration::from_secs(10);

/// A task that does not even listen this long after its time is given up.
const DEAF: Duration = Duration::from_secs(2);

/// Writes on their way at once. The first goes as soon as something has ended; one beside it only if it is full: what ends
/// meanwhile would otherwise travel in many small batches.
const AHEAD: usize = 2;

/// Runs until the life is over and everything is written.
pub(crate) async fn settle(life: Arc<Life>) {
    let mut sweeps = tokio::time::interval(SWEEP);
    sweeps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut handed_back = Instant::now();
    // In the order they began in: when one is over, all before it have been told.
    let mut writes = FuturesOrdered::new();
    loop {
        if writes.is_empty() || (writes.len() < AHEAD && life.has_a_full_batch()) {
            let batch = life.take_outgoing(life.shared.config.batch_size);
            if !batch.is_empty() {
                life.settle_begins();
                // Before any later end is on its way: it might be that of a run that has just said something.
                let ends = beside(&life, &mut writes, write_what_was_said(&life, batch)).await;
                writes.push_back(write(&life, ends, life.take_done()));
                continue;
            }
        }
        if writes.is_empty() && life.over.is_up() {
            let done = life.take_done();
            if !done.is_empty() {
                write(&life, Vec::new(), done).await;
            }
            return;
        }
        tokio::select! {
            // The sweep first: it is rare, and a busy outbox must not keep it off.
            biased;
            _ = sweeps.tick() => {
                let alone = writes.is_empty();
                beside(&life, &mut writes, sweep(&life, alone, &mut handed_back)).await;
            }
            Some(()) = writes.next() => life.settle_is_over(),
            () = life.outgoing.notified() => {}
            () = life.over.wait(), if writes.is_empty() => {}
        }
    }
}

/// Does this while writes go on: they hold connections, and it may need one.
async fn beside<T>(
    life: &Life,
    writes: &mut FuturesOrdered<impl Future<Output = ()>>,
    what: impl Future<Output = T>,
) -> T {
    let mut what = pin!(what);
    loop {
        tokio::select! {
            biased;
            done = &mut what => return done,
            Some(()) = writes.next() => life.settle_is_over(),
        }
    }
}

/// Sees to what nobody tells of. None of the runs it is about has ended, so nothing is being written about them.
async fn sweep(life: &Life, alone: bool, handed_back: &mut Instant) {
    // Batches that are through travel with the next settlement; only when there is none, alone.
    if alone {
        let done = life.take_done();
        if !done.is_empty() {
            write(life, Vec::new(), done).await;
        }
    }
    write_running(life).await;
    let (writing, notes) = life.take_notes().await;
    write_notes(life, notes, Vec::new()).await;
    drop(writing);
    life.give_up_the_deaf(DEAF);
    life.rest();
    if handed_back.elapsed() >= HAND_BACK_PAUSE && life.hand_back(BUFFERED) > 0 {
        *handed_back = Instant::now();
    }
}

/// One settlement with what is needed once it is written.
pub(crate) enum Item {
    Ended { ended: Ended, attempt: u32, state: turnwise_core::State, rest: Option<Rest>, error: Option<String> },
    Begin { job: Arc<AssignedJob>, may_start: oneshot::Sender<bool> },
}

impl Item {
    /// To be decided and written anew.
    pub(crate) fn back(self) -> Outgoing {
        match self {
            Item::Ended { ended, .. } => Outgoing::Ended(ended),
            Item::Begin { job, may_start } => Outgoing::Begin { job, may_start },
        }
    }
}

/// Writes the ends. A batch that the store cannot take as it is, is written in halves, until the one job that spoils it is
/// alone; that one fails, and its neighbours are none the worse for it.
async fn write(life: &Life, batch: Vec<Outgoing>, done: Vec<BatchId>) {
    if batch.is_empty() && done.is_empty() {
        return;
    }
    let mut parts = vec![(batch, done)];
    while let Some((batch, done)) = parts.pop() {
        let told = life.term();
        let mut items = Vec::with_capacity(batch.len());
        let mut settlements = Vec::with_capacity(batch.len());
        for outgoing in batch {
            let (item, settlement) = decide(life, outgoing);
            items.push(item);
            settlements.push(settlement);
        }
        let author = Author::Node { node: life.incarnation, told };
        let settle = Settle { author, settlements, done };
        match write_until_heard(life, &settle).await {
            Heard::Replies { replies, again } => {
                life.forget_batches(&settle.done);
                finish(life, told, items, settle.settlements, replies, again);
            }
            // The dispatcher that takes the jobs removes the batches as well.
            Heard::GaveUp => {}
            Heard::Broken(error) => {
                let mut first: Vec<Outgoing> = items.into_iter().map(Item::back).collect();
                let second = first.split_off(first.len() / 2);
                // The batches are done when all of their jobs are: with the half that is written last.
                match first.is_empty() {
                    true => parts.push((vec![spoilt(second, &error)], settle.done)),
                    false => parts.extend([(second, settle.done), (first, Vec::new())]),
                }
            }
        }
    }
}

/// The job whose end cannot be stored.
fn spoilt(mut alone: Vec<Outgoing>, error: &StoreError) -> Outgoing {
    match alone.pop().expect("one job is left") {
        Outgoing::Ended(ended) => {
            let outcome = Outcome::Fail(Failure::new(format!("{SPOILT}: {error}")));
            Outgoing::Ended(Ended { outcome, ..ended })
        }
        other => other,
    }
}

/// What a job failed for whose end cannot be stored.
const SPOILT: &str = "its end could not be stored";

/// Writes what runs have said before it is written how they ended, and the results of steps. Returns the ends.
async fn write_what_was_said(life: &Life, batch: Vec<Outgoing>) -> Vec<Outgoing> {
    let (mut ends, mut notes, mut waiting) = (Vec::with_capacity(batch.len()), Vec::new(), Vec::new());
    for outgoing in batch {
        match outgoing {
            Outgoing::Step { job, step, heard } => {
                waiting.push((notes.len(), heard));
                let (job, fence) = (job.id, job.fence);
                notes.push(Note { job, fence, progress: None, lines: Vec::new(), trim: false, steps: vec![step] });
            }
            Outgoing::Ended(ended) => {
                let run = ended.run.as_ref();
                notes.extend(run.and_then(|run| run.take_note(ended.job.id, ended.job.fence)));
                ends.push(Outgoing::Ended(ended));
            }
            begin @ Outgoing::Begin { .. } => ends.push(begin),
        }
    }
    write_notes(life, notes, waiting).await;
    ends
}

/// Writes notes, and tells those who wait for theirs whether they may go on.
async fn write_notes(life: &Life, notes: Vec<Note>, waiting: Vec<(usize, oneshot::Sender<NoteHeard>)>) {
    if notes.is_empty() {
        return;
    }
    let mut backoff = Backoff::default();
    let mut replies = vec![Settled::Superseded; notes.len()];
    let mut broken: Vec<(usize, String)> = Vec::new();
    // All of them in one call; one by one if the store cannot take one of them as it is.
    let mut parts = vec![(0, notes.len())];
    while let Some((from, to)) = parts.pop() {
        match life.store.note(life.incarnation, notes[from..to].to_vec()).await {
            Ok(told) => replies[from..to].copy_from_slice(&told),
            Err(error) if error.is_transient() => {
                if life.is_hopeless() {
                    break;
                }
                tracing::warn!(%error, "could not write what jobs have said; trying again");
                parts.push((from, to));
                backoff.wait(&life.shared.chance).await;
            }
            Err(_) if to - from > 1 => parts.extend((from..to).rev().map(|at| (at, at + 1))),
            Err(error) => {
                tracing::error!(%error, job = %notes[from].job, "a note cannot be stored and is lost");
                broken.push((from, error.to_string()));
            }
        }
    }
    for (at, heard) in waiting {
        let trouble = broken.iter().find(|(note, _)| *note == at);
        // A run that is gone does not mind.
        let _ = heard.send(match (trouble, replies[at]) {
            (Some((_, error)), _) => NoteHeard::Broken(error.clone()),
            (None, Settled::Applied) => NoteHeard::Written,
            (None, _) => NoteHeard::Superseded,
        });
    }
}

/// The job's own terms; where its retries may run out and it does not say what then, what its task says.
fn terms(life: &Life, job: &AssignedJob, outcome: &Outcome) -> Terms {
    let mut terms = job.terms.clone();
    let failed = matches!(outcome, Outcome::Error(_) | Outcome::Panic(_) | Outcome::TimedOut { .. });
    if failed && terms.on_exhausted().is_none() {
        let registry = &life.shared.registry;
        let step = registry.get(&job.task).and_then(|task| {
            let next = task.on_exhausted().ok()??;
            let retry = registry.get(&next).and_then(|task| task.retry().ok()?).unwrap_or_default();
            task.exhausted_step(&job.args, retry)
        });
        if let Some(step) = step {
            terms.set_on_exhausted(step).expect("one step that none follows");
        }
    }
    terms
}

/// Decides what follows each end. The decision is core's; only the numbers are put in here.
pub(crate) fn decide(life: &Life, outgoing: Outgoing) -> (Item, Settlement) {
    match outgoing {
        Outgoing::Step { .. } => unreachable!("steps were written before"),
        Outgoing::Begin { job, may_start } => {
            let settlement = start(life, &job, None);
            (Item::Begin { job, may_start }, settlement)
        }
        Outgoing::Ended(ended) => {
            let job = &ended.job;
            let cancel_requested = job.cancel_requested || life.cancel_wanted(job.id);
            let terms = terms(life, job, &ended.outcome);
            let standing = Standing { cancel_requested, terms: &terms, ..Standing::from(&**job) };
            let to = lifecycle::decide(
                &standing,
                &Event::Ended(ended.outcome.clone()),
                life.shared.clock.now(),
                life.shared.jitter(),
            )
            .expect("an assigned job may end in every way");
            let crashes = to.counts.crashes;
            let rest = match &to.to {
                Target::Stuck { due } => Some(Rest { stuck: true, due: *due, crashes, next: None }),
                Target::Waiting { due } => Some(Rest { stuck: false, due: Some(*due), crashes, next: None }),
                Target::Next { step, due } => {
                    Some(Rest { stuck: false, due: Some(*due), crashes, next: Some(step.task.clone()) })
                }
                _ => None,
            };
            let noted = ended.run.as_ref().is_some_and(|run| run.noted())
                || to.ending.is_some()
                // An earlier run may have said something.
                || job.fence > Fence(1);
            let settlement = Settlement {
                job: job.id,
                fence: job.fence,
                saw_cancel: cancel_requested,
                started_at: ended.started_at,
                finished_at: ended.finished_at,
                noted,
                to,
            };
            let (attempt, state) = (settlement.to.counts.attempt, settlement.to.state(job.state));
            let error = settlement.to.error.as_ref().map(Failure::text);
            (Item::Ended { ended, attempt, state, rest, error }, settlement)
        }
    }
}

fn start(life: &Life, job: &AssignedJob, started_at: Option<turnwise_core::Timestamp>) -> Settlement {
    let now = life.shared.clock.now();
    let to = lifecycle::decide(&Standing::from(job), &Event::Start, now, 0.0).expect("a scheduled job may start");
    Settlement {
        job: job.id,
        fence: job.fence,
        saw_cancel: true,
        to,
        noted: false,
        started_at: Some(started_at.unwrap_or(now)),
        finished_at: None,
    }
}

enum Heard {
    /// `again`: an earlier try may have been written.
    Replies { replies: Vec<Settled>, again: bool },
    /// What could not be written is seen to by the dispatcher.
    GaveUp,
    /// The store cannot take this as it is.
    Broken(StoreError),
}

/// Repeats until the store answers, or the node has been declared lost or is to stop while the store is out of reach.
async fn write_until_heard(life: &Life, settle: &Settle) -> Heard {
    let mut backoff = Backoff::default();
    let mut again = false;
    loop {
        match life.store.settle(settle.clone()).await {
            Ok(replies) => return Heard::Replies { replies, again },
            Err(error) => {
                tracing::warn!(%error, jobs = settle.settlements.len(), "could not settle; trying again");
                if life.is_hopeless() {
                    tracing::error!(jobs = settle.settlements.len(), "giving up; the jobs will run again");
                    for Settlement { job, fence, .. } in &settle.settlements {
                        life.trace(|| Record::GiveUp { job: *job, fence: fence_number(*fence) });
                    }
                    life.give_up(settle.settlements.iter().map(|settlement| (settlement.job, settlement.fence)));
                    return Heard::GaveUp;
                }
                // A job that has failed for this already waits like any other.
                let hopeless = settle.settlements.len() <= 1 && settle.settlements.iter().all(spoilt_already);
                if matches!(error, StoreError::Broken { .. }) && !hopeless {
                    return Heard::Broken(error);
                }
                again = true;
                backoff.wait(&life.shared.chance).await;
            }
        }
    }
}

fn spoilt_already(settlement: &Settlement) -> bool {
    settlement.to.error.as_ref().is_some_and(|error| error.chain[0].starts_with(SPOILT))
}

pub(crate) fn finish(
    life: &Life,
    told: Option<turnwise_store::Epoch>,
    items: Vec<Item>,
    settlements: Vec<Settlement>,
    replies: Vec<Settled>,
    again: bool,
) {
    let mut out_of_hands: Vec<(JobId, Fence)> = Vec::with_capacity(items.len());
    let mut to_dispatcher = Vec::new();
    let mut applied = 0;
    for ((item, settlement), reply) in items.into_iter().zip(&settlements).zip(replies) {
        match item {
            Item::Begin { job, may_start } => {
                let go = reply == Settled::Applied;
                if go {
                    life.running_written(job.id);
                } else {
                    refused(life, settlement);
                    out_of_hands.push((job.id, job.fence));
                }
                // A worker that is gone does not mind.
                let _ = may_start.send(go);
            }
            Item::Ended { ended, attempt, state, rest, error } => {
                // After a lost reply, no trace of a job means that the first try went through.
                let applied_now = reply == Settled::Applied || (again && reply == Settled::Gone);
                if reply == Settled::CancelRequested {
                    life.want_cancel(ended.job.id);
                    life.send(Outgoing::Ended(ended));
                    continue;
                }
                out_of_hands.push((ended.job.id, ended.job.fence));
                if !applied_now {
                    refused(life, settlement);
                    continue;
                }
                applied += 1;
                life.trace(|| Record::Settle { job: ended.job.id, fence: fence_number(ended.job.fence), state });
                if told.is_some() {
                    to_dispatcher.push(scheduler::Settled {
                        id: ended.job.id,
                        fence: ended.job.fence,
                        ran: settlement.ran(),
                        rest,
                        failed: state == turnwise_core::State::Failed,
                        well: state == turnwise_core::State::Success,
                    });
                }
                if life.shared.hub.listened_to()
                    && let Some(event) = event::Event::settled(state, job_event(&ended.job, attempt, error))
                {
                    life.shared.hub.tell(event);
                }
            }
        }
    }
    life.shared.counters.settled.fetch_add(applied, Ordering::Relaxed);
    life.release(out_of_hands.into_iter());
    life.tell(told, to_dispatcher);
}

/// Somebody else has the job: what this run did is not believed, and that is said aloud.
fn refused(life: &Life, settlement: &Settlement) {
    life.shared.counters.stale.fetch_add(1, Ordering::Relaxed);
    life.trace(|| Record::Stale { job: settlement.job, fence: fence_number(settlement.fence) });
    tracing::warn!(job = %settlement.job, fence = settlement.fence.0, "a stale settle was refused: the job is in other hands");
}

/// Jobs that are in this node's hands by the database's word, and not here: they go back, without spending an attempt. One
/// that is just on its way here goes back as well, and comes again.
pub(crate) async fn give_back_unknown(life: &Life) -> Result<(), StoreError> {
    let page = life.store.load(Load::InHands).await?;
    let mut settlements = Vec::new();
    for head in page.jobs.into_iter().filter(|head| head.node == Some(life.incarnation)) {
        // Before it is read: one that ends meanwhile would read as in these hands, and not be here any more.
        if life.holds(head.id, head.fence) {
            continue;
        }
        let Some(job) = life.store.job(head.id).await? else { continue };
        if (job.fence, job.state.assigned()) != (head.fence, true) || life.holds(head.id, head.fence) {
            continue;
        }
        let event = Event::Ended(Outcome::Interrupted);
        let to = lifecycle::decide(&Standing::from(&job), &event, life.shared.clock.now(), 0.0);
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
    for (settlement, _) in settle.settlements.iter().zip(replies).filter(|(_, reply)| *reply == Settled::Applied) {
        let state = settlement.to.state(turnwise_core::State::Scheduled);
        life.trace(|| Record::Settle { job: settlement.job, fence: fence_number(settlement.fence), state });
    }
    Ok(())
}

async fn write_running(life: &Life) {
    let running = life.still_running(MOMENT);
    if running.is_empty() {
        return;
    }
    let settlements: Vec<_> = running.iter().map(|(job, started_at)| start(life, job, Some(*started_at))).collect();
    let author = Author::Node { node: life.incarnation, told: None };
    match life.store.settle(Settle { author, settlements, done: Vec::new() }).await {
        // Whatever the answer: it was written, or the job is settled or in other hands, which its end will tell.
        Ok(_) => running.iter().for_each(|(job, _)| life.running_written(job.id)),
        Err(error) => tracing::warn!(%error, "could not write what is running"),
    }
}
