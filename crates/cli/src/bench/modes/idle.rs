//! A node that has nothing to do: the statements it still sends to the server.

use std::time::{Duration, Instant};

use super::{Bar, Bench, Failure, Report};
use crate::bench::work::Notes;

/// After this the node's start is over: its connections are open, and it has been in contact for longer than the default lease.
const REST: Duration = Duration::from_secs(10);

pub(super) async fn idle(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let _node = bench.site.node(Notes::none()).await?;
    wait(bench, REST, "seconds of rest").await?;
    let (before, begun) = (bench.reading().await?, Instant::now());
    wait(bench, bench.plan.idle, "seconds").await?;
    let seconds = begun.elapsed().as_secs_f64();
    report.seconds = Some(seconds);
    report.spent_idle(bench.spent(before).await?, seconds);
    Ok(())
}

async fn wait(bench: &Bench<'_>, span: Duration, what: &'static str) -> Result<(), Failure> {
    let (begun, mut bar) = (Instant::now(), Bar::new(span.as_secs(), what));
    loop {
        let left = span.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        bar.at(begun.elapsed().as_secs());
        tokio::select! {
            () = tokio::time::sleep(left.min(Bar::REDRAW)) => {}
            stopped = bench.site.stop().raised() => return Err(stopped),
        }
    }
}
