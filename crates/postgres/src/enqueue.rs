//! Submitting, in a transaction of our own or in the caller's.

use std::{collections::HashSet, sync::Arc};

use tokio_postgres::{GenericClient, Row, types::ToSql};
use turnwise_core::{KeyName, NewJob};
use turnwise_store::{Enqueued, Result, StoreError};
use uuid::Uuid;

use crate::{
    after, bulk,
    connect::{CONNECT_TIMEOUT, connection},
    gather,
    rows::{get, policy_text, sparse},
    session::{Begin, Session, Wire},
    store::{Inner, failed},
    unique,
};

/// The statement behind [`enqueue_in`], for adapters to other drivers. All binds are arrays of the same length, one
/// element per job, in submission order; the last two may be shorter, and the rest of them is null then:
///
/// | bind | type | |
/// |---|---|---|
/// | `$1` | `uuid[]` | ids |
/// | `$2` | `text[]` | tasks |
/// | `$3` | `text[]` | arguments, as JSON text |
/// | `$4` | `text[]` | queues |
/// | `$5` | `text[]` | groups |
/// | `$6` | `smallint[]` | priorities |
/// | `$7` | `text[]`, nullable elements | due times in RFC 3339; null = now, by the database's clock |
/// | `$8` | `text[]`, nullable elements | retry policies as text; null = the default |
/// | `$9` | `text[]`, nullable elements | limit keys; null = none |
/// | `$10` | `text[]`, nullable elements | terms as text; null = none |
/// | `$11` | `text[]`, nullable elements | times to begin by in RFC 3339; null = none |
///
/// Returns one column `id uuid`, one row for each job that was not there before. If one of these belongs to a group that
/// takes no more, the statement fails with SQLSTATE [`REFUSED`] and the reason as its message. Whom jobs wait for is told by
/// [`ENQUEUE_AFTER`](crate::ENQUEUE_AFTER).
pub const ENQUEUE: &str = include_str!("../sql/enqueue.sql");

/// The SQLSTATE of a submit that is refused: the message is for the submitter.
pub const REFUSED: &str = "TW001";

/// Most jobs in one statement; a longer list becomes several in one transaction.
pub(crate) const CHUNK: usize = 10_000;

/// Stores `jobs` in the transaction of `client`: they exist if and when it commits.
///
/// Any client of tokio-postgres or deadpool-postgres will do, through its `tokio_postgres::Client` or `Transaction`.
/// On a client without a transaction each statement is its own, and no job may wait for others.
/// [`StoreError::Refused`](turnwise_store::StoreError) with the reason as its text for a new job of a group that takes no
/// more, or that waits for one that is not there; as after any error, PostgreSQL then lets a
/// transaction only roll back, to a savepoint before this call or whole.
///
/// A job whose unique key another holds is not stored, and the reply names that one, or it is
/// [`StoreError::Duplicate`](turnwise_store::StoreError), as the job says. A key that another open transaction is taking is
/// waited for, by this connection's `lock_timeout`. Needs a transaction: the key and the job are two statements.
///
/// ```no_run
/// # use turnwise_core::{Json, JobId, NewJob, TaskName};
/// # async fn example(client: &mut tokio_postgres::Client, id: JobId) -> Result<(), Box<dyn std::error::Error>> {
/// let transaction = client.transaction().await?;
/// transaction.execute("update account set closed = true where id = 7", &[]).await?;
/// let letter = NewJob::new(id, TaskName::new("farewell")?, Json::parse("args", r#"{"account":7}"#)?);
/// turnwise_postgres::enqueue_in(&transaction, &[letter]).await?;
/// transaction.commit().await?; // both, or neither
/// # Ok(())
/// # }
/// ```
pub async fn enqueue_in(client: &impl GenericClient, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
    let mut replies = Vec::with_capacity(jobs.len());
    let waiting = after::any(jobs);
    if waiting {
        after::need_transaction(client).await?;
    }
    let session = Wire::of_caller(client);
    for jobs in jobs.chunks(CHUNK) {
        if jobs.iter().any(|job| job.unique.is_some()) {
            unique::enqueue(&session, jobs, &mut replies).await?;
        } else {
            store_jobs(&session, jobs.iter(), &mut replies).await?;
        }
    }
    if waiting {
        after::write(&session, jobs, &replies).await?;
    }
    Ok(replies)
}

/// Stores the jobs with one statement, and tells what became of each.
pub(crate) async fn store_jobs<'a>(
    client: &impl Session,
    jobs: impl Iterator<Item = &'a NewJob> + Clone,
    replies: &mut Vec<Enqueued>,
) -> Result<()> {
    let columns = Columns::of(jobs.clone());
    let rows = client.query(ENQUEUE, &columns.binds()).await.map_err(failed("enqueue"))?;
    tell(jobs, &rows, replies)
}

pub(crate) async fn enqueue(store: &Arc<Inner>, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
    if gather::may_travel(&jobs) {
        return gather::enqueue(store, jobs).await;
    }
    let replies = if jobs.iter().any(|job| job.unique.is_some()) {
        enqueue_unique(store, &jobs).await?
    } else {
        enqueue_plain(store, &jobs).await?
    };
    store.bell.ring_news();
    Ok(replies)
}

/// Why few jobs were not stored.
pub(crate) enum Unstored {
    /// For what one of them is, or waits for: the others may do without it.
    One(StoreError),
    All(StoreError),
}

/// Few jobs without anything special, from one caller or several.
pub(crate) async fn enqueue_small<'a>(
    store: &Inner,
    jobs: impl Iterator<Item = &'a NewJob> + Clone,
) -> std::result::Result<Vec<Enqueued>, Unstored> {
    let client = connection(&store.pools.submit).await.map_err(Unstored::All)?;
    let told = |error: tokio_postgres::Error| {
        let code = error.code().map(|code| code.code().to_owned()).unwrap_or_default();
        // Refused, a wait for another transaction that took too long, a deadlock, and whatever else is wrong with a row; not what
        // the server says of itself.
        let one = !(code.is_empty() || ["08", "53", "57P", "58"].iter().any(|class| code.starts_with(class)));
        if one { Unstored::One(failed("enqueue")(error)) } else { Unstored::All(failed("enqueue")(error)) }
    };
    let columns = Columns::of(jobs.clone());
    let rows = client.query(ENQUEUE, &columns.binds()).await.map_err(told)?;
    let mut replies = Vec::new();
    tell(jobs, &rows, &mut replies).map_err(Unstored::All)?;
    store.bell.ring_news();
    Ok(replies)
}

async fn enqueue_plain(store: &Inner, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
    let fail = failed("enqueue");
    let mut client = connection(&store.pools.submit).await?;
    if let Some(replies) = bulk::copy(&mut client, jobs).await? {
        return Ok(replies);
    }
    let mut replies = Vec::with_capacity(jobs.len());
    let transaction = client.begin().await.map_err(fail)?;
    for jobs in jobs.chunks(CHUNK) {
        store_jobs(&transaction, jobs.iter(), &mut replies).await?;
    }
    if after::any(jobs) {
        after::write(&transaction, jobs, &replies).await?;
    }
    transaction.commit().await.map_err(fail)?;
    Ok(replies)
}

/// On connections of their own, one for each key: one that waits for somebody's open transaction holds up nobody without
/// that key.
async fn enqueue_unique(store: &Inner, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
    let fail = failed("enqueue");
    let passed = tokio::time::timeout(CONNECT_TIMEOUT, store.gates.pass(jobs)).await;
    let busy =
        |error| StoreError::transient("others in this process are submitting jobs with the same unique key", error);
    let _pass = passed.map_err(busy)?;
    let mut client = connection(&store.pools.unique).await?;
    let mut replies = Vec::with_capacity(jobs.len());
    let transaction = client.begin().await.map_err(fail)?;
    for jobs in jobs.chunks(CHUNK) {
        unique::enqueue(&transaction, jobs, &mut replies).await?;
    }
    if after::any(jobs) {
        after::write(&transaction, jobs, &replies).await?;
    }
    transaction.commit().await.map_err(fail)?;
    Ok(replies)
}

#[derive(Default)]
struct Columns<'a> {
    ids: Vec<Uuid>,
    tasks: Vec<&'a str>,
    args: Vec<&'a str>,
    queues: Vec<&'a str>,
    groups: Vec<&'a str>,
    priorities: Vec<i16>,
    dues: Vec<Option<String>>,
    retries: Vec<Option<String>>,
    keys: Vec<Option<&'a str>>,
    terms: Vec<Option<String>>,
    expires: Vec<Option<String>>,
}

impl<'a> Columns<'a> {
    fn of(jobs: impl Iterator<Item = &'a NewJob> + Clone) -> Self {
        let each = || jobs.clone();
        Self {
            ids: each().map(|job| job.id.0).collect(),
            tasks: each().map(|job| job.task.as_str()).collect(),
            args: each().map(|job| job.args.as_str()).collect(),
            queues: each().map(|job| job.queue.as_str()).collect(),
            groups: each().map(|job| job.group.as_str()).collect(),
            priorities: each().map(|job| job.priority.get().into()).collect(),
            dues: each().map(|job| job.due.map(|due| due.to_string())).collect(),
            retries: each().map(|job| policy_text(&job.retry)).collect(),
            keys: each().map(|job| job.key.as_ref().map(KeyName::as_str)).collect(),
            terms: sparse(each().map(|job| job.terms.to_text())),
            expires: sparse(each().map(|job| job.expires.map(|expires| expires.to_string()))),
        }
    }

    fn binds(&self) -> [&(dyn ToSql + Sync); 11] {
        [
            &self.ids,
            &self.tasks,
            &self.args,
            &self.queues,
            &self.groups,
            &self.priorities,
            &self.dues,
            &self.retries,
            &self.keys,
            &self.terms,
            &self.expires,
        ]
    }
}

/// An id that is twice in `jobs` is new once.
fn tell<'a>(jobs: impl Iterator<Item = &'a NewJob> + Clone, stored: &[Row], replies: &mut Vec<Enqueued>) -> Result<()> {
    if stored.len() == jobs.clone().count() {
        replies.extend(jobs.map(|job| Enqueued::itself(job.id, true)));
        return Ok(());
    }
    let mut stored: HashSet<Uuid> = stored.iter().map(|row| get(row, 0)).collect::<Result<_>>()?;
    replies.extend(jobs.map(|job| Enqueued::itself(job.id, stored.remove(&job.id.0))));
    Ok(())
}
