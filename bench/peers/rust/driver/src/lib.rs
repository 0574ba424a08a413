//! What every peer written in Rust is asked to do: [`Peer`] what it must be able to → [`main`] the verbs → [`ran`] what its
//! handler calls.
//!
//! The drivers in the other languages have the same verbs, the same job and the same words in their answers.

mod measure;

use std::env;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub use measure::ran;

pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// What the worker is tuned for: throughput and a quick start are rarely had with the same settings.
#[derive(Clone, Copy, PartialEq)]
pub enum Tuned {
    /// For `setup`, `bulk`, `fill` and `drain`.
    Throughput,
    /// For `latency` and `idle`.
    Waiting,
    /// For `submit`: no worker, this many callers.
    Callers(u32),
}

/// A job queue behind its own public interface.
pub trait Peer: Send + Sync + Sized + 'static {
    /// How many jobs one call of its bulk insert is given: the best that was found.
    const BATCH: u64;

    /// The settings that the report names.
    fn settings(tuned: Tuned) -> String;
    fn open(url: &str, tuned: Tuned) -> impl Future<Output = Result<Self, Error>>;
    fn setup(&self) -> impl Future<Output = Result<(), Error>>;
    /// The only one that is called from several threads, so the only one whose future must be fit for it.
    fn submit(&self, id: u64) -> impl Future<Output = Result<(), Error>> + Send;
    /// Submits all of them by one call.
    fn bulk(&self, ids: Range<u64>) -> impl Future<Output = Result<(), Error>>;

    /// Makes a backlog as quickly as it can be made; not timed.
    fn fill(&self, jobs: u64) -> impl Future<Output = Result<(), Error>> {
        in_batches(self, jobs)
    }

    /// Starts a worker whose handler calls [`ran`], and returns while it works.
    fn start(&self) -> impl Future<Output = Result<(), Error>>;
    /// Whether the ends of all `jobs` are stored.
    fn stored(&self, jobs: u64) -> impl Future<Output = Result<bool, Error>>;
}

/// The arguments of job `id`: about a hundred bytes, as every driver has them.
pub fn pad() -> String {
    "x".repeat(80)
}

/// Does what the command line says and prints one line of JSON.
pub async fn main<P: Peer>() -> Result<(), Error> {
    let words: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| words.get(at).map(|word| word.parse::<u64>()).transpose();
    let verb = words.first().map(String::as_str).unwrap_or_default();
    let url = env::var("DATABASE_URL")?;
    let n = number(1)?.unwrap_or(0);
    let tuned = match verb {
        "latency" | "idle" => Tuned::Waiting,
        "submit" => Tuned::Callers(u32::try_from(number(2)?.unwrap_or(50))?),
        _ => Tuned::Throughput,
    };
    let peer = P::open(&url, tuned).await?;
    let mut told = match verb {
        "setup" => peer.setup().await.map(|()| json!({}))?,
        "bulk" => bulk(&peer, n).await?,
        "fill" => peer.fill(n).await.map(|()| json!({ "jobs": n }))?,
        "submit" => submit(peer, n, tuned).await?,
        "drain" => drain(&peer, n, Duration::from_secs(number(2)?.unwrap_or(600))).await?,
        "latency" => latency(&peer, n).await?,
        "idle" => {
            peer.start().await?;
            tokio::time::sleep(Duration::from_secs(n)).await;
            json!({})
        }
        _ => {
            return Err(
                "usage: setup | bulk N | fill N | submit N CALLERS | drain N [SECS] | latency N | idle SECS".into()
            );
        }
    };
    told["verb"] = json!(verb);
    told["settings"] = json!(P::settings(tuned));
    println!("{told}");
    // Not every worker can be asked to stop, and what it was measured for is over.
    std::process::exit(0);
}

async fn in_batches<P: Peer>(peer: &P, jobs: u64) -> Result<(), Error> {
    let mut next = 0;
    while next < jobs {
        let end = jobs.min(next + P::BATCH);
        peer.bulk(next..end).await?;
        next = end;
    }
    Ok(())
}

async fn bulk<P: Peer>(peer: &P, jobs: u64) -> Result<Value, Error> {
    let begun = Instant::now();
    in_batches(peer, jobs).await?;
    Ok(json!({ "jobs": jobs, "per_second": jobs as f64 / begun.elapsed().as_secs_f64() }))
}

async fn submit<P: Peer>(peer: P, jobs: u64, tuned: Tuned) -> Result<Value, Error> {
    let Tuned::Callers(callers) = tuned else { return Err("submit needs callers".into()) };
    // The first call of some of them looks things up for all later ones.
    peer.submit(jobs).await?;
    let (peer, next) = (Arc::new(peer), Arc::new(AtomicU64::new(0)));
    let begun = Instant::now();
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (peer, next) = (peer.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= jobs {
                        return Ok::<(), Error>(());
                    }
                    peer.submit(id).await?;
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await??;
    }
    Ok(json!({ "jobs": jobs, "per_second": jobs as f64 / begun.elapsed().as_secs_f64() }))
}

/// From the start of the worker to the last stored end; after `limit` it is told how far it came.
async fn drain<P: Peer>(peer: &P, jobs: u64, limit: Duration) -> Result<Value, Error> {
    let begun = Instant::now();
    peer.start().await?;
    while measure::count() < jobs && begun.elapsed() < limit {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    while measure::count() >= jobs && begun.elapsed() < limit && !peer.stored(jobs).await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let (done, seconds) = (measure::count().min(jobs), begun.elapsed());
    let (first, last) = measure::ends();
    Ok(json!({
        "jobs": done, "cut": seconds >= limit, "per_second": done as f64 / seconds.as_secs_f64(),
        "first_10k_per_second": first, "last_10k_per_second": last,
    }))
}

/// One job each 50 ms: from the acknowledged submit to the start of the handler.
async fn latency<P: Peer>(peer: &P, jobs: u64) -> Result<Value, Error> {
    peer.start().await?;
    // A first job that has run: the worker is up.
    peer.submit(jobs).await?;
    measure::wait_for(1, Duration::from_secs(20)).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    let mut submitted = Vec::new();
    for id in 0..jobs {
        ticks.tick().await;
        peer.submit(id).await?;
        submitted.push(Instant::now());
    }
    measure::wait_for(jobs + 1, Duration::from_secs(10)).await?;
    let (p50, p95, p99) = measure::percentiles(&submitted);
    Ok(json!({ "jobs": jobs, "p50_ms": p50, "p95_ms": p95, "p99_ms": p99 }))
}
