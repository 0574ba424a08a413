//! Storing jobs: many at a time, or one at a time from many callers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use tokio::task::JoinSet;

use super::{Bar, Bench, Failure, LOOK, Meter, Report, Times};

/// Batches one after the other.
pub(super) async fn bulk(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let before = bench.reading().await?;
    let (meter, times) = bench.fill().await?;
    report.through(&meter);
    report.both_ends(&meter);
    report.times(&times);
    report.spent(bench.spent(before).await?);
    Ok(())
}

/// One job at a time for each caller, which goes on when its job is durable.
pub(super) async fn submit(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let before = bench.reading().await?;
    let (turnwise, shape) = (bench.site.turnwise().clone(), bench.plan.shape);
    let (meter, times) = callers(bench, move |n| {
        let turnwise = turnwise.clone();
        async move {
            turnwise.submit(shape.job(n)).await?;
            Ok(())
        }
    })
    .await?;
    report.callers = Some(bench.plan.callers);
    report.through(&meter);
    report.both_ends(&meter);
    report.times(&times);
    report.spent(bench.spent(before).await?);
    Ok(())
}

/// Does all jobs with many callers at the same time, each doing one after the other; returns how long each job took.
pub(super) async fn callers<F, R>(bench: &Bench<'_>, each: F) -> Result<(Meter, Times), Failure>
where
    F: Fn(u64) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), Failure>> + Send,
{
    let (next, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut calling = JoinSet::new();
    let mut meter = Meter::start_at_once();
    for _ in 0..bench.plan.callers {
        let (next, done, jobs) = (next.clone(), done.clone(), bench.plan.jobs);
        let (each, stop) = (each.clone(), bench.site.stop().clone());
        calling.spawn(async move {
            let mut times = Times::new();
            loop {
                // No caller is cut off within a call: what the call stores would come after the cleanup.
                stop.check()?;
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= jobs {
                    return Ok::<_, Failure>(times);
                }
                let begun = Instant::now();
                each(n).await?;
                times.note(begun.elapsed());
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let (mut times, mut failure) = (Times::new(), None);
    let mut bar = Bar::new(bench.plan.jobs, "jobs");
    loop {
        let ended = tokio::time::timeout(LOOK, calling.join_next()).await;
        let through = done.load(Ordering::Relaxed);
        meter.mark(through);
        bar.at(through);
        match ended {
            Err(_) => {}
            Ok(None) => break,
            Ok(Some(Ok(Ok(more)))) => times.add(&more),
            Ok(Some(Ok(Err(error)))) => failure = failure.or(Some(error)),
            Ok(Some(Err(panicked))) => failure = failure.or(Some(Failure::Other(format!("a caller: {panicked}")))),
        }
    }
    match failure {
        Some(failure) => Err(failure),
        None => Ok((meter, times)),
    }
}
