//! apalis with apalis-postgres.

use std::ops::Range;

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage};
use driver::{Error, Peer, Tuned};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::runtime::Handle;

#[derive(Debug, Clone, Deserialize, Serialize)]
struct Noop {
    id: u64,
    pad: String,
}

impl Noop {
    fn new(id: u64) -> Noop {
        Noop { id, pad: driver::pad() }
    }
}

async fn noop(job: Noop) -> Result<(), BoxDynError> {
    driver::ran(job.id);
    Ok(())
}

struct Apalis {
    pool: PgPool,
    tuned: Tuned,
}

impl Apalis {
    fn storage(&self) -> PostgresStorage<Noop> {
        let batch = if self.tuned == Tuned::Throughput { 5_000 } else { 1_000 };
        PostgresStorage::new(&self.pool)
            .with_config(Config::default().queue("noop").batch_size(batch).lock_tasks(false))
    }
}

/// Its futures cannot move between threads, and their type depends on the storage: hence no function.
macro_rules! work {
    ($name:expr, $storage:expr, $concurrency:expr) => {{
        let (storage, name, runtime) = ($storage, $name, Handle::current());
        std::thread::spawn(move || {
            let worker = WorkerBuilder::new(name)
                .backend(storage)
                .concurrency($concurrency)
                .parallelize(tokio::spawn)
                .build(noop);
            runtime.block_on(async move { worker.run().await.expect("the worker runs") });
        });
    }};
}

impl Peer for Apalis {
    const BATCH: u64 = 1_000;

    fn settings(tuned: Tuned) -> String {
        match tuned {
            Tuned::Throughput => "2 workers, batch_size 5,000, concurrency 5,000, parallelize",
            Tuned::Waiting => "1 worker with pubsub, concurrency 100",
            Tuned::Callers(_) => "push",
        }
        .into()
    }

    async fn open(url: &str, tuned: Tuned) -> Result<Self, Error> {
        let connections = if let Tuned::Callers(callers) = tuned { callers } else { 20 };
        Ok(Apalis { pool: PgPoolOptions::new().max_connections(connections).connect(url).await?, tuned })
    }

    async fn setup(&self) -> Result<(), Error> {
        Ok(PostgresStorage::setup(&self.pool).await?)
    }

    async fn submit(&self, id: u64) -> Result<(), Error> {
        self.storage().push(Noop::new(id)).await?;
        Ok(())
    }

    async fn bulk(&self, ids: Range<u64>) -> Result<(), Error> {
        self.storage().push_bulk(ids.map(Noop::new).collect()).await?;
        Ok(())
    }

    async fn start(&self) -> Result<(), Error> {
        if self.tuned == Tuned::Throughput {
            for number in 0..2 {
                work!(format!("worker-{number}"), self.storage(), 5_000);
            }
        } else {
            work!("worker".to_owned(), self.storage().with_pubsub(), 100);
        }
        Ok(())
    }

    async fn stored(&self, _: u64) -> Result<bool, Error> {
        let none = "select not exists (select from apalis.jobs where status not in ('Done', 'Killed'))";
        Ok(sqlx::query_scalar(none).fetch_one(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    driver::main::<Apalis>().await
}
