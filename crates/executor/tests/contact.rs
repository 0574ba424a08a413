//! A node that has lost contact with the database, beside one that has not; in virtual time.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{task::JoinHandle, time::Instant};
use turnwise_core::{
    NewJob, NodeName, QueueName, Timestamp,
    settings::{Concurrency, GroupSettings, QueueSettings},
};
use turnwise_executor::{Config, Ctx, Executor, Outcome, Registry, Task, executor::Builder};
use turnwise_store::{
    MemoKind, MemoryStore, NewMemo, Options, Store,
    conformance::{Faulty, faulty::Accident},
    memory::Clock,
};

#[path = "support/mod.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod support;
use support::job;

/// Runs until it is stopped, and tells.
struct Endless;
impl Task for Endless {
    type Args = ();
    const NAME: &'static str = "endless";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let seen = ctx.state::<Seen>().unwrap();
        let _going = Going::begin(&seen, ctx.node());
        std::future::pending().await
    }
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    fn tell(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    async fn has(&self, what: &str) {
        while !self.0.lock().unwrap().iter().any(|seen| seen == what) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

struct Going(Seen, NodeName);

impl Going {
    fn begin(seen: &Seen, node: &NodeName) -> Self {
        seen.tell(format!("{node} begins"));
        Self(seen.clone(), node.clone())
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        self.0.tell(format!("{} ends", self.1));
    }
}

/// A node that runs in the test's own time.
fn live(store: &Faulty, name: &str, seen: &Seen) -> (Arc<Executor>, JoinHandle<()>) {
    let mut registry = Registry::new();
    registry.register(Endless).unwrap();
    let store = store.clone();
    let connect = Arc::new(move || {
        let store: Arc<dyn Store> = Arc::new(store.clone());
        Box::pin(async move { Ok(store) }) as _
    });
    let config = Config::new(NodeName::new(name).unwrap());
    let executor = Arc::new(Builder::new(connect, config).registry(registry).state(seen.clone()).build().unwrap());
    let living = executor.clone();
    (executor, tokio::spawn(async move { living.live_here().await }))
}

/// What is seen when the node that runs the job is cut off until another one has taken it over.
async fn when_cut_off(kind: MemoKind, name: &str, settings: String) -> Vec<String> {
    let begun = Instant::now();
    let clock = Clock::new(move || Timestamp::from_micros(1_000_000_000).plus(begun.elapsed()));
    let store = MemoryStore::new(Options::default(), clock);
    let memo = NewMemo { kind, name: name.to_owned(), value: Some(settings), seen: None };
    store.remember(None, vec![memo]).await.unwrap();
    let way = || Faulty::new(Arc::new(store.another_process()), Accident::None);
    let (seen, cut, uncut) = (Seen::default(), way(), way());
    let a = live(&cut, "a", &seen);
    store.enqueue(vec![NewJob { queue: QueueName::new("line").unwrap(), ..job("endless", "null") }]).await.unwrap();
    seen.has("a begins").await;
    let b = live(&uncut, "b", &seen);
    // It is there, and has been in contact for long enough to say who is lost.
    tokio::time::sleep(Duration::from_secs(12)).await;
    cut.cut_off(true);
    seen.has("b begins").await;
    let story = seen.0.lock().unwrap().clone();
    cut.cut_off(false);
    for (executor, running) in [a, b] {
        executor.stop().await;
        running.await.unwrap();
    }
    story
}

fn settings(settings: impl serde::Serialize) -> String {
    serde_json::to_string(&settings).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_serial_job_has_stopped_on_a_node_without_contact_before_another_node_runs_it() {
    let serial = QueueSettings { concurrency: Concurrency::Serial, ..QueueSettings::default() };
    let story = when_cut_off(MemoKind::Queue, "line", settings(serial)).await;
    assert_eq!(story, ["a begins", "a ends", "b begins"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_of_a_limited_group_has_stopped_on_a_node_without_contact_before_another_node_runs_it() {
    let limited = GroupSettings { concurrency: Some(3), ..GroupSettings::default() };
    let story = when_cut_off(MemoKind::Group, "default", settings(limited)).await;
    assert_eq!(story, ["a begins", "a ends", "b begins"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_no_limit_counts_goes_on_without_contact() {
    let unlimited = QueueSettings::default();
    let story = when_cut_off(MemoKind::Queue, "line", settings(unlimited)).await;
    assert_eq!(story, ["a begins", "b begins"]);
}
