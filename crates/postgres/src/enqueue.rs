//! Submitting, in a transaction of our own or in the caller's.

use std::collections::HashSet;

use tokio_postgres::{GenericClient, Row, types::ToSql};
use turnwise_core::{KeyName, NewJob};
use turnwise_store::{Enqueued, Result};
use uuid::Uuid;

use crate::{
    rows::{get, policy_text, sparse},
    store::{Inner, connection, failed},
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
/// takes no more, the statement fails with SQLSTATE [`REFUSED`] and the reason as its message.
pub const ENQUEUE: &str = include_str!("../sql/enqueue.sql");

/// The SQLSTATE of a submit that is refused: the message is for the submitter.
pub const REFUSED: &str = "TW001";

/// Most jobs in one statement; a longer list becomes several in one transaction.
const CHUNK: usize = 10_000;

/// Stores `jobs` in the transaction of `client`: they exist if and when it commits.
///
/// Any client of tokio-postgres or deadpool-postgres will do, through its `tokio_postgres::Client` or `Transaction`.
/// On a client without a transaction each statement is its own. [`StoreError::Refused`](turnwise_store::StoreError) with
/// the reason as its text for a new job of a group that takes no more; as after any error, PostgreSQL then lets a
/// transaction only roll back, to a savepoint before this call or whole.
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
    for jobs in jobs.chunks(CHUNK) {
        let columns = Columns::of(jobs);
        let rows = client.query(ENQUEUE, &columns.binds()).await.map_err(failed("enqueue"))?;
        tell(jobs, &rows, &mut replies)?;
    }
    Ok(replies)
}

pub(crate) async fn enqueue(store: &Inner, jobs: &[NewJob]) -> Result<Vec<Enqueued>> {
    let fail = failed("enqueue");
    let mut client = connection(&store.pools.submit).await?;
    let statement = client.prepare_cached(ENQUEUE).await.map_err(fail)?;
    let mut replies = Vec::with_capacity(jobs.len());
    if jobs.len() <= CHUNK {
        let rows = client.query(&statement, &Columns::of(jobs).binds()).await.map_err(fail)?;
        tell(jobs, &rows, &mut replies)?;
    } else {
        let transaction = client.transaction().await.map_err(fail)?;
        for jobs in jobs.chunks(CHUNK) {
            let rows = transaction.query(&statement, &Columns::of(jobs).binds()).await.map_err(fail)?;
            tell(jobs, &rows, &mut replies)?;
        }
        transaction.commit().await.map_err(fail)?;
    }
    store.bell.ring_news();
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
    fn of(jobs: &'a [NewJob]) -> Self {
        Self {
            ids: jobs.iter().map(|job| job.id.0).collect(),
            tasks: jobs.iter().map(|job| job.task.as_str()).collect(),
            args: jobs.iter().map(|job| job.args.as_str()).collect(),
            queues: jobs.iter().map(|job| job.queue.as_str()).collect(),
            groups: jobs.iter().map(|job| job.group.as_str()).collect(),
            priorities: jobs.iter().map(|job| job.priority.get().into()).collect(),
            dues: jobs.iter().map(|job| job.due.map(|due| due.to_string())).collect(),
            retries: jobs.iter().map(|job| policy_text(&job.retry)).collect(),
            keys: jobs.iter().map(|job| job.key.as_ref().map(KeyName::as_str)).collect(),
            terms: sparse(jobs.iter().map(|job| job.terms.to_text())),
            expires: sparse(jobs.iter().map(|job| job.expires.map(|expires| expires.to_string()))),
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
fn tell(jobs: &[NewJob], stored: &[Row], replies: &mut Vec<Enqueued>) -> Result<()> {
    if stored.len() == jobs.len() {
        replies.extend(jobs.iter().map(|job| Enqueued { id: job.id, new: true }));
        return Ok(());
    }
    let mut stored: HashSet<Uuid> = stored.iter().map(|row| get(row, 0)).collect::<Result<_>>()?;
    replies.extend(jobs.iter().map(|job| Enqueued { id: job.id, new: stored.remove(&job.id.0) }));
    Ok(())
}
