//! Nodes that run in the test's own time: tokio's clock is paused, and goes on when nothing is left to do.

use std::sync::Arc;

use tokio::{task::JoinHandle, time::Instant};
use turnwise_core::Timestamp;
use turnwise_executor::{Executor, executor::Builder};
use turnwise_store::{MemoryStore, Options, memory::Clock};

/// A store whose clock is the test's.
pub(crate) fn store() -> MemoryStore {
    let begun = Instant::now();
    let clock = Clock::new(move || Timestamp::from_micros(1_000_000_000_000).plus(begun.elapsed()));
    MemoryStore::new(Options::default(), clock)
}

/// A node, and what it does until it is stopped; aborted, it is as good as killed.
pub(crate) type Living = (Arc<Executor>, JoinHandle<()>);

pub(crate) fn live(builder: Builder) -> Living {
    let executor = Arc::new(builder.build().unwrap());
    let living = executor.clone();
    (executor, tokio::spawn(async move { living.live_here().await }))
}

pub(crate) async fn stop(nodes: impl IntoIterator<Item = Living>) {
    for (executor, running) in nodes {
        executor.stop().await;
        running.await.unwrap();
    }
}
