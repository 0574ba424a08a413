//! The speed gate: how fast a full table of no-op jobs is drained, finished jobs deleted.
//!
//! `cargo run --release -p turnwise --example drain -- DATABASE_URL [JOBS] [GROUPS]`; prints jobs a second from the
//! start of the node (loading the backlog counted in) to the last stored end; and on Linux how much processor time of the control
//! thread, which dispatches and settles, a job took.

#![allow(clippy::print_stdout, clippy::cast_precision_loss)] // it is a program

use std::time::{Duration, Instant};

use turnwise::{Config, JobRequest, NodeName, Options, Registry, Turnwise, task};

#[derive(serde::Serialize, serde::Deserialize)]
struct Padded {
    id: u64,
    pad: String,
}

#[task("noop")]
async fn noop(_padded: Padded) {}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let url = args.next().ok_or("give a database url")?;
    let jobs: usize = args.next().map_or(Ok(100_000), |n| n.parse())?;
    let groups: usize = args.next().map_or(Ok(1_000), |n| n.parse())?;
    let turnwise =
        Turnwise::open_with(&url, Options { retention: Some(Duration::ZERO.into()), ..Options::default() }).await?;
    let pad = "x".repeat(80);
    let begun = Instant::now();
    for chunk in (0..jobs).collect::<Vec<_>>().chunks(10_000) {
        let requests = chunk.iter().map(|n| {
            JobRequest::from_json("noop", &format!(r#"{{"id":{n},"pad":"{pad}"}}"#)).group(format!("g{}", n % groups))
        });
        turnwise.submit_all(requests).await?;
    }
    println!("submitted {jobs} in {groups} groups: {:.0}/s", rate(jobs, begun));

    let mut config = Config::new(NodeName::new("drain")?);
    config.core_pool_size = 8;
    let mut registry = Registry::new();
    registry.register(noop)?;
    let executor = turnwise.executor_with(config).registry(registry).build()?;
    let begun = Instant::now();
    executor.start().await?;
    while executor.stats().settled < jobs as u64 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    println!("drained {jobs} in {groups} groups: {:.0}/s", rate(jobs, begun));
    if let Some(time) = control_time() {
        println!("control thread: {:.0} ns a job", time.as_nanos() as f64 / jobs as f64);
    }
    executor.stop().await;
    Ok(())
}

fn rate(jobs: usize, begun: Instant) -> f64 {
    jobs as f64 / begun.elapsed().as_secs_f64()
}

/// Processor time of the control thread so far, as the kernel counts it.
fn control_time() -> Option<Duration> {
    for thread in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        let read = |file: &str| std::fs::read_to_string(thread.path().join(file)).ok();
        // The kernel keeps fifteen bytes of a name.
        if read("comm").is_some_and(|name| "turnwise-control".starts_with(name.trim())) {
            return read("schedstat")?.split(' ').next()?.parse().ok().map(Duration::from_nanos);
        }
    }
    None
}
