//! Jobs that are submitted and run at once: each caller submits the next when the end of its last one is stored.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;
use turnwise::{Event, Events, JobId};

use super::{Bench, Failure, Report, submit};
use crate::bench::work::Notes;

/// For each job, how to notify the caller that waits for its end. A sender dropped unused means that the job did not succeed.
type Waiting = Arc<Mutex<HashMap<JobId, oneshot::Sender<()>>>>;

pub(super) async fn lifecycle(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let node = bench.site.node(Notes::none()).await?;
    bench.warm_up(&node).await?;
    let waiting = Waiting::default();
    let notifying = tokio::spawn(notify_callers(node.events(), waiting.clone()));
    let before = bench.reading().await?;
    let (turnwise, shape) = (bench.site.turnwise().clone(), bench.plan.shape);
    let through = submit::callers(bench, move |n| {
        let (turnwise, waiting) = (turnwise.clone(), waiting.clone());
        async move {
            let job = shape.job(n);
            let (end, ended) = oneshot::channel();
            // Before the submit: the job's end may come before the answer.
            waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(job.job_id()?, end);
            let id = turnwise.submit(job).await?;
            ended.await.map_err(|_| Failure::Other(format!("job {id} did not succeed")))
        }
    })
    .await;
    notifying.abort();
    let (meter, times) = through?;
    report.callers = Some(bench.plan.callers);
    report.through(&meter);
    report.both_ends(&meter);
    report.times(&times);
    report.spent(bench.spent(before).await?);
    Ok(())
}

/// There are never more ends to report than callers, far fewer than the events that are kept for a listener.
async fn notify_callers(mut events: Events, waiting: Waiting) {
    while let Some(event) = events.next().await {
        let Some(job) = event.job().filter(|_| !matches!(event, Event::Started(_))) else { continue };
        let end = waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&job.id);
        if let (Event::Success(_), Some(end)) = (&event, end) {
            // The caller may have stopped waiting.
            let _ = end.send(());
        }
    }
}
