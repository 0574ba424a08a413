//! The slots of a pool, where there may be more or fewer of them. How many are open is decided by core.

use std::time::Duration;

use tokio::time::Instant;
use turnwise_core::{
    estimate,
    pool::{self, Pool},
};

#[derive(Debug)]
pub(super) struct Slots {
    pool: Pool,
    open: u32,
    running: u32,
    cost: Option<Duration>,
    /// Since when fewer run than there are slots at rest.
    rests_since: Option<Instant>,
}

impl Slots {
    pub(super) fn new(pool: Pool) -> Self {
        Self { open: pool.core, pool, running: 0, cost: None, rests_since: None }
    }

    pub(super) fn open(&self) -> u32 {
        self.open
    }

    /// Whether one more job may begin.
    pub(super) fn any_free(&self) -> bool {
        self.pool.fixed() || self.running < self.open
    }

    pub(super) fn take(&mut self) {
        if self.pool.fixed() {
            return;
        }
        self.running += 1;
        if self.running >= self.pool.core {
            self.rests_since = None;
        }
    }

    /// A worker is through with a job that took this long.
    pub(super) fn free(&mut self, ran: Duration) {
        if self.pool.fixed() {
            return;
        }
        self.running -= 1;
        self.cost = Some(estimate::learn(self.cost, ran));
        if self.running < self.pool.core {
            self.rests_since.get_or_insert_with(Instant::now);
        }
    }

    /// Opens or closes slots, as core decides. Returns how many there were, if that has changed.
    pub(super) fn resize(&mut self, buffered: usize, bytes: u64) -> Option<u32> {
        if self.pool.fixed() {
            return None;
        }
        let at_rest = self.rests_since.map_or(Duration::ZERO, |since| since.elapsed());
        let seen = pool::Seen { open: self.open, running: self.running, buffered, bytes, cost: self.cost, at_rest };
        let before = std::mem::replace(&mut self.open, self.pool.open(&seen));
        (before != self.open).then_some(before)
    }
}
