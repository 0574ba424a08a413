//! Enqueue: new jobs, in a transaction of the store's or of the caller's own.

use rusqlite::{Connection, params};
use turnwise_core::{JobId, NewJob, Timestamp, unique::OnDuplicate};
use turnwise_store::{Duplicate, Result, StoreError, Submitted, ids, memory::Clock};

use crate::{
    after,
    bulk::{self, Insert},
    errors::{Failure, explain},
    memo, settle,
    unique::{self, Entry},
};

/// Stores `jobs` in the caller's own transaction, on the caller's own connection to the store's file (a
/// `&rusqlite::Transaction` is one too): they are there when it commits, and never were when it rolls back.
///
/// All of them or none are stored, also when the caller goes on with the transaction after an error. An id that is
/// already there is left alone and reported as such. A new job of a group that takes no more, or that waits for one that
/// does not exist, is [`StoreError::Refused`], with the reason as its text. A job whose unique key another job holds is not
/// stored: by its `on_duplicate`, the reply names that job, or it is [`StoreError::Duplicate`]. Begin the transaction with
/// `begin immediate`: one that reads first and writes later fails with [`StoreError::Transient`] if another
/// connection has written in between.
///
/// ```
/// use turnwise_core::{JobId, Json, NewJob, TaskName};
/// use turnwise_sqlite::{SqliteStore, enqueue_in, rusqlite};
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("jobs.db").display().to_string();
/// let store = SqliteStore::open(&path, Default::default())?;
/// let mut connection = rusqlite::Connection::open(&path)?;
/// let order = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
/// order.execute("create table if not exists purchase (id integer primary key, what text)", ())?;
/// order.execute("insert into purchase (what) values ('tea')", ())?;
/// let job = NewJob::new(JobId::from_parts(1, [7; 10]), TaskName::new("ship")?, Json::null());
/// let enqueued = enqueue_in(&order, &[job])?;
/// order.commit()?;
/// assert!(enqueued[0].new);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn enqueue_in(conn: &Connection, jobs: &[NewJob]) -> Result<Vec<Submitted>> {
    enqueue_at(conn, jobs, Clock::system().now())
}

pub(crate) fn enqueue_at(conn: &Connection, jobs: &[NewJob], now: Timestamp) -> Result<Vec<Submitted>> {
    check_schema(conn)?;
    let execute = |sql| conn.execute_batch(sql).map_err(explain);
    execute("savepoint turnwise_enqueue")?;
    let enqueued = enqueue(conn, jobs, now).map_err(StoreError::from);
    if enqueued.is_err() && !conn.is_autocommit() {
        execute("rollback to turnwise_enqueue")?;
    }
    // SQLite may have taken the whole transaction back by itself, the savepoint with it: the first error then counts.
    match execute("release turnwise_enqueue") {
        Err(error) if enqueued.is_ok() => Err(error),
        _ => enqueued,
    }
}

/// A caller's connection may lead anywhere.
fn check_schema(conn: &Connection) -> Result<()> {
    let known = conn.prepare_cached(include_str!("../sql/schema_exists.sql"));
    if known.and_then(|mut known| known.query_row((), |row| row.get(0))).map_err(explain)? {
        return Ok(());
    }
    let text = "this connection's database has no turnwise schema; is it the file that the store was opened with?";
    Err(StoreError::Refused(text.to_owned()))
}

pub(crate) fn enqueue(
    conn: &Connection,
    jobs: &[NewJob],
    now: Timestamp,
) -> std::result::Result<Vec<Submitted>, Failure> {
    ids::check_version(jobs)?;
    // Asked once a call: as long as no group is full, a job costs no look of its own.
    let any_full = memo::any_full(conn)?;
    let entries = unique::claim(conn, jobs, now)?;
    let stored = jobs.iter().enumerate().filter(|(at, _)| matches!(entries.get(*at), None | Some(Entry::In)));
    ids::check_ahead(stored.map(|(_, job)| job), now, |id| known(conn, id))?;
    let some_ended = some_between(conn, include_str!("../sql/enqueue_ended_between.sql"), jobs)?;
    let mut insert = Insert::new(conn, now)?;
    if entries.is_empty() && !any_full && !some_ended && many_new(conn, jobs)? {
        if !insert.all(jobs)? {
            return Err(
                StoreError::broken("enqueue", "the file has not taken all jobs; does a trigger keep some?").into()
            );
        }
        let enqueued = jobs.iter().map(|job| Submitted::itself(job.id, true)).collect::<Vec<_>>();
        after::write(conn, jobs, &enqueued)?;
        return Ok(enqueued);
    }
    let mut enqueued = Vec::with_capacity(jobs.len());
    for (at, job) in jobs.iter().enumerate() {
        match entries.get(at) {
            None | Some(Entry::In) => {}
            Some(Entry::Known) => {
                enqueued.push(Submitted::itself(job.id, false));
                continue;
            }
            // The job that stands for it may be stored only now.
            Some(Entry::HeldBy(holder)) => {
                enqueued.push(Submitted::held_by(*holder, Duplicate::Kept));
                continue;
            }
        }
        if some_ended && settle::ended(conn, job.id)?.is_some() {
            enqueued.push(Submitted::itself(job.id, false));
            continue;
        }
        let new = insert.one(job)?;
        if any_full && new {
            memo::refuse_if_full(conn, &job.group)?;
        }
        enqueued.push(Submitted::itself(job.id, new));
    }
    for (job, reply) in jobs.iter().zip(&mut enqueued).filter(|(_, reply)| reply.duplicate.is_some()) {
        let policy = job.unique.as_ref().map_or(OnDuplicate::Keep, |unique| unique.on_duplicate);
        *reply = unique::stand_in(conn, reply.id, policy, job)?;
    }
    after::write(conn, jobs, &enqueued)?;
    Ok(enqueued)
}

fn known(conn: &Connection, id: JobId) -> std::result::Result<bool, Failure> {
    let mut known = conn.prepare_cached(include_str!("../sql/enqueue_known.sql"))?;
    Ok(known.query_row([id.as_bytes()], |row| row.get(0))?)
}

/// Whether it is worth while to write them together, and each of them is there for the first time.
fn many_new(conn: &Connection, jobs: &[NewJob]) -> rusqlite::Result<bool> {
    let no_id_twice = || jobs.is_sorted_by(|one, next| one.id < next.id);
    Ok(jobs.len() >= bulk::AT_ONCE
        && no_id_twice()
        && !some_between(conn, include_str!("../sql/enqueue_known_between.sql"), jobs)?)
}

/// Whether there may be some of `jobs` where `sql` looks: ids grow with time, so those that are known come before all that
/// are new, and one look does for the whole call.
fn some_between(conn: &Connection, sql: &str, jobs: &[NewJob]) -> rusqlite::Result<bool> {
    let ids = || jobs.iter().map(|job| job.id);
    let (Some(first), Some(last)) = (ids().min(), ids().max()) else { return Ok(false) };
    let mut between = conn.prepare_cached(sql)?;
    between.query_row(params![first.as_bytes(), last.as_bytes()], |row| row.get(0))
}
