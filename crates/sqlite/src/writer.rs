//! The one writer. SQLite has one at a time anyway; here it is a thread that takes whole transactions from a line and
//! commits all that stand in it at once: one fsync for many callers, and none of them waits for a timer.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
};

use rusqlite::{Connection, ffi};
use tokio::sync::{mpsc, oneshot};
use turnwise_core::Timestamp;
use turnwise_store::{Bell, Result, StoreError, memory::Clock};

use crate::{
    bell::Ring,
    errors::{Failure, explain},
    location::Location,
    open_file::OpenFile,
};

/// Most transactions in one commit. More would not save much of an fsync, and make the first caller wait for the last.
const MAX_BATCH: usize = 256;

type Committed = std::result::Result<(), Arc<rusqlite::Error>>;

/// The writer's end of the line, as callers see it.
#[derive(Debug)]
pub(crate) struct Writer {
    line: Worker<Box<dyn Request>>,
    bell: Bell,
    clock: Clock,
}

impl Writer {
    /// `unready`: the file is to be made ready before the first write, and stays as it is until then.
    pub(crate) fn start(
        conn: Connection,
        mut unready: Option<Location>,
        mut place: OpenFile,
        bell: Bell,
        clock: Clock,
    ) -> Result<Self> {
        // One batch may fill while another is written; further callers wait for room in the line.
        let line = Worker::start("turnwise-writer", MAX_BATCH, move |mut inbox: mpsc::Receiver<Box<dyn Request>>| {
            let mut left_over = None;
            while let Some(first) = left_over.take().or_else(|| inbox.blocking_recv()) {
                let mut batch = vec![first];
                while batch.len() < MAX_BATCH
                    && !batch[0].alone()
                    && let Ok(next) = inbox.try_recv()
                {
                    if next.alone() {
                        left_over = Some(next);
                        break;
                    }
                    batch.push(next);
                }
                write_batch(&conn, &mut unready, &mut place, batch);
            }
        })?;
        Ok(Self { line, bell, clock })
    }

    /// Does `work` in a transaction and answers when it is committed; then the bells it names are rung. On `Err`,
    /// nothing of it was written, or it is not known whether it was ([`StoreError::Transient`]).
    pub(crate) async fn write<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection, Timestamp) -> std::result::Result<(T, Ring), Failure> + Send + 'static,
    {
        self.send(false, work).await
    }

    /// As [`write`](Self::write), in a commit of its own: work whose commit may fail must not make others' fail. A
    /// deferred foreign key, for example, is only checked at the commit.
    pub(crate) async fn write_alone<T, W>(&self, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection, Timestamp) -> std::result::Result<(T, Ring), Failure> + Send + 'static,
    {
        self.send(true, work).await
    }

    async fn send<T, W>(&self, alone: bool, work: W) -> Result<T>
    where
        T: Send + 'static,
        W: FnOnce(&Connection, Timestamp) -> std::result::Result<(T, Ring), Failure> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let clock = self.clock.clone();
        let work = Some(move |conn: &Connection| work(conn, clock.now()));
        self.line.send(Box::new(Transaction { alone, work, result: None, reply, bell: self.bell.clone() })).await?;
        answer.await.map_err(|_| StoreError::broken("write to the database", "the transaction panicked"))?
    }
}

/// One caller's transaction on its way.
trait Request: Send {
    /// Whether it must have a commit of its own.
    fn alone(&self) -> bool;

    /// Does the work. `false`: it failed, and is to be undone.
    fn run(&mut self, conn: &Connection) -> bool;

    fn answer(self: Box<Self>, committed: &Committed);
}

struct Transaction<T, W> {
    alone: bool,
    work: Option<W>,
    result: Option<Result<(T, Ring)>>,
    reply: oneshot::Sender<Result<T>>,
    bell: Bell,
}

impl<T, W> Request for Transaction<T, W>
where
    T: Send,
    W: FnOnce(&Connection) -> std::result::Result<(T, Ring), Failure> + Send,
{
    fn alone(&self) -> bool {
        self.alone
    }

    fn run(&mut self, conn: &Connection) -> bool {
        let Some(work) = self.work.take() else { return false };
        // A panic is a bug, but this caller's alone: the thread and its neighbours in the batch go on.
        self.result = catch_unwind(AssertUnwindSafe(|| work(conn).map_err(StoreError::from))).ok();
        matches!(self.result, Some(Ok(_)))
    }

    fn answer(self: Box<Self>, committed: &Committed) {
        let reply = match (self.result, committed) {
            (Some(Ok((value, ring))), Ok(())) => {
                ring.ring(&self.bell);
                Ok(value)
            }
            (Some(Err(error)), _) => Err(error),
            (_, Err(error)) => Err(explain(Arc::clone(error))),
            // It panicked: the caller gets an error, because its reply is dropped.
            (None, Ok(())) => return,
        };
        // A caller that has gone away can safely repeat its request.
        let _ = self.reply.send(reply);
    }
}

fn write_batch(
    conn: &Connection,
    unready: &mut Option<Location>,
    place: &mut OpenFile,
    mut batch: Vec<Box<dyn Request>>,
) {
    let committed =
        make_ready(conn, unready, place).and_then(|()| run_batch(conn, place, &mut batch)).map_err(Arc::new);
    if committed.is_err()
        && !conn.is_autocommit()
        && let Err(error) = conn.execute_batch("rollback")
    {
        tracing::warn!(%error, "a transaction could not be rolled back");
    }
    for request in batch {
        request.answer(&committed);
    }
}

fn make_ready(conn: &Connection, unready: &mut Option<Location>, place: &mut OpenFile) -> rusqlite::Result<()> {
    if let Some(location) = unready {
        location.begin_writing(conn)?;
        place.remember_log(location);
        *unready = None;
    }
    Ok(())
}

fn run_batch(conn: &Connection, place: &OpenFile, batch: &mut [Box<dyn Request>]) -> rusqlite::Result<()> {
    let execute = |sql| conn.prepare_cached(sql)?.execute(()).map(drop);
    let commit = || {
        place.check()?;
        execute("commit")?;
        // What was committed into a log that was deleted meanwhile must not be answered as done.
        place.check()
    };
    // Immediate: the lock is taken, and waited for, before anything is read. A transaction that only found out at its
    // first write that another process had written could not be saved any more.
    execute("begin immediate")?;
    if let [request] = batch {
        // No other request's work has to outlive its failure: a savepoint would keep a copy of each page for nothing.
        let keep = run(conn, request)?;
        return if keep { commit() } else { execute("rollback") };
    }
    for request in batch {
        execute("savepoint request")?;
        if !run(conn, request)? {
            execute("rollback to request")?;
        }
        execute("release request")?;
    }
    commit()
}

/// Whether what it did is to be kept.
fn run(conn: &Connection, request: &mut Box<dyn Request>) -> rusqlite::Result<bool> {
    let keep = request.run(conn);
    if conn.is_autocommit() {
        // A full disk and the like take the whole transaction back, the neighbours' work with it.
        let text = "another request of the same commit failed and took it back".to_owned();
        return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ABORT), Some(text)));
    }
    Ok(keep)
}

/// A thread that serves a line of requests until the last sender is gone; dropping it waits for that, so the file is
/// closed when the last handle is.
pub(crate) struct Worker<R> {
    line: Option<mpsc::Sender<R>>,
    thread: Option<JoinHandle<()>>,
}

impl<R: Send + 'static> Worker<R> {
    pub(crate) fn start(
        name: &str,
        length: usize,
        serve: impl FnOnce(mpsc::Receiver<R>) + Send + 'static,
    ) -> Result<Self> {
        let (line, inbox) = mpsc::channel(length);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || serve(inbox));
        let thread = thread.map_err(|error| StoreError::transient("start a thread for the database", error))?;
        Ok(Self { line: Some(line), thread: Some(thread) })
    }

    pub(crate) async fn send(&self, request: R) -> Result<()> {
        let gone = || StoreError::broken("reach the database", "its thread has ended");
        self.line.as_ref().ok_or_else(gone)?.send(request).await.map_err(|_| gone())
    }
}

impl<R> Drop for Worker<R> {
    fn drop(&mut self) {
        drop(self.line.take());
        if let Some(thread) = self.thread.take() {
            // A panic was already reported to the caller whose request it was.
            let _ = thread.join();
        }
    }
}

impl<R> fmt::Debug for Worker<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worker")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc as blocking;

    use super::*;

    fn file() -> (tempfile::TempDir, Connection, Connection) {
        let dir = tempfile::tempdir().unwrap();
        let [conn, other] = [(); 2].map(|()| Connection::open(dir.path().join("test.db")).unwrap());
        conn.pragma_update(None, "journal_mode", "wal").unwrap();
        conn.execute_batch("create table note (text text)").unwrap();
        (dir, conn, other)
    }

    fn writer(conn: Connection) -> Writer {
        Writer::start(conn, None, OpenFile::unknown(std::path::PathBuf::new()), Bell::default(), Clock::system())
            .unwrap()
    }

    fn note(conn: &Connection, text: &str) -> std::result::Result<((), Ring), Failure> {
        conn.execute("insert into note values (?1)", [text])?;
        Ok(((), Ring::NONE))
    }

    fn notes(conn: &Connection) -> Vec<String> {
        let mut notes = conn.prepare("select text from note order by rowid").unwrap();
        notes.query_map((), |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    #[tokio::test]
    async fn requests_that_queued_up_share_a_commit_and_fail_alone() {
        let (dir, conn, other) = file();
        let writer = writer(conn);
        let (go, gate) = blocking::channel::<()>();
        let path = dir.path().join("test.db");
        let (_, a, failed, panicked, seen, ()) = tokio::join!(
            writer.write(move |_, _| {
                gate.recv().unwrap();
                Ok(((), Ring::NONE))
            }),
            writer.write(|conn, _| note(conn, "a")),
            writer.write(|conn, _| {
                note(conn, "undone")?;
                Err::<((), Ring), _>(StoreError::NotLeading.into())
            }),
            writer.write(|conn, _| -> std::result::Result<((), Ring), Failure> {
                note(conn, "undone")?;
                panic!("a bug of this caller")
            }),
            writer.write(move |conn, _| {
                // Of the same commit: seen from inside, and not yet from outside.
                Ok(((notes(conn), notes(&Connection::open(path).unwrap())), Ring::NONE))
            }),
            async { go.send(()).unwrap() },
        );
        a.unwrap();
        assert!(matches!(failed, Err(StoreError::NotLeading)));
        assert!(matches!(panicked, Err(StoreError::Broken { .. })));
        assert_eq!(seen.unwrap(), (vec!["a".to_owned()], vec![]));
        assert_eq!(notes(&other), ["a"]);
    }

    #[tokio::test]
    async fn a_bell_is_rung_after_the_commit_only() {
        let (_dir, conn, other) = file();
        let writer = writer(conn);
        let rung = async {
            writer.bell.news.notified().await;
            notes(&other)
        };
        let (written, seen) = tokio::join!(
            writer.write(|conn, _| {
                note(conn, "a")?;
                Ok(((), Ring::NEWS))
            }),
            rung
        );
        written.unwrap();
        assert_eq!(seen, ["a"]);
    }

    #[tokio::test]
    async fn a_full_disk_is_a_reason_to_try_again() {
        let (_dir, conn, other) = file();
        conn.pragma_update(None, "max_page_count", 4).unwrap();
        let writer = writer(conn);
        let large = "x".repeat(100_000);
        let error = writer.write(move |conn, _| note(conn, &large)).await.unwrap_err();
        assert!(error.is_transient() && error.to_string().contains("full"), "{error}");
        writer.write(|conn, _| note(conn, "small")).await.unwrap();
        assert_eq!(notes(&other), ["small"]);
    }
}
