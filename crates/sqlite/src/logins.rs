//! Log-ins of people.

use rusqlite::{Connection, OptionalExtension, params};
use turnwise_core::{
    Timestamp,
    access::{MAX_LOGINS, MAX_LOGINS_OF_ONE, TokenId},
};
use turnwise_store::{FoundLogin, NewLogin, TokenHash, operators::too_many_logins};

use crate::{errors::Failure, rows, tokens};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn log_in(conn: &Connection, login: &NewLogin, now: Timestamp) -> Result<()> {
    conn.prepare_cached(include_str!("../sql/logins_over.sql"))?.execute([now.micros()])?;
    end_spare(conn, login)?;
    let mut others = conn.prepare_cached(include_str!("../sql/logins.sql"))?;
    let others: i64 = others.query_row([login.hash.0], |row| row.get(0))?;
    if usize::try_from(others).is_ok_and(|others| others >= MAX_LOGINS) {
        return Err(too_many_logins().into());
    }
    let mut create = conn.prepare_cached(include_str!("../sql/login_create.sql"))?;
    create.execute(params![login.hash.0, login.token.0.as_bytes(), login.until.micros()])?;
    Ok(())
}

/// Makes room for one more log-in with the token: those that end first make it.
fn end_spare(conn: &Connection, login: &NewLogin) -> Result<()> {
    let mut own = conn.prepare_cached(include_str!("../sql/logins_of_token.sql"))?;
    let own = own.query_map(params![login.hash.0, login.token.0.as_bytes()], |row| Ok((row.get(1)?, row.get(0)?)))?;
    let mut own = own.collect::<rusqlite::Result<Vec<(i64, [u8; 32])>>>()?;
    own.sort_unstable();
    let spare = (own.len() + 1).saturating_sub(MAX_LOGINS_OF_ONE);
    own.into_iter().take(spare).try_for_each(|(_, hash)| log_out(conn, TokenHash(hash)))
}

pub(crate) fn find(conn: &Connection, hash: TokenHash, now: Timestamp) -> Result<Option<FoundLogin>> {
    let mut find = conn.prepare_cached(include_str!("../sql/login_find.sql"))?;
    let read = |row: &rusqlite::Row<'_>| Ok((TokenId(rows::uuid(row, 0)?), Timestamp::from_micros(row.get(1)?)));
    let Some((token, until)) = find.query_row([hash.0], read).optional()? else { return Ok(None) };
    Ok(tokens::by_id(conn, token)?.map(|token| FoundLogin { token, until, now }))
}

pub(crate) fn log_out(conn: &Connection, hash: TokenHash) -> Result<()> {
    conn.prepare_cached(include_str!("../sql/login_delete.sql"))?.execute([hash.0])?;
    Ok(())
}
