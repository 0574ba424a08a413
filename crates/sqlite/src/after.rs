//! Jobs that wait for jobs: written when they are submitted, read with the heads of those that wait.

use rusqlite::{Connection, params};
use turnwise_core::{After, JobHead, JobId, JobState, NewJob, OnFailure, after::Awaits, story::MAX_AWAITED_BY};
use turnwise_store::{StoreError, Submitted, after::Waiting};

use crate::{errors::Failure, rows};

type Result<T> = std::result::Result<T, Failure>;

/// Writes down which jobs the new ones among `jobs` wait for, after they were stored themselves: each may wait for any other.
///
/// The awaited jobs are looked up under the file's write lock: none of them can end before this is committed, so a bad end that
/// is not kept always finds the waiting jobs that must record it.
pub(crate) fn write(conn: &Connection, jobs: &[NewJob], enqueued: &[Submitted]) -> Result<()> {
    if jobs.iter().all(|job| job.after.is_empty()) {
        return Ok(());
    }
    let waiting = Waiting::of(jobs, enqueued)?;
    let mut there = conn.prepare_cached(include_str!("../sql/enqueue_known.sql"))?;
    for id in waiting.awaited() {
        if !there.query_row([id.as_bytes()], |row| row.get::<_, bool>(0))? {
            return Err(Waiting::missing(id).into());
        }
    }
    let mut depends = conn.prepare_cached(include_str!("../sql/enqueue_waits.sql"))?;
    let mut depend = conn.prepare_cached(include_str!("../sql/enqueue_after.sql"))?;
    for (job, on_failure, awaited) in waiting.jobs {
        depends.execute(params![job.as_bytes(), on_failure.name()])?;
        for awaited in awaited {
            depend.execute(params![job.as_bytes(), awaited.as_bytes(), on_failure.name()])?;
        }
    }
    Ok(())
}

/// Completes heads of jobs that wait for others, in the same transaction that read them.
pub(crate) fn complete<'a>(conn: &Connection, heads: impl IntoIterator<Item = &'a mut JobHead>) -> Result<()> {
    for head in heads {
        let Some(awaits) = &mut head.awaits else { continue };
        let mut rows = conn.prepare_cached(include_str!("../sql/awaits.sql"))?;
        let mut rows = rows.query([head.id.as_bytes()])?;
        while let Some(row) = rows.next()? {
            let id = JobId::from_uuid(rows::uuid(row, 0)?);
            match rows::maybe_state(row, 1)? {
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

/// Which jobs a job waits for, and the first of those that wait for it.
pub(crate) fn both_sides(conn: &Connection, id: JobId) -> Result<(After, Vec<JobId>)> {
    let job = id.as_bytes();
    let mut after = conn.prepare_cached(include_str!("../sql/story_after.sql"))?;
    let (mut ids, mut on_failure) = (Vec::new(), OnFailure::default());
    let mut rows = after.query([job])?;
    while let Some(row) = rows.next()? {
        ids.push(JobId::from_uuid(rows::uuid(row, 0)?));
        on_failure = rows::on_failure(row, 1)?.unwrap_or_default();
    }
    let after = After::new(ids, on_failure).map_err(|error| StoreError::broken("read what a job waits for", error))?;
    let mut awaited_by = conn.prepare_cached(include_str!("../sql/story_awaited_by.sql"))?;
    let awaited_by =
        awaited_by.query_map(params![job, MAX_AWAITED_BY], |row| rows::uuid(row, 0).map(JobId::from_uuid))?;
    Ok((after, awaited_by.collect::<rusqlite::Result<_>>()?))
}

/// A job is no longer kept: jobs that wait for it record how it ended, if that was not with success.
pub(crate) fn remember_end(conn: &Connection, id: JobId, end: JobState) -> Result<()> {
    if end != JobState::Success {
        let mut remember = conn.prepare_cached(include_str!("../sql/remember_ends.sql"))?;
        remember.execute(params![id.as_bytes(), end.code()])?;
    }
    Ok(())
}

pub(crate) fn forget(conn: &Connection, id: JobId) -> Result<usize> {
    Ok(conn.prepare_cached(include_str!("../sql/forget_dependencies.sql"))?.execute([id.as_bytes()])?)
}
