//! Whether this node is in contact with the database, since when, and what follows from that.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::{clock::DatabaseClock, lock::locked};

/// How well the database has answered one life of a node.
#[derive(Debug)]
pub(crate) struct Contact {
    lease: Duration,
    heard: Mutex<Heard>,
    lost: AtomicBool,
}

#[derive(Debug, Clone, Copy)]
struct Heard {
    /// When the last beat that succeeded was sent.
    last: Instant,
    /// Since when no gap was as long as a lease.
    since: Instant,
}

impl Contact {
    pub(crate) fn new(lease: Duration, joined: Instant) -> Self {
        let heard = Heard { last: joined, since: joined };
        Self { lease, heard: Mutex::new(heard), lost: AtomicBool::new(false) }
    }

    /// A beat that was `sent` then has been answered.
    pub(crate) fn heard(&self, sent: Instant) {
        let mut heard = locked(&self.heard);
        if sent.duration_since(heard.last) > self.lease {
            heard.since = sent;
        }
        heard.last = sent;
    }

    /// The database took commits back, beats among them: a lease that seems over may have been prolonged.
    pub(crate) fn begins_anew(&self) {
        locked(&self.heard).since = Instant::now();
    }

    /// How long ago the last beat was sent that was answered.
    pub(crate) fn age(&self) -> Duration {
        locked(&self.heard).last.elapsed()
    }

    /// Whether the lease still runs, by this machine's own monotonic clock.
    pub(crate) fn holds(&self) -> bool {
        locked(&self.heard).last.elapsed() < self.lease
    }

    /// When runs that a limit counts are to be stopped, unless the database answers before: while the lease still runs, so that
    /// they have stopped when other nodes may run the jobs.
    pub(crate) fn doubt_at(&self) -> Instant {
        locked(&self.heard).last + self.lease * 4 / 5
    }

    /// Since when the database has answered this node without a gap, and its clock was not changed. The silence of another node
    /// that began earlier counts from then on.
    pub(crate) fn steady_since(&self, clock: &DatabaseClock) -> Duration {
        clock.at(locked(&self.heard).since).max(clock.steady_since())
    }

    /// Whether that has lasted a full lease: only then may other nodes be declared lost.
    pub(crate) fn is_long(&self, clock: &DatabaseClock) -> bool {
        let steady = clock.monotonic().saturating_sub(self.steady_since(clock));
        self.holds() && steady >= self.lease
    }

    /// The fleet has declared this node lost, or it has left.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }
}
