//! Jobs that wait for jobs: written when they are submitted, read with the heads of those that wait.

use std::collections::HashMap;

use tokio_postgres::{GenericClient, Row};
use turnwise_core::{After, JobHead, JobId, NewJob, OnFailure, after::Awaits};
use turnwise_store::{Result, StoreError, Submitted, after::Waiting};
use uuid::Uuid;

use crate::{
    errors::{failed, tells_of_no_transaction},
    rows::{self, get},
    session::Session,
    submit::{Awaited, Submitting},
};

/// The refusal for a caller that has no transaction open.
pub const NO_TRANSACTION: &str = "after: a job that waits for others is submitted in a transaction; begin one";

pub(crate) fn any(jobs: &[NewJob]) -> bool {
    jobs.iter().any(|job| !job.after.is_empty())
}

pub(crate) const SAVEPOINT: &str = "savepoint turnwise_after";
pub(crate) const RELEASE: &str = "release savepoint turnwise_after";

/// A job and the list of jobs it waits for are stored together or not at all; outside a transaction that is not possible.
pub(crate) async fn need_transaction(client: &impl GenericClient) -> Result<()> {
    match client.batch_execute(SAVEPOINT).await {
        Err(error) if error.code().is_some_and(|code| tells_of_no_transaction(code.code())) => {
            Err(StoreError::Refused(NO_TRANSACTION.to_owned()))
        }
        Err(error) => Err(failed("enqueue")(error)),
        Ok(()) => client.batch_execute(RELEASE).await.map_err(failed("enqueue")),
    }
}

/// Writes down which jobs the new ones among `jobs` wait for, after they were stored themselves: each may wait for any other.
pub(crate) async fn write(session: &mut impl Submitting, jobs: &[NewJob], enqueued: &[Submitted]) -> Result<()> {
    let waiting = Waiting::of(jobs, enqueued)?;
    if waiting.jobs.is_empty() {
        return Ok(());
    }
    session.wait_for(&Awaited::of(waiting)).await
}

/// Completes heads of jobs that wait for others. Read a moment after the heads: a job that has ended meanwhile counts as ended
/// here, and its end comes as news again.
pub(crate) async fn complete<'a>(client: &impl Session, heads: impl Iterator<Item = &'a mut JobHead>) -> Result<()> {
    // A job may be among the heads twice, as new and as changed.
    let mut waiting: HashMap<Uuid, Vec<&mut Awaits>> = HashMap::new();
    for head in heads {
        if let Some(awaits) = head.awaits.as_deref_mut() {
            waiting.entry(head.id.uuid()).or_default().push(awaits);
        }
    }
    if waiting.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = waiting.keys().copied().collect();
    let rows = client.query(include_str!("../sql/awaits.sql"), &[&ids]).await;
    for row in rows.map_err(failed("read what jobs wait for"))? {
        let id = JobId::from_uuid(get(&row, 1)?);
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
        ids.push(JobId::from_uuid(get(row, 0)?));
        on_failure = rows::on_failure(row, 1)?.unwrap_or_default();
    }
    After::new(ids, on_failure).map_err(|error| StoreError::broken("read what a job waits for", error))
}
