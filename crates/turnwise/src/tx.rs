//! Submitting in the caller's own transaction: the job is there exactly if the caller commits.
//!
//! No transaction passed in: [`Turnwise::submit`](crate::Turnwise::submit) makes one of its own, and a short one.
//! Passed in: the caller's, and only then. From any other language: `select turnwise.enqueue(…)` on PostgreSQL.

use turnwise_core::{JobId, Timestamp};
#[cfg(feature = "sqlx")]
use turnwise_core::{NewJob, Unique, unique::OnDuplicate};
use turnwise_store::{StoreError, memory::Clock};

use crate::{Error, JobRequest};

/// The database's time as every driver can read it.
const NOW: &str = "select (extract(epoch from turnwise.now()) * 1000000)::bigint";

impl JobRequest {
    /// Enqueues through a tokio-postgres transaction. Where another job holds its unique key, the id is that one's; so it is
    /// with the other two.
    pub async fn enqueue_in_postgres(self, transaction: &impl tokio_postgres::GenericClient) -> Result<JobId, Error> {
        let now = if self.is_relative() {
            let row = transaction.query_one(NOW, &[]).await.map_err(lost)?;
            Timestamp::from_micros(row.try_get(0).map_err(lost)?)
        } else {
            Timestamp::MIN
        };
        let job = self.into_job(now)?;
        let enqueued = turnwise_postgres::enqueue_in(transaction, std::slice::from_ref(&job)).await?;
        Ok(enqueued[0].id)
    }

    /// Enqueues through an sqlx transaction on PostgreSQL: `request.enqueue_in_sqlx(&mut *tx)`.
    #[cfg(feature = "sqlx")]
    pub async fn enqueue_in_sqlx(self, transaction: &mut sqlx::PgConnection) -> Result<JobId, Error> {
        let now = if self.is_relative() {
            Timestamp::from_micros(sqlx::query_scalar(NOW).fetch_one(&mut *transaction).await.map_err(lost)?)
        } else {
            Timestamp::MIN
        };
        let job = self.into_job(now)?;
        if !job.after.is_empty() {
            need_transaction(transaction).await?;
        }
        if let Some(unique) = &job.unique
            && let Some(holder) = claim_in_sqlx(&mut *transaction, &job, unique).await?
        {
            return Ok(holder);
        }
        let stored = sqlx::query(turnwise_postgres::ENQUEUE)
            .bind(vec![job.id.0])
            .bind(vec![job.task.as_str()])
            .bind(vec![job.args.as_str()])
            .bind(vec![job.queue.as_str()])
            .bind(vec![job.group.as_str()])
            .bind(vec![i16::from(job.priority.get())])
            .bind(vec![job.due.map(|due| due.to_string())])
            .bind(vec![Some(job.retry.to_string())])
            .bind(vec![job.key.as_ref().map(|key| key.as_str())])
            .bind(vec![job.terms.to_text()])
            .bind(vec![job.expires.map(|expires| expires.to_string())])
            .execute(&mut *transaction)
            .await
            .map_err(refused_or_lost)?;
        if stored.rows_affected() > 0 && !job.after.is_empty() {
            turnwise_core::after::check([(job.id, job.after.ids())])?;
            let awaited: Vec<_> = job.after.ids().iter().map(|id| id.0).collect();
            sqlx::query(turnwise_postgres::ENQUEUE_AFTER)
                .bind(vec![job.id.0; awaited.len()])
                .bind(awaited)
                .bind(vec![job.id.0])
                .bind(vec![job.after.on_failure().unwrap_or_default().name()])
                .bind(Vec::<uuid::Uuid>::new())
                .execute(transaction)
                .await
                .map_err(refused_or_lost)?;
        }
        Ok(job.id)
    }

    /// Enqueues through a rusqlite transaction on the caller's own connection to the same file.
    pub fn enqueue_in_sqlite(self, transaction: &turnwise_sqlite::rusqlite::Connection) -> Result<JobId, Error> {
        let job = self.into_job(Clock::system().now())?;
        let enqueued = turnwise_sqlite::enqueue_in(transaction, std::slice::from_ref(&job))?;
        Ok(enqueued[0].id)
    }
}

/// Takes the job's unique key, or tells the job that stands for it after doing what it asked for.
#[cfg(feature = "sqlx")]
async fn claim_in_sqlx(
    transaction: &mut sqlx::PgConnection,
    job: &NewJob,
    unique: &Unique,
) -> Result<Option<JobId>, StoreError> {
    use sqlx::Row;
    let period = unique.hold.period().map(|period| i64::try_from(period.as_micros()).unwrap_or(i64::MAX));
    let row = sqlx::query(turnwise_postgres::CLAIM)
        .bind(vec![job.id.0])
        .bind(vec![unique.scope.of(job)])
        .bind(vec![unique.key.as_str()])
        .bind(vec![unique.hold.until_ended()])
        .bind(vec![period])
        .bind(vec![i16::from(unique.on_duplicate == OnDuplicate::Reject)])
        .fetch_one(&mut *transaction)
        .await
        .map_err(refused_or_lost)?;
    let holder = JobId(row.try_get("holder").map_err(lost)?);
    match row.try_get::<i16, _>("outcome").map_err(lost)? {
        0 => return Ok(None),
        2 if unique.on_duplicate == OnDuplicate::ReplaceArgs => {
            let replace = sqlx::query(turnwise_postgres::REPLACE_ARGS);
            let replace = replace.bind(vec![holder.0]).bind(vec![job.task.as_str()]).bind(vec![job.args.as_str()]);
            replace.execute(transaction).await.map_err(lost)?;
        }
        _ => {}
    }
    Ok(Some(holder))
}

/// The job and whom it waits for come together or not at all: outside a transaction they could not.
#[cfg(feature = "sqlx")]
async fn need_transaction(connection: &mut sqlx::PgConnection) -> Result<(), Error> {
    use sqlx::Executor as _;
    match connection.execute("savepoint turnwise_after").await {
        Err(error) if error.as_database_error().and_then(|error| error.code()).as_deref() == Some("25P01") => {
            Err(StoreError::Refused(turnwise_postgres::after::NO_TRANSACTION.to_owned()).into())
        }
        Err(error) => Err(lost(error).into()),
        Ok(_) => connection.execute("release savepoint turnwise_after").await.map(drop).map_err(|e| lost(e).into()),
    }
}

/// A refusal is the database's sentence, to the letter.
#[cfg(feature = "sqlx")]
fn refused_or_lost(error: sqlx::Error) -> StoreError {
    let Some(refusal) = error.as_database_error() else { return lost(error) };
    match refusal.code().as_deref() {
        Some(turnwise_postgres::REFUSED) => StoreError::Refused(refusal.message().to_owned()),
        Some(turnwise_postgres::DUPLICATE) => {
            let detail = refusal.try_downcast_ref::<sqlx::postgres::PgDatabaseError>().and_then(|error| error.detail());
            turnwise_postgres::unique::duplicate(refusal.message(), detail)
        }
        _ => lost(error),
    }
}

/// The transaction is the caller's, and so is the decision to repeat it.
fn lost(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::transient("enqueue in your transaction", error)
}
