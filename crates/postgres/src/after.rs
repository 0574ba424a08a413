//! Jobs that wait for jobs: written when they are submitted, read with the heads of those that wait.

use std::collections::HashMap;

use tokio_postgres::{GenericClient, Row, error::SqlState};
use turnwise_core::{After, JobHead, JobId, NewJob, OnFailure, after::Awaits};
use turnwise_store::{Enqueued, Result, StoreError, after::Waiting};
use uuid::Uuid;

use crate::{
    rows::{self, get},
    session::Session,
    store::failed,
};

/// The statement that follows [`ENQUEUE`](crate::ENQUEUE) in the same transaction for jobs that wait for others, for
/// adapters to other drivers:
///
/// | bind | type | |
/// |---|---|---|
/// | `$1` | `uuid[]` | jobs that wait |
/// | `$2` | `uuid[]` | whom each of them waits for: pairs with the first |
/// | `$3` | `uuid[]` | jobs that wait, each once |
/// | `$4` | `text[]` | what becomes of each if another one fails: `fail`, `run` or `cancel` |
/// | `$5` | `uuid[]` | of those that are waited for, the ones that need not be there any more |
///
/// Only for jobs that were not there before. If one waits for a job that is not there, the statement fails with SQLSTATE
/// [`REFUSED`](crate::REFUSED) and the reason as its message.
pub const ENQUEUE_AFTER: &str = include_str!("../sql/enqueue_after.sql");

/// What is told to one who is not in a transaction.
pub const NO_TRANSACTION: &str = "after: a job that waits for others is submitted in a transaction; begin one";

pub(crate) fn any(jobs: &[NewJob]) -> bool {
    jobs.iter().any(|job| !job.after.is_empty())
}

/// What is stored and what it waits for come together or not at all: outside a transaction they could not.
pub(crate) async fn need_transaction(client: &impl GenericClient) -> Result<()> {
    const NAME: &str = "turnwise_after";
    match client.batch_execute(&format!("savepoint {NAME}")).await {
        Err(error) if error.code() == Some(&SqlState::NO_ACTIVE_SQL_TRANSACTION) => {
            Err(StoreError::Refused(NO_TRANSACTION.to_owned()))
        }
        Err(error) => Err(failed("enqueue")(error)),
        Ok(()) => client.batch_execute(&format!("release savepoint {NAME}")).await.map_err(failed("enqueue")),
    }
}

/// Writes down whom the new ones among `jobs` wait for, after they were stored themselves: each may wait for any other.
pub(crate) async fn write(client: &impl Session, jobs: &[NewJob], enqueued: &[Enqueued]) -> Result<()> {
    let Waiting { jobs, stand_ins } = Waiting::of(jobs, enqueued)?;
    if jobs.is_empty() {
        return Ok(());
    }
    let pairs = || jobs.iter().flat_map(|(job, _, awaited)| awaited.iter().map(|awaited| (job.0, awaited.0)));
    let (waiting, awaited): (Vec<Uuid>, Vec<Uuid>) = pairs().unzip();
    let ids: Vec<Uuid> = jobs.iter().map(|(job, ..)| job.0).collect();
    let policies: Vec<&str> = jobs.iter().map(|(_, on_failure, _)| on_failure.name()).collect();
    let stand_ins: Vec<Uuid> = stand_ins.into_iter().map(|id| id.0).collect();
    client
        .execute(ENQUEUE_AFTER, &[&waiting, &awaited, &ids, &policies, &stand_ins])
        .await
        .map_err(failed("enqueue"))?;
    Ok(())
}

/// Completes heads of jobs that wait for others. Read a moment after the heads: who has ended meanwhile has ended, and
/// that is told again.
pub(crate) async fn complete<'a>(client: &impl Session, heads: impl Iterator<Item = &'a mut JobHead>) -> Result<()> {
    // A job may be told twice, as new and as changed.
    let mut waiting: HashMap<Uuid, Vec<&mut Awaits>> = HashMap::new();
    for head in heads {
        if let Some(awaits) = head.awaits.as_deref_mut() {
            waiting.entry(head.id.0).or_default().push(awaits);
        }
    }
    if waiting.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = waiting.keys().copied().collect();
    let rows = client.query(include_str!("../sql/awaits.sql"), &[&ids]).await;
    for row in rows.map_err(failed("read whom jobs wait for"))? {
        let id = JobId(get(&row, 1)?);
        let ended = get::<Option<i16>>(&row, 2)?.map(|_| rows::state(&row, 2)).transpose()?;
        for awaits in waiting.get_mut(&get::<Uuid>(&row, 0)?).into_iter().flatten() {
            match ended {
                None => awaits.open.push(id),
                Some(state) => drop(awaits.ended_badly.get_or_insert((id, state))),
            }
        }
    }
    Ok(())
}

/// The beginning of what [`complete`] completes.
pub(crate) fn incomplete(on_failure: OnFailure) -> Box<Awaits> {
    Box::new(Awaits { on_failure, open: Vec::new(), ended_badly: None })
}

/// The columns of `story_after.sql`.
pub(crate) fn after(rows: &[Row]) -> Result<After> {
    let (mut ids, mut on_failure) = (Vec::with_capacity(rows.len()), OnFailure::default());
    for row in rows {
        ids.push(JobId(get(row, 0)?));
        on_failure = rows::on_failure(row, 1)?.unwrap_or_default();
    }
    After::new(ids, on_failure).map_err(|error| StoreError::broken("read whom a job waits for", error))
}
