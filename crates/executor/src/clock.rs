//! The database's time between two replies: its last word plus what has passed here since.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use tokio::time::Instant;
use turnwise_core::Timestamp;

/// Further back than any reply is slow, in micros.
const SET_BACK: i64 = 5_000_000;
/// How far one reply may move the time back, in micros: two clocks drift apart by less.
const DRIFT: i64 = 20;

#[derive(Debug)]
pub(crate) struct DatabaseClock {
    base: Instant,
    /// Database time at `base`, in micros.
    offset: AtomicI64,
    /// Nothing passes here between two replies.
    still: bool,
}

impl DatabaseClock {
    pub(crate) fn new(still: bool) -> Self {
        let system = turnwise_store::memory::Clock::system().now();
        // Until the database is heard, this machine's own time; behind rather than ahead of what it will say.
        Self { base: Instant::now(), offset: AtomicI64::new(system.micros() - 2 * SET_BACK), still }
    }

    /// A reply carried this time. It was true before the reply came, by the time that took: of several replies the one
    /// that says the latest time is the closest. A clock that was set back is followed all the same, at once if it was by
    /// much and slowly if it may have been a slow reply.
    pub(crate) fn heard(&self, now: Timestamp) {
        let heard = now.micros() - self.since_base();
        let known = self.offset.load(Ordering::Relaxed);
        let back = known - heard;
        let offset = if back <= 0 || back > SET_BACK || self.still { heard } else { known - back.min(DRIFT) };
        self.offset.store(offset, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.offset.load(Ordering::Relaxed) + self.since_base())
    }

    /// Whether time passes only when the store says so.
    pub(crate) fn is_still(&self) -> bool {
        self.still
    }

    /// How long it is until `moment`, by local time.
    pub(crate) fn until(&self, moment: Timestamp) -> Duration {
        moment.since(self.now())
    }

    fn since_base(&self) -> i64 {
        if self.still {
            return 0;
        }
        i64::try_from(self.base.elapsed().as_micros()).unwrap_or(i64::MAX)
    }
}
