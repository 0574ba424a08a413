//! Jobs to submit, what became of them, and what a person decides about them.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use turnwise_core::{Job, JobId, JobState, Json, NewJob, QueueName, RetryPolicy, TaskName, lifecycle, story::Story};
use turnwise_executor::Executor;
use turnwise_store::{AskStory, Intervention, MemoryStore, Store};

use super::wait::soon;

pub(crate) fn job(task: &str, args: &str) -> NewJob {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mut random = [0; 10];
    random[6..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    let (task, args) = (TaskName::new(task).unwrap(), Json::parse("args", args).unwrap());
    let mut job = NewJob::new(JobId::from_parts(1, random), task, args);
    job.retry = Some(RetryPolicy::durations(vec![Duration::from_millis(1); 3]).unwrap());
    job
}

/// A job of this queue, without arguments.
pub(crate) fn of(queue: &str, task: &str) -> NewJob {
    NewJob { queue: QueueName::new(queue).unwrap(), ..job(task, "null") }
}

pub(crate) fn ids(jobs: &[NewJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Submits them one by one.
pub(crate) async fn submit(executor: &Executor, jobs: Vec<NewJob>) -> Vec<JobId> {
    let ids = ids(&jobs);
    for job in jobs {
        executor.submit(job).await.unwrap();
    }
    ids
}

/// Puts it into the store by no node's hand: no node's bell rings.
pub(crate) async fn put(store: &MemoryStore, job: NewJob) -> JobId {
    let id = job.id;
    store.enqueue(vec![job]).await.unwrap();
    id
}

/// The job, once `wanted` says so.
pub(crate) async fn when(store: &MemoryStore, id: JobId, wanted: impl Fn(&Job) -> bool) -> Job {
    soon(async {
        loop {
            if let Some(job) = store.job(id).await.unwrap().filter(|job| wanted(job)) {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

pub(crate) async fn ended(store: &MemoryStore, id: JobId) -> Job {
    when(store, id, |job| job.state.finished()).await
}

pub(crate) async fn in_state(store: &MemoryStore, id: JobId, state: JobState) -> Job {
    when(store, id, |job| job.state == state).await
}

pub(crate) async fn in_hands(store: &MemoryStore, id: JobId) -> Job {
    when(store, id, |job| job.state.assigned()).await
}

/// The job as it is now.
pub(crate) async fn now(store: &MemoryStore, id: JobId) -> Job {
    store.job(id).await.unwrap().unwrap()
}

pub(crate) async fn story(store: &MemoryStore, job: JobId) -> Story {
    store.story(AskStory { job, after: None, lines: 100_000 }).await.unwrap()
}

/// A person's decision.
pub(crate) async fn decide(store: &MemoryStore, id: JobId, event: lifecycle::Event) {
    let (job, now) = (now(store, id).await, store.nodes().await.unwrap().now);
    let to = lifecycle::decide(&(&job).into(), &event, now, 0.0).unwrap();
    store.control(vec![Intervention { job: id, state: job.state, fence: job.fence, to, line: None }]).await.unwrap();
}

pub(crate) async fn cancel(store: &MemoryStore, id: JobId) {
    decide(store, id, lifecycle::Event::Cancel).await;
}
