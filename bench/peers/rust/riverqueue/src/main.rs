//! riverqueue: River for Rust.

use std::ops::Range;
use std::time::Duration;

use driver::{Error, Peer, Tuned};
use riverqueue::migrate::PostgresMigrator;
use riverqueue::{BoxError, Client, Job, JobArgs, QueueConfig, WorkContext, WorkOutcome, Workers};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

#[derive(Clone, Debug, Deserialize, JobArgs, Serialize)]
#[river(kind = "noop")]
struct Noop {
    id: u64,
    pad: String,
}

impl Noop {
    fn new(id: u64) -> Noop {
        Noop { id, pad: driver::pad() }
    }
}

async fn noop(_: WorkContext, job: Job<Noop>) -> Result<WorkOutcome, BoxError> {
    driver::ran(job.args.id);
    Ok(WorkOutcome::Complete)
}

struct Riverqueue {
    pool: PgPool,
    client: Client,
}

impl Peer for Riverqueue {
    const BATCH: u64 = 1_000;

    fn settings(tuned: Tuned) -> String {
        match tuned {
            Tuned::Throughput => "1,000 workers, fetch cooldown 2 ms, poll 20 ms; backlog filled by SQL",
            Tuned::Waiting => "100 workers, fetch cooldown 1 ms, poll 1 s",
            Tuned::Callers(_) => "insert",
        }
        .into()
    }

    async fn open(url: &str, tuned: Tuned) -> Result<Self, Error> {
        let (connections, workers, cooldown, poll) = match tuned {
            Tuned::Throughput => (20, 1_000, 2, 20),
            Tuned::Waiting => (20, 100, 1, 1_000),
            Tuned::Callers(callers) => (callers, 1, 1, 1_000),
        };
        let cooldown = Duration::from_millis(cooldown);
        let pool = PgPoolOptions::new().max_connections(connections).connect(url).await?;
        let mut handlers = Workers::new();
        handlers.add_fn(noop)?;
        let queue = QueueConfig::new(workers)
            .with_fetch_cooldown(cooldown)
            .with_fetch_poll_interval(Duration::from_millis(poll));
        let client =
            Client::builder(pool.clone()).fetch_cooldown(cooldown).workers(handlers).queue("default", queue).build()?;
        Ok(Riverqueue { pool, client })
    }

    async fn setup(&self) -> Result<(), Error> {
        PostgresMigrator::new(self.pool.clone()).migrate_up().await?;
        Ok(())
    }

    async fn submit(&self, id: u64) -> Result<(), Error> {
        self.client.insert(Noop::new(id)).await?;
        Ok(())
    }

    async fn bulk(&self, ids: Range<u64>) -> Result<(), Error> {
        self.client.insert_many(ids.map(Noop::new).collect::<Vec<_>>()).await?;
        Ok(())
    }

    /// One job of its own, copied: insert_many inserts row by row, which takes a minute for 300,000.
    async fn fill(&self, jobs: u64) -> Result<(), Error> {
        self.submit(0).await?;
        let columns: String = sqlx::query_scalar(
            "select string_agg(quote_ident(attname), ', ' order by attnum) from pg_attribute
              where attrelid = 'river_job'::regclass and attnum > 0 and not attisdropped and attgenerated = ''
                and attname not in ('id', 'args', 'unique_key')",
        )
        .fetch_one(&self.pool)
        .await?;
        let copies = format!(
            "insert into river_job (args, {columns})
             select json_build_object('id', g, 'pad', repeat('x', 80)), {columns}
               from river_job, generate_series(1, {jobs}::bigint - 1) g"
        );
        sqlx::query(sqlx::AssertSqlSafe(copies)).execute(&self.pool).await?;
        Ok(())
    }

    async fn start(&self) -> Result<(), Error> {
        // Dropped, it would stop; the process ends it.
        std::mem::forget(self.client.start()?);
        Ok(())
    }

    async fn stored(&self, _: u64) -> Result<bool, Error> {
        let none = "select not exists (select from river_job
                     where state in ('available', 'running', 'retryable', 'scheduled', 'pending'))";
        Ok(sqlx::query_scalar(none).fetch_one(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    driver::main::<Riverqueue>().await
}
