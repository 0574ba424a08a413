//! graphile_worker: the crate.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use driver::{Error, Peer, Tuned};
use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, Worker, WorkerContext, WorkerOptions,
    WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

#[derive(Deserialize, Serialize)]
struct Noop {
    id: u64,
    pad: String,
}

impl TaskHandler for Noop {
    const IDENTIFIER: &'static str = "noop";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        driver::ran(self.id);
        Ok::<(), String>(())
    }
}

struct GraphileWorker {
    pool: PgPool,
    worker: Arc<Worker>,
    utils: WorkerUtils,
}

impl Peer for GraphileWorker {
    const BATCH: u64 = 1_000;

    fn settings(tuned: Tuned) -> String {
        match tuned {
            Tuned::Throughput => "local queue 2 × 2,000, concurrency 200, completions batched for 2 ms",
            // With a local queue it asks without pause while idle, or, with a refetch delay, starts jobs late.
            Tuned::Waiting => "no local queue, concurrency 20",
            Tuned::Callers(_) => "add_job",
        }
        .into()
    }

    async fn open(url: &str, tuned: Tuned) -> Result<Self, Error> {
        let connections = if let Tuned::Callers(callers) = tuned { callers } else { 20 };
        let pool = PgPoolOptions::new().max_connections(connections).connect(url).await?;
        let mut options = WorkerOptions::default().schema("graphile_worker").define_job::<Noop>().pg_pool(pool.clone());
        options = match tuned {
            Tuned::Throughput => options
                .concurrency(200)
                .local_queue(LocalQueueConfig::builder().size(2_000).queue_count(2).build())
                .complete_job_batch_delay(Duration::from_millis(2)),
            _ => options.concurrency(20),
        };
        let worker = Arc::new(options.init().await?);
        let utils = worker.create_utils();
        Ok(GraphileWorker { pool, worker, utils })
    }

    async fn setup(&self) -> Result<(), Error> {
        Ok(self.utils.migrate().await?)
    }

    async fn submit(&self, id: u64) -> Result<(), Error> {
        self.utils.add_job(Noop { id, pad: driver::pad() }, JobSpec::default()).await?;
        Ok(())
    }

    async fn bulk(&self, ids: Range<u64>) -> Result<(), Error> {
        let pad = driver::pad();
        let jobs: Vec<_> = ids
            .map(|id| RawJobSpec {
                identifier: "noop".into(),
                payload: serde_json::json!({ "id": id, "pad": pad }),
                spec: JobSpec::default(),
            })
            .collect();
        self.utils.add_raw_jobs(&jobs).await?;
        Ok(())
    }

    async fn start(&self) -> Result<(), Error> {
        let worker = self.worker.clone();
        tokio::spawn(async move { worker.run().await.expect("the worker runs") });
        Ok(())
    }

    async fn stored(&self, _: u64) -> Result<bool, Error> {
        let none = "select not exists (select from graphile_worker._private_jobs)";
        Ok(sqlx::query_scalar(none).fetch_one(&self.pool).await?)
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    driver::main::<GraphileWorker>().await
}
