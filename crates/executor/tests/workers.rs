//! Foreign workers on a store that fails now and then: what a server answers, and what is stored then.

use std::{
    any::Any,
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use turnwise_core::{
    Fence, Incarnation, JobId, JobState, NodeName, Serves,
    lifecycle::{End, Event, Outcome, Target},
    worker::{LEASE, Stop, TaskFacts, Worker},
};
use turnwise_executor::{
    Outcome as Said,
    workers::{self, EndAnswer, Held, How, Left, Register, Take, WorkerError, Workers},
};
use turnwise_store::{
    MemoryStore, OperatorStore, Options, Result, Settle, Settled, Store, StoreError,
    conformance::{MemoryHarness, OperatorHarness, scene::*},
    delegate::{Call, Delegate, DelegateOperators},
    memory::Clock,
};
use uuid::Uuid;

/// Refuses what a test says, and loses replies.
#[derive(Debug)]
struct Fickle {
    store: Arc<dyn Store>,
    operators: Arc<dyn OperatorStore>,
    /// The next settle is written, and its reply is lost.
    lose: AtomicBool,
}

#[async_trait]
impl Delegate for Fickle {
    fn inner(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn pass<T: Send + 'static>(
        &self,
        verb: &'static str,
        asked: &(dyn Any + Send + Sync),
        call: Call<T>,
    ) -> Result<T> {
        if let Some(settle) = asked.downcast_ref::<Settle>() {
            let spoilt = |to: &Target| matches!(to, Target::Finish { end: End::Success, result: Some(result) } if result.as_str().contains("spoilt"));
            if settle.settlements.iter().any(|one| spoilt(&one.to.to)) {
                return Err(StoreError::broken("settle", "it cannot be stored"));
            }
            if self.lose.swap(false, Ordering::Relaxed) {
                drop(call.await?);
                return Err(StoreError::transient(verb, "the reply was lost"));
            }
        }
        call.await
    }
}

impl DelegateOperators for Fickle {
    fn operators(&self) -> Arc<dyn OperatorStore> {
        self.operators.clone()
    }
}

/// A server, with the store behind it.
async fn server(h: &MemoryHarness) -> (Arc<Fickle>, Workers) {
    let (store, operators) = h.both().await;
    let fickle = Arc::new(Fickle { store, operators, lose: AtomicBool::new(false) });
    (fickle.clone(), Workers::new(fickle.clone(), fickle))
}

fn facts(name: &str) -> Register {
    let tasks = ["mail", "extract"].map(|name| (task(name), TaskFacts::default())).into();
    Register {
        id: None,
        name: NodeName::new(name).unwrap(),
        host: "far".to_owned(),
        slots: 4,
        buffer: 0,
        queues: Serves::All,
        lease: LEASE,
        worker: Worker { protocol: 1, language: String::new(), client: String::new(), token: None, tasks },
    }
}

async fn take(workers: &Workers, node: Incarnation, held: &[Held]) -> Vec<Held> {
    let ask = Take { n: 10, wait: Duration::ZERO, held: held.iter().copied().collect() };
    let taken = workers.take(node, None, ask).await.unwrap();
    taken.jobs.iter().map(|given| (given.job.id, given.job.fence)).collect()
}

fn end(job: Held, outcome: Said) -> workers::End {
    workers::End { job, ran: Some(Duration::from_millis(3)), how: How::Said(outcome) }
}

#[tokio::test]
async fn an_end_that_cannot_be_stored_fails_its_job_and_no_other() {
    let h = MemoryHarness::new(Options::default());
    let scene = Scene::led(&h).await;
    let (_, workers) = server(&h).await;
    let node = workers.register(facts("far")).await.unwrap().id;
    scene.enqueue(1..=5).await;
    scene.give(1, &[1, 2, 3, 4, 5], node).await;
    let held = take(&workers, node, &[]).await;
    assert_eq!(held.len(), 5);
    let ends = held.iter().enumerate().map(|(at, job)| {
        let result = if at == 3 { "spoilt" } else { "good" };
        end(*job, Said::done_with(&result))
    });
    let answers = workers.settle(node, None, ends.collect()).await.unwrap();
    let applied = EndAnswer::Applied(JobState::Success);
    for (at, answer) in answers.iter().enumerate() {
        match answer {
            EndAnswer::Invalid(problem) if at == 3 => assert!(problem.contains("it cannot be stored"), "{problem}"),
            answer => assert_eq!((at != 3, answer), (true, &applied)),
        }
    }
    let spoilt = scene.job(4).await;
    assert_eq!(spoilt.state, JobState::Failed);
    assert!(spoilt.error.unwrap().starts_with("its end could not be stored"));
    assert_eq!(scene.state(5).await, JobState::Success);
}

#[tokio::test]
async fn an_end_whose_reply_was_lost_is_written_once_and_answered_so_by_every_server() {
    let h = MemoryHarness::new(Options::default());
    let scene = Scene::led(&h).await;
    let ((fickle, workers), (_, other)) = (server(&h).await, server(&h).await);
    let node = workers.register(facts("far")).await.unwrap().id;
    scene.submit(vec![job_with_retry(1, "durations:1h"), job_with_retry(2, "none")]).await;
    scene.give(1, &[1, 2], node).await;
    let held = take(&workers, node, &[]).await;
    let ends = || vec![end(held[0], Said::error("it broke")), end(held[1], Said::done())];
    fickle.lose.store(true, Ordering::Relaxed);
    let lost = workers.settle(node, None, ends()).await;
    assert!(matches!(&lost, Err(WorkerError::Store(error)) if error.is_transient()), "{lost:?}");
    let written = [EndAnswer::Applied(JobState::Stuck), EndAnswer::Applied(JobState::Success)];
    assert_eq!(workers.settle(node, None, ends()).await.unwrap(), written);
    assert_eq!(other.settle(node, None, ends()).await.unwrap(), written);
    assert_eq!((scene.job(1).await.counts.attempt, scene.story(1).await.attempts.len()), (1, 1));
}

#[tokio::test]
async fn a_cancel_that_came_before_the_end_counts() {
    let h = MemoryHarness::new(Options::default());
    let scene = Scene::led(&h).await;
    let (_, workers) = server(&h).await;
    let node = workers.register(facts("far")).await.unwrap().id;
    scene.enqueue([1]).await;
    scene.give(1, &[1], node).await;
    let held = take(&workers, node, &[]).await;
    scene.intervene(1, Event::Cancel).await;
    let answers = workers.settle(node, None, vec![end(held[0], Said::done())]).await.unwrap();
    assert_eq!(answers, [EndAnswer::Applied(JobState::Cancelled)]);
    assert_eq!(scene.state(1).await, JobState::Cancelled);
}

#[tokio::test]
async fn a_job_under_which_a_node_died_is_running_before_it_is_given() {
    let h = MemoryHarness::new(Options::default());
    let scene = Scene::led(&h).await;
    let (_, workers) = server(&h).await;
    scene.enqueue([1]).await;
    scene.give(1, &[1], BETA).await;
    scene.start(BETA, 1).await;
    let lost = scene.lose_beta(&h).await;
    let back = scene.settlement(1, &Event::NodeLost).await;
    assert_eq!(lost.jobs.len(), 1);
    assert_eq!(scene.settle_one(scene.for_lost(BETA, true), back).await, Settled::Applied);
    let node = workers.register(facts("far")).await.unwrap().id;
    scene.give(2, &[1], node).await;
    assert_eq!(scene.state(1).await, JobState::Scheduled);
    assert_eq!(take(&workers, node, &[]).await.len(), 1);
    assert_eq!(scene.state(1).await, JobState::Running, "should it die, too, the job is known to have begun");
}

#[tokio::test]
async fn what_is_not_in_its_hands_any_more_is_to_be_stopped() {
    let h = MemoryHarness::new(Options::default());
    let scene = Scene::led(&h).await;
    let ((_, workers), (_, other)) = (server(&h).await, server(&h).await);
    let node = workers.register(facts("far")).await.unwrap().id;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], node).await;
    let held = take(&other, node, &[]).await;
    scene.end(node, 1, Outcome::Interrupted).await;
    let unknown = (JobId::from_uuid(Uuid::from_u128(99)), Fence(1));
    let (lease, stop) =
        workers.beat(node, None, 4, held.iter().copied().chain([unknown]).collect::<BTreeSet<_>>()).await.unwrap();
    assert_eq!(lease, LEASE);
    let mut gone = vec![(held[0], Stop::Gone), (unknown, Stop::Gone)];
    gone.sort_by_key(|(job, _)| *job);
    assert_eq!(stop, gone);
    let (_, stop) = workers.beat(node, None, 4, [held[1]].into()).await.unwrap();
    assert_eq!(stop, []);
}

#[tokio::test]
async fn a_worker_leaves_only_when_nothing_is_in_its_hands() {
    let h = MemoryHarness::new(Options::default());
    let scene = Scene::led(&h).await;
    let ((_, workers), (_, other)) = (server(&h).await, server(&h).await);
    let node = workers.register(facts("far")).await.unwrap().id;
    scene.enqueue([1, 2]).await;
    scene.give(1, &[1, 2], node).await;
    let held = take(&workers, node, &[]).await;
    // It does not say what it runs: nothing is taken from it.
    assert_eq!(other.leave(node, None, vec![held[0]], None).await.unwrap(), Left::Holds(1));
    assert_eq!((scene.state(1).await, scene.state(2).await), (JobState::Waiting, JobState::Scheduled));
    assert_eq!(other.leave(node, None, vec![], Some(BTreeSet::new())).await.unwrap(), Left::Gone);
    assert_eq!(scene.state(2).await, JobState::Waiting);
    assert_eq!(workers.leave(node, None, vec![], Some(BTreeSet::new())).await.unwrap(), Left::Gone);
    assert!(matches!(workers.beat(node, None, 4, BTreeSet::new()).await, Err(WorkerError::Lost)));
}

#[tokio::test]
async fn a_job_that_comes_again_before_its_first_batch_is_done_is_given_once() {
    let h = MemoryHarness::new(Options::default());
    let scene = Scene::led(&h).await;
    let ((_, workers), (_, other)) = (server(&h).await, server(&h).await);
    let node = workers.register(facts("far")).await.unwrap().id;
    scene.submit(vec![job_with_retry(1, "durations:0s")]).await;
    scene.give(1, &[1], node).await;
    let first = take(&workers, node, &[]).await;
    workers.settle(node, None, vec![end(first[0], Said::error("it broke"))]).await.unwrap();
    scene.give(2, &[1], node).await;
    let again = vec![(first[0].0, first[0].1.next())];
    assert_eq!(take(&workers, node, &[]).await, again);
    assert_eq!(take(&other, node, &[]).await, again);
    let answers = other.settle(node, None, vec![end(again[0], Said::done())]).await.unwrap();
    assert_eq!(answers, [EndAnswer::Applied(JobState::Success)]);
}

/// A failover takes back the last commits: what a server remembers is not true any more.
#[tokio::test]
async fn what_a_failover_took_back_is_read_again() {
    let clock = Clock::new(|| "2030-01-01T00:00:00Z".parse().unwrap());
    let store = MemoryStore::new(Options::default(), clock);
    let workers = Workers::new(Arc::new(store.clone()), Arc::new(store.clone()));
    store.join(join(ALPHA, "alpha")).await.unwrap();
    let epoch = store.beat(beat(ALPHA, true)).await.unwrap().epoch.unwrap();
    let node = workers.register(facts("far")).await.unwrap().id;
    store.enqueue(vec![job(1)]).await.unwrap();
    let scene = Scene { store: Arc::new(store.clone()), epoch };
    scene.give(1, &[1], node).await;
    let held = take(&workers, node, &[]).await;
    let before = store.snapshot();
    let answers = workers.settle(node, None, vec![end(held[0], Said::done())]).await.unwrap();
    assert_eq!(answers, [EndAnswer::Applied(JobState::Success)]);
    assert_eq!(take(&workers, node, &[]).await, []);
    store.fail_over(&before);
    workers.beat(node, None, 4, BTreeSet::new()).await.unwrap();
    assert_eq!(take(&workers, node, &[]).await, held, "the database says that it has the job");
    let answers = workers.settle(node, None, vec![end(held[0], Said::done())]).await.unwrap();
    assert_eq!(answers, [EndAnswer::Applied(JobState::Success)]);
}
