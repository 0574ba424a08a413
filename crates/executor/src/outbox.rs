//! Ends of runs on their way to the store, and what else the settle loop has to write.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, futures::Notified, oneshot},
    time::Instant,
};
use turnwise_core::{Fence, JobId, Timestamp, job::AssignedJob, lifecycle::Outcome, story::Finished};

use crate::{lock::locked, run::Run};

/// Results and errors in one settlement, about.
const SETTLE_BYTES: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Outbox {
    waiting: Mutex<VecDeque<Outgoing>>,
    /// Rung for the settle loop.
    wake: Notify,
    /// Ends that cannot be written now, and since when they wait.
    put_off: Mutex<Vec<(Instant, Outgoing)>>,
    /// Ends that are written at once, at most.
    batch: usize,
    /// The same, for now. Fewer after a panic, so that the end that causes it is soon alone.
    limit: AtomicUsize,
}

/// What the settle loop has to write.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Ended(Ended),
    /// A suspect is about to start: write `running` first, then say whether it may.
    Begin {
        job: Arc<AssignedJob>,
        may_start: oneshot::Sender<bool>,
    },
    /// A step is finished: write its result, then say whether the run may go on.
    Step {
        job: Arc<AssignedJob>,
        step: Finished,
        answer: oneshot::Sender<StepAnswer>,
    },
}

/// What became of a step's result.
#[derive(Debug)]
pub(crate) enum StepAnswer {
    Written,
    /// The job is in other hands.
    Superseded,
    /// The store cannot take it as it is.
    Broken(String),
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) job: Arc<AssignedJob>,
    /// What the run has said and is not written yet.
    pub(crate) run: Option<Arc<Run>>,
    pub(crate) outcome: Outcome,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    pub(crate) panicked: PanickedWrites,
}

/// Writes of an end that panicked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PanickedWrites {
    /// There was one: the end may be in the store already.
    pub(crate) any: bool,
    /// Those that wrote nothing else.
    pub(crate) alone: u32,
}

impl Ended {
    /// A job that goes back without having begun.
    pub(crate) fn unbegun(job: Arc<AssignedJob>) -> Self {
        let (started_at, finished_at, panicked) = (None, None, PanickedWrites::default());
        Self { job, run: None, outcome: Outcome::Interrupted, started_at, finished_at, panicked }
    }
}

impl Outgoing {
    /// The job and fence whose end or begin this is; a step is neither.
    pub(crate) fn ends(&self) -> Option<(JobId, Fence)> {
        match self {
            Outgoing::Ended(Ended { job, .. }) | Outgoing::Begin { job, .. } => Some((job.id, job.fence)),
            Outgoing::Step { .. } => None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Outgoing::Ended(Ended { outcome: Outcome::Done { result: Some(result) }, .. }) => result.as_str().len(),
            Outgoing::Ended(Ended { outcome: Outcome::Next { step, .. }, .. }) => step.args.as_str().len(),
            Outgoing::Step { step, .. } => step.result.as_str().len(),
            // At most a few thousand bytes of error.
            _ => 0,
        }
    }
}

impl Outbox {
    pub(crate) fn new(batch: usize) -> Self {
        let (waiting, wake, put_off) = (Mutex::default(), Notify::new(), Mutex::default());
        Self { waiting, wake, put_off, batch, limit: AtomicUsize::new(batch) }
    }

    pub(crate) fn send(&self, outgoing: Outgoing) {
        let mut waiting = locked(&self.waiting);
        waiting.push_back(outgoing);
        let count = waiting.len();
        drop(waiting);
        // The settle loop looks again after each write and each sweep: only the first is news, and the one that fills a batch.
        if count == 1 || count == self.batch {
            self.wake();
        }
    }

    /// What was taken to be written and was not. Behind all others: it may be why.
    pub(crate) fn send_again(&self, unwritten: impl Iterator<Item = Outgoing>) {
        locked(&self.waiting).extend(unwritten);
        self.wake();
    }

    /// Has the settle loop look what there is to write.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn woken(&self) -> Notified<'_> {
        self.wake.notified()
    }

    /// The next ends to write: as many as may be written at once, and no more than fit in one statement.
    pub(crate) fn take(&self) -> Vec<Outgoing> {
        let mut waiting = locked(&self.waiting);
        let mut bytes = 0;
        let fits = waiting.iter().take(self.limit.load(Ordering::Relaxed)).take_while(|outgoing| {
            let before = bytes;
            bytes += outgoing.bytes();
            before < SETTLE_BYTES
        });
        let count = fits.count();
        waiting.drain(..count).collect()
    }

    pub(crate) fn has_a_full_batch(&self) -> bool {
        locked(&self.waiting).len() >= self.batch
    }

    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.waiting).is_empty()
    }

    /// So many together could not be written.
    pub(crate) fn write_fewer(&self, together: usize) {
        self.limit.fetch_min((together / 2).max(1), Ordering::Relaxed);
    }

    pub(crate) fn write_more(&self) {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit < self.batch {
            self.limit.store((limit * 2).min(self.batch), Ordering::Relaxed);
        }
    }

    /// They are still in this node's hands, and are tried again later.
    pub(crate) fn put_off(&self, ends: Vec<Outgoing>) {
        let since = Instant::now();
        locked(&self.put_off).extend(ends.into_iter().map(|end| (since, end)));
    }

    /// Those that have waited for `long`.
    pub(crate) fn take_put_off(&self, long: Duration) -> Vec<Outgoing> {
        let mut put_off = locked(&self.put_off);
        let due = |(since, what): &mut (Instant, Outgoing)| {
            // A run waits for its step.
            since.elapsed() >= long || matches!(what, Outgoing::Step { .. })
        };
        put_off.extract_if(.., due).map(|(_, end)| end).collect()
    }

    pub(crate) fn take_all_put_off(&self) -> Vec<Outgoing> {
        locked(&self.put_off).drain(..).map(|(_, end)| end).collect()
    }
}
