//! Unique keys: which jobs may be stored, which job stands for one that may not, and which keys are of no use any more.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension, Row, params};
use turnwise_core::{
    Job, JobId, NewJob, Timestamp, Unique, UniqueKey,
    unique::{Claim, Holding, OnDuplicate, Replacing, replace},
};
use turnwise_store::{Duplicate, StoreError, Submitted};

use crate::{errors::Failure, rows};

type Result<T> = std::result::Result<T, Failure>;

/// Rows that are looked at for one that may be pruned: most keys are held for a while.
const LOOKS_PER_ROW: usize = 10;

/// What is to be done with a submitted job.
pub(crate) enum Entry {
    /// Stored, unless its id is there.
    In,
    /// Its key says that it was there before.
    Known,
    HeldBy(JobId),
}

/// Takes the free keys for `jobs`, in their order. Empty: none of them has a key.
pub(crate) fn claim(conn: &Connection, jobs: &[NewJob], now: Timestamp) -> Result<Vec<Entry>> {
    if jobs.iter().all(|job| job.unique.is_none()) {
        return Ok(Vec::new());
    }
    let mut seen = HashSet::new();
    // Jobs that have just got a key: not stored yet, but about to be.
    let mut coming = HashSet::new();
    let mut entries = Vec::with_capacity(jobs.len());
    for job in jobs {
        let repeated = !seen.insert(job.id);
        entries.push(match &job.unique {
            None => Entry::In,
            Some(_) if repeated => Entry::Known,
            Some(unique) => claim_one(conn, job, unique, &mut coming, now)?,
        });
    }
    Ok(entries)
}

fn claim_one(
    conn: &Connection,
    job: &NewJob,
    unique: &Unique,
    coming: &mut HashSet<JobId>,
    now: Timestamp,
) -> Result<Entry> {
    let known =
        conn.prepare_cached(include_str!("../sql/key_known.sql"))?.query_row([job.id.as_bytes()], |row| row.get(0));
    if known? {
        return Ok(Entry::Known);
    }
    let (scope, key) = (unique.scope.of(job), unique.key.as_str());
    let claimed = Holding::new(job.id, unique.hold, now);
    let put = |sql| -> Result<usize> {
        let expires = claimed.expires.map(Timestamp::micros);
        let values = params![scope, key, claimed.job.as_bytes(), claimed.until_ended, expires];
        Ok(conn.prepare_cached(sql)?.execute(values)?)
    };
    // Written before it is read: a caller's transaction has the lock then, and what is read stays so.
    if put(include_str!("../sql/key_insert.sql"))? == 1 {
        coming.insert(job.id);
        return Ok(Entry::In);
    }
    let (holding, unfinished) = conn
        .prepare_cached(include_str!("../sql/key_holder.sql"))?
        .query_row(params![scope, key], |row| Ok((holding(row, 0)?, row.get::<_, bool>(3)?)))?;
    match holding.claim(job.id, unfinished || coming.contains(&holding.job), now) {
        Claim::Own => Ok(Entry::Known),
        Claim::HeldBy(holder) if unique.on_duplicate == OnDuplicate::Reject => {
            Err(StoreError::Duplicate { holder, text: unique.refusal(job, holder) }.into())
        }
        Claim::HeldBy(holder) => Ok(Entry::HeldBy(holder)),
        Claim::Free => {
            put(include_str!("../sql/key_take.sql"))?;
            coming.insert(job.id);
            Ok(Entry::In)
        }
    }
}

/// The reply to a submit whose key `holder` has, after doing what the submit asked for.
pub(crate) fn stand_in(conn: &Connection, holder: JobId, policy: OnDuplicate, job: &NewJob) -> Result<Submitted> {
    if policy != OnDuplicate::ReplaceArgs {
        return Ok(Submitted::held_by(holder, Duplicate::Kept));
    }
    let may = conn
        .prepare_cached(include_str!("../sql/key_begun.sql"))?
        .query_row(params![holder.as_bytes(), job.task.as_str()], |row| {
            Ok(replace(row.get(3)?, rows::state(row, 0)?, row.get(1)?, row.get(2)?))
        })
        .optional()?
        // It has ended.
        .unwrap_or(Replacing::TooLate);
    if may == Replacing::Allowed {
        let mut replace = conn.prepare_cached(include_str!("../sql/replace_args.sql"))?;
        replace.execute(params![holder.as_bytes(), job.args.as_str()])?;
    }
    Ok(Submitted::held_by(holder, may.into()))
}

/// The jobs that hold this key now, in whatever scope.
pub(crate) fn holders(conn: &Connection, key: &str, now: Timestamp) -> Result<Vec<JobId>> {
    let mut holders = conn.prepare_cached(include_str!("../sql/key_holders.sql"))?;
    let holders = holders.query_map([key], |row| Ok((holding(row, 0)?, row.get::<_, bool>(3)?)))?;
    let holders = holders.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(holders.into_iter().filter(|(held, left)| held.holds(*left, now)).map(|(held, _)| held.job).collect())
}

/// Sets the key that each of `jobs` holds now: a look for each of them, unless no job has a key.
pub(crate) fn show_held(conn: &Connection, jobs: &mut [Job], now: Timestamp) -> Result<()> {
    let any = conn.prepare_cached(include_str!("../sql/key_any.sql"))?.query_row((), |row| row.get::<_, bool>(0))?;
    if !any {
        return Ok(());
    }
    let mut held = conn.prepare_cached(include_str!("../sql/key_held.sql"))?;
    for job in jobs {
        let key =
            held.query_row([job.id.as_bytes()], |row| Ok((row.get(0)?, row.get::<_, String>(1)?, holding(row, 2)?)));
        if let Some((scope, key, held)) = key.optional()? {
            job.unique = held.shown(scope, UniqueKey::stored(key.into()), !job.state.finished(), now);
        }
    }
    Ok(())
}

/// Where the last look at the keys ended; the next goes on from there, so that all have their turn.
#[derive(Debug, Default)]
pub(crate) struct KeyCursor(Mutex<(String, String)>);

/// Deletes at most `limit` keys that no job can hold any more.
pub(crate) fn prune(conn: &Connection, place: &KeyCursor, limit: u32, now: Timestamp) -> Result<usize> {
    let mut after = place.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut page = conn.prepare_cached(include_str!("../sql/key_page.sql"))?;
    let mut delete = conn.prepare_cached(include_str!("../sql/key_delete.sql"))?;
    let limit = limit as usize;
    let (mut pruned, mut looked) = (0, 0);
    while pruned < limit && looked < limit * LOOKS_PER_ROW {
        let size = limit - pruned;
        let keys = page.query_map(params![after.0, after.1, size.cast_signed()], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, holding(row, 2)?, row.get::<_, bool>(5)?))
        })?;
        let keys = keys.collect::<rusqlite::Result<Vec<_>>>()?;
        for (scope, key, _, _) in keys.iter().filter(|(_, _, holding, known)| holding.is_spent(*known, now)) {
            pruned += delete.execute(params![scope, key])?;
        }
        looked += keys.len();
        let last = keys.len() < size;
        *after = keys.into_iter().last().filter(|_| !last).map(|(scope, key, ..)| (scope, key)).unwrap_or_default();
        if last {
            break;
        }
    }
    Ok(pruned)
}

pub(crate) fn holding(row: &Row<'_>, from: usize) -> rusqlite::Result<Holding> {
    Ok(Holding {
        job: JobId::from_uuid(rows::uuid(row, from)?),
        until_ended: row.get(from + 1)?,
        expires: rows::moment(row, from + 2)?,
    })
}
