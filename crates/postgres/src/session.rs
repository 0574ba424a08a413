//! What statements are sent on, and how: a connection of ours, a transaction on one, a task's transaction, or a caller's.
//!
//! On a connection of our own a statement is prepared once, under a name, and relies on the settings of the session. A pooler
//! that gives each transaction another session keeps neither: there a statement goes without a name, and the settings it relies
//! on go along with each transaction, in the same write.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use deadpool_postgres::StatementCache;
use futures_util::future::join_all;
use tokio_postgres::{
    Client, GenericClient, IsolationLevel, Row, Statement,
    types::{ToSql, Type},
};

use crate::connect::Purpose;

pub(crate) type Answer<T> = std::result::Result<T, tokio_postgres::Error>;

pub(crate) type Bind<'a> = &'a (dyn ToSql + Sync);
pub(crate) type Binds<'a> = Vec<Bind<'a>>;

/// How statements are sent.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// Prepared once on this connection.
    Named(&'a StatementCache),
    /// Behind a pooler.
    Unnamed(&'a Types),
    /// On a connection that is not ours to fill with statements.
    Once,
}

/// The types of statements' binds, which a statement without a name must say.
#[derive(Default)]
pub(crate) struct Types(Mutex<HashMap<String, Arc<[Type]>>>);

impl Types {
    /// There are fewer statements than this, except for those with a slice's name in them.
    const MOST: usize = 500;

    fn known(&self, sql: &str) -> Option<Arc<[Type]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(sql).cloned()
    }

    /// Asks the server, in an open transaction: the name that this takes is given back before another session has it.
    async fn learn(&self, client: &Client, sql: &str) -> Answer<Arc<[Type]>> {
        if let Some(types) = self.known(sql) {
            return Ok(types);
        }
        let types: Arc<[Type]> = client.prepare(sql).await?.params().into();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= Self::MOST {
            known.clear();
        }
        known.insert(sql.to_owned(), Arc::clone(&types));
        Ok(types)
    }
}

/// Where statements go.
#[derive(Clone, Copy)]
pub(crate) struct Wire<'a> {
    pub(crate) client: &'a Client,
    pub(crate) way: Way<'a>,
    /// No transaction is open, and the settings of this purpose must go along with each.
    pub(crate) alone: Option<Purpose>,
}

/// A statement that can be sent without asking first.
pub(crate) enum Ready<'s> {
    Named(Statement),
    Unnamed(&'s str, Arc<[Type]>),
    Once(&'s str),
}

impl Ready<'_> {
    async fn query(&self, client: &Client, binds: &[Bind<'_>]) -> Answer<Vec<Row>> {
        match self {
            Self::Named(statement) => client.query(statement, binds).await,
            Self::Unnamed(sql, types) => client.query_typed(sql, &typed(binds, types)).await,
            Self::Once(sql) => client.query(*sql, binds).await,
        }
    }

    async fn query_one(&self, client: &Client, binds: &[Bind<'_>]) -> Answer<Row> {
        match self {
            Self::Named(statement) => client.query_one(statement, binds).await,
            Self::Unnamed(sql, types) => client.query_typed_one(sql, &typed(binds, types)).await,
            Self::Once(sql) => client.query_one(*sql, binds).await,
        }
    }

    async fn execute(&self, client: &Client, binds: &[Bind<'_>]) -> Answer<u64> {
        match self {
            Self::Named(statement) => client.execute(statement, binds).await,
            Self::Unnamed(sql, types) => client.execute_typed(sql, &typed(binds, types)).await,
            Self::Once(sql) => client.execute(*sql, binds).await,
        }
    }
}

fn typed<'a>(binds: &[Bind<'a>], types: &[Type]) -> Vec<(Bind<'a>, Type)> {
    debug_assert_eq!(binds.len(), types.len(), "the statement has as many binds");
    binds.iter().copied().zip(types.iter().cloned()).collect()
}

impl<'a> Wire<'a> {
    /// The connection, or the transaction, of a caller.
    pub(crate) fn of_caller(client: &'a impl GenericClient) -> Self {
        Self { client: client.client(), way: Way::Once, alone: None }
    }

    /// For statements whose text is never the same again: a connection would keep each of them.
    pub(crate) fn rarely(self) -> Self {
        match self.way {
            Way::Named(_) => Self { way: Way::Once, ..self },
            Way::Unnamed(_) | Way::Once => self,
        }
    }

    async fn ready<'s>(&self, sql: &'s str) -> Answer<Ready<'s>> {
        match self.way {
            Way::Named(cache) => Ok(Ready::Named(cache.prepare(self.client, sql).await?)),
            Way::Once => Ok(Ready::Once(sql)),
            Way::Unnamed(types) => {
                let known = match (types.known(sql), self.alone) {
                    (Some(types), _) => types,
                    (None, None) => types.learn(self.client, sql).await?,
                    (None, Some(purpose)) => {
                        self.client.batch_execute(&purpose.begin("begin", "")).await?;
                        let learnt = types.learn(self.client, sql).await;
                        self.client.batch_execute("commit").await?;
                        learnt?
                    }
                };
                Ok(Ready::Unnamed(sql, known))
            }
        }
    }

    /// Sends `what` in one write with the transaction around it, where it needs one.
    async fn send<T>(&self, what: impl Future<Output = Answer<T>>) -> Answer<T> {
        match self.alone {
            None => what.await,
            Some(purpose) => self.in_one_write(&purpose.begin("begin", ""), what).await,
        }
    }

    /// Futures are first polled in order, and a statement is sent when it is first polled.
    async fn in_one_write<T>(&self, begin: &str, what: impl Future<Output = Answer<T>>) -> Answer<T> {
        let commit = self.client.batch_execute("commit");
        let (begun, reply, committed) = tokio::join!(biased; self.client.batch_execute(begin), what, commit);
        begun?;
        let reply = reply?;
        committed?;
        Ok(reply)
    }

    /// Sends `parts` one after the other without waiting for replies in between. Of several errors the first is
    /// returned: the others only report that the transaction is over.
    pub(crate) async fn send_all(&self, parts: &[Part<'_>], ready: &[Ready<'_>]) -> Answer<Vec<Vec<Row>>> {
        let all = parts.iter().zip(ready);
        let replies = join_all(all.map(|(part, ready)| ready.query(self.client, &part.binds))).await;
        replies.into_iter().collect()
    }

    /// So that they can be sent together.
    pub(crate) async fn all_ready<'s>(&self, parts: &[Part<'s>]) -> Answer<Vec<Ready<'s>>> {
        let mut ready = Vec::with_capacity(parts.len());
        for part in parts {
            ready.push(self.ready(part.sql).await?);
        }
        Ok(ready)
    }
}

/// A statement of several that are sent together.
pub(crate) struct Part<'a> {
    sql: &'a str,
    binds: Binds<'a>,
}

impl<'a> Part<'a> {
    pub(crate) fn of(sql: &'a str, binds: Binds<'a>) -> Self {
        Self { sql, binds }
    }
}

/// What a statement of ours can be sent on.
pub(crate) trait Session: Sync {
    fn wire(&self) -> Wire<'_>;

    fn query(&self, sql: &str, binds: &[Bind<'_>]) -> impl Future<Output = Answer<Vec<Row>>> + Send {
        async move {
            let wire = self.wire();
            let ready = wire.ready(sql).await?;
            wire.send(ready.query(wire.client, binds)).await
        }
    }

    /// Its one row.
    fn query_one(&self, sql: &str, binds: &[Bind<'_>]) -> impl Future<Output = Answer<Row>> + Send {
        async move {
            let wire = self.wire();
            let ready = wire.ready(sql).await?;
            wire.send(ready.query_one(wire.client, binds)).await
        }
    }

    /// How many rows it touched.
    fn execute(&self, sql: &str, binds: &[Bind<'_>]) -> impl Future<Output = Answer<u64>> + Send {
        async move {
            let wire = self.wire();
            let ready = wire.ready(sql).await?;
            wire.send(ready.execute(wire.client, binds)).await
        }
    }

    /// Sends `parts` in one write, in the transaction that is open.
    fn pipeline(&self, parts: &[Part<'_>]) -> impl Future<Output = Answer<Vec<Vec<Row>>>> + Send {
        async move {
            let wire = self.wire();
            let ready = wire.all_ready(parts).await?;
            wire.send(wire.send_all(parts, &ready)).await
        }
    }

    /// Runs `parts` as one transaction and sends all of it in one write: a process that is stopped here cannot leave a
    /// transaction open. One part is a transaction by itself.
    fn in_one_write(&self, begin: &str, parts: &[Part<'_>]) -> impl Future<Output = Answer<Vec<Vec<Row>>>> + Send {
        async move {
            match parts.len() {
                ..=1 => self.pipeline(parts).await,
                _ => self.in_a_transaction(begin, "", parts).await,
            }
        }
    }

    /// As [`in_one_write`](Self::in_one_write), and never without `begin`; `then` is what else is set for it.
    fn in_a_transaction(
        &self,
        begin: &str,
        then: &str,
        parts: &[Part<'_>],
    ) -> impl Future<Output = Answer<Vec<Vec<Row>>>> + Send {
        async move {
            let wire = self.wire();
            let ready = wire.all_ready(parts).await?;
            let begin = match wire.alone {
                Some(purpose) => Cow::Owned(purpose.begin(begin, then)),
                None if then.is_empty() => Cow::Borrowed(begin),
                None => Cow::Owned(format!("{begin}; {then}")),
            };
            wire.in_one_write(&begin, wire.send_all(parts, &ready)).await
        }
    }
}

impl Session for Wire<'_> {
    fn wire(&self) -> Wire<'_> {
        *self
    }
}

/// A transaction; rolled back when it is dropped.
pub(crate) struct Transaction<'a> {
    inner: tokio_postgres::Transaction<'a>,
    cache: Arc<StatementCache>,
    /// Behind a pooler.
    types: Option<&'a Types>,
}

impl<'a> Transaction<'a> {
    /// On a connection.
    pub(crate) async fn begin(
        client: &'a mut Client,
        cache: Arc<StatementCache>,
        pooled: Option<(&'a Types, Purpose)>,
    ) -> Answer<Self> {
        let Some((types, purpose)) = pooled else {
            return Ok(Self { inner: client.transaction().await?, cache, types: None });
        };
        let inner = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted).start().await?;
        inner.batch_execute(&purpose.local()).await?;
        Ok(Self { inner, cache, types: Some(types) })
    }

    /// What has no binds.
    pub(crate) async fn batch_execute(&self, sql: &str) -> Answer<()> {
        self.inner.batch_execute(sql).await
    }

    pub(crate) async fn commit(self) -> Answer<()> {
        self.inner.commit().await
    }

    pub(crate) async fn rollback(self) -> Answer<()> {
        self.inner.rollback().await
    }

    pub(crate) fn inner(&self) -> &tokio_postgres::Transaction<'a> {
        &self.inner
    }
}

impl Session for Transaction<'_> {
    fn wire(&self) -> Wire<'_> {
        let way = self.types.map_or_else(|| Way::Named(&self.cache), Way::Unnamed);
        Wire { client: self.inner.client(), way, alone: None }
    }
}

/// On what a transaction can begin.
pub(crate) trait Begin: Session + Send {
    fn begin(&mut self) -> impl Future<Output = Answer<Transaction<'_>>> + Send;
}

/// A savepoint.
impl Begin for Transaction<'_> {
    async fn begin(&mut self) -> Answer<Transaction<'_>> {
        let cache = Arc::clone(&self.cache);
        Ok(Transaction { inner: self.inner.transaction().await?, cache, types: self.types })
    }
}
