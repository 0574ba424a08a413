//! Submitting in a transaction of sqlx: the same steps as [`crate::enqueue_in`], sent by another driver.

use sqlx::{Executor as _, PgConnection, Row as _, postgres::PgDatabaseError};
use turnwise_core::{NewJob, Timestamp};
use turnwise_store::{Result, StoreError, Submitted};
use uuid::Uuid;

use crate::{
    after, enqueue,
    errors::{Said, tells_of_no_transaction},
    submit::{
        Awaited, CLAIM, Claimed, Claims, ENQUEUE, ENQUEUE_AFTER, Jobs, REPLACE_ARGS, Replaced, Replacements, Submitting,
    },
};

/// As [`crate::enqueue_in`], in the transaction of `connection`.
pub async fn enqueue_in(connection: &mut PgConnection, jobs: &[NewJob]) -> Result<Vec<Submitted>> {
    if after::any(jobs) {
        need_transaction(connection).await?;
    }
    enqueue::enqueue_on(&mut OnSqlx(connection), jobs).await
}

/// The database's time.
pub async fn now_in(connection: &mut PgConnection) -> Result<Timestamp> {
    let micros = sqlx::query_scalar(enqueue::NOW).fetch_one(connection).await.map_err(failed)?;
    Ok(Timestamp::from_micros(micros))
}

async fn need_transaction(connection: &mut PgConnection) -> Result<()> {
    match connection.execute(after::SAVEPOINT).await {
        Err(error) if said(&error).is_some_and(|said| tells_of_no_transaction(said.code)) => {
            Err(StoreError::Refused(after::NO_TRANSACTION.to_owned()))
        }
        Err(error) => Err(failed(error)),
        Ok(_) => connection.execute(after::RELEASE).await.map(drop).map_err(failed),
    }
}

struct OnSqlx<'a>(&'a mut PgConnection);

impl Submitting for OnSqlx<'_> {
    async fn store(&mut self, jobs: &Jobs<'_>) -> Result<Vec<Uuid>> {
        let stored = sqlx::query_scalar(ENQUEUE)
            .bind(&jobs.ids)
            .bind(&jobs.tasks)
            .bind(&jobs.args)
            .bind(&jobs.queues)
            .bind(&jobs.groups)
            .bind(&jobs.priorities)
            .bind(&jobs.dues)
            .bind(&jobs.retries)
            .bind(&jobs.keys)
            .bind(&jobs.terms)
            .bind(&jobs.expires)
            .bind(jobs.newest);
        stored.fetch_all(&mut *self.0).await.map_err(failed)
    }

    async fn claim(&mut self, claims: &Claims<'_>) -> Result<Vec<Claimed>> {
        let claimed = sqlx::query(CLAIM)
            .bind(&claims.ids)
            .bind(&claims.scopes)
            .bind(&claims.keys)
            .bind(&claims.until_ended)
            .bind(&claims.periods)
            .bind(&claims.reject);
        let rows = claimed.fetch_all(&mut *self.0).await;
        let rows =
            rows.map_err(|error| said(&error).map_or_else(|| unsaid(&error), |said| said.meaning_to_a_claim()))?;
        rows.iter()
            .map(|row| Ok(Claimed { place: row.try_get(0)?, holder: row.try_get(1)?, outcome: row.try_get(2)? }))
            .collect::<std::result::Result<_, _>>()
            .map_err(failed)
    }

    async fn replace_args(&mut self, wanted: &Replacements<'_>) -> Result<Vec<Replaced>> {
        let replaced = sqlx::query(REPLACE_ARGS).bind(&wanted.ids).bind(&wanted.tasks).bind(&wanted.args);
        let rows = replaced.fetch_all(&mut *self.0).await.map_err(failed)?;
        rows.iter()
            .map(|row| Ok(Replaced { id: row.try_get(0)?, task: row.try_get(1)?, replaced: row.try_get(2)? }))
            .collect::<std::result::Result<_, _>>()
            .map_err(failed)
    }

    async fn wait_for(&mut self, awaited: &Awaited<'_>) -> Result<()> {
        let waits = sqlx::query(ENQUEUE_AFTER)
            .bind(&awaited.waiting)
            .bind(&awaited.awaited)
            .bind(&awaited.ids)
            .bind(&awaited.policies)
            .bind(&awaited.stand_ins);
        waits.execute(&mut *self.0).await.map(drop).map_err(failed)
    }
}

fn failed(error: sqlx::Error) -> StoreError {
    said(&error).map_or_else(|| unsaid(&error), |said| said.meaning("enqueue"))
}

fn said(error: &sqlx::Error) -> Option<Said<'_>> {
    let error: &PgDatabaseError = error.as_database_error()?.try_downcast_ref()?;
    Some(Said { code: error.code(), message: error.message(), detail: error.detail() })
}

/// An error that the server did not send: it is the network's, or ours.
fn unsaid(error: &sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::Encode(_) => {
            StoreError::broken("enqueue", error.to_string())
        }
        _ => StoreError::transient("enqueue", error.to_string()),
    }
}
