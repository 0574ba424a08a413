//! Tickets, and the bearers that they are redeemed for.

use turnwise_core::audit::NewAuditLine;
use turnwise_store::{
    FoundTicket, NewTicket, Redeem, Result, TokenHash,
    operators::{grant_text, origins_text, read_grant, read_origins, too_many_tickets},
};

use crate::{
    audit,
    connect::connection,
    errors::failed,
    rows::{self, Moment, get},
    session::{Begin, Bind, Session},
    store::Inner,
    tokens,
};

pub(crate) async fn make(store: &Inner, ticket: NewTicket, line: Option<&NewAuditLine>) -> Result<()> {
    let fail = failed("make a ticket");
    let NewTicket { hash, token, grant, origins, until } = ticket;
    let (hash, granted, origins, until) =
        (hash.0.as_slice(), grant_text(&grant), origins_text(&origins), Moment(until));
    let mut client = connection(&store.pools.people).await?;
    let transaction = client.begin().await.map_err(fail)?;
    transaction.execute(include_str!("../sql/tickets_over.sql"), &[]).await.map_err(fail)?;
    let others = transaction.query_one(include_str!("../sql/tickets.sql"), &[&hash, &token.0]).await.map_err(fail)?;
    let number = |at| -> Result<usize> { Ok(usize::try_from(get::<i64>(&others, at)?).unwrap_or_default()) };
    if let Some(refused) = too_many_tickets(number(0)?, number(1)?) {
        return Err(refused);
    }
    let binds: [Bind<'_>; 5] = [&hash, &token.0, &granted, &origins, &until];
    let new = transaction.execute(include_str!("../sql/ticket_make.sql"), &binds).await.map_err(fail)? > 0;
    audit::write(&transaction, line.filter(|_| new).as_slice()).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)
}

pub(crate) async fn redeem(store: &Inner, redeem: Redeem) -> Result<Option<FoundTicket>> {
    let (ticket, bearer, until) = (redeem.ticket.0.as_slice(), redeem.bearer.0.as_slice(), Moment(redeem.until));
    let client = connection(&store.pools.people).await?;
    let once = client.execute(include_str!("../sql/ticket_redeem.sql"), &[&ticket, &bearer, &until]).await;
    once.map_err(failed("redeem a ticket"))?;
    find_on(&client, redeem.bearer).await
}

pub(crate) async fn find_bearer(store: &Inner, hash: TokenHash) -> Result<Option<FoundTicket>> {
    find_on(&connection(&store.pools.people).await?, hash).await
}

async fn find_on(session: &impl Session, hash: TokenHash) -> Result<Option<FoundTicket>> {
    let rows = session.query(include_str!("../sql/bearer_find.sql"), &[&hash.0.as_slice()]).await;
    let rows = rows.map_err(failed("find a ticket's bearer"))?;
    let Some(row) = rows.first() else { return Ok(None) };
    let token = tokens::read(row)?;
    let grant = read_grant(&token.prefix, get(row, 9)?)?;
    let origins = read_origins(get(row, 10)?);
    Ok(Some(FoundTicket { token, grant, origins, until: rows::now(row, 11)?, now: rows::now(row, 12)? }))
}
