//! What the benchmark needs from the database beside the jobs: counts of its work (PostgreSQL only, SQLite counts nothing), and
//! a snapshot that is held open.

use std::path::PathBuf;

use serde::Serialize;
use tokio_postgres::Client;
use turnwise_sqlite::{
    SqliteStore,
    rusqlite::{Connection, OpenFlags},
};

use crate::error::Failure;

/// What the server's count is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Counted {
    /// As `pg_stat_statements` counts them.
    Statements,
    /// As `pg_stat_database` counts them: that extension is not there.
    Transactions,
}

/// A connection beside those that are measured.
pub(super) struct Server {
    client: Client,
    /// Where the view of statements is.
    statements: Option<String>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    counted: Counted,
    calls: f64,
    wal: Option<f64>,
}

/// What was done between two readings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    pub(super) counted: Counted,
    pub(super) calls: f64,
    pub(super) wal_bytes: Option<f64>,
}

impl Server {
    /// `None` where there is no server.
    pub(super) async fn connect(database: &str) -> Result<Option<Self>, Failure> {
        if !database.starts_with("postgres:") && !database.starts_with("postgresql:") {
            return Ok(None);
        }
        let client = turnwise_postgres::connect(database).await?;
        let mut server = Self { client, statements: None };
        server.statements = server.view_of_statements().await?;
        Ok(Some(server))
    }

    /// Only if it can be read: the extension may be there without the library.
    async fn view_of_statements(&self) -> Result<Option<String>, Failure> {
        let schema = "select quote_ident(nspname) from pg_extension join pg_namespace on pg_namespace.oid = extnamespace \
                      where extname = 'pg_stat_statements'";
        let Some(row) = self.client.query_opt(schema, &[]).await.map_err(failed)? else { return Ok(None) };
        let view = format!("{}.pg_stat_statements", row.try_get::<_, String>(0).map_err(failed)?);
        let readable = self.client.query_one(&format!("select count(*) from {view}"), &[]).await.is_ok();
        Ok(readable.then_some(view))
    }

    pub(super) async fn read(&self) -> Result<Reading, Failure> {
        let (counted, calls) = match &self.statements {
            Some(view) => {
                let own = "(select oid from pg_database where datname = current_database())";
                let calls = format!("select coalesce(sum(calls), 0)::float8 from {view} where dbid = {own}");
                (Counted::Statements, calls)
            }
            None => {
                let calls = "select (xact_commit + xact_rollback)::float8 from pg_stat_database \
                             where datname = current_database()";
                (Counted::Transactions, calls.to_owned())
            }
        };
        let calls = self.client.query_one(&calls, &[]).await.and_then(|row| row.try_get(0)).map_err(failed)?;
        // Some hosted servers refuse this.
        let wal = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8";
        let wal = self.client.query_one(wal, &[]).await.and_then(|row| row.try_get(0)).ok();
        Ok(Reading { counted, calls, wal })
    }
}

impl Reading {
    pub(super) fn since(&self, before: &Reading) -> Spent {
        // The first reading's own two statements count only after it.
        let calls = (self.calls - before.calls - 2.0).max(0.0);
        let wal_bytes = self.wal.zip(before.wal).map(|(now, before)| now - before);
        Spent { counted: self.counted, calls, wal_bytes }
    }
}

fn failed(error: tokio_postgres::Error) -> Failure {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::Other(format!("cannot read the server's statistics: {error}{cause}"))
}

/// A session with an open snapshot that is older than everything that is measured.
pub(super) enum Pin {
    Postgres(Client),
    Sqlite(Connection),
}

impl Pin {
    pub(super) async fn hold(database: &str) -> Result<Self, Failure> {
        if let Some(file) = sqlite_file(database)? {
            let reader = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(not_held)?;
            // The snapshot is taken by the first read.
            let read = "begin; select count(*) from sqlite_schema";
            reader.execute_batch(read).map_err(not_held)?;
            return Ok(Self::Sqlite(reader));
        }
        let client = turnwise_postgres::connect(database).await?;
        // The snapshot is taken by the first read, and the server must not end the session for being idle.
        let hold = ["set idle_in_transaction_session_timeout = 0", "begin isolation level repeatable read", "select 1"];
        for statement in hold {
            client.batch_execute(statement).await.map_err(not_held)?;
        }
        Ok(Self::Postgres(client))
    }

    /// An error if it was lost on the way.
    pub(super) async fn release(self) -> Result<(), Failure> {
        match self {
            Self::Postgres(client) => {
                // Where there is no transaction any more, a commit alone would be no error.
                client.batch_execute("savepoint held").await.map_err(not_held)?;
                client.batch_execute("commit").await.map_err(not_held)
            }
            Self::Sqlite(reader) => reader.execute_batch("commit").map_err(not_held),
        }
    }
}

fn sqlite_file(database: &str) -> Result<Option<PathBuf>, Failure> {
    if database.starts_with("sqlite:") { Ok(SqliteStore::file(database)?) } else { Ok(None) }
}

fn not_held(error: impl std::error::Error) -> Failure {
    let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::Other(format!("cannot hold a snapshot: {error}{cause}"))
}

#[cfg(test)]
mod tests {
    use turnwise_testpg::Cluster;

    use super::*;

    #[tokio::test]
    async fn a_pin_keeps_sqlite_from_cleaning_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("jobs.db");
        let writer = Connection::open(&file).unwrap();
        writer.execute_batch("pragma journal_mode = wal; create table t (n)").unwrap();
        let clean_up = || {
            writer.execute_batch("pragma busy_timeout = 0; insert into t values (1)").unwrap();
            writer.query_row("pragma wal_checkpoint(truncate)", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        let pin = Pin::hold(&format!("sqlite:{}", file.display())).await.unwrap();
        assert_eq!(clean_up(), 1, "another session is in the way");
        pin.release().await.unwrap();
        assert_eq!(clean_up(), 0);
    }

    #[tokio::test]
    async fn a_pin_that_postgres_has_lost_is_reported() {
        let cluster = Cluster::shared();
        let url = cluster.fresh_database().unwrap();
        Pin::hold(&url).await.unwrap().release().await.unwrap();
        let pin = Pin::hold(&url).await.unwrap();
        let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity \
                   where datname = current_database() and state = 'idle in transaction' and backend_xmin is not null";
        assert_eq!(cluster.psql(&url, end).unwrap(), "1");
        let lost = pin.release().await.unwrap_err();
        assert!(lost.text().is_some_and(|text| text.starts_with("cannot hold a snapshot: ")), "{lost:?}");
    }
}
