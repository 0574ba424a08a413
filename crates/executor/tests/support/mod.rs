//! A node on the memory store, jobs for it, and what became of them.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use turnwise_core::{
    Job, JobId, JobState, Json, NewJob, NodeName, RetryPolicy, TaskName, Timestamp, lifecycle, story::Story,
};
use turnwise_executor::{
    Config, Executor, Registry,
    executor::{Builder, Connect},
};
use turnwise_store::{AskStory, Intervention, MemoryStore, Store};

/// Long enough for any machine; a test that needs it has failed.
const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("did not happen in time")
}

pub(crate) fn connect(store: &MemoryStore) -> Connect {
    let store = store.clone();
    Arc::new(move || {
        let store = store.another_process();
        Box::pin(async move { Ok(Arc::new(store) as Arc<dyn Store>) })
    })
}

pub(crate) fn node(store: &MemoryStore, name: &str, registry: Registry) -> Builder {
    let mut config = Config::new(NodeName::new(name).unwrap());
    config.core_pool_size = 4;
    config.poll_interval = Duration::from_millis(20);
    config.lease = Duration::from_millis(900);
    Builder::new(connect(store), config).registry(registry)
}

pub(crate) async fn started(builder: Builder) -> Executor {
    let executor = builder.build().unwrap();
    soon(executor.start()).await.unwrap();
    executor
}

pub(crate) fn job(task: &str, args: &str) -> NewJob {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mut random = [0; 10];
    random[6..].copy_from_slice(&NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    let (task, args) = (TaskName::new(task).unwrap(), Json::parse("args", args).unwrap());
    let mut job = NewJob::new(JobId::from_parts(1, random), task, args);
    job.retry = RetryPolicy::durations(vec![Duration::from_millis(1); 3]).unwrap();
    job
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

pub(crate) async fn story(store: &MemoryStore, job: JobId) -> Story {
    store.story(AskStory { job, after: None, lines: 100_000 }).await.unwrap()
}

pub(crate) async fn cancel(store: &MemoryStore, id: JobId) {
    let job = store.job(id).await.unwrap().unwrap();
    let to = lifecycle::decide(&(&job).into(), &lifecycle::Event::Cancel, Timestamp::MIN, 0.0).unwrap();
    store.control(vec![Intervention { job: id, state: job.state, fence: job.fence, to }]).await.unwrap();
}
