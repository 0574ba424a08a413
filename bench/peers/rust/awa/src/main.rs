//! awa, with its default engine (queue storage).

use std::ops::Range;
use std::time::Duration;

use awa::model::{QueueStorage, QueueStorageConfig, insert};
use awa::{Client, InsertOpts, JobArgs, JobContext, JobResult, QueueConfig};
use driver::{Error, Peer, Tuned};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

#[derive(Deserialize, Serialize, JobArgs)]
struct Noop {
    id: u64,
    pad: String,
}

impl Noop {
    fn new(id: u64) -> Noop {
        Noop { id, pad: driver::pad() }
    }
}

struct Awa {
    pool: PgPool,
    client: Client,
    storage: QueueStorage,
}

impl Peer for Awa {
    const BATCH: u64 = 10_000;

    fn settings(tuned: Tuned) -> String {
        match tuned {
            Tuned::Throughput => {
                "max_workers 1,000, claim_batch_size 512, no deadline; bulk: QueueStorage::enqueue_params_copy, 10,000 rows \
                 (its insert_many goes row by row)"
            }
            Tuned::Waiting => "defaults",
            Tuned::Callers(_) => "insert_with",
        }
        .into()
    }

    async fn open(url: &str, tuned: Tuned) -> Result<Self, Error> {
        let connections = if let Tuned::Callers(callers) = tuned { callers } else { 20 };
        let pool = PgPoolOptions::new().max_connections(connections).connect(url).await?;
        let mut queue = QueueConfig::default();
        if tuned == Tuned::Throughput {
            queue.max_workers = 1_000;
            queue.claim_batch_size = 512;
            queue.claimers = 1;
            queue.poll_interval = Duration::from_millis(50);
            queue.deadline_duration = Duration::ZERO;
        }
        let client = Client::builder(pool.clone())
            .queue("default", queue)
            .register::<Noop, _, _>(|job: Noop, _: &JobContext| async move {
                driver::ran(job.id);
                Ok(JobResult::Completed)
            })
            .build()?;
        Ok(Awa { pool, client, storage: QueueStorage::new(QueueStorageConfig::default())? })
    }

    async fn setup(&self) -> Result<(), Error> {
        awa::migrations::run(&self.pool).await?;
        // The first client to start settles which storage engine is used.
        self.client.start().await?;
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        self.client.shutdown(Duration::from_secs(5)).await;
        Ok(())
    }

    async fn submit(&self, id: u64) -> Result<(), Error> {
        awa::insert_with(&self.pool, &Noop::new(id), InsertOpts::default()).await?;
        Ok(())
    }

    async fn bulk(&self, ids: Range<u64>) -> Result<(), Error> {
        let jobs =
            ids.map(|id| insert::params_with(&Noop::new(id), InsertOpts::default())).collect::<Result<Vec<_>, _>>()?;
        self.storage.enqueue_params_copy(&self.pool, &jobs).await?;
        Ok(())
    }

    async fn start(&self) -> Result<(), Error> {
        Ok(self.client.start().await?)
    }

    async fn stored(&self, jobs: u64) -> Result<bool, Error> {
        // Compact batches, rows not yet compacted, and what was pruned already: its own count takes seconds.
        let ends = "select (select coalesce(sum(completed_count), 0) from awa.receipt_completion_batches)::bigint
                         + (select count(*) from awa.done_entries)
                         + (select coalesce(sum(pruned_completed_count), 0) from awa.queue_terminal_rollups)::bigint";
        let ended: i64 = sqlx::query_scalar(ends).fetch_one(&self.pool).await?;
        Ok(ended >= i64::try_from(jobs)?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    driver::main::<Awa>().await
}
