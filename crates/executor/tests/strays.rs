//! Jobs that are said to be in a node's hands and are in none; in virtual time.

mod support;

use std::time::Duration;

use support::{
    ghost::{self, GHOST},
    virtual_time::{live, stop, store},
    *,
};
use tokio::time::Instant;
use turnwise_core::{Fence, Job, JobId, JobState};
use turnwise_executor::executor::Builder;
use turnwise_store::{Author, MemoryStore, Settle, Store};

const HOUR: Duration = Duration::from_secs(3_600);

/// The job, once it is in a node's hands at this fence.
async fn given(store: &MemoryStore, id: JobId, fence: Fence) -> Job {
    let begun = Instant::now();
    loop {
        let job = now(store, id).await;
        if job.state == JobState::Scheduled && job.fence >= fence {
            return job;
        }
        assert!(begun.elapsed() < HOUR / 2, "it is {} at {:?}", job.state, job.fence);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_no_batch_of_its_living_node_names_goes_back_and_one_that_is_named_stays() {
    let store = store();
    let node = live(Builder::new(connect(&store), config("dispatches")).registry(tasks!(Noop)));
    ghost::joins(&store, "haunt", HOUR).await;
    let stray = put(&store, job("haunt", "null")).await;
    let before = given(&store, stray, Fence(1)).await;
    let batches = store.assignments(GHOST, Vec::new()).await.unwrap().batches;
    // As its node writes when all of a batch is settled.
    let done = batches.iter().map(|delivery| delivery.batch).collect();
    let author = Author::Node { node: GHOST, told: None };
    store.settle(Settle { author, settlements: Vec::new(), done }).await.unwrap();

    let begun = Instant::now();
    // Back, and given out again: the fence is raised by each.
    let after = given(&store, stray, Fence(before.fence.0 + 2)).await;
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(90), "it went back after {took:?}");
    assert_eq!((after.counts.attempt, after.counts.crashes), (0, 0), "no attempt is spent, and no crash is counted");

    tokio::time::sleep(Duration::from_secs(600)).await;
    let named = now(&store, stray).await;
    assert_eq!((named.state, named.fence), (JobState::Scheduled, after.fence), "what a batch names is left alone");
    stop([node]).await;
}
