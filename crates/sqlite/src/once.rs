//! Submits that are done once.

use rusqlite::{Connection, OptionalExtension, params};
use turnwise_core::{OnceKey, Timestamp, access::TokenId};
use turnwise_store::{
    BodyHash, Once, SubmitOnce,
    operators::{KEEP_ONCE, KnownOnce, write_answers},
};
use uuid::Uuid;

use crate::{audit, bell::Ring, enqueue, errors::Failure};

type Result<T> = std::result::Result<T, Failure>;

/// The one writer does one call after the other: none finds another under way.
pub(crate) fn submit_once(conn: &Connection, submit: &SubmitOnce, now: Timestamp) -> Result<(Once, Ring)> {
    if let Some(answer) = find_once(conn, submit.caller, &submit.key, submit.body, now)? {
        return Ok((answer, Ring::NONE));
    }
    let caller = of_caller(submit.caller);
    let answers = enqueue::enqueue(conn, &submit.jobs, now)?;
    audit::write(conn, submit.line.as_deref(), now)?;
    let mut write = conn.prepare_cached(include_str!("../sql/once_write.sql"))?;
    let (body, key) = (submit.body.0, submit.key.as_str());
    write.execute(params![caller.as_bytes(), key, body, write_answers(&answers), now.micros()])?;
    Ok((Once::Submitted(answers), Ring::NEWS))
}

pub(crate) fn find_once(
    conn: &Connection,
    caller: Option<TokenId>,
    key: &OnceKey,
    body: BodyHash,
    now: Timestamp,
) -> Result<Option<Once>> {
    let known = conn.prepare_cached(include_str!("../sql/once.sql"))?.query_row(
        params![of_caller(caller).as_bytes(), key.as_str()],
        |row| {
            Ok(KnownOnce { body: BodyHash(row.get(0)?), answers: row.get(1)?, at: Timestamp::from_micros(row.get(2)?) })
        },
    );
    Ok(known.optional()?.map_or(Ok(None), |known| known.meets(body, now))?)
}

pub(crate) fn prune(conn: &Connection, limit: usize, now: Timestamp) -> Result<usize> {
    let mut prune = conn.prepare_cached(include_str!("../sql/prune_once.sql"))?;
    Ok(prune.execute(params![now.minus(KEEP_ONCE).micros(), limit.cast_signed()])?)
}

fn of_caller(caller: Option<TokenId>) -> Uuid {
    caller.map_or(Uuid::nil(), |caller| caller.0)
}
