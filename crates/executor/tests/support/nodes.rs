//! Nodes in real time, each with a process's way to the store of its own, and what they say.

use std::{sync::Arc, time::Duration};

use turnwise_core::{Node, NodeName};
use turnwise_executor::{
    Config, Event, Events, Executor, Registry,
    executor::{Builder, Connect, Connected},
};
use turnwise_store::{MemoryStore, Store};

use super::wait::soon;

pub(crate) const NEVER: Duration = Duration::from_secs(3600);

/// Tests that wait for the end of one do so with this lease: a busy machine does not break it.
pub(crate) const SHORT_LEASE: Duration = Duration::from_secs(2);

pub(crate) fn connect(store: &MemoryStore) -> Connect {
    let store = store.clone();
    Arc::new(move || {
        let store = store.another_process();
        Box::pin(async move { Ok(Connected::to_both(Arc::new(store))) })
    })
}

pub(crate) fn config(name: &str) -> Config {
    Config::new(NodeName::new(name).unwrap())
}

/// Looks often for what no bell tells it: none rings from one process to another here.
pub(crate) fn looks_often(config: &mut Config) {
    config.poll_interval = Some(Duration::from_millis(20));
}

/// A node of four slots that looks often.
pub(crate) fn node(store: &MemoryStore, name: &str, registry: Registry) -> Builder {
    let builder = Builder::new(connect(store), config(name)).registry(registry).configure(looks_often);
    builder.configure(|config| config.core_pool_size = 4)
}

/// A node that dispatches, and knows no task.
pub(crate) async fn dispatcher(store: &MemoryStore) -> Executor {
    started(Builder::new(connect(store), config("dispatcher")).configure(looks_often)).await
}

pub(crate) async fn started(builder: Builder) -> Executor {
    listened(builder).await.0
}

/// As [`started`], with all that it says.
pub(crate) async fn listened(builder: Builder) -> (Executor, Events) {
    let executor = builder.build().unwrap();
    let events = executor.events();
    soon(executor.start()).await.unwrap();
    (executor, events)
}

/// The successes until the next `idle`.
pub(crate) async fn successes(events: &mut Events) -> usize {
    let mut count = 0;
    loop {
        match soon(events.next()).await.expect("the executor lives") {
            Event::Idle => return count,
            Event::Success(_) => count += 1,
            _ => {}
        }
    }
}

pub(crate) async fn fleet(store: &MemoryStore) -> Vec<Node> {
    store.nodes().await.unwrap().nodes
}

pub(crate) async fn slots(store: &MemoryStore, name: &str) -> Option<u32> {
    fleet(store).await.iter().find(|node| node.name.as_str() == name).map(|node| node.slots)
}
