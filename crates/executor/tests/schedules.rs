//! Periodic jobs, beside the dispatching of all others.

#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;
#[path = "support/watched.rs"]
mod watched;

use std::{any::Any, sync::Arc, time::Duration};

use support::{ended, job, soon};
use tokio::sync::Notify;
use turnwise_core::{
    Json, NodeName, TaskName,
    periodic::{Periodic, When},
};
use turnwise_executor::{Config, Ctx, EventKind, Outcome, Registry, executor::Builder, task::Task};
use turnwise_store::{MemoKind, MemoryStore, NewMemo, Result, Store};
use watched::{Watch, Watching};

struct Noop;

impl Task for Noop {
    type Args = ();
    const NAME: &'static str = "noop";
    async fn run(&self, _: Ctx, (): ()) -> Outcome {
        Outcome::done()
    }
}

/// Whoever submits on this way waits until it is open, as for somebody's transaction that has the key.
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
    let (name, value) = ("hourly".to_owned(), Some(serde_json::to_string(&hourly).unwrap()));
    store.remember(None, vec![NewMemo { kind: MemoKind::Schedule, name, value, seen: None }]).await.unwrap();
    let mut registry = Registry::new();
    registry.register(Noop).unwrap();
    let config = Config::new(NodeName::new("a").unwrap());
    let executor = Builder::new(watched::connect(&store, &way), config).registry(registry).build().unwrap();
    let mut events = executor.events();
    soon(executor.start()).await.unwrap();
    soon(way.asked.notified()).await;
    let other = job("noop", "null");
    let id = other.id;
    store.enqueue(vec![other]).await.unwrap();
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
