//! A node that has nothing to do: what it asks of the server all the same.

use std::time::Instant;

use super::{Bar, Bench, Failure, Report};
use crate::bench::work::Notes;

pub(super) async fn idle(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let node = bench.site.node(Notes::none()).await?;
    bench.warm_up(&node).await?;
    let (before, begun) = (bench.reading().await?, Instant::now());
    let mut bar = Bar::new(bench.plan.idle.as_secs(), "seconds");
    loop {
        let left = bench.plan.idle.saturating_sub(begun.elapsed());
        if left.is_zero() {
            break;
        }
        bar.at(begun.elapsed().as_secs());
        tokio::select! {
            () = tokio::time::sleep(left.min(Bar::REDRAW)) => {}
            stopped = bench.site.stop().raised() => return Err(stopped),
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    report.seconds = Some(seconds);
    report.spent_idle(bench.spent(before).await?, seconds);
    Ok(())
}
