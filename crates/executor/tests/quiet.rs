//! How often nodes that have nothing to do ask their store, where rings from other processes arrive and where they do not; in virtual time.

mod support;

use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use support::{
    virtual_time::{Living, live, stop, store},
    watched::{self, Watch, Watching},
    *,
};
use turnwise_executor::executor::Builder;
use turnwise_store::{Bell, MemoryStore, Result};

/// Counts the calls of a process by their verb. On PostgreSQL each of an idle node's is one statement.
struct Counting {
    calls: Mutex<BTreeMap<&'static str, u32>>,
    bell: Bell,
}

impl Watch for Counting {
    fn before<'a>(&'a self, verb: &'static str, _: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        *self.calls.lock().unwrap().entry(verb).or_default() += 1;
        Box::pin(async { Ok(()) })
    }

    fn bell(&self) -> Option<Bell> {
        Some(self.bell.clone())
    }
}

/// A node with the settings that nodes have unless they are told others.
fn node(store: &MemoryStore, name: &str, hears: bool) -> (Living, Arc<Counting>) {
    let counting = Arc::new(Counting { calls: Mutex::default(), bell: Bell::default() });
    counting.bell.set_hears(hears);
    let builder = Builder::new(watched::connect(store, &counting), config(name)).registry(tasks!(Noop));
    (live(builder), counting)
}

const MINUTES: u32 = 10;

/// The calls of these minutes.
async fn calls(counting: [&Counting; 2]) -> [BTreeMap<&'static str, u32>; 2] {
    // It has begun, and read all there is.
    tokio::time::sleep(Duration::from_secs(60)).await;
    counting.iter().for_each(|counting| counting.calls.lock().unwrap().clear());
    tokio::time::sleep(Duration::from_secs(60) * MINUTES).await;
    counting.map(|counting| counting.calls.lock().unwrap().clone())
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_that_hears_asks_at_most_once_a_second() {
    let store = store();
    let (first, one) = node(&store, "first", true);
    let (second, other) = node(&store, "second", true);
    for calls in calls([&one, &other]).await {
        assert!(calls.values().sum::<u32>() <= MINUTES * 60, "{calls:?}");
        assert!(calls["beat"] >= MINUTES * 30, "its lease is prolonged: {calls:?}");
        // The dispatcher's looks for what is new, five seconds apart.
        let looks = calls.get("news").copied();
        assert!(looks.is_none_or(|looks| (MINUTES * 11..=MINUTES * 13).contains(&looks)), "{calls:?}");
    }
    stop([first, second]).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_that_does_not_hear_looks_once_a_second() {
    let store = store();
    let (first, one) = node(&store, "first", false);
    let (second, other) = node(&store, "second", false);
    let calls = calls([&one, &other]).await;
    let looks: u32 = calls.iter().filter_map(|calls| calls.get("news")).sum();
    assert!((MINUTES * 57..=MINUTES * 61).contains(&looks), "the dispatcher for what is new: {calls:?}");
    for calls in &calls {
        assert!((MINUTES * 57..=MINUTES * 61).contains(&calls["assignments"]), "each for its own: {calls:?}");
    }
    stop([first, second]).await;
}
