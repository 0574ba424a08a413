//! The database's time between two replies: the time of its last reply plus what has passed here since.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use turnwise_core::{Timestamp, lead};

use crate::lock::locked;

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
    /// The lease of this node: by more than half of it the clock does not move without having been changed.
    lease: Duration,
    steady: Mutex<Steady>,
}

/// Whether the database's clock goes as fast as the one here.
#[derive(Debug, Default)]
struct Steady {
    /// How far ahead it was, in micros, and when. Not as of the last reply: several small changes in a row are a large one.
    known: Option<(i64, Duration)>,
    /// Since when it was not changed.
    since: Duration,
}

impl DatabaseClock {
    pub(crate) fn new(still: bool, lease: Duration) -> Self {
        let system = turnwise_store::memory::Clock::system().now();
        // Until the database has replied, this machine's own time; behind rather than ahead of what the reply will carry.
        let offset = AtomicI64::new(system.micros() - 2 * SET_BACK);
        Self { base: Instant::now(), offset, still, lease, steady: Mutex::default() }
    }

    /// A reply carried this time. It is as old as the reply took to arrive: of several replies the one with the latest time is
    /// the closest. A database clock that was set back is followed all the same: at once if it was by much, slowly if it may
    /// only have been a slow reply.
    pub(crate) fn heard(&self, now: Timestamp) {
        let heard = now.micros() - self.since_base();
        let known = self.offset.load(Ordering::Relaxed);
        let back = known - heard;
        let jumped = self.jumped(heard, known);
        let follow = back <= 0 || back > SET_BACK || jumped || self.still;
        self.offset.store(if follow { heard } else { known - back.min(DRIFT) }, Ordering::Relaxed);
    }

    /// Whether the reply shows that the database's clock was changed; noted before the new time is used.
    fn jumped(&self, heard: i64, known: i64) -> bool {
        if self.still {
            return false;
        }
        let mut steady = locked(&self.steady);
        let at = self.monotonic();
        match steady.known {
            Some((before, _)) if lead::jumped(before, heard, self.lease) => {
                tracing::warn!(
                    "the database's clock was changed, or its replies take very long; no node is declared lost for a lease"
                );
                *steady = Steady { known: Some((heard, at)), since: at };
                true
            }
            Some((_, since)) if at.saturating_sub(since) < self.lease => false,
            Some(_) => {
                steady.known = Some((known.max(heard), at));
                false
            }
            None => {
                steady.known = Some((heard, at));
                false
            }
        }
    }

    /// What has passed here since this clock was made.
    pub(crate) fn monotonic(&self) -> Duration {
        self.base.elapsed()
    }

    pub(crate) fn at(&self, moment: Instant) -> Duration {
        moment.saturating_duration_since(self.base)
    }

    /// Since when the database's clock was not changed, as far as this node knows.
    pub(crate) fn steady_since(&self) -> Duration {
        locked(&self.steady).since
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.offset.load(Ordering::Relaxed) + self.since_base())
    }

    /// Whether time passes only as the store's clock does.
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
