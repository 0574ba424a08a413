//! The database's time between two replies: its last word plus what has passed here since.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::{Duration, Instant},
};

use turnwise_core::Timestamp;

#[derive(Debug)]
pub(crate) struct DatabaseClock {
    base: Instant,
    /// Database time at `base`, in micros.
    offset: AtomicI64,
}

impl DatabaseClock {
    pub(crate) fn new() -> Self {
        let clock = Self { base: Instant::now(), offset: AtomicI64::new(0) };
        clock.heard(turnwise_store::memory::Clock::system().now());
        clock
    }

    /// A reply carried this time.
    pub(crate) fn heard(&self, now: Timestamp) {
        self.offset.store(now.micros() - self.since_base(), Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.offset.load(Ordering::Relaxed) + self.since_base())
    }

    /// How long it is until `moment`, by local time.
    pub(crate) fn until(&self, moment: Timestamp) -> Duration {
        moment.since(self.now())
    }

    fn since_base(&self) -> i64 {
        i64::try_from(self.base.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}
