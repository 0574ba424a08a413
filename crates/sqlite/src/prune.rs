//! Cleaning up: what need not be kept any longer, the oldest first.

use rusqlite::{Connection, params};
use turnwise_core::{JobId, Retention, Timestamp, lifecycle::End};
use turnwise_store::{Cursor, Loss};

use crate::{after, audit, errors::Failure, news::LastNumbers, once, rows, story, unique};

type Result<T> = std::result::Result<T, Failure>;

/// How many jobs are pruned before the deleted rows of their stories are counted.
const PRUNED_AT_ONCE: usize = 64;

pub(crate) fn prune(
    conn: &Connection,
    keys: &unique::KeyCursor,
    seen: Option<&Cursor>,
    limit: u32,
    kept: Retention,
    now: Timestamp,
) -> Result<u64> {
    let mut pruned = 0;
    for end in End::ALL {
        pruned += prune_history(conn, end, kept.edge(end, now), (limit as usize).saturating_sub(pruned))?;
    }
    pruned += unique::prune(conn, keys, limit, now)?;
    let mut losses = conn.prepare_cached(include_str!("../sql/prune_lost.sql"))?;
    pruned += losses.execute(params![Loss::edge(now).micros(), limit])?;
    pruned += once::prune(conn, limit as usize, now)?;
    pruned += audit::prune(conn, limit, now)?;
    if let Some(cursor) = seen {
        let mut changes = conn.prepare_cached(include_str!("../sql/prune_changes.sql"))?;
        pruned += changes.execute(params![LastNumbers::read(cursor)?.change, limit])?;
    }
    Ok(pruned as u64)
}

/// Deletes finished jobs with their stories: `limit` jobs, or fewer once `limit` rows of stories are deleted, which are then
/// counted too, because there may be more to do. Without that, jobs with long logs would keep all other callers from the one
/// writer for as long as it takes to delete millions of lines.
fn prune_history(conn: &Connection, end: End, edge: Timestamp, limit: usize) -> Result<usize> {
    let mut history = conn.prepare_cached(include_str!("../sql/prune_history.sql"))?;
    let (mut jobs, mut story_rows) = (0, 0);
    while jobs < limit {
        let some = PRUNED_AT_ONCE.min(limit - jobs);
        let old = params![end.state().code(), edge.micros(), some.cast_signed()];
        let pruned = history.query_map(old, |row| rows::uuid(row, 0).map(JobId::from_uuid))?;
        let pruned = pruned.collect::<rusqlite::Result<Vec<_>>>()?;
        for id in &pruned {
            after::remember_end(conn, *id, end.state())?;
        }
        let last = pruned.len() < some;
        jobs += pruned.len();
        story_rows += story::forget_all(conn, pruned)?;
        if story_rows >= limit {
            return Ok(jobs + story_rows);
        }
        if last {
            break;
        }
    }
    Ok(jobs)
}
