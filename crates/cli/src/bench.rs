//! `turnwise bench`: how fast a database is with jobs, measured as a program would use it.
//!
//! [`plan`] the options, checked → [`site`] the database, refused or made ready, and left as it was found → [`work`] the jobs
//! and what they note → [`modes`] what is measured → [`meter`] how many jobs were done at which time, and how long single steps
//! took → [`server`] the database's own counts → [`report`] the numbers, for people and for programs.

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

pub(crate) fn bench(settings: &Settings, call: &args::Bench) -> Result<(), Failure> {
    let plan = Plan::read(settings, call)?;
    tracing_subscriber::registry().with(stderr_log(settings, "warn")?).init();
    // Tasks run on it beside the submitters, as in a program that has both.
    let runtime = runtime::Builder::new_multi_thread().enable_all().build().map_err(no_runtime)?;
    let report = runtime.block_on(until_stopped(settings, &plan));
    runtime.shutdown_background();
    report?.print(call.json)
}

/// Measures, and cleans up also after a first signal to stop; a second one ends it without the cleanup.
async fn until_stopped(settings: &Settings, plan: &Plan) -> Result<Report, Failure> {
    let mut signals = Signals::new()?;
    let (stop, stopped) = watch::channel(false);
    let mut measured = pin!(measure(settings, plan, Stop::new(stopped)));
    tokio::select! {
        report = &mut measured => return report,
        () = signals.next() => {
            remark("stopping; deleting the benchmark's jobs (interrupt again to leave them)");
            stop.send_replace(true);
        }
    }
    tokio::select! {
        // Finished after all, or not: the numbers are not wanted any more.
        report = &mut measured => report.and(Err(Failure::Interrupted)),
        () = signals.next() => Err(Failure::Interrupted),
    }
}

async fn measure(settings: &Settings, plan: &Plan, stop: Stop) -> Result<Report, Failure> {
    let site = Site::open(settings, plan, stop).await?;
    let measured = modes::measure(plan, &site).await;
    let left = site.leave().await;
    // The first error is the one to report.
    let report = measured?;
    left?;
    Ok(report)
}
