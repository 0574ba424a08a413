//! Periodic jobs, beside the dispatching of all others.

mod support;

use std::{any::Any, sync::Arc, time::Duration};

use support::{
    memos::set,
    watched::{self, Watch, Watching},
    *,
};
use tokio::sync::Notify;
use turnwise_core::{
    Json, TaskName,
    periodic::{Periodic, When},
};
use turnwise_executor::{EventKind, executor::Builder};
use turnwise_store::{MemoKind, MemoryStore, Result, Store};

/// A submit waits until it is open, as for an open transaction that holds the key.
#[derive(Default)]
struct Closed {
    asked: Notify,
    open: Notify,
}

impl Watch for Closed {
    fn before<'a>(&'a self, verb: &'static str, _: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        Box::pin(async move {
            if verb == "enqueue" {
                self.asked.notify_one();
                self.open.notified().await;
            }
            Ok(())
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_periodic_job_that_is_not_taken_yet_holds_up_nobody() {
    let (store, way) = (MemoryStore::default(), Arc::new(Closed::default()));
    let hours_ago = store.nodes().await.unwrap().now.minus(Duration::from_secs(7200));
    let hourly = Periodic::new(When::every("1h").unwrap(), TaskName::new("noop").unwrap(), Json::null(), hours_ago);
    set(&store, MemoKind::Schedule, "hourly", &hourly).await;
    let builder = Builder::new(watched::connect(&store, &way), config("a")).registry(tasks!(Noop));
    let (executor, mut events) = listened(builder).await;
    soon(way.asked.notified()).await;
    let id = put(&store, job("noop", "null")).await;
    executor.bell().unwrap().ring_news();
    ended(&store, id).await;
    way.open.notify_one();
    let mut ends = Vec::new();
    while ends.len() < 2 {
        ends.extend(soon(events.wait_for(EventKind::Success)).await.unwrap().job().map(|job| job.id));
    }
    assert_eq!(ends[0], id, "and then the periodic one");
    soon(executor.stop()).await;
}
