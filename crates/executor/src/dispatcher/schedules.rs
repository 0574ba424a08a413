//! Periodic jobs: when a schedule's time has come, the dispatcher submits its job.
//!
//! Which times are over is written down after the submit. A dispatcher that dies in between leaves it to the next one,
//! which submits the same job under the same key again and is told that it is there.

use std::{collections::BTreeMap, time::Duration};

use turnwise_core::{
    JobId, ScheduleName, Timestamp,
    periodic::{Overlap, Periodic},
};
use turnwise_store::{Load, Memo, MemoKind, NewMemo, StoreError};

use super::Dispatcher;

/// Schedules that are fired in one round; the others have their turn in the next.
const FIRE: usize = 100;
/// When to look again at a schedule that could not be fired, or whose last job has not ended.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Schedules {
    all: BTreeMap<ScheduleName, Standing>,
    next: Option<Timestamp>,
    /// Where the next round begins.
    after: Option<ScheduleName>,
}

#[derive(Debug)]
struct Standing {
    periodic: Periodic,
    fired: Fired,
    /// As it is written down.
    written: Fired,
    /// What is due waits for the last job.
    held: bool,
    /// When to look at it again; `None`: not before it is changed.
    next: Option<Timestamp>,
}

/// What is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Fired {
    over: Option<Timestamp>,
    job: Option<JobId>,
}

impl Fired {
    fn read(text: &str) -> Option<Self> {
        let (over, job) = text.split_once(' ')?;
        let over = Some(Timestamp::from_micros(over.parse().ok()?));
        Some(Self { over, job: job.parse().ok() })
    }

    fn write(&self) -> Option<String> {
        let job = self.job.map_or_else(|| "-".to_owned(), |job| job.to_string());
        self.over.map(|over| format!("{} {job}", over.micros()))
    }
}

impl Schedules {
    /// At the beginning of a term.
    pub(super) fn recall(&mut self, memos: &[Memo]) {
        self.see(memos);
        for memo in memos.iter().filter(|memo| memo.kind == MemoKind::Fired) {
            let standing = ScheduleName::new(&memo.name).ok().and_then(|name| self.all.get_mut(&name));
            if let (Some(standing), Some(fired)) = (standing, Fired::read(&memo.value)) {
                (standing.fired, standing.written) = (fired, fired);
            }
        }
    }

    /// What people have set. One that cannot be read counts as not set, loudly: a newer program may have written it.
    pub(super) fn see(&mut self, memos: &[Memo]) {
        let mut before = std::mem::take(&mut self.all);
        for memo in memos.iter().filter(|memo| memo.kind == MemoKind::Schedule) {
            let read = ScheduleName::new(&memo.name).ok().zip(serde_json::from_str::<Periodic>(&memo.value).ok());
            let Some((name, periodic)) = read else {
                tracing::warn!(name = memo.name, value = memo.value, "a schedule cannot be read and is left out");
                continue;
            };
            let last = before.remove(&name);
            let (fired, written) = last.map(|last| (last.fired, last.written)).unwrap_or_default();
            self.all.insert(name, Standing { periodic, fired, written, held: false, next: Some(Timestamp::MIN) });
        }
        self.reckon();
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.next
    }

    fn reckon(&mut self) {
        self.next = self.all.values().filter_map(|standing| standing.next).min();
    }
}

impl Dispatcher<'_> {
    /// Submits what is due.
    pub(super) async fn fire(&mut self) -> Result<(), StoreError> {
        let life = self.life;
        let now = life.shared.clock.now();
        if self.schedules.next.is_none_or(|next| next > now) {
            return Ok(());
        }
        let due = |(_, standing): &(&ScheduleName, &Standing)| standing.next.is_some_and(|next| next <= now);
        let after = self.schedules.after.take();
        let names: Vec<ScheduleName> = self.schedules.all.iter().filter(due).map(|(name, _)| name.clone()).collect();
        let first = names.iter().position(|name| after.as_ref().is_none_or(|after| name > after)).unwrap_or(0);
        for name in names[first..].iter().chain(&names[..first]).take(FIRE) {
            let Some(standing) = self.schedules.all.get_mut(name) else { continue };
            self.schedules.after = Some(name.clone());
            match fire_one(life, name, standing, now).await {
                Ok(next) => standing.next = next,
                // The others would hardly fare better.
                Err(error) if error.is_transient() => {
                    standing.next = Some(now.plus(AGAIN));
                    break;
                }
                // A group that is full, say. When its time is long past, it has been missed.
                Err(error @ StoreError::Refused(_)) => {
                    tracing::warn!(schedule = %name, %error, "a periodic job was refused");
                    standing.next = Some(now.plus(AGAIN));
                }
                Err(error) => return Err(error),
            }
        }
        self.schedules.reckon();
        let unwritten = |(_, standing): &(&ScheduleName, &Standing)| standing.fired != standing.written;
        let memo = |(name, standing): (&ScheduleName, &Standing)| NewMemo {
            kind: MemoKind::Fired,
            name: name.to_string(),
            value: standing.fired.write(),
            seen: None,
        };
        let memos: Vec<NewMemo> = self.schedules.all.iter().filter(unwritten).map(memo).collect();
        if self.remember(memos).await? {
            self.schedules.all.values_mut().for_each(|standing| standing.written = standing.fired);
        }
        Ok(())
    }
}

/// Tells when to look again.
async fn fire_one(
    life: &crate::shared::Life,
    name: &ScheduleName,
    standing: &mut Standing,
    now: Timestamp,
) -> Result<Option<Timestamp>, StoreError> {
    let Standing { periodic, fired, held, .. } = standing;
    let asks = periodic.overlap != Overlap::Allow && periodic.is_due(fired.over, now);
    let busy = match asks {
        // Also those of slots that are due: somebody may have submitted them and not come to write it down.
        true => {
            let jobs = periodic.due_jobs(name, fired.over, now).into_iter().chain(fired.job).collect();
            !life.store.load(Load::These(jobs)).await?.jobs.is_empty()
        }
        false => false,
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
