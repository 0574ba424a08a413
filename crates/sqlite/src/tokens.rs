//! Tokens: who may ask a server for what.

use std::{cmp::Reverse, num::NonZeroU32};

use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use turnwise_core::{
    Timestamp, TokenName,
    access::{MAX_TOKENS, NewToken, Token, TokenId},
    audit::NewAuditLine,
};
use turnwise_store::{
    FoundToken, TokenHash,
    operators::{grant_text, read_grant, too_many_tokens},
};

use crate::{audit, errors::Failure, rows};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn create(
    conn: &Connection,
    token: NewToken,
    hash: TokenHash,
    line: Option<&NewAuditLine>,
    now: Timestamp,
) -> Result<Token> {
    if let Some(known) = by_id(conn, token.id)? {
        return Ok(known);
    }
    let (spent, kept): (Vec<_>, Vec<_>) = all(conn)?.into_iter().partition(|token| token.is_spent(now));
    if kept.len() >= MAX_TOKENS {
        return Err(too_many_tokens().into());
    }
    let mut delete = conn.prepare_cached(include_str!("../sql/token_delete.sql"))?;
    for token in spent {
        delete.execute([token.id.0.as_bytes()])?;
    }
    let token = token.created(now);
    conn.prepare_cached(include_str!("../sql/token_create.sql"))?.execute(params![
        token.id.0.as_bytes(),
        hash.0,
        token.name.as_str(),
        token.prefix,
        grant_text(&token.grant),
        token.rate.map(NonZeroU32::get),
        now.micros(),
        token.expires_at.map(Timestamp::micros),
    ])?;
    audit::write(conn, line, now)?;
    Ok(token)
}

pub(crate) fn find(conn: &Connection, hash: TokenHash, now: Timestamp) -> Result<FoundToken> {
    let token = one(conn, include_str!("../sql/token_find.sql"), [hash.0])?;
    let any = conn.prepare_cached(include_str!("../sql/token_any.sql"))?.query_row((), |row| row.get(0))?;
    Ok(FoundToken { token, any, now })
}

/// Newest first.
pub(crate) fn all(conn: &Connection) -> Result<Vec<Token>> {
    let mut tokens = conn.prepare_cached(include_str!("../sql/tokens.sql"))?;
    let all =
        tokens.query_map([MAX_TOKENS.cast_signed()], token)?.collect::<rusqlite::Result<turnwise_store::Result<_>>>();
    let mut all: Vec<Token> = all??;
    all.sort_by_key(|token| Reverse((token.created_at, token.id)));
    Ok(all)
}

pub(crate) fn revoke(
    conn: &Connection,
    id: TokenId,
    line: Option<&NewAuditLine>,
    now: Timestamp,
) -> Result<Option<Token>> {
    let mut revoke = conn.prepare_cached(include_str!("../sql/token_revoke.sql"))?;
    if revoke.execute(params![id.0.as_bytes(), now.micros()])? > 0 {
        audit::write(conn, line, now)?;
    }
    by_id(conn, id)
}

pub(crate) fn note_uses(conn: &Connection, ids: &[TokenId], now: Timestamp) -> Result<()> {
    let mut note = conn.prepare_cached(include_str!("../sql/token_use.sql"))?;
    for id in ids {
        if by_id(conn, *id)?.is_some_and(|token| token.notes_use(now)) {
            note.execute(params![id.0.as_bytes(), now.micros()])?;
        }
    }
    Ok(())
}

pub(crate) fn by_id(conn: &Connection, id: TokenId) -> Result<Option<Token>> {
    one(conn, include_str!("../sql/token.sql"), [id.0.as_bytes()])
}

fn one(conn: &Connection, sql: &str, binds: impl Params) -> Result<Option<Token>> {
    Ok(conn.prepare_cached(sql)?.query_row(binds, token).optional()?.transpose()?)
}

/// A row that can be read; whether this version knows what it grants is another question.
fn token(row: &Row<'_>) -> rusqlite::Result<turnwise_store::Result<Token>> {
    let prefix: String = row.get(2)?;
    let grant = match read_grant(&prefix, row.get_ref(3)?.as_str()?) {
        Ok(grant) => grant,
        Err(error) => return Ok(Err(error)),
    };
    Ok(Ok(Token {
        id: TokenId(rows::uuid(row, 0)?),
        name: TokenName::stored(row.get::<_, String>(1)?.into()),
        prefix,
        grant,
        rate: row.get::<_, Option<u32>>(4)?.and_then(NonZeroU32::new),
        created_at: Timestamp::from_micros(row.get(5)?),
        expires_at: rows::moment(row, 6)?,
        last_used_at: rows::moment(row, 7)?,
        revoked_at: rows::moment(row, 8)?,
    }))
}
