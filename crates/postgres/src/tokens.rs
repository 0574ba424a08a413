//! Tokens: who may ask a server for what.

use std::num::NonZeroU32;

use tokio_postgres::{Row, types::ToSql};
use turnwise_core::{
    Timestamp, TokenName,
    access::{MAX_TOKENS, NOTE_USE_EVERY, NewToken, Token, TokenId},
    audit::NewAuditLine,
};
use turnwise_store::{
    FoundToken, Result, StoreError, TokenHash,
    operators::{grant_text, read_grant, too_many_tokens},
};
use uuid::Uuid;

use crate::{
    audit,
    connect::connection,
    errors::failed,
    rows::{self, Moment, get, micros, moment},
    session::{Begin, Session},
    store::Inner,
};

pub(crate) async fn create(
    store: &Inner,
    token: NewToken,
    hash: TokenHash,
    line: Option<&NewAuditLine>,
) -> Result<Token> {
    let fail = failed("create a token");
    let mut client = connection(&store.pools.people).await?;
    let transaction = client.begin().await.map_err(fail)?;
    let (tokens, now) = all_on(&transaction).await?;
    let known = tokens.iter().any(|known| known.id == token.id);
    let (spent, kept): (Vec<_>, Vec<_>) = tokens.into_iter().partition(|token| token.is_spent(now));
    if !known && kept.len() >= MAX_TOKENS {
        return Err(too_many_tokens());
    }
    let spent: Vec<Uuid> = spent.into_iter().filter(|_| !known).map(|token| token.id.0).collect();
    let (id, rate) = (token.id.0, token.rate.map(|rate| i64::from(rate.get())));
    let (name, granted, expires) = (token.name.as_str(), grant_text(&token.grant), token.expires_at.map(Moment));
    let hash = hash.0.as_slice();
    let binds: [&(dyn ToSql + Sync); 8] = [&id, &hash, &name, &token.prefix, &granted, &rate, &expires, &spent];
    let new = transaction.execute(include_str!("../sql/token_create.sql"), &binds).await.map_err(fail)? > 0;
    audit::write(&transaction, line.filter(|_| new).as_slice()).await.map_err(fail)?;
    let row = transaction.query_one(include_str!("../sql/token.sql"), &[&id]).await.map_err(fail)?;
    let stored = read(&row)?;
    transaction.commit().await.map_err(fail)?;
    Ok(stored)
}

pub(crate) async fn find(store: &Inner, hash: TokenHash) -> Result<FoundToken> {
    let client = connection(&store.pools.people).await?;
    let found = client.query_one(include_str!("../sql/token_find.sql"), &[&hash.0.as_slice()]).await;
    let row = found.map_err(failed("find a token"))?;
    let token = get::<Option<Uuid>>(&row, 0)?.map(|_| read(&row)).transpose()?;
    Ok(FoundToken { token, any: get(&row, 9)?, now: rows::now(&row, 10)? })
}

pub(crate) async fn all(store: &Inner) -> Result<(Vec<Token>, Timestamp)> {
    all_on(&connection(&store.pools.people).await?).await
}

/// Newest first, and the time.
async fn all_on(session: &impl Session) -> Result<(Vec<Token>, Timestamp)> {
    let fail = failed("list tokens");
    let most = i64::try_from(MAX_TOKENS).unwrap_or(i64::MAX);
    let rows = session.query(include_str!("../sql/tokens.sql"), &[&most]).await.map_err(fail)?;
    let now = match rows.first() {
        Some(row) => rows::now(row, 9)?,
        None => rows::now(&session.query_one(include_str!("../sql/now.sql"), &[]).await.map_err(fail)?, 0)?,
    };
    Ok((rows.iter().map(read).collect::<Result<_>>()?, now))
}

pub(crate) async fn revoke(store: &Inner, id: TokenId, line: Option<&NewAuditLine>) -> Result<Option<Token>> {
    let fail = failed("revoke a token");
    let mut client = connection(&store.pools.people).await?;
    let transaction = client.begin().await.map_err(fail)?;
    let rows = transaction.query(include_str!("../sql/token_revoke.sql"), &[&id.0]).await.map_err(fail)?;
    let Some(row) = rows.first() else { return Ok(None) };
    let (token, first) = (read(row)?, get::<bool>(row, 9)?);
    audit::write(&transaction, line.filter(|_| first).as_slice()).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)?;
    Ok(Some(token))
}

pub(crate) async fn note_uses(store: &Inner, ids: &[TokenId]) -> Result<()> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let client = connection(&store.pools.people).await?;
    let noted = client.execute(include_str!("../sql/token_use.sql"), &[&ids, &micros(NOTE_USE_EVERY)]).await;
    noted.map(drop).map_err(failed("note the use of tokens"))
}

pub(crate) fn read(row: &Row) -> Result<Token> {
    let prefix: String = get(row, 2)?;
    let rate = get::<Option<i64>>(row, 4)?.map(|rate| u32::try_from(rate).ok().and_then(NonZeroU32::new));
    Ok(Token {
        id: TokenId(get(row, 0)?),
        name: TokenName::stored(get::<&str>(row, 1)?.into()),
        grant: read_grant(&prefix, get(row, 3)?)?,
        prefix,
        rate: rate
            .map(|rate| rate.ok_or_else(|| StoreError::broken("read a token", "its rate is no rate")))
            .transpose()?,
        created_at: rows::now(row, 5)?,
        expires_at: moment(row, 6)?,
        last_used_at: moment(row, 7)?,
        revoked_at: moment(row, 8)?,
    })
}
