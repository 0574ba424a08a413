//! Jobs that wait for jobs: when they run, and what becomes of them when another one fails.

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use support::*;
use turnwise_core::{After, JobId, JobState, NewJob, OnFailure, RetryPolicy, lifecycle::Event};
use turnwise_executor::{Ctx, Executor, Outcome, Task};
use turnwise_store::{Load, MemoryStore, Options, Store, memory::Clock};

type Ran = Arc<Mutex<Vec<u64>>>;

/// Writes down its number; 1,000 is an error, and what is above fails for good.
struct Note;
impl Task for Note {
    type Args = u64;
    const NAME: &'static str = "note";
    async fn run(&self, ctx: Ctx, number: u64) -> Outcome {
        match number {
            ..1_000 => {}
            1_000 => return Outcome::error("perhaps later"),
            _ => return Outcome::fail("it is too large"),
        }
        ctx.state::<Ran>().unwrap().0.lock().unwrap().push(number);
        Outcome::done()
    }
}

async fn start(store: &MemoryStore, name: &str, ran: &Ran) -> Executor {
    started(node(store, name, tasks!(Note)).state(ran.clone())).await
}

fn after(number: u64, ids: impl IntoIterator<Item = JobId>, on_failure: OnFailure) -> NewJob {
    NewJob { after: After::new(ids, on_failure).unwrap(), ..job("note", &number.to_string()) }
}

fn free(number: u64) -> NewJob {
    after(number, [], OnFailure::Fail)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_of_a_fan_runs_after_all_others_on_whatever_node() {
    let (store, ran) = (MemoryStore::default(), Ran::default());
    let first = free(1);
    let middle: Vec<_> = (2..=200).map(|n| after(n, [first.id], OnFailure::Fail)).collect();
    let last = after(201, ids(&middle), OnFailure::Fail);
    let end = last.id;
    // The last one first: what comes in order is no merit.
    store.enqueue([vec![last], middle, vec![first]].concat()).await.unwrap();
    let _one = start(&store, "one", &ran).await;
    let _two = start(&store, "two", &ran).await;
    assert_eq!(ended(&store, end).await.state, JobState::Success);
    let ran = ran.lock().unwrap();
    assert_eq!((ran.len(), ran[0], ran[200]), (201, 1, 201));
}

#[tokio::test(flavor = "multi_thread")]
async fn when_one_fails_those_that_wait_fail_run_or_are_cancelled_as_they_asked() {
    let (store, ran) = (MemoryStore::default(), Ran::default());
    let (good, bad) = (free(1), free(1_001));
    let both = [good.id, bad.id];
    let waiting = [(2, OnFailure::Fail), (3, OnFailure::Run), (4, OnFailure::Cancel)].map(|(n, on)| after(n, both, on));
    let then = [after(5, [waiting[0].id], OnFailure::Cancel), after(6, [waiting[2].id], OnFailure::Run)];
    let all = [vec![good, bad.clone()], waiting.to_vec(), then.to_vec()].concat();
    store.enqueue(all).await.unwrap();
    let executor = start(&store, "one", &ran).await;
    let [fails, runs, is_cancelled] = waiting.map(|job| job.id);
    let failed = ended(&store, fails).await;
    assert_eq!(failed.state, JobState::Failed);
    assert_eq!(failed.error, Some(format!("job {}, which it waited for, failed", bad.id)));
    assert_eq!(ended(&store, runs).await.state, JobState::Success);
    assert_eq!(ended(&store, is_cancelled).await.state, JobState::Cancelled);
    assert_eq!(ended(&store, then[0].id).await.state, JobState::Cancelled, "the failure goes on");
    assert_eq!(ended(&store, then[1].id).await.state, JobState::Success);
    soon(executor.drained()).await.unwrap();
    let mut ran = ran.lock().unwrap().clone();
    ran.sort_unstable();
    assert_eq!(ran, [1, 3, 6], "nobody else has run");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chain_of_a_thousand_ends_with_its_first() {
    let (store, ran) = (MemoryStore::default(), Ran::default());
    let mut chain = vec![free(1_001)];
    for n in (1..1_000).cycle().take(1_000) {
        chain.push(after(n, [chain[chain.len() - 1].id], OnFailure::Fail));
    }
    let last = chain[1_000].id;
    store.enqueue(chain).await.unwrap();
    let executor = start(&store, "one", &ran).await;
    assert_eq!(ended(&store, last).await.state, JobState::Failed);
    soon(executor.drained()).await.unwrap();
    assert!(ran.lock().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_ended_while_nobody_dispatched_is_seen_by_the_next() {
    let (store, ran) = (MemoryStore::default(), Ran::default());
    let (gone, kept) = (free(1), free(2));
    let (bad, good) = (after(3, [gone.id], OnFailure::Fail), after(4, [kept.id], OnFailure::Fail));
    store.enqueue(vec![gone.clone(), kept, bad.clone(), good.clone()]).await.unwrap();
    cancel(&store, gone.id).await;
    let _one = start(&store, "one", &ran).await;
    let bad = ended(&store, bad.id).await;
    assert_eq!(bad.error, Some(format!("job {}, which it waited for, was cancelled", gone.id)));
    assert_eq!(ended(&store, good.id).await.state, JobState::Success);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_by_a_person_is_heard_by_those_that_wait() {
    let (store, ran) = (MemoryStore::default(), Ran::default());
    let mut later = free(1);
    later.due = Some(Clock::system().now().plus(Duration::from_secs(3_600)));
    let waiting = after(2, [later.id], OnFailure::Cancel);
    store.enqueue(vec![later.clone(), waiting.clone()]).await.unwrap();
    let _one = start(&store, "one", &ran).await;
    let witness = put(&store, free(3)).await;
    ended(&store, witness).await;
    assert_eq!(in_state(&store, waiting.id, JobState::Waiting).await.counts.attempt, 0);
    cancel(&store, later.id).await;
    assert_eq!(ended(&store, waiting.id).await.state, JobState::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_job_has_not_ended_and_nobody_drains_for_those_that_wait_for_it() {
    let (store, ran) = (MemoryStore::default(), Ran::default());
    let stuck = NewJob { retry: Some(RetryPolicy::Manual), ..free(1_000) };
    let waiting = after(2, [stuck.id], OnFailure::Fail);
    store.enqueue(vec![stuck.clone(), waiting.clone()]).await.unwrap();
    let executor = start(&store, "one", &ran).await;
    in_state(&store, stuck.id, JobState::Stuck).await;
    soon(executor.drained()).await.unwrap();
    assert_eq!(in_state(&store, waiting.id, JobState::Waiting).await.error, None);
    decide(&store, stuck.id, Event::GiveUp).await;
    assert_eq!(ended(&store, waiting.id).await.state, JobState::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_may_have_a_job_run_that_ended_for_another() {
    let (store, ran) = (MemoryStore::default(), Ran::default());
    let bad = free(1_001);
    let waiting = after(2, [bad.id], OnFailure::Fail);
    store.enqueue(vec![bad, waiting.clone()]).await.unwrap();
    let _one = start(&store, "one", &ran).await;
    assert_eq!(ended(&store, waiting.id).await.state, JobState::Failed);
    decide(&store, waiting.id, Event::Retry).await;
    in_state(&store, waiting.id, JobState::Success).await;
    assert_eq!(story(&store, waiting.id).await.after, waiting.after, "whom it waited for is told all the same");
    assert_eq!(*ran.lock().unwrap(), [2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_is_heard_where_nothing_is_kept() {
    let options = Options { retention: Some(Duration::ZERO.into()), ..Options::default() };
    let (store, ran) = (MemoryStore::new(options, Clock::system()), Ran::default());
    let bad = free(1_001);
    let waiting = [after(2, [bad.id], OnFailure::Run), after(3, [bad.id], OnFailure::Fail)];
    store.enqueue([vec![bad], waiting.to_vec()].concat()).await.unwrap();
    let executor = start(&store, "one", &ran).await;
    soon(executor.drained()).await.unwrap();
    assert!(store.load(Load::After { id: None, limit: 10 }).await.unwrap().jobs.is_empty());
    assert_eq!(*ran.lock().unwrap(), [2]);
}
