//! What a task hands over to be done at its end, in the transaction that settles it: all of it is there, or nothing.
//!
//! There is one writer, so a task cannot keep a transaction open while it works. What it has to write is done on the
//! writer's thread, and no other write runs meanwhile.

use std::{
    convert::Infallible,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rusqlite::{Connection, InterruptHandle};
use tokio::sync::{Notify, oneshot};
use turnwise_core::{Fence, JobId, Retention, Timestamp, story::Progress};
use turnwise_store::{Author, Closed, Closing, Keeps, Last, Note, Settle, Settled, Store, StoreError, Undone};

use crate::{SqliteStore, bell::Ring, errors::Failure, settle, story};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Work = Box<dyn FnOnce(&Connection, Timestamp) -> Result<(), BoxError> + Send>;

/// The time between two checks of what became of a commit.
const LOOK: Duration = Duration::from_millis(100);

/// Work to be done in the transaction that settles a run.
pub struct AtEnd {
    store: SqliteStore,
    work: Work,
    progress: Option<Progress>,
    limit: Option<Duration>,
}

impl fmt::Debug for AtEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AtEnd").finish_non_exhaustive()
    }
}

impl AtEnd {
    /// `work` gets the writer's own connection, inside a transaction that it must not end, and the store's time.
    pub fn new(
        store: SqliteStore,
        progress: Option<Progress>,
        work: impl FnOnce(&Connection, Timestamp) -> Result<(), BoxError> + Send + 'static,
    ) -> Self {
        Self { store, work: Box::new(work), progress, limit: None }
    }

    /// Its statements are interrupted when it has taken this long, and nothing of it is there. What it does besides is not.
    #[must_use]
    pub fn within(self, limit: Option<Duration>) -> Self {
        Self { limit, ..self }
    }
}

#[async_trait::async_trait]
impl Closing for AtEnd {
    async fn settle(self: Box<Self>, mut last: Last) -> Closed {
        if last.settlement.saw_cancel {
            self.roll_back().await;
            return Closed::Refused(Settled::CancelRequested);
        }
        let Self { store, work, progress, limit } = *self;
        let (job, fence) = (last.settlement.job, last.settlement.fence);
        if progress.is_some() {
            let nothing = || Note { job, fence, progress: None, lines: Vec::new(), trim: false, steps: Vec::new() };
            last.note.get_or_insert_with(nothing).progress = progress;
        }
        let Keeps { retention, log_lines: keep } = store.keeps();
        let last = Arc::new(last);
        // Until it is done it may be sent again.
        let work = Arc::new(Mutex::new(Some(work)));
        let bound = Arc::new(Bound { limit, ..Bound::default() });
        loop {
            let (refuse, why) = oneshot::channel();
            let (todo, last, bounded) = (Arc::clone(&work), Arc::clone(&last), Arc::clone(&bound));
            let writing = store.write_for_a_task(move |conn, now| {
                end(conn, &last, &todo, &bounded, retention, keep, now).map_err(|why| match why {
                    Why::Store(failure) => failure,
                    Why::Closed(closed) => {
                        // A caller that is gone needs no reason.
                        let _ = refuse.send(closed);
                        StoreError::broken("close", "the end was refused").into()
                    }
                })
            });
            let written = tokio::select! {
                biased;
                written = writing => written,
                never = bound.keep() => match never {},
            };
            match (written, why.await) {
                (Ok(()), _) => return Closed::Committed,
                (Err(_), Ok(closed)) => return closed,
                (Err(error), Err(_)) if error.is_transient() && locked(&work).is_some() => {
                    tracing::warn!(%error, %job, "could not write its end; trying again");
                    tokio::time::sleep(LOOK).await;
                }
                (Err(error), Err(_)) => return find_out(&store, job, fence, error).await,
            }
        }
    }

    async fn roll_back(self: Box<Self>) -> Undone {
        Undone::Asked
    }
}

/// The thread has answered, so nothing is in flight any more: the file shows what became of it.
async fn find_out(store: &SqliteStore, job: JobId, fence: Fence, error: StoreError) -> Closed {
    loop {
        match store.job(job).await {
            Ok(Some(now)) if now.fence == fence && now.state.assigned() => {
                return if error.is_transient() { Closed::NotNow(error.into()) } else { Closed::Failed(error.into()) };
            }
            Ok(Some(now)) if now.fence != fence => return Closed::Refused(Settled::Superseded),
            Ok(_) => return Closed::Committed,
            Err(error) => tracing::warn!(%error, %job, "it is not known yet whether its end was committed"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Nothing is done under this lock but to look and to take.
fn locked(work: &Mutex<Option<Work>>) -> MutexGuard<'_, Option<Work>> {
    work.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long what was handed over may take. It is watched from outside: the thread that writes is busy with it.
#[derive(Default)]
struct Bound {
    limit: Option<Duration>,
    begun: Notify,
    /// Set only while it is at work: no other caller's statement is ever interrupted.
    at_work: Mutex<Option<InterruptHandle>>,
    late: AtomicBool,
}

impl Bound {
    /// Does `work`; `Err`: it took too long.
    fn hold<T>(&self, conn: &Connection, work: impl FnOnce() -> T) -> Result<T, Duration> {
        let Some(limit) = self.limit else { return Ok(work()) };
        *self.at_work() = Some(conn.get_interrupt_handle());
        self.begun.notify_one();
        let done = work();
        *self.at_work() = None;
        if self.late.load(Ordering::SeqCst) { Err(limit) } else { Ok(done) }
    }

    async fn keep(&self) -> Infallible {
        let Some(limit) = self.limit else { return std::future::pending().await };
        self.begun.notified().await;
        tokio::time::sleep(limit).await;
        loop {
            if let Some(statement) = &*self.at_work() {
                self.late.store(true, Ordering::SeqCst);
                statement.interrupt();
            }
            // Between two statements nothing is interrupted, and one that is may be followed by another.
            tokio::time::sleep(LOOK).await;
        }
    }

    fn at_work(&self) -> MutexGuard<'_, Option<InterruptHandle>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Why {
    Store(Failure),
    Closed(Closed),
}

impl<E: Into<Failure>> From<E> for Why {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

/// The fence first: nothing is done for a run whose job is in other hands.
fn end(
    conn: &Connection,
    last: &Last,
    work: &Mutex<Option<Work>>,
    bound: &Bound,
    retention: Retention,
    keep: u32,
    now: Timestamp,
) -> Result<((), Ring), Why> {
    if let Some(note) = &last.note {
        story::note(conn, last.node, std::slice::from_ref(note), keep)?;
    }
    let author = Author::Node { node: last.node, told: last.told };
    let settle = Settle { author, settlements: vec![last.settlement.clone()], done: Vec::new() };
    let (replies, written) = settle::settle(conn, &settle, retention, now)?;
    match replies.first() {
        Some(Settled::Applied) if written => {}
        // Settled before, by a settle that did not wait for this run.
        Some(Settled::Applied) | None => return Err(Why::Closed(Closed::Refused(Settled::Superseded))),
        Some(reply) => return Err(Why::Closed(Closed::Refused(*reply))),
    }
    let work = locked(work).take().ok_or_else(|| StoreError::broken("close", "it is done already"))?;
    let done = bound.hold(conn, || catch_unwind(AssertUnwindSafe(|| work(conn, now))));
    match done.map_err(|limit| Why::Closed(Closed::TimedOut { limit }))? {
        Ok(Ok(())) if conn.is_autocommit() => {
            let why =
                "what was handed over for the end ended the transaction itself, or ignored that it was taken back";
            Err(Why::Store(StoreError::broken("close", why).into()))
        }
        Ok(Ok(())) => Ok(((), Ring { news: true, ..Ring::NONE })),
        Ok(Err(error)) => Err(Why::Closed(Closed::Failed(error))),
        Err(panic) => Err(Why::Closed(Closed::Panicked(panic))),
    }
}
