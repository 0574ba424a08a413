//! Submits that come while others are being written travel together: one statement and one commit for all of them.
//!
//! No submit waits for others to join it. The first is written at once; those that come meanwhile share the next statement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use tokio::sync::oneshot;
use turnwise_core::NewJob;
use turnwise_store::{Result, StoreError, Submitted};

use crate::{
    enqueue::{self, CHUNK_BYTES, Unstored},
    store::Inner,
};

/// Submits of at most this many jobs may travel with others.
const SMALL: usize = 100;
/// Jobs of one statement; of their arguments it has [`CHUNK_BYTES`] at most.
const MOST: usize = 1_000;
/// Statements under way at a time: one is picked up while the other waits for its commit.
const LINES: usize = 2;

#[derive(Debug, Default)]
pub(crate) struct Gather {
    callers: Mutex<Callers>,
}

/// Those whose submits wait, and the lines that are open for them.
#[derive(Debug, Default)]
struct Callers {
    waiting: Vec<Submit>,
    lines: usize,
}

#[derive(Debug)]
struct Submit {
    jobs: Vec<NewJob>,
    reply: oneshot::Sender<Result<Vec<Submitted>>>,
}

/// Whether it may share a statement: a unique key may have to be waited for, and a job that waits for others, or a list that is too long,
/// takes more statements.
pub(crate) fn may_travel(jobs: &[NewJob]) -> bool {
    let fits = jobs.len() <= SMALL && enqueue::bytes(jobs) <= CHUNK_BYTES;
    fits && jobs.iter().all(|job| job.unique.is_none() && job.after.is_empty())
}

pub(crate) async fn enqueue(store: &Arc<Inner>, jobs: Vec<NewJob>) -> Result<Vec<Submitted>> {
    let (reply, answer) = oneshot::channel();
    if store.gather.join(Submit { jobs, reply }) {
        // A task of its own: a caller that goes away, or is slow to poll, must not hold up the others.
        tokio::spawn(write_all(Arc::clone(store)));
    }
    answer.await.map_err(|error| StoreError::transient("enqueue", error))?
}

impl Gather {
    fn callers(&self) -> MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a line is to be opened for it.
    fn join(&self, submit: Submit) -> bool {
        let mut callers = self.callers();
        callers.waiting.push(submit);
        let open = callers.lines < LINES;
        callers.lines += usize::from(open);
        open
    }
}

/// Statements that follow one another.
struct Line<'a> {
    gather: &'a Gather,
    open: bool,
}

impl Line<'_> {
    /// The submits of the next statement. If there are none the line is closed, under the same lock: the next submit opens another.
    fn next(&mut self) -> Vec<Submit> {
        let mut callers = self.gather.callers();
        let (mut jobs, mut bytes) = (0, 0);
        // Each submit fits by itself.
        let fits = |submit: &&Submit| {
            jobs += submit.jobs.len();
            bytes += enqueue::bytes(&submit.jobs);
            jobs <= MOST && bytes <= CHUNK_BYTES
        };
        let count = callers.waiting.iter().take_while(fits).count();
        if count == 0 {
            self.open = false;
            callers.lines -= 1;
        }
        callers.waiting.drain(..count).collect()
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if self.open {
            // A panic, or the end of the runtime. Without any line, submits that wait get a transient error.
            let mut callers = self.gather.callers();
            callers.lines -= 1;
            if callers.lines == 0 {
                callers.waiting.clear();
            }
        }
    }
}

async fn write_all(store: Arc<Inner>) {
    let mut line = Line { gather: &store.gather, open: true };
    loop {
        let submits = line.next();
        if submits.is_empty() {
            return;
        }
        write(&store, submits).await;
    }
}

async fn write(store: &Arc<Inner>, submits: Vec<Submit>) {
    match enqueue::enqueue_small(store, submits.iter().flat_map(|submit| &submit.jobs)).await {
        Ok(replies) => {
            let mut replies = replies.into_iter();
            for Submit { jobs, reply } in submits {
                answer(reply, Ok(replies.by_ref().take(jobs.len()).collect()));
            }
        }
        // Each alone, beside the line: a submit that is refused, or waits for another open transaction, does not affect the others.
        Err(Unstored::One(_)) if submits.len() > 1 => {
            let store = Arc::clone(store);
            tokio::spawn(async move { join_all(submits.into_iter().map(|submit| write_alone(&store, submit))).await });
        }
        Err(Unstored::One(error) | Unstored::All(error)) => {
            let copy = copies(error);
            submits.into_iter().for_each(|submit| answer(submit.reply, Err(copy())));
        }
    }
}

async fn write_alone(store: &Inner, Submit { jobs, reply }: Submit) {
    let stored = enqueue::enqueue_small(store, jobs.iter()).await;
    answer(reply, stored.map_err(|(Unstored::One(error) | Unstored::All(error))| error));
}

/// The same error for all of them.
fn copies(error: StoreError) -> impl Fn() -> StoreError {
    move || match &error {
        StoreError::Transient { what, source } => StoreError::transient(what, source.to_string()),
        StoreError::Refused(text) => StoreError::Refused(text.clone()),
        other => StoreError::broken("enqueue", other.to_string()),
    }
}

fn answer(reply: oneshot::Sender<Result<Vec<Submitted>>>, result: Result<Vec<Submitted>>) {
    // A caller that has gone away can safely repeat its submit.
    let _ = reply.send(result);
}
