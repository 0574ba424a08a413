//! Reads: jobs and nodes as people see them, and the threads that read without holding the writer up.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use rusqlite::{Connection, OptionalExtension, params};
use tokio::sync::{mpsc, oneshot};
use turnwise_core::{Job, JobId, JobState, Timestamp};
use turnwise_store::{Filter, Fleet, Result, StoreError, memory::Clock};

use crate::{
    errors::{Failure, explain},
    nodes,
    rows::{self, Names},
    unique,
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
    Ok(Fleet { now, nodes, losses: nodes::losses(conn, now)? })
}

type Request = Box<dyn FnOnce(&Connection) + Send>;

/// A thread with a connection of its own. Each read sees one moment of the file, whatever is written meanwhile.
#[derive(Debug)]
pub(crate) struct Reader {
    line: Worker<Request>,
    clock: Clock,
}

impl Reader {
    pub(crate) fn start(name: &str, conn: Connection, clock: Clock) -> Result<Self> {
        // Reads are short; a longer line would only hide that the file is slow.
        let serve = move |mut inbox: mpsc::Receiver<Request>| {
            while let Some(read) = inbox.blocking_recv() {
                // A panic is a bug, but this caller's alone: it gets an error, because its reply is dropped.
                let _ = catch_unwind(AssertUnwindSafe(|| read(&conn)));
            }
        };
        Ok(Self { line: Worker::start(name, 64, serve)?, clock })
    }

    pub(crate) async fn read<T, R>(&self, read: R) -> Result<T>
    where
        T: Send + 'static,
        R: FnOnce(&Connection, Timestamp) -> Read<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let clock = self.clock.clone();
        let request = move |conn: &Connection| {
            let result = match conn.unchecked_transaction() {
                Ok(snapshot) => read(&snapshot, clock.now()).map_err(StoreError::from),
                Err(error) => Err(explain(error)),
            };
            // A caller that has gone away needs no reply.
            let _ = reply.send(result);
        };
        self.line.send(Box::new(request)).await?;
        answer.await.map_err(|_| StoreError::broken("read from the database", "the read panicked"))?
    }
}
