//! Tickets, and the bearers that they are redeemed for.

use rusqlite::{Connection, OptionalExtension, Row, params};
use turnwise_core::{Timestamp, access::TokenId, audit::NewAuditLine};
use turnwise_store::{
    FoundTicket, NewTicket, Redeem, TokenHash,
    operators::{grant_text, origins_text, read_grant, read_origins, too_many_tickets},
};

use crate::{audit, errors::Failure, rows, tokens};

type Result<T> = std::result::Result<T, Failure>;

pub(crate) fn make(conn: &Connection, ticket: &NewTicket, line: Option<&NewAuditLine>, now: Timestamp) -> Result<()> {
    conn.prepare_cached(include_str!("../sql/tickets_over.sql"))?.execute([now.micros()])?;
    let NewTicket { hash, token, grant, origins, until } = ticket;
    let mut others = conn.prepare_cached(include_str!("../sql/tickets.sql"))?;
    let count = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?));
    let (all, of_token) = others.query_row(params![hash.0, token.0.as_bytes()], count)?;
    if let Some(refused) = too_many_tickets(number(all), number(of_token)) {
        return Err(refused.into());
    }
    let mut make = conn.prepare_cached(include_str!("../sql/ticket_make.sql"))?;
    let (granted, origins) = (grant_text(grant), origins_text(origins));
    if make.execute(params![hash.0, token.0.as_bytes(), granted, origins, until.micros()])? > 0 {
        audit::write(conn, line, now)?;
    }
    Ok(())
}

fn number(count: i64) -> usize {
    usize::try_from(count).unwrap_or_default()
}

pub(crate) fn redeem(conn: &Connection, redeem: Redeem, now: Timestamp) -> Result<Option<FoundTicket>> {
    let Redeem { ticket, bearer, until } = redeem;
    let mut once = conn.prepare_cached(include_str!("../sql/ticket_redeem.sql"))?;
    once.execute(params![ticket.0, bearer.0, until.micros(), now.micros()])?;
    find_bearer(conn, bearer, now)
}

pub(crate) fn find_bearer(conn: &Connection, hash: TokenHash, now: Timestamp) -> Result<Option<FoundTicket>> {
    let mut find = conn.prepare_cached(include_str!("../sql/bearer_find.sql"))?;
    let read = |row: &Row<'_>| {
        let token = TokenId(rows::uuid(row, 0)?);
        Ok((token, row.get::<_, String>(1)?, row.get::<_, String>(2)?, Timestamp::from_micros(row.get(3)?)))
    };
    let Some((token, granted, origins, until)) = find.query_row([hash.0], read).optional()? else { return Ok(None) };
    let Some(token) = tokens::by_id(conn, token)? else { return Ok(None) };
    let grant = read_grant(&token.prefix, &granted)?;
    Ok(Some(FoundTicket { token, grant, origins: read_origins(&origins), until, now }))
}
