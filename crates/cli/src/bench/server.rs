//! What the database server says about its own work; PostgreSQL only, SQLite counts nothing.

use serde::Serialize;
use tokio_postgres::{Client, NoTls};

use crate::error::Failure;

/// What is counted where there are no single statements to count.
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
        let (client, connection) = tokio_postgres::connect(database, NoTls).await.map_err(failed)?;
        // It ends with the client.
        tokio::spawn(connection);
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
        // Some hosted servers do not tell.
        let wal = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8";
        let wal = self.client.query_one(wal, &[]).await.and_then(|row| row.try_get(0)).ok();
        Ok(Reading { counted, calls, wal })
    }
}

impl Reading {
    pub(super) fn since(&self, before: &Reading) -> Spent {
        // The first reading asked twice after it had counted.
        let calls = (self.calls - before.calls - 2.0).max(0.0);
        let wal_bytes = self.wal.zip(before.wal).map(|(now, before)| now - before);
        Spent { counted: self.counted, calls, wal_bytes }
    }
}

fn failed(error: tokio_postgres::Error) -> Failure {
    let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::Other(format!("asking the server what it did: {error}{cause}"))
}
