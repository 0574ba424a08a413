//! How much there is, as the dispatcher writes it.

use rusqlite::{Connection, params};
use turnwise_core::{Incarnation, Timestamp};
use turnwise_store::{
    Epoch, FoundTotals,
    operators::{asked_until, read_totals},
};

use crate::{bell::Ring, errors::Failure, nodes::check_leading};

type Result<T> = std::result::Result<T, Failure>;

/// What was written last, and whether the question is to be written down.
pub(crate) fn find(conn: &Connection, now: Timestamp) -> Result<(FoundTotals, bool)> {
    let mut find = conn.prepare_cached(include_str!("../sql/totals.sql"))?;
    let found = find.query_row((), |row| {
        let until = Timestamp::from_micros(row.get(0)?);
        let at = row.get::<_, Option<i64>>(1)?.map(Timestamp::from_micros);
        let last = read_totals(at, row.get::<_, Option<String>>(2)?.as_deref());
        Ok((FoundTotals { now, last }, asked_until(now, until).is_some()))
    });
    Ok(found?)
}

/// Writes the question down, unless another process has meanwhile.
pub(crate) fn ask(conn: &Connection, now: Timestamp) -> Result<((), Ring)> {
    let before = until(conn)?;
    if let Some(until) = asked_until(now, before) {
        conn.prepare_cached(include_str!("../sql/totals_ask.sql"))?.execute([until.micros()])?;
    }
    Ok(((), if before <= now { Ring::NEWS } else { Ring::NONE }))
}

pub(crate) fn write(
    conn: &Connection,
    (holder, epoch): (Incarnation, Epoch),
    text: &str,
    now: Timestamp,
) -> Result<Option<Timestamp>> {
    check_leading(conn, holder, epoch)?;
    conn.prepare_cached(include_str!("../sql/totals_write.sql"))?.execute(params![now.micros(), text])?;
    asked(conn, now)
}

/// Until when totals are asked for, if they are.
pub(crate) fn asked(conn: &Connection, now: Timestamp) -> Result<Option<Timestamp>> {
    Ok(Some(until(conn)?).filter(|until| *until > now))
}

fn until(conn: &Connection) -> Result<Timestamp> {
    let mut asked = conn.prepare_cached(include_str!("../sql/totals_asked.sql"))?;
    Ok(Timestamp::from_micros(asked.query_row((), |row| row.get(0))?))
}
