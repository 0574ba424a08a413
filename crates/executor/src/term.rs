//! What the node of this process reports to the dispatcher beside it, while that dispatches.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::{Notify, futures::Notified};
use turnwise_core::scheduler::Settled;
use turnwise_store::Epoch;

use crate::lock::locked;

#[derive(Debug, Default)]
pub(crate) struct Term {
    now: Mutex<Option<Now>>,
    /// Rung for the dispatcher.
    wake: Notify,
    over: Notify,
    /// Writes of ends that have begun, and those that are over and reported.
    writes: [AtomicU64; 2],
}

#[derive(Debug)]
struct Now {
    epoch: Epoch,
    settled: Vec<Settled>,
    /// Not so between two terms of one epoch: what was begun to be written in the first is reported to the second, since the
    /// store takes the dispatcher of that epoch for notified.
    dispatches: bool,
}

impl Term {
    /// From now on, ends that are written here are reported here.
    pub(crate) fn begin(&self, epoch: Epoch) {
        let mut now = locked(&self.now);
        let settled = now.take().filter(|now| now.epoch == epoch).map(|now| now.settled).unwrap_or_default();
        *now = Some(Now { epoch, settled, dispatches: true });
    }

    pub(crate) fn end(&self) {
        if let Some(now) = &mut *locked(&self.now) {
            now.dispatches = false;
        }
        self.over.notify_waiters();
    }

    /// Waits until no dispatcher of this process dispatches.
    pub(crate) async fn ended(&self) {
        let over = self.over.notified();
        tokio::pin!(over);
        over.as_mut().enable();
        if self.epoch().is_some() {
            over.await;
        }
    }

    /// `None`: this process does not dispatch.
    pub(crate) fn epoch(&self) -> Option<Epoch> {
        locked(&self.now).as_ref().filter(|now| now.dispatches).map(|now| now.epoch)
    }

    /// Ends that were written while the term was `epoch`.
    pub(crate) fn report(&self, epoch: Option<Epoch>, settled: Vec<Settled>) {
        if let Some(now) = &mut *locked(&self.now)
            && Some(now.epoch) == epoch
        {
            now.settled.extend(settled);
            self.wake();
        }
    }

    pub(crate) fn has_reports(&self) -> bool {
        locked(&self.now).as_ref().is_some_and(|now| !now.settled.is_empty())
    }

    /// The oldest reports, at most `limit`.
    pub(crate) fn take_reports(&self, limit: usize) -> Vec<Settled> {
        let mut now = locked(&self.now);
        let Some(settled) = now.as_mut().map(|now| &mut now.settled) else { return Vec::new() };
        let later = settled.split_off(settled.len().min(limit));
        std::mem::replace(settled, later)
    }

    /// Has the dispatcher look what there is to do.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn woken(&self) -> Notified<'_> {
        self.wake.notified()
    }

    /// The settle loop begins, perhaps anew: nothing is being written.
    pub(crate) fn no_write_is_under_way(&self) {
        self.writes[1].store(self.writes_begun(), Ordering::Release);
    }

    pub(crate) fn write_begins(&self) {
        self.writes[0].fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn write_is_over(&self) {
        self.writes[1].fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn writes_begun(&self) -> u64 {
        self.writes[0].load(Ordering::Acquire)
    }

    /// Writes are reported in the order they began in: all up to this one have been.
    pub(crate) fn writes_reported(&self) -> u64 {
        self.writes[1].load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use turnwise_core::{Fence, JobId};

    use super::*;

    fn end() -> Vec<Settled> {
        let id = JobId::from_parts(1, [0; 10]);
        vec![Settled { id, fence: Fence(1), ran: None, rest: None, failed: true, well: false, error: None }]
    }

    #[test]
    fn what_is_written_between_two_terms_of_one_epoch_is_reported_to_the_second() {
        let term = Term::default();
        term.begin(Epoch(4));
        let first = term.epoch();
        term.report(first, end());
        term.end();
        assert_eq!(term.epoch(), None, "ends that are begun to be written now are news");
        term.report(first, end());
        term.begin(Epoch(4));
        assert_eq!(term.take_reports(usize::MAX).len(), 2);
        term.report(first, end());
        term.end();
        term.begin(Epoch(5));
        term.report(first, end());
        assert!(!term.has_reports(), "another epoch reads them as news");
    }
}
