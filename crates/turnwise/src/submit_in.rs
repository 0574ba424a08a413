//! Submitting in the caller's own transaction: the job is there exactly if the caller commits.
//!
//! No transaction passed in: [`Turnwise::submit`](crate::Turnwise::submit) makes one of its own, and a short one.
//! Passed in: the caller's, and only then. From any other language: `select turnwise.enqueue(…)` on PostgreSQL.

#[cfg(feature = "postgres")]
use turnwise_core::{NewJob, Timestamp};

#[cfg(feature = "postgres")]
use crate::id;
use crate::{Error, JobId, JobRequest};

/// # Submitting in your own transaction
///
/// The job is there exactly if the transaction commits. Where another job holds its unique key, the id is that job's.
///
/// [`Error::Invalid`] names the first invalid value: nothing was sent, and the transaction can go on. [`Error::Store`] if the
/// database refused the job or did not answer: nothing of the job is there, and PostgreSQL then lets the transaction only roll back, to a
/// savepoint before this call or whole. If the reply to the *commit* is lost, the caller repeats the whole transaction with the same
/// [id](JobRequest::id): the job is stored once.
impl JobRequest {
    /// Submits in a tokio-postgres transaction. Errors as [above](#submitting-in-your-own-transaction).
    #[cfg(feature = "postgres")]
    pub async fn submit_in_postgres(self, transaction: &impl tokio_postgres::GenericClient) -> Result<JobId, Error> {
        let now = if self.needs_time() { Some(turnwise_postgres::now_in(transaction).await?) } else { None };
        let job = self.into_job_at(now)?;
        let submitted = turnwise_postgres::enqueue_in(transaction, std::slice::from_ref(&job)).await?;
        Ok(submitted[0].id)
    }

    /// Submits in an sqlx transaction on PostgreSQL: `request.submit_in_sqlx(&mut *tx)`. Errors as
    /// [above](#submitting-in-your-own-transaction).
    #[cfg(feature = "sqlx")]
    pub async fn submit_in_sqlx(self, transaction: &mut sqlx::PgConnection) -> Result<JobId, Error> {
        let now = if self.needs_time() { Some(turnwise_postgres::sqlx::now_in(transaction).await?) } else { None };
        let job = self.into_job_at(now)?;
        let submitted = turnwise_postgres::sqlx::enqueue_in(transaction, std::slice::from_ref(&job)).await?;
        Ok(submitted[0].id)
    }

    /// Whether the database's time must be asked for: by what was asked, or because its id may be far ahead of it. The latter is asked
    /// by the first submit of a process, and after that only if this machine's clock was set: a refusal would end the transaction.
    #[cfg(feature = "postgres")]
    fn needs_time(&self) -> bool {
        let doubtful = || self.job_id().is_ok_and(id::is_doubtful);
        self.is_relative() || (!self.id_is_given() && doubtful())
    }

    #[cfg(feature = "postgres")]
    fn into_job_at(self, now: Option<Timestamp>) -> Result<NewJob, Error> {
        let ours = !self.id_is_given();
        let mut job = self.into_job(now.unwrap_or(Timestamp::MIN))?;
        if let Some(now) = now {
            id::learn(now);
            if ours && job.id.is_ahead(now) {
                job.id = id::next();
            }
        }
        Ok(job)
    }

    /// Submits in a rusqlite transaction on the caller's own connection to the same file. Errors as
    /// [above](#submitting-in-your-own-transaction); the transaction can go on after each.
    #[cfg(feature = "sqlite")]
    pub fn submit_in_sqlite(self, transaction: &turnwise_sqlite::rusqlite::Connection) -> Result<JobId, Error> {
        let job = self.into_job(turnwise_store::memory::Clock::system().now())?;
        let submitted = turnwise_sqlite::enqueue_in(transaction, std::slice::from_ref(&job))?;
        Ok(submitted[0].id)
    }
}
