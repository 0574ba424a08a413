//! Log-ins of people.

use turnwise_core::access::{MAX_LOGINS, MAX_LOGINS_OF_ONE};
use turnwise_store::{FoundLogin, NewLogin, Result, TokenHash, operators::too_many_logins};

use crate::{
    connect::connection,
    errors::failed,
    rows::{self, Moment, get},
    session::{Begin, Bind, Session},
    store::Inner,
    tokens,
};

pub(crate) async fn log_in(store: &Inner, login: NewLogin) -> Result<()> {
    let fail = failed("log in");
    let (hash, until) = (login.hash.0.as_slice(), Moment(login.until));
    let mut client = connection(&store.pools.people).await?;
    let transaction = client.begin().await.map_err(fail)?;
    transaction.execute(include_str!("../sql/logins_over.sql"), &[]).await.map_err(fail)?;
    let stay = i64::try_from(MAX_LOGINS_OF_ONE - 1).unwrap_or(i64::MAX);
    let spare: [Bind<'_>; 3] = [&hash, &login.token.0, &stay];
    transaction.execute(include_str!("../sql/logins_spare.sql"), &spare).await.map_err(fail)?;
    let others = transaction.query_one(include_str!("../sql/logins.sql"), &[&hash]).await.map_err(fail)?;
    if usize::try_from(get::<i64>(&others, 0)?).is_ok_and(|others| others >= MAX_LOGINS) {
        return Err(too_many_logins());
    }
    let create = include_str!("../sql/login_create.sql");
    transaction.execute(create, &[&hash, &login.token.0, &until]).await.map_err(fail)?;
    transaction.commit().await.map_err(fail)
}

pub(crate) async fn find(store: &Inner, hash: TokenHash) -> Result<Option<FoundLogin>> {
    let client = connection(&store.pools.people).await?;
    let rows = client.query(include_str!("../sql/login_find.sql"), &[&hash.0.as_slice()]).await;
    let rows = rows.map_err(failed("find a log-in"))?;
    let read = |row| Ok(FoundLogin { token: tokens::read(row)?, until: rows::now(row, 9)?, now: rows::now(row, 10)? });
    rows.first().map(read).transpose()
}

pub(crate) async fn log_out(store: &Inner, hash: TokenHash) -> Result<()> {
    let client = connection(&store.pools.people).await?;
    let ended = client.execute(include_str!("../sql/login_delete.sql"), &[&hash.0.as_slice()]).await;
    ended.map(drop).map_err(failed("log out"))
}
