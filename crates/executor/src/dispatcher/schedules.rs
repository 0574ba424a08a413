//! Periodic jobs: when a schedule's time has come, the dispatcher submits its job.
//!
//! Which times are over is written down after the submit. A dispatcher that dies in between leaves it to the next one,
//! which submits the same job under the same key again and gets the reply that it is there.
//!
//! The submit of a unique job may have to wait for the end of another caller's transaction. So this is done beside the dispatching,
//! one round at a time, and the dispatcher gets an answer when it is done.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use tokio::sync::mpsc;
use turnwise_core::{
    ScheduleName, Timestamp,
    periodic::{Overlap, Periodic},
};
use turnwise_store::{
    Load, Memo, MemoKind, NewMemo, StoreError,
    memo::{self, Fired},
};

use super::Dispatcher;
use crate::{
    life::Life,
    logs::{Kind, Logs},
};

/// Schedules that are fired in one round; the others have their turn in the next.
const FIRE: usize = 20;
/// When to look again at a schedule that could not be fired, or whose last job has not ended.
const AGAIN: Duration = Duration::from_secs(1);

/// The dispatcher's side.
#[derive(Debug)]
pub(super) struct Schedules {
    all: BTreeMap<ScheduleName, Entry>,
    next: Option<Timestamp>,
    /// Where the next round begins.
    after: Option<ScheduleName>,
    asks: mpsc::Sender<Round>,
    answers: mpsc::Receiver<RoundReply>,
    /// A round is on its way.
    asked: bool,
}

/// The side that submits.
#[derive(Debug)]
pub(super) struct Rounds {
    asks: mpsc::Receiver<Round>,
    answers: mpsc::Sender<RoundReply>,
}

/// Schedules that were due at this time.
#[derive(Debug)]
struct Round {
    now: Timestamp,
    due: Vec<(ScheduleName, Entry)>,
}

type RoundReply = Result<Vec<(ScheduleName, Entry)>, StoreError>;

pub(super) fn schedules() -> (Schedules, Rounds) {
    // One round is on its way, and one answer.
    let ((asks, asked), (answers, answered)) = (mpsc::channel(1), mpsc::channel(1));
    let (all, next, after) = (BTreeMap::new(), None, None);
    let schedules = Schedules { all, next, after, asks, answers: answered, asked: false };
    (schedules, Rounds { asks: asked, answers })
}

#[derive(Debug, Clone)]
struct Entry {
    periodic: Periodic,
    fired: Fired,
    /// As it is written down.
    written: Fired,
    /// What is due waits for the last job.
    held: bool,
    /// When to look at it again; `None`: not before it is changed.
    next: Option<Timestamp>,
}

impl Schedules {
    /// At the beginning of a term.
    pub(super) fn recall(&mut self, memos: &[Memo], logs: &Logs) {
        self.see(memos, logs);
        for memo in memos.iter().filter(|memo| memo.kind == MemoKind::Fired) {
            let entry = ScheduleName::new(&memo.name).ok().and_then(|name| self.all.get_mut(&name));
            if let (Some(entry), Some(fired)) = (entry, Fired::read(&memo.value)) {
                (entry.fired, entry.written) = (fired, fired);
            }
        }
    }

    /// What people have set. A schedule that cannot be read counts as not set, with a warning: a newer program may have written it.
    pub(super) fn see(&mut self, memos: &[Memo], logs: &Logs) {
        let mut before = std::mem::take(&mut self.all);
        for (memo, read) in memo::schedules(memos) {
            let Ok((name, periodic)) = read else {
                if logs.may(Kind::Unreadable) {
                    tracing::warn!(name = memo.name, value = memo.value, "a schedule cannot be read and is left out");
                }
                continue;
            };
            let last = before.remove(&name);
            let (fired, written) = last.map(|last| (last.fired, last.written)).unwrap_or_default();
            self.all.insert(name, Entry { periodic, fired, written, held: false, next: Some(Timestamp::MIN) });
        }
        self.reckon();
    }

    /// When to fire next; while a round is on its way its answer comes first.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.next.filter(|_| !self.asked)
    }

    fn round(&mut self, now: Timestamp) -> Round {
        let due = |(_, entry): &(&ScheduleName, &Entry)| entry.next.is_some_and(|next| next <= now);
        let all: Vec<(&ScheduleName, &Entry)> = self.all.iter().filter(due).collect();
        let after = self.after.take();
        let first = all.iter().position(|(name, _)| after.as_ref().is_none_or(|after| *name > after)).unwrap_or(0);
        let round = all[first..].iter().chain(&all[..first]).take(FIRE);
        let due: Vec<_> = round.map(|&(name, entry)| (name.clone(), entry.clone())).collect();
        self.after = due.last().map(|(name, _)| name.clone());
        Round { now, due }
    }

    /// What has been done is done, also where the schedule was changed or taken away meanwhile.
    fn done(&mut self, fired: Vec<(ScheduleName, Entry)>) {
        for (name, done) in fired {
            if let Some(entry) = self.all.get_mut(&name) {
                entry.fired = done.fired;
                if entry.periodic == done.periodic {
                    (entry.held, entry.next) = (done.held, done.next);
                }
            }
        }
        self.reckon();
    }

    fn reckon(&mut self) {
        self.next = self.all.values().filter_map(|entry| entry.next).min();
    }
}

impl Dispatcher<'_> {
    /// Has what is due submitted, and writes down what was.
    pub(super) async fn fire(&mut self) -> Result<(), StoreError> {
        if let Ok(answer) = self.schedules.answers.try_recv() {
            self.schedules.asked = false;
            self.schedules.done(answer?);
            self.write_fired().await?;
        }
        let now = self.life.node.clock.now();
        if self.schedules.next().is_some_and(|next| next <= now) {
            let round = self.schedules.round(now);
            // An error means that the submitting side is gone, which ends with this term.
            self.schedules.asked = self.schedules.asks.try_send(round).is_ok();
        }
        Ok(())
    }

    async fn write_fired(&mut self) -> Result<(), StoreError> {
        let unwritten = |(_, entry): &(&ScheduleName, &Entry)| entry.fired != entry.written;
        let memo = |(name, entry): (&ScheduleName, &Entry)| entry.fired.memo(name);
        let memos: Vec<NewMemo> = self.schedules.all.iter().filter(unwritten).map(memo).collect();
        if self.remember(memos).await? {
            self.schedules.all.values_mut().for_each(|entry| entry.written = entry.fired);
        }
        Ok(())
    }
}

/// Submits what the dispatcher finds due, beside it, for as long as its term lasts.
pub(super) async fn submit(life: &Life, mut rounds: Rounds) -> Infallible {
    while let Some(round) = rounds.asks.recv().await {
        let answer = submit_round(life, round).await;
        if rounds.answers.send(answer).await.is_err() {
            break;
        }
        life.term.wake();
    }
    // The dispatcher ends the term.
    std::future::pending().await
}

async fn submit_round(life: &Life, Round { now, mut due }: Round) -> RoundReply {
    let mut reached = true;
    for (name, entry) in &mut due {
        let fired = if reached {
            fire_one(life, name, entry, now).await
        } else {
            // The store was out of reach for one of them; it would hardly be in reach for the others.
            Ok(Some(now.plus(AGAIN)))
        };
        entry.next = match fired {
            Ok(next) => next,
            Err(error) if error.is_transient() => {
                reached = false;
                Some(now.plus(AGAIN))
            }
            // A group that is full, say. When its time is long past, it has been missed.
            Err(error @ StoreError::Refused(_)) => {
                if life.node.logs.may(Kind::PeriodicRefused) {
                    tracing::warn!(schedule = %name, %error, "a periodic job was refused");
                }
                Some(now.plus(AGAIN))
            }
            Err(error) => return Err(error),
        };
    }
    Ok(due)
}

/// Returns when to look again.
async fn fire_one(
    life: &Life,
    name: &ScheduleName,
    entry: &mut Entry,
    now: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let Entry { periodic, fired, held, .. } = entry;
    let asks = periodic.overlap != Overlap::Allow && periodic.is_due(fired.over, now);
    let busy = asks && {
        // Also those of slots that are due: an earlier dispatcher may have submitted them and not come to write it down.
        let jobs = periodic.due_jobs(name, fired.over, now).into_iter().chain(fired.job).collect();
        !life.store.load(Load::These(jobs)).await?.jobs.is_empty()
    };
    let firing = periodic.firing(fired.over, busy, *held, now);
    if !firing.slots.is_empty() {
        let jobs = firing.slots.iter().map(|slot| periodic.job(name, *slot, now)).collect();
        let submitted = life.store.enqueue(jobs).await?;
        fired.job = submitted.last().map(|enqueued| enqueued.id);
    }
    fired.over = firing.over.or(fired.over);
    let waits = firing.next.is_none() && periodic.is_due(fired.over, now);
    *held = waits;
    Ok(firing.next.or(waits.then(|| now.plus(AGAIN))))
}
