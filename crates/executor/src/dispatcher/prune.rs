//! Deleting what is kept no longer.

use std::time::Duration;

use tokio::time::Instant;
use turnwise_core::watch::Looks;
use turnwise_store::{Cursor, StoreError};

use super::Dispatcher;

/// How often, and how many rows at a time.
const INTERVAL: Duration = Duration::from_secs(30);
const ROWS: u32 = 10_000;
/// Where nothing was given out since.
const QUIET_INTERVAL: Duration = Duration::from_secs(300);

#[derive(Debug)]
pub(super) struct Pruning {
    next: Instant,
    /// Till then there is hardly anything to delete, unless something is given out.
    quiet_until: Instant,
    /// Jobs that had been given out the last time.
    given_before: u64,
    /// How far the news had been read: changes are kept for watchers a while longer.
    looks: Looks<Cursor>,
}

impl Pruning {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { next: now + INTERVAL, quiet_until: now + QUIET_INTERVAL, given_before: 0, looks: Looks::default() }
    }

    pub(super) fn next_time(&self) -> Instant {
        self.next
    }
}

impl Dispatcher<'_> {
    pub(super) async fn prune_if_due(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        if now < self.pruning.next {
            return Ok(());
        }
        self.pruning.next = now + INTERVAL;
        if self.rounds.given() == self.pruning.given_before && now < self.pruning.quiet_until {
            return Ok(());
        }
        (self.pruning.quiet_until, self.pruning.given_before) = (now + QUIET_INTERVAL, self.rounds.given());
        let (time, seen) = (self.life.node.clock.now(), self.seen_to());
        let looks = &mut self.pruning.looks;
        seen.into_iter().for_each(|cursor| looks.note(time, cursor));
        match self.life.store.prune(looks.deletable(time).cloned(), ROWS).await {
            Ok(rows) => {
                if rows >= u64::from(ROWS) {
                    (self.pruning.quiet_until, self.pruning.next) = (now, now);
                }
                Ok(())
            }
            Err(error) if error.is_transient() => Ok(()),
            Err(error) => Err(error),
        }
    }
}
