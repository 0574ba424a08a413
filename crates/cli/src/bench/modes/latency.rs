//! One job at a time on an idle system: from the answer to its submit to the start of its task.

use std::time::{Duration, Instant};

use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};
use turnwise::Timestamp;

use super::{Bar, Bench, Failure, Meter, Report, Times};
use crate::bench::work::Notes;

/// Between two jobs.
const EVERY: Duration = Duration::from_millis(50);

pub(super) async fn latency(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let (notes, mut starts) = Notes::moments();
    let node = if bench.plan.other_node {
        bench.site.nodes_apart(notes).await?;
        None
    } else {
        Some(bench.site.node(notes).await?)
    };
    let jobs = bench.plan.jobs;
    let (mut meter, mut times) = (Meter::start_at_once(), Times::new());
    let mut bar = Bar::new(jobs, "jobs");
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first job, with the number after the last, warms the node up and is not counted.
    for n in std::iter::once(jobs).chain(0..jobs) {
        ticks.tick().await;
        bench.site.stop().check()?;
        let request = bench.plan.shape.job(n);
        match &node {
            // Through the node itself, as a program does that runs its own jobs.
            Some(node) => _ = node.submit(request.into_job(Timestamp::MIN)?).await?,
            None => _ = bench.site.turnwise().submit(request).await?,
        }
        let answered = Instant::now();
        let started = tokio::select! {
            started = start_of(n, &mut starts) => started?,
            stopped = bench.site.stop().raised() => return Err(stopped),
        };
        if n < jobs {
            // A task may begin before the submitter has the answer to its submit.
            times.note(started.saturating_duration_since(answered));
            meter.mark(n + 1);
            bar.at(n + 1);
        }
    }
    report.seconds = Some(meter.took().as_secs_f64());
    report.times(&times);
    Ok(())
}

async fn start_of(n: u64, starts: &mut mpsc::Receiver<(u64, Instant)>) -> Result<Instant, Failure> {
    while let Some((job, at)) = starts.recv().await {
        if job == n {
            return Ok(at);
        }
    }
    Err(Failure::Other("the node stopped before it ran the job".to_owned()))
}
