//! What is measured, one function each.

use std::time::{Duration, Instant};

use turnwise::Executor;

use super::{
    meter::{Bar, Meter, Times},
    plan::{Mode, Plan},
    report::Report,
    server::{Reading, Server},
    site::Site,
    work::{self, Starts},
};
use crate::error::Failure;

/// Jobs in one submit of many.
const BATCH: u64 = 10_000;
/// Between two looks at how many have ended.
const LOOK: Duration = Duration::from_millis(1);

pub(super) async fn measure(plan: &Plan, site: &Site<'_>) -> Result<Report, Failure> {
    let bench = Bench { plan, site, server: Server::connect(&plan.database).await? };
    let mut report = Report::new(plan);
    match plan.mode {
        Mode::Drain => bench.drain(&mut report).await?,
        Mode::Bulk => bench.bulk(&mut report).await?,
    }
    report.rss_mb = peak_memory();
    Ok(report)
}

struct Bench<'a> {
    plan: &'a Plan,
    site: &'a Site<'a>,
    server: Option<Server>,
}

impl Bench<'_> {
    /// A full table of jobs, from the start of the node to the last stored end.
    async fn drain(&self, report: &mut Report) -> Result<(), Failure> {
        let (filled, _) = self.submit_all("jobs submitted").await?;
        report.fill_per_second = filled.per_second();
        let starts = Starts::new(self.plan);
        let before = self.reading().await?;
        let mut meter = Meter::start();
        let node = self.site.node(starts.clone()).await?;
        self.until_settled(&node, &mut meter).await?;
        report.through(&meter);
        report.first_10k_per_second = meter.first_per_second();
        report.last_10k_per_second = meter.last_per_second();
        report.lead_at_half = starts.lead_at_half();
        self.spent(report, before).await
    }

    async fn until_settled(&self, node: &Executor, meter: &mut Meter) -> Result<(), Failure> {
        let mut bar = Bar::new(self.plan.jobs, "jobs run");
        loop {
            let settled = node.stats().settled;
            meter.mark(settled);
            bar.at(settled);
            if settled >= self.plan.jobs {
                return Ok(());
            }
            self.site.stop().check()?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Batches one after the other.
    async fn bulk(&self, report: &mut Report) -> Result<(), Failure> {
        let before = self.reading().await?;
        let (meter, times) = self.submit_all("jobs submitted").await?;
        report.through(&meter);
        report.first_10k_per_second = meter.first_per_second();
        report.last_10k_per_second = meter.last_per_second();
        report.times(&times);
        self.spent(report, before).await
    }

    async fn submit_all(&self, what: &'static str) -> Result<(Meter, Times), Failure> {
        let (mut meter, mut times) = (Meter::start_at_once(), Times::new());
        let mut bar = Bar::new(self.plan.jobs, what);
        let mut next = 0;
        while next < self.plan.jobs {
            self.site.stop().check()?;
            let batch = next..self.plan.jobs.min(next + BATCH);
            next = batch.end;
            let begun = Instant::now();
            self.site.turnwise().submit_all(batch.map(|n| work::job(self.plan, n))).await?;
            times.note(begun.elapsed());
            meter.mark(next);
            bar.at(next);
        }
        Ok((meter, times))
    }

    async fn reading(&self) -> Result<Option<Reading>, Failure> {
        match &self.server {
            Some(server) => Ok(Some(server.read().await?)),
            None => Ok(None),
        }
    }

    async fn spent(&self, report: &mut Report, before: Option<Reading>) -> Result<(), Failure> {
        if let Some((now, before)) = self.reading().await?.zip(before) {
            report.spent(&now.since(&before));
        }
        Ok(())
    }
}

/// The most this process has had in memory, in mebibytes; only Linux tells without much ado.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes / 1024.0)
}
