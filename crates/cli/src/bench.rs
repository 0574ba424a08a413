//! `turnwise bench`: how fast a database is with jobs, measured as a program would use it.
//!
//! [`plan`] what was asked for → [`site`] the database, refused or made ready, and left as it was found → [`work`] the
//! jobs and what they note → [`modes`] what is measured → [`meter`] when how many had ended, and how long things took →
//! [`server`] what the database says of it → [`report`] the numbers, for people and for programs.

mod meter;
mod modes;
mod plan;
mod report;
mod server;
mod site;
mod work;

use std::pin::pin;

use tokio::{runtime, sync::watch};
use tracing_subscriber::{layer::SubscriberExt, util::SubscriberInitExt};

use self::{
    plan::Plan,
    report::Report,
    site::{Site, Stop},
};
use crate::{
    args,
    error::{Failure, remark},
    serve::{Signals, no_runtime, stderr_log},
    settings::Settings,
};

pub(crate) fn bench(settings: &Settings, wish: &args::Bench) -> Result<(), Failure> {
    let plan = Plan::read(settings, wish)?;
    tracing_subscriber::registry().with(stderr_log(settings, "warn")?).init();
    // Tasks run on it beside those who submit, as in a program that has both.
    let runtime = runtime::Builder::new_multi_thread().enable_all().build().map_err(no_runtime)?;
    let report = runtime.block_on(until_told(settings, &plan));
    runtime.shutdown_background();
    report?.print(wish.json)
}

/// Measures, and cleans up when it is interrupted, too; interrupted twice, it ends as it stands.
async fn until_told(settings: &Settings, plan: &Plan) -> Result<Report, Failure> {
    let mut signals = Signals::new()?;
    let (stop, stopped) = watch::channel(false);
    let mut measured = pin!(measure(settings, plan, Stop::new(stopped)));
    tokio::select! {
        report = &mut measured => return report,
        () = signals.next() => {
            remark("stopping; the benchmark's jobs are taken away (again to leave them)");
            stop.send_replace(true);
        }
    }
    tokio::select! {
        // Through after all, or not: nobody waits for the numbers any more.
        report = &mut measured => report.and(Err(Failure::Interrupted)),
        () = signals.next() => Err(Failure::Interrupted),
    }
}

async fn measure(settings: &Settings, plan: &Plan, stop: Stop) -> Result<Report, Failure> {
    let site = Site::open(settings, plan, stop).await?;
    let measured = modes::measure(plan, &site).await;
    let left = site.leave().await;
    // What went wrong first is what a person wants to know.
    let report = measured?;
    left?;
    Ok(report)
}
