//! How long a node takes to read a long backlog, and that it does not wait for the end of it to work.
//!
//! `cargo run --release -p turnwise --example load -- DATABASE_URL [JOBS] [GROUPS] [MILLISECONDS]`; prints the seconds from the
//! start of the node until the whole backlog is read, and how many jobs were settled by then. Jobs do nothing, or take so many
//! milliseconds.

#![allow(clippy::print_stdout)] // it is a program

use std::time::{Duration, Instant};

use tokio::sync::Notify;
use turnwise::{Config, JobRequest, NodeName, Options, Registry, Turnwise, settings::Concurrency, task};

/// Rung when the backlog is read.
static READ: Notify = Notify::const_new();

#[task("work", register = false)]
async fn work(milliseconds: u64) {
    if milliseconds > 0 {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

/// The job of a serial queue, which stays closed until the whole backlog is read: an earlier job might still come.
#[task("read", register = false)]
async fn read(_nothing: ()) {
    READ.notify_one();
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("give a database url")?;
    let jobs: u64 = args.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let groups: u64 = args.next().map_or(Ok(1_000), |n| n.parse())?;
    let milliseconds: u64 = args.next().map_or(Ok(0), |n| n.parse())?;
    let turnwise =
        Turnwise::open_with(&url, Options { retention: Some(Duration::ZERO.into()), ..Options::default() }).await?;
    turnwise.set_queue("line", |line| line.concurrency = Concurrency::Serial).await?;

    let begun = Instant::now();
    let mut next = 0;
    while next < jobs {
        let chunk = next..jobs.min(next + 10_000);
        next = chunk.end;
        turnwise.submit_all(chunk.map(|n| work.job(milliseconds).group(format!("g{}", n % groups)))).await?;
    }
    turnwise.submit(read_job()).await?;
    println!("submitted {jobs} in {groups} groups in {:.1} s", begun.elapsed().as_secs_f64());

    let mut config = Config::new(NodeName::new("load")?);
    config.core_pool_size = 4;
    let mut registry = Registry::new();
    registry.register(work)?.register(read)?;
    let executor = turnwise.executor_with(config).registry(registry).build()?;
    let begun = Instant::now();
    executor.start().await?;
    READ.notified().await;
    let (seconds, settled) = (begun.elapsed().as_secs_f64(), executor.stats().settled);
    println!("the backlog was read after {seconds:.2} s, and {settled} jobs were settled by then");
    executor.stop().await;
    Ok(())
}

/// Its group and queue are its own: it is next as soon as its queue opens.
fn read_job() -> JobRequest {
    read.job(()).queue("line").group("line")
}
