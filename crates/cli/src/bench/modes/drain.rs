//! A full table of jobs, from the start of the node (loading the backlog counted in) to the last stored end.

use turnwise::Executor;

use super::{super::server::Pin, Bar, Bench, Failure, LOOK, Meter, Report};
use crate::bench::work::Notes;

pub(super) async fn drain(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let (filled, _) = bench.fill().await?;
    report.fill_per_second = filled.per_second();
    let (notes, before) = (Notes::turns(bench.plan), bench.reading().await?);
    let mut meter = Meter::start();
    let node = bench.site.node(notes.clone()).await?;
    until_settled(bench, &node, &mut meter).await?;
    report.through(&meter);
    report.both_ends(&meter);
    report.lead_at_half = notes.lead_at_half();
    report.spent(bench.spent(before).await?);
    Ok(())
}

/// As [`drain`], while another session holds a snapshot open from before the first job: nothing that is deleted can be cleaned
/// up meanwhile.
pub(super) async fn pinned(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let pin = Pin::hold(&bench.plan.database).await?;
    drain(bench, report).await?;
    // An error if the snapshot was lost meanwhile: then something else was measured.
    pin.release().await
}

async fn until_settled(bench: &Bench<'_>, node: &Executor, meter: &mut Meter) -> Result<(), Failure> {
    let mut bar = Bar::new(bench.plan.jobs, "jobs run");
    loop {
        let settled = node.stats().settled;
        meter.mark(settled);
        bar.at(settled);
        if settled >= bench.plan.jobs {
            return Ok(());
        }
        bench.site.stop().check()?;
        tokio::time::sleep(LOOK).await;
    }
}
