//! Writing how runs ended: whatever has ended since the last write goes into the next one.

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{
    StreamExt,
    stream::{FuturesOrdered, FuturesUnordered},
};
use tokio::{sync::oneshot, time::Instant};
use turnwise_core::{
    Failure, Fence, JobId, State, Terms,
    job::AssignedJob,
    lifecycle::{self, Event, Outcome, Standing, Target},
    scheduler::{self, Rest},
    story::Finished,
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

/// How long ends wait for what their runs have said to be written before them.
pub(crate) const SAID: Duration = Duration::from_secs(1);
/// What runs have said, in one statement, about.
const SAID_BYTES: usize = 4 * 1024 * 1024;

/// Between two tries of an end that cannot be written now, while its neighbours' can.
const PUT_OFF: Duration = Duration::from_millis(500);

/// Writes of nothing but one end that panicked, before the end is replaced by one that says so.
const ALONE: u32 = 3;

/// Runs until the life is over and everything is written. Should it panic, what it had taken to be written is there to be
/// written again when it is run again.
pub(crate) async fn settle(life: Arc<Life>) {
    life.no_settle_is_under_way();
    let mut sweeps = tokio::time::interval(SWEEP);
    sweeps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut handed_back = Instant::now();
    // In the order they began in: when one is over, all before it have been told.
    let mut writes = FuturesOrdered::new();
    // What running jobs say, one write at a time; ends go on beside it.
    let mut notes = Notes::new();
    let mut steps = Vec::new();
    loop {
        if writes.is_empty() || (writes.len() < AHEAD && life.has_a_full_batch()) {
            let batch = life.take_outgoing(life.settle_limit());
            if !batch.is_empty() {
                life.settle_begins();
                let mut unwritten = Unwritten::new(&life, part_steps(&life, batch, &mut steps));
                // Before any later end is on its way: it might be that of a run that has just said something.
                beside(&life, &mut writes, &mut notes, write_last_words(&life, &unwritten.batch)).await;
                unwritten.done = life.take_done();
                writes.push_back(write(&life, unwritten));
                continue;
            }
        }
        if notes.is_empty() && !steps.is_empty() {
            notes.push(write_said(&life, std::mem::take(&mut steps)));
        }
        if writes.is_empty() && life.over.is_up() {
            while notes.next().await.is_some() {}
            let put_off = part_steps(&life, life.take_put_off(Duration::MAX), &mut steps);
            let mut unwritten = Unwritten::new(&life, put_off);
            write_last_words(&life, &unwritten.batch).await;
            unwritten.done = life.take_done();
            write(&life, unwritten).await;
            return give_up_put_off(&life);
        }
        tokio::select! {
            // The sweep first: it is rare, and a busy outbox must not keep it off.
            biased;
            _ = sweeps.tick() => {
                if notes.is_empty() {
                    notes.push(write_said(&life, std::mem::take(&mut steps)));
                }
                let alone = writes.is_empty();
                let put_off = part_steps(&life, life.take_put_off(PUT_OFF), &mut steps);
                let put_off = Unwritten::new(&life, put_off);
                beside(&life, &mut writes, &mut notes, sweep(&life, put_off, alone, &mut handed_back)).await;
            }
            Some(()) = writes.next() => life.settle_is_over(),
            Some(()) = notes.next() => {}
            () = life.outgoing.notified() => {}
            () = life.over.wait(), if writes.is_empty() => {}
        }
    }
}

/// Writes of what running jobs say, at most one.
type Notes<F> = FuturesUnordered<F>;

/// Does this while writes go on: they hold connections, and it may need one.
async fn beside<T>(
    life: &Life,
    writes: &mut FuturesOrdered<impl Future<Output = ()>>,
    notes: &mut Notes<impl Future<Output = ()>>,
    what: impl Future<Output = T>,
) -> T {
    let mut what = pin!(what);
    loop {
        tokio::select! {
            biased;
            done = &mut what => return done,
            Some(()) = writes.next() => life.settle_is_over(),
            Some(()) = notes.next() => {}
        }
    }
}

/// Sees to what nobody tells of. None of the runs it is about has ended, so nothing is being written about them.
async fn sweep(life: &Life, mut put_off: Unwritten<'_>, alone: bool, handed_back: &mut Instant) {
    // Batches that are through travel with the next settlement; only when there is none, alone. So do ends that could not be
    // written with others.
    put_off.done = if alone { life.take_done() } else { Vec::new() };
    write_last_words(life, &put_off.batch).await;
    write(life, put_off).await;
    write_running(life).await;
    life.give_up_the_deaf(DEAF);
    life.rest();
    if handed_back.elapsed() >= HAND_BACK_PAUSE && life.hand_back(BUFFERED) > 0 {
        *handed_back = Instant::now();
    }
}

/// One settlement with what is needed once it is written.
pub(crate) enum Item {
    Ended { ended: Ended, follows: Follows },
    Begin { job: Arc<AssignedJob>, may_start: oneshot::Sender<bool> },
}

/// What follows an end, for those who are told of it.
pub(crate) struct Follows {
    attempt: u32,
    state: State,
    rest: Option<Rest>,
    error: Option<String>,
}

impl Item {
    fn of(outgoing: Outgoing, follows: Option<Follows>) -> Self {
        match outgoing {
            Outgoing::Ended(ended) => Item::Ended { ended, follows: follows.expect("something follows every end") },
            Outgoing::Begin { job, may_start } => Item::Begin { job, may_start },
            Outgoing::Step { .. } => unreachable!("steps are written with the notes"),
        }
    }

    /// To be decided and written anew.
    pub(crate) fn back(self) -> Outgoing {
        match self {
            Item::Ended { ended, .. } => Outgoing::Ended(ended),
            Item::Begin { job, may_start } => Outgoing::Begin { job, may_start },
        }
    }
}

/// What was taken to be written, until it is. Dropped before, by a panic, all of it goes back.
struct Unwritten<'a> {
    life: &'a Life,
    batch: Vec<Outgoing>,
    /// To be written after the batch.
    later: Vec<Outgoing>,
    /// Batches that are done when all of this is written.
    done: Vec<BatchId>,
}

impl<'a> Unwritten<'a> {
    fn new(life: &'a Life, batch: Vec<Outgoing>) -> Self {
        Self { life, batch, later: Vec::new(), done: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.batch.is_empty() && self.later.is_empty() && self.done.is_empty()
    }

    /// The batch is written, or others see to it.
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
        self.life.settle_fewer(self.batch.len());
        for outgoing in &mut self.batch {
            if let Outgoing::Ended(Ended { unheard, .. }) = outgoing {
                unheard.begun = true;
                unheard.alone += u32::from(alone);
            }
        }
        let all = std::mem::take(&mut self.batch).into_iter().chain(std::mem::take(&mut self.later));
        self.life.write_again(all, std::mem::take(&mut self.done));
    }
}

/// Writes the ends. A batch that the store cannot take as it is, is written in halves, until the one job that spoils it is
/// alone; that one fails, and its neighbours are none the worse for it.
async fn write(life: &Life, mut unwritten: Unwritten<'_>) {
    while !unwritten.is_empty() {
        if unwritten.batch.is_empty() {
            unwritten.batch = std::mem::take(&mut unwritten.later);
        }
        if let [Outgoing::Ended(Ended { outcome, unheard, .. })] = &mut unwritten.batch[..]
            && unheard.alone >= ALONE
        {
            *outcome = cannot_be_stored("writing it panicked");
        }
        let told = life.term();
        let (follows, settlements): (Vec<_>, Vec<_>) =
            unwritten.batch.iter().map(|outgoing| judge(life, outgoing)).unzip();
        let author = Author::Node { node: life.incarnation, told };
        // The batches are done when all of their jobs are: with the part that is written last.
        let done = if unwritten.later.is_empty() { unwritten.done.clone() } else { Vec::new() };
        let settle = Settle { author, settlements, done };
        match write_until_heard(life, &settle).await {
            Heard::Replies { replies, again } => {
                let items = unwritten.is_through().into_iter().zip(follows);
                let items = items.map(|(outgoing, follows)| Item::of(outgoing, follows)).collect();
                life.settle_more();
                life.forget_batches(&settle.done);
                finish(life, told, items, settle.settlements, replies, again);
            }
            // The dispatcher that takes the jobs removes the batches as well.
            Heard::GaveUp => drop(unwritten.is_through()),
            Heard::Broken(_) if unwritten.batch.len() > 1 => {
                let mut second = unwritten.batch.split_off(unwritten.batch.len() / 2);
                second.append(&mut unwritten.later);
                unwritten.later = second;
            }
            // Not even that it cannot be stored can be. Its neighbours need not wait for it.
            Heard::Broken(_) if settle.settlements.iter().any(spoilt_already) => {
                life.put_off(std::mem::take(&mut unwritten.batch));
            }
            Heard::Broken(error) => {
                let alone = unwritten.batch.pop().expect("one job is left");
                unwritten.batch.push(spoilt(alone, &error));
            }
        }
    }
}

/// The job whose end cannot be stored, or that it runs: an end that says so takes its place.
fn spoilt(alone: Outgoing, error: &StoreError) -> Outgoing {
    let outcome = cannot_be_stored(error);
    Outgoing::Ended(match alone {
        Outgoing::Ended(ended) => Ended { outcome, ..ended },
        Outgoing::Begin { job, may_start } => {
            // A worker that is gone does not mind.
            let _ = may_start.send(false);
            Ended { outcome, ..Ended::unbegun(job) }
        }
        Outgoing::Step { .. } => unreachable!("steps are written with the notes"),
    })
}

/// Ends that could not be written while there was time. The dispatcher sees to them when the lease is over.
fn give_up_put_off(life: &Life) {
    let jobs: Vec<(JobId, Fence)> = life.take_put_off(Duration::MAX).iter().filter_map(Outgoing::ends).collect();
    if !jobs.is_empty() {
        tracing::error!(jobs = jobs.len(), "ends could not be written; the jobs will run again");
        jobs.iter().for_each(|(job, fence)| {
            life.trace(|| Record::GiveUp { job: *job, fence: fence_number(*fence) });
        });
        life.give_up(jobs.into_iter());
    }
}

/// What a job failed for whose end cannot be stored.
const SPOILT: &str = "its end could not be stored";

fn cannot_be_stored(error: impl std::fmt::Display) -> Outcome {
    Outcome::Fail(Failure::new(format!("{SPOILT}: {error}")))
}

/// A step that is finished, and the run that waits for its result to be written. Dropped before that is told, by a panic, it is
/// to be written again.
struct Step<'a> {
    life: &'a Life,
    job: Arc<AssignedJob>,
    step: Finished,
    heard: Option<oneshot::Sender<NoteHeard>>,
}

impl Step<'_> {
    fn tell(mut self, what: NoteHeard) {
        if let Some(heard) = self.heard.take() {
            // A run that is gone does not mind.
            let _ = heard.send(what);
        }
    }

    fn back(&mut self) -> Option<Outgoing> {
        let heard = self.heard.take()?;
        Some(Outgoing::Step { job: self.job.clone(), step: self.step.clone(), heard })
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if let Some(step) = self.back() {
            self.life.send(step);
        }
    }
}

/// Ends are one thing, results of steps another. Returns the ends.
fn part_steps<'a>(life: &'a Life, batch: Vec<Outgoing>, steps: &mut Vec<Step<'a>>) -> Vec<Outgoing> {
    let mut ends = Vec::with_capacity(batch.len());
    for outgoing in batch {
        match outgoing {
            Outgoing::Step { job, step, heard } => steps.push(Step { life, job, step, heard: Some(heard) }),
            end => ends.push(end),
        }
    }
    ends
}

/// Writes what runs have said before it is written how they ended. Not for long: where nothing can be said, jobs end all the
/// same.
async fn write_last_words(life: &Life, ends: &[Outgoing]) {
    let said = |outgoing: &Outgoing| match outgoing {
        Outgoing::Ended(Ended { job, run: Some(run), .. }) => run.take_note(job.id, job.fence),
        _ => None,
    };
    let notes: Vec<Note> = ends.iter().filter_map(said).collect();
    let any_said = ends.iter().any(|end| matches!(end, Outgoing::Ended(Ended { run: Some(run), .. }) if run.noted()));
    if !any_said {
        return;
    }
    let lines: usize = notes.iter().map(|note| note.lines.len()).sum();
    let write = async {
        // What was taken from them while they ran.
        life.notes_are_written().await;
        write_notes(life, notes, Vec::new()).await;
    };
    let waited = life.may_wait_for_notes();
    if !waited || tokio::time::timeout(SAID, write).await.is_err() {
        if waited {
            life.notes_are_stuck();
        }
        tracing::warn!(lines, "what jobs have said last could not be written in time and is dropped; their ends go on");
    }
}

/// Writes what running jobs have said, and results of steps.
async fn write_said(life: &Life, steps: Vec<Step<'_>>) {
    let (writing, mut notes) = life.take_notes().await;
    let mut waiting = Vec::with_capacity(steps.len());
    for step in steps {
        let (job, fence, finished) = (step.job.id, step.job.fence, vec![step.step.clone()]);
        waiting.push((notes.len(), step));
        notes.push(Note { job, fence, progress: None, lines: Vec::new(), trim: false, steps: finished });
    }
    write_notes(life, notes, waiting).await;
    drop(writing);
}

/// Where to cut the notes, so that no statement has more than about [`SAID_BYTES`].
fn cuts(notes: &[Note]) -> Vec<(usize, usize)> {
    let (mut parts, mut from, mut bytes) = (Vec::new(), 0, 0);
    for (at, note) in notes.iter().enumerate() {
        let lines: usize = note.lines.iter().map(|line| line.text.len()).sum();
        let steps: usize = note.steps.iter().map(|step| step.result.as_str().len()).sum();
        if bytes > 0 && bytes + lines + steps > SAID_BYTES {
            parts.push((from, at));
            (from, bytes) = (at, 0);
        }
        bytes += lines + steps;
    }
    parts.push((from, notes.len()));
    parts.reverse();
    parts
}

/// Writes notes, and tells those who wait for theirs whether they may go on.
async fn write_notes(life: &Life, notes: Vec<Note>, waiting: Vec<(usize, Step<'_>)>) {
    if notes.is_empty() {
        return;
    }
    let mut backoff = Backoff::default();
    let mut replies = vec![Settled::Superseded; notes.len()];
    let mut broken: Vec<(usize, String)> = Vec::new();
    // As many as fit in one call; one by one if the store cannot take one of them as it is.
    let mut parts = cuts(&notes);
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
    let mut said: Vec<Option<Note>> = notes.into_iter().map(Some).collect();
    for (at, mut step) in waiting {
        said[at] = None;
        if replies[at] == Settled::Locked {
            life.put_off(step.back().into_iter().collect());
            continue;
        }
        let trouble = broken.iter().find(|(note, _)| *note == at);
        step.tell(match (trouble, replies[at]) {
            (Some((_, error)), _) => NoteHeard::Broken(error.clone()),
            (None, Settled::Applied) => NoteHeard::Written,
            (None, _) => NoteHeard::Superseded,
        });
    }
    // Somebody's transaction holds the job: it is said with what comes next.
    let locked = said.into_iter().zip(&replies).filter(|(_, reply)| **reply == Settled::Locked);
    locked.filter_map(|(note, _)| note).for_each(|note| life.take_back(note));
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

pub(crate) fn decide(life: &Life, ended: Ended) -> (Item, Settlement) {
    let outgoing = Outgoing::Ended(ended);
    let (follows, settlement) = judge(life, &outgoing);
    (Item::of(outgoing, follows), settlement)
}

/// Decides what follows each end. The decision is core's; only the numbers are put in here.
fn judge(life: &Life, outgoing: &Outgoing) -> (Option<Follows>, Settlement) {
    match outgoing {
        Outgoing::Step { .. } => unreachable!("steps are written with the notes"),
        Outgoing::Begin { job, .. } => (None, start(life, job, None)),
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
            (Some(Follows { attempt, state, rest, error }), settlement)
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
                if matches!(error, StoreError::Broken { .. }) && !settle.settlements.is_empty() {
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
    let (mut written, mut handed_back) = (0, 0);
    for ((item, settlement), reply) in items.into_iter().zip(&settlements).zip(replies) {
        if reply == Settled::Locked {
            // Somebody's transaction holds its row: it is tried again, beside the others.
            life.put_off(vec![item.back()]);
            continue;
        }
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
            Item::Ended { ended, follows: Follows { attempt, state, rest, error } } => {
                // After a lost reply, no trace of a job means that the first try went through.
                let again = again || ended.unheard.begun;
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
                written += 1;
                handed_back += u64::from(ended.outcome == Outcome::Interrupted && !state.finished());
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
    let counters = &life.shared.counters;
    counters.settled.fetch_add(written - handed_back, Ordering::Relaxed);
    counters.written.fetch_add(written, Ordering::Relaxed);
    life.release(out_of_hands.into_iter());
    life.tell(told, to_dispatcher);
}

/// Somebody else has the job: what this run did is not believed, and that is said aloud.
fn refused(life: &Life, settlement: &Settlement) {
    life.shared.counters.stale.fetch_add(1, Ordering::Relaxed);
    life.trace(|| Record::Stale { job: settlement.job, fence: fence_number(settlement.fence) });
    tracing::warn!(job = %settlement.job, fence = settlement.fence.0, "a stale settle was refused: the job is in other hands");
}

/// Jobs that are in this node's hands by the database's word, and not here. Ends on their way count as here. If `unsure`, the
/// batches are not believed either: the ends of one may have been taken back, and then this node called it done.
pub(crate) async fn unknown(life: &Life, unsure: bool) -> Result<BTreeSet<(JobId, Fence)>, StoreError> {
    let load = if unsure { Load::HeldBy(life.incarnation) } else { Load::InHands(Some(life.incarnation)) };
    let page = life.store.load(load).await?;
    let said = page.jobs.iter().map(|head| (head.id, head.fence));
    Ok(said.filter(|(id, fence)| !life.holds(*id, *fence)).collect())
}

/// Gives these back, without spending an attempt. One that is just on its way here goes back as well, and comes again.
pub(crate) async fn give_back(life: &Life, jobs: &BTreeSet<(JobId, Fence)>) -> Result<(), StoreError> {
    let mut settlements = Vec::new();
    for &(id, fence) in jobs {
        let Some(job) = life.store.job(id).await? else { continue };
        // Should it come after all, it is not begun.
        if (job.fence, job.state.assigned()) != (fence, true) || !life.disown(id, fence) {
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
    let locked = replies.contains(&Settled::Locked);
    for (settlement, _) in settle.settlements.iter().zip(replies).filter(|(_, reply)| *reply == Settled::Applied) {
        let state = settlement.to.state(turnwise_core::State::Scheduled);
        life.trace(|| Record::Settle { job: settlement.job, fence: fence_number(settlement.fence), state });
    }
    match locked {
        // Looked at again as soon: nothing else reminds of it.
        true => Err(StoreError::transient("give back", "an open transaction holds a job that is said to be here")),
        false => Ok(()),
    }
}

async fn write_running(life: &Life) {
    let running = life.still_running(MOMENT);
    if running.is_empty() {
        return;
    }
    let settlements: Vec<_> = running.iter().map(|(job, started_at)| start(life, job, Some(*started_at))).collect();
    let author = Author::Node { node: life.incarnation, told: None };
    match life.store.settle(Settle { author, settlements, done: Vec::new() }).await {
        // Whatever else the answer: it was written, or the job is settled or in other hands, which its end will tell.
        Ok(replies) => {
            let told = running.iter().zip(replies).filter(|(_, reply)| *reply != Settled::Locked);
            told.for_each(|((job, _), _)| life.running_written(job.id));
        }
        Err(error) => tracing::warn!(%error, "could not write what is running"),
    }
}
