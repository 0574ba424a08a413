//! Reads: jobs and nodes as people see them, and the threads that read without holding the writer up.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::{mpsc, oneshot};
use turnwise_core::{Job, JobId, JobState, Timestamp};
use turnwise_store::{Filter, Fleet, Result, StoreError, memory::Clock};

use crate::{
    errors::{Failure, explain},
    nodes,
    rows::{self, Names},
    unique, workers,
    writer::Worker,
};

type Read<T> = std::result::Result<T, Failure>;

pub(crate) fn job(conn: &Connection, id: JobId, now: Timestamp) -> Read<Option<Job>> {
    let mut job = conn.prepare_cached(include_str!("../sql/job.sql"))?;
    let mut job = job.query_row([id.as_bytes()], |row| rows::job(row, &mut Names::default())).optional()?;
    unique::show_held(conn, job.as_mut_slice(), now)?;
    Ok(job)
}

pub(crate) fn jobs(conn: &Connection, filter: &Filter, now: Timestamp) -> Read<Vec<Job>> {
    if let Some(key) = &filter.unique {
        let mut jobs = Vec::new();
        for id in unique::holders(conn, key, now)? {
            jobs.extend(job(conn, id, now)?.filter(|job| filter.admits(job)));
        }
        if filter.in_hands {
            let given = in_hands(conn)?;
            jobs.retain(|job| given.contains(&job.id));
        }
        return Ok(newest(jobs, filter));
    }
    if filter.in_hands {
        let mut jobs = Vec::new();
        for id in in_hands(conn)? {
            jobs.extend(job(conn, id, now)?.filter(|job| filter.admits(job)));
        }
        return Ok(newest(jobs, filter));
    }
    let wanted = JobState::ALL.into_iter().filter(|state| filter.wants(*state));
    let states = wanted.fold(0_i64, |bits, state| bits | 1 << state.code());
    let mut names = Names::default();
    let mut jobs = conn.prepare_cached(include_str!("../sql/jobs.sql"))?;
    let (since, until) = (filter.since.map(Timestamp::micros), filter.until.map(Timestamp::micros));
    let (first, last) = filter.id_range();
    let (first, last) = (first.as_bytes(), last.as_bytes());
    let Filter { queue, group, task, .. } = filter;
    let binds = params![states, queue, group, task, filter.limit(), since, until, first, last];
    let jobs = jobs.query_map(binds, |row| rows::job(row, &mut names))?;
    let mut jobs = jobs.collect::<rusqlite::Result<Vec<_>>>()?;
    unique::show_held(conn, &mut jobs, now)?;
    Ok(jobs)
}

fn newest(mut jobs: Vec<Job>, filter: &Filter) -> Vec<Job> {
    jobs.sort_unstable_by_key(|job| std::cmp::Reverse(job.id));
    jobs.truncate(filter.limit() as usize);
    jobs
}

/// The jobs that nodes have, by what they were given.
fn in_hands(conn: &Connection) -> Read<BTreeSet<JobId>> {
    let mut has = conn.prepare_cached(include_str!("../sql/leave_holds_one.sql"))?;
    let mut jobs = BTreeSet::new();
    for node in nodes::nodes(conn)? {
        for id in nodes::batched(conn, node.incarnation)? {
            if has.query_row(params![id.as_bytes(), node.incarnation.0.as_bytes()], |row| row.get(0))? {
                jobs.insert(id);
            }
        }
    }
    Ok(jobs)
}

pub(crate) fn fleet(conn: &Connection, now: Timestamp) -> Read<Fleet> {
    let mut nodes = nodes::nodes(conn)?;
    nodes.sort_by(|a, b| (&a.name, a.joined_at, a.incarnation).cmp(&(&b.name, b.joined_at, b.incarnation)));
    Ok(Fleet { now, nodes, losses: nodes::losses(conn, now)?, workers: workers::all(conn)?, drained: BTreeSet::new() })
}

type Request = Box<dyn FnOnce(&Connection) + Send>;

/// Steps of SQLite's machine between two looks whether a read is to end: some hundred microseconds.
const STEPS: i32 = 10_000;

/// A thread with a connection of its own. Each read sees one moment of the file, whatever is written meanwhile.
#[derive(Debug)]
pub(crate) struct Reader {
    line: Worker<Request>,
    clock: Clock,
    /// How long a read may take.
    longest: Duration,
}

impl Reader {
    pub(crate) fn start(name: &str, conn: Connection, clock: Clock, longest: Duration) -> Result<Self> {
        // Reads are short; a longer line would only hide that the file is slow.
        let serve = move |mut inbox: mpsc::Receiver<Request>| {
            while let Some(read) = inbox.blocking_recv() {
                // A panic is a bug, but this caller's alone: it gets an error, because its reply is dropped.
                let _ = catch_unwind(AssertUnwindSafe(|| read(&conn)));
            }
        };
        Ok(Self { line: Worker::start(name, 64, serve)?, clock, longest })
    }

    /// A read whose caller goes away ends soon, and so does one that takes too long: the others wait for this thread.
    pub(crate) async fn read<T, R>(&self, read: R) -> Result<T>
    where
        T: Send + 'static,
        R: FnOnce(&Connection, Timestamp) -> Read<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let (clock, longest) = (self.clock.clone(), self.longest);
        // It lives as long as this call is waited for.
        let caller = Arc::new(());
        let waits = Arc::downgrade(&caller);
        let request = move |conn: &Connection| {
            if waits.strong_count() == 0 {
                return;
            }
            let until = Instant::now() + longest;
            let result = bounded(conn, waits, until, || match conn.unchecked_transaction() {
                Ok(snapshot) => read(&snapshot, clock.now()).map_err(StoreError::from),
                Err(error) => Err(explain(error)),
            });
            // A caller that has gone away needs no reply.
            let _ = reply.send(match result {
                Err(error) if Instant::now() >= until => {
                    Err(StoreError::transient("the read took too long, and was ended; ask for less at a time", error))
                }
                result => result,
            });
        };
        self.line.send(Box::new(request)).await?;
        answer.await.map_err(|_| StoreError::broken("read from the database", "the read panicked"))?
    }
}

/// Reads; SQLite ends the statement that is under way when the caller has gone, or the time is over.
fn bounded<T>(conn: &Connection, waits: Weak<()>, until: Instant, read: impl FnOnce() -> Result<T>) -> Result<T> {
    let ends = move || waits.strong_count() == 0 || Instant::now() >= until;
    conn.progress_handler(STEPS, Some(ends)).map_err(explain)?;
    let result = read();
    conn.progress_handler(0, None::<fn() -> bool>).map_err(explain)?;
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(longest: Duration) -> Reader {
        Reader::start("reader", Connection::open_in_memory().unwrap(), Clock::system(), longest).unwrap()
    }

    /// It counts for ever.
    fn endless(conn: &Connection, _: Timestamp) -> Read<i64> {
        let sql = "with recursive n (i) as (select 1 union all select i + 1 from n) select count(*) from n";
        Ok(conn.query_row(sql, (), |row| row.get(0))?)
    }

    async fn one(reader: &Reader) -> i64 {
        let one = reader.read(|conn, _| Ok(conn.query_row("select 1", (), |row| row.get(0))?));
        tokio::time::timeout(Duration::from_secs(60), one).await.expect("the thread is free again").unwrap()
    }

    #[tokio::test]
    async fn a_read_ends_when_its_caller_has_gone() {
        let reader = reader(Duration::from_secs(3_600));
        let (begins, begun) = oneshot::channel();
        let slow = reader.read(move |conn, now| {
            let _ = begins.send(());
            endless(conn, now)
        });
        tokio::select! {
            answer = slow => panic!("{answer:?}"),
            _ = begun => {}
        }
        assert_eq!(one(&reader).await, 1);
    }

    #[tokio::test]
    async fn a_read_that_takes_too_long_ends_and_says_so() {
        let reader = reader(Duration::from_millis(50));
        let error = reader.read(endless).await.unwrap_err();
        assert!(error.is_transient() && error.to_string().contains("took too long"), "{error}");
        assert_eq!(one(&reader).await, 1);
    }

    #[tokio::test]
    async fn what_nobody_waits_for_any_more_is_not_read() {
        let reader = reader(Duration::from_secs(3_600));
        let (begins, begun) = oneshot::channel();
        let (goes_on, wait) = std::sync::mpsc::channel::<()>();
        let first = reader.read(move |_, _| {
            let _ = begins.send(());
            let _ = wait.recv();
            Ok(())
        });
        let second = async {
            begun.await.unwrap();
            let asked = reader.read(|_, _| -> Read<()> { panic!("it is read all the same") });
            // In the line, and given up.
            assert!(tokio::time::timeout(Duration::ZERO, asked).await.is_err());
            goes_on.send(()).unwrap();
        };
        let (first, ()) = tokio::join!(first, second);
        first.unwrap();
        assert_eq!(one(&reader).await, 1);
    }
}
