//! Submitting, in a transaction of our own or in the caller's.

use std::{collections::HashSet, sync::Arc};

use tokio_postgres::GenericClient;
use turnwise_core::{NewJob, Timestamp};
use turnwise_store::{Result, StoreError, Submitted, ids};
use uuid::Uuid;

use crate::{
    after, bulk,
    connect::{CONNECT_TIMEOUT, connection},
    errors::{failed, is_about_the_server},
    gather,
    rows::get,
    session::{Begin, Session, Wire},
    store::Inner,
    submit::{ENQUEUE, Jobs, On, Submitting},
    unique,
};

/// The database's time, as every driver can read it.
pub(crate) const NOW: &str = "select (extract(epoch from turnwise.now()) * 1000000)::bigint";

/// Most jobs in one statement, and bytes of their arguments; a longer list becomes several in one transaction.
const CHUNK: usize = 10_000;
pub(crate) const CHUNK_BYTES: usize = 16 * 1024 * 1024;

/// The jobs in parts of one statement each.
pub(crate) fn chunks(jobs: &[NewJob]) -> impl Iterator<Item = &[NewJob]> {
    let mut rest = jobs;
    std::iter::from_fn(move || {
        let mut bytes = 0;
        let fits = |job: &&NewJob| {
            bytes += job.args.as_str().len();
            bytes <= CHUNK_BYTES
        };
        // No single job is longer.
        let part = rest.iter().take(CHUNK).take_while(fits).count();
        let (part, others) = rest.split_at(part);
        rest = others;
        (!part.is_empty()).then_some(part)
    })
}

/// The bytes of their arguments.
pub(crate) fn bytes(jobs: &[NewJob]) -> usize {
    jobs.iter().map(|job| job.args.as_str().len()).sum()
}

/// Stores `jobs` in the transaction of `client`: they exist if and when it commits.
///
/// Any client of tokio-postgres or deadpool-postgres will do, through its `tokio_postgres::Client` or `Transaction`.
/// On a client without a transaction each statement is its own, and no job may wait for others.
/// [`StoreError::Refused`](turnwise_store::StoreError) with the reason as its text for a new job of a group that takes no
/// more, or that waits for one that does not exist; as after any error, PostgreSQL then lets a
/// transaction only roll back, to a savepoint before this call or whole.
///
/// A job whose unique key another job holds is not stored: by its `on_duplicate`, the reply names that job, or it is
/// [`StoreError::Duplicate`](turnwise_store::StoreError). A key that another open transaction is taking is
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
pub async fn enqueue_in(client: &impl GenericClient, jobs: &[NewJob]) -> Result<Vec<Submitted>> {
    if after::any(jobs) {
        after::need_transaction(client).await?;
    }
    enqueue_on(&mut On(&Wire::of_caller(client)), jobs).await
}

/// The database's time, in the transaction of `client`.
pub async fn now_in(client: &impl GenericClient) -> Result<Timestamp> {
    let row = client.query_one(NOW, &[]).await.map_err(failed("enqueue"))?;
    Ok(Timestamp::from_micros(get(&row, 0)?))
}

/// Stores `jobs` with as many statements as they need, in the transaction that is open.
pub(crate) async fn enqueue_on(session: &mut impl Submitting, jobs: &[NewJob]) -> Result<Vec<Submitted>> {
    ids::check_version(jobs)?;
    let mut replies = Vec::with_capacity(jobs.len());
    for jobs in chunks(jobs) {
        if jobs.iter().any(|job| job.unique.is_some()) {
            unique::enqueue(session, jobs, &mut replies).await?;
        } else {
            store_jobs(session, jobs.iter(), &mut replies).await?;
        }
    }
    if after::any(jobs) {
        after::write(session, jobs, &replies).await?;
    }
    Ok(replies)
}

/// Stores the jobs with one statement, and adds to `replies` what became of each.
pub(crate) async fn store_jobs<'a>(
    session: &mut impl Submitting,
    jobs: impl Iterator<Item = &'a NewJob> + Clone,
    replies: &mut Vec<Submitted>,
) -> Result<()> {
    let stored = session.store(&Jobs::of(jobs.clone())).await?;
    answer(jobs, stored, replies);
    Ok(())
}

pub(crate) async fn enqueue(store: &Arc<Inner>, jobs: Vec<NewJob>) -> Result<Vec<Submitted>> {
    ids::check_version(&jobs)?;
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
    /// Because of one job, or a lock it waited for: the others may be stored without it.
    One(StoreError),
    All(StoreError),
}

/// Few jobs without anything special, from one caller or several.
pub(crate) async fn enqueue_small<'a>(
    store: &Inner,
    jobs: impl Iterator<Item = &'a NewJob> + Clone,
) -> std::result::Result<Vec<Submitted>, Unstored> {
    let client = connection(&store.pools.submit).await.map_err(Unstored::All)?;
    let unstored = |error: tokio_postgres::Error| {
        let unstored = if is_about_the_server(&error) { Unstored::All } else { Unstored::One };
        unstored(failed("enqueue")(error))
    };
    let rows = client.query(ENQUEUE, &Jobs::of(jobs.clone()).binds()).await.map_err(unstored)?;
    let stored = rows.iter().map(|row| get(row, 0)).collect::<Result<_>>().map_err(Unstored::All)?;
    let mut replies = Vec::new();
    answer(jobs, stored, &mut replies);
    store.bell.ring_news();
    Ok(replies)
}

async fn enqueue_plain(store: &Inner, jobs: &[NewJob]) -> Result<Vec<Submitted>> {
    let fail = failed("enqueue");
    let mut client = connection(&store.pools.submit).await?;
    if let Some(replies) = bulk::copy(&mut client, jobs).await? {
        return Ok(replies);
    }
    let transaction = client.begin().await.map_err(fail)?;
    let replies = enqueue_on(&mut On(&transaction), jobs).await?;
    transaction.commit().await.map_err(fail)?;
    Ok(replies)
}

/// On connections of their own, one for each key: a submit that waits for another open transaction holds up only submits with
/// the same key.
async fn enqueue_unique(store: &Inner, jobs: &[NewJob]) -> Result<Vec<Submitted>> {
    let fail = failed("enqueue");
    let passed = tokio::time::timeout(CONNECT_TIMEOUT, store.gates.pass(jobs)).await;
    let busy =
        |error| StoreError::transient("others in this process are submitting jobs with the same unique key", error);
    let _pass = passed.map_err(busy)?;
    let mut client = connection(&store.pools.unique).await?;
    let transaction = client.begin().await.map_err(fail)?;
    let replies = enqueue_on(&mut On(&transaction), jobs).await?;
    transaction.commit().await.map_err(fail)?;
    Ok(replies)
}

/// An id that is twice in `jobs` is new once.
fn answer<'a>(jobs: impl Iterator<Item = &'a NewJob> + Clone, stored: Vec<Uuid>, replies: &mut Vec<Submitted>) {
    if stored.len() == jobs.clone().count() {
        return replies.extend(jobs.map(|job| Submitted::itself(job.id, true)));
    }
    let mut stored: HashSet<Uuid> = stored.into_iter().collect();
    replies.extend(jobs.map(|job| Submitted::itself(job.id, stored.remove(&job.id.uuid()))));
}
