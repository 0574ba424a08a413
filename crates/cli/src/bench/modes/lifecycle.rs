//! Jobs that are submitted and run at once: each caller submits the next when the end of its last one is stored.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::oneshot;
use turnwise::{Event, Events, JobId};

use super::{Bench, Failure, Report, submit};
use crate::bench::work::Notes;

/// Who waits for the end of which job. A caller whose sender is dropped without a word waits for a job that did not end well.
type Waiting = Arc<Mutex<HashMap<JobId, oneshot::Sender<()>>>>;

pub(super) async fn lifecycle(bench: &Bench<'_>, report: &mut Report) -> Result<(), Failure> {
    let node = bench.site.node(Notes::none()).await?;
    bench.warm_up(&node).await?;
    let waiting = Waiting::default();
    let telling = tokio::spawn(tell_ends(node.events(), waiting.clone()));
    let before = bench.reading().await?;
    let (turnwise, shape) = (bench.site.turnwise().clone(), bench.plan.shape);
    let through = submit::callers(bench, move |n| {
        let (turnwise, waiting) = (turnwise.clone(), waiting.clone());
        async move {
            let job = shape.job(n);
            let (end, ended) = oneshot::channel();
            // Before it is submitted: its end may come before the answer.
            waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(job.job_id()?, end);
            let id = turnwise.submit(job).await?;
            ended.await.map_err(|_| Failure::Other(format!("job {id} did not end well")))
        }
    })
    .await;
    telling.abort();
    let (meter, times) = through?;
    report.callers = Some(bench.plan.callers);
    report.through(&meter);
    report.both_ends(&meter);
    report.times(&times);
    report.spent(bench.spent(before).await?);
    Ok(())
}

/// There are never more ends to tell than callers, far fewer than are kept for a listener.
async fn tell_ends(mut events: Events, waiting: Waiting) {
    while let Some(event) = events.next().await {
        let Some(job) = event.job().filter(|_| !matches!(event, Event::Started(_))) else { continue };
        let end = waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&job.id);
        if let (Event::Success(_), Some(end)) = (&event, end) {
            // One that has stopped waiting need not be told.
            let _ = end.send(());
        }
    }
}
