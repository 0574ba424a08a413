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

/// So many stale entries are not worth cleaning up.
const SPARE: usize = 1_024;

#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    /// Jobs that are due later.
    future: Heap,
    /// When rates allow the next start, each with its keeper.
    alarms: BinaryHeap<Reverse<(Timestamp, Keeper)>>,
    /// When jobs must have begun; jobs that have begun or are gone are skipped when their time comes.
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

    /// Takes out the next job that is due at `now`.
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

    /// If the bucket is empty, wakes its keeper when it has a token again.
    pub(super) fn wake_for(&mut self, bucket: &Bucket, whose: Keeper, now: Timestamp) {
        if !bucket.allows(now) {
            self.alarms.push(Reverse((bucket.next(), whose)));
        }
    }

    /// Takes out the next keeper whose rate allows a start at `now`.
    pub(super) fn take_alarm(&mut self, now: Timestamp) -> Option<Keeper> {
        self.alarms.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.alarms.pop().map(|Reverse((_, keeper))| keeper)
    }

    pub(super) fn watch_expiry(&mut self, at: Timestamp, job: JobId) {
        self.expiring.push(Reverse((at, job)));
    }

    /// Takes out the next job whose time to begin is over at `now`.
    pub(super) fn take_expiry(&mut self, now: Timestamp) -> Option<JobId> {
        self.expiring.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.expiring.pop().map(|Reverse((_, job))| job)
    }

    /// Removes entries of jobs that have begun or are gone. Most jobs begin in time and leave their entry behind, so without this
    /// there would be ever more entries; like this there are never many more than `jobs`.
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
