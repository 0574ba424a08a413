//! What is measured. [`drain`] (and pinned) a full table → [`submit`] (and bulk) storing jobs → [`lifecycle`] both at
//! once → [`latency`] one job at a time → [`idle`] none.

mod drain;
mod idle;
mod latency;
mod lifecycle;
mod submit;

use std::time::{Duration, Instant};

use turnwise::Executor;

use super::{
    meter::{Bar, Meter, Times},
    plan::{Mode, Plan},
    report::Report,
    server::{Reading, Server, Spent},
    site::Site,
};
use crate::error::Failure;

/// Jobs in one submit of many.
const BATCH: u64 = 10_000;
/// Between two looks at how many jobs are done.
const LOOK: Duration = Duration::from_millis(1);

pub(super) async fn measure(plan: &Plan, site: &Site<'_>) -> Result<Report, Failure> {
    let bench = Bench { plan, site, server: Server::connect(&plan.database).await? };
    let mut report = Report::new(plan);
    match plan.mode {
        Mode::Drain => drain::drain(&bench, &mut report).await?,
        Mode::Pinned => drain::pinned(&bench, &mut report).await?,
        Mode::Submit => submit::submit(&bench, &mut report).await?,
        Mode::Bulk => submit::bulk(&bench, &mut report).await?,
        Mode::Lifecycle => lifecycle::lifecycle(&bench, &mut report).await?,
        Mode::Latency => latency::latency(&bench, &mut report).await?,
        Mode::Idle => idle::idle(&bench, &mut report).await?,
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
    /// Stores all jobs, batch by batch.
    async fn fill(&self) -> Result<(Meter, Times), Failure> {
        let (mut meter, mut times) = (Meter::start_at_once(), Times::new());
        let mut bar = Bar::new(self.plan.jobs, "jobs submitted");
        let mut next = 0;
        while next < self.plan.jobs {
            self.site.stop().check()?;
            let batch = next..self.plan.jobs.min(next + BATCH);
            next = batch.end;
            let begun = Instant::now();
            self.site.turnwise().submit_all(batch.map(|n| self.plan.shape.job(n))).await?;
            times.note(begun.elapsed());
            meter.mark(next);
            bar.at(next);
        }
        Ok((meter, times))
    }

    /// Runs one more job, so that the measurement begins on a node that has already run one.
    async fn warm_up(&self, node: &Executor) -> Result<(), Failure> {
        self.site.turnwise().submit(self.plan.shape.job(self.plan.jobs)).await?;
        while node.stats().settled == 0 {
            self.site.stop().check()?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    async fn reading(&self) -> Result<Option<Reading>, Failure> {
        match &self.server {
            Some(server) => Ok(Some(server.read().await?)),
            None => Ok(None),
        }
    }

    /// What the server has done since `before`.
    async fn spent(&self, before: Option<Reading>) -> Result<Option<Spent>, Failure> {
        Ok(self.reading().await?.zip(before).map(|(now, before)| now.since(&before)))
    }
}

/// The most this process has had in memory, in mebibytes; only Linux has it in a file to read.
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kibibytes / 1024.0)
}
