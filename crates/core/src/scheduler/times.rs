//! Times to come: when jobs are due, when rates allow the next start, by when jobs must have begun.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::gates::Keeper;
use crate::{
    backlog::{Backlog, Place, Slot},
    heap::Heap,
    job::JobId,
    limits::Bucket,
    time::Timestamp,
};

/// Entries that are not worth looking through.
const SPARE: usize = 1_024;

#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    /// Jobs that are due later.
    future: Heap,
    /// When rates allow the next start, and whose they are.
    alarms: BinaryHeap<Reverse<(Timestamp, Keeper)>>,
    /// When jobs must have begun; those that have, or are gone, are skipped when they come up.
    expiring: BinaryHeap<Reverse<(Timestamp, JobId)>>,
}

impl Times {
    /// The next time of any.
    pub(super) fn next(&self, backlog: &Backlog) -> Option<Timestamp> {
        let due = self.future.first().map(|slot| backlog.due(slot));
        let alarm = self.alarms.peek().map(|Reverse((at, _))| *at);
        let expiry = self.expiring.peek().map(|Reverse((at, _))| *at);
        due.into_iter().chain(alarm).chain(expiry).min()
    }

    pub(super) fn put_future(&mut self, backlog: &Backlog, slot: Slot) {
        self.future.push(slot, |a, b| backlog.by_due(a, b));
    }

    /// Takes out the next job that is due by now.
    pub(super) fn take_due(&mut self, backlog: &mut Backlog, now: Timestamp) -> Option<Slot> {
        while let Some(slot) = self.future.first() {
            let dead = backlog.place(slot) == Place::Dead;
            if !dead && backlog.due(slot) > now {
                return None;
            }
            self.future.pop(|a, b| backlog.by_due(a, b));
            if !dead {
                return Some(slot);
            }
            backlog.bury(slot);
        }
        None
    }

    /// If the bucket is empty, its keeper is woken when it no longer is.
    pub(super) fn wake_for(&mut self, bucket: &Bucket, whose: Keeper, now: Timestamp) {
        if !bucket.allows(now) {
            self.alarms.push(Reverse((bucket.next(), whose)));
        }
    }

    /// Takes out the next keeper whose rate allows a start by now.
    pub(super) fn take_alarm(&mut self, now: Timestamp) -> Option<Keeper> {
        self.alarms.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.alarms.pop().map(|Reverse((_, keeper))| keeper)
    }

    pub(super) fn watch_expiry(&mut self, at: Timestamp, job: JobId) {
        self.expiring.push(Reverse((at, job)));
    }

    /// Takes out the next job that must have begun by now.
    pub(super) fn take_expiry(&mut self, now: Timestamp) -> Option<JobId> {
        self.expiring.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.expiring.pop().map(|Reverse((_, job))| job)
    }

    /// Most jobs begin in time and leave their entry behind: never many more of these than of `jobs`.
    pub(super) fn forget_what_is_over(&mut self, jobs: usize, expires: impl Fn(JobId) -> Option<Timestamp>) {
        if self.expiring.len() <= 2 * jobs + SPARE {
            return;
        }
        let mut left = std::mem::take(&mut self.expiring).into_vec();
        left.retain(|Reverse((at, job))| expires(*job) == Some(*at));
        left.sort_unstable();
        left.dedup();
        self.expiring = left.into();
    }
}
