//! What happens between a node and a database that is far away, out of reach or led by somebody else; in virtual time.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{task::JoinHandle, time::Instant};
use turnwise_core::{
    Incarnation, JobState, NewJob, NodeName, QueueName, RetryPolicy, Serves, TaskName, Timestamp,
    lifecycle::{self, Event},
    node::Host,
    settings::{Concurrency, GroupSettings, OnError, Pause, QueueSettings},
};
use turnwise_executor::{Config, Ctx, Executor, Outcome, Registry, Task, executor::Builder};
use turnwise_store::{
    Author, Epoch, Join, MemoKind, MemoryStore, NewMemo, Options, Settle, Settlement, Store,
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

/// Says that it was told to stop, and takes its time.
struct Stubborn;
impl Task for Stubborn {
    type Args = ();
    const NAME: &'static str = "stubborn";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let seen = ctx.state::<Seen>().unwrap();
        let _going = Going::begin(&seen, ctx.node());
        ctx.cancelled().await;
        seen.tell("told to stop".to_owned());
        std::future::pending().await
    }
}

struct Quick;
impl Task for Quick {
    type Args = ();
    const NAME: &'static str = "quick";
    async fn run(&self, _: Ctx, (): ()) -> Outcome {
        tokio::time::sleep(Duration::from_millis(7)).await;
        Outcome::done()
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
    registry.register(Endless).unwrap().register(Stubborn).unwrap().register(Quick).unwrap();
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

fn virtual_store() -> MemoryStore {
    let begun = Instant::now();
    let clock = Clock::new(move || Timestamp::from_micros(1_000_000_000).plus(begun.elapsed()));
    MemoryStore::new(Options::default(), clock)
}

fn way_to(store: &MemoryStore) -> Faulty {
    Faulty::new(Arc::new(store.another_process()), Accident::None)
}

async fn set(store: &MemoryStore, kind: MemoKind, name: &str, settings: String) {
    let memo = NewMemo { kind, name: name.to_owned(), value: Some(settings), seen: None };
    store.remember(None, vec![memo]).await.unwrap();
}

fn in_line(task: &str) -> NewJob {
    NewJob { queue: QueueName::new("line").unwrap(), ..job(task, "null") }
}

/// What is seen when the node that runs the job is cut off until another one has taken it over.
async fn when_cut_off(kind: MemoKind, name: &str, settings: String) -> Vec<String> {
    let store = virtual_store();
    set(&store, kind, name, settings).await;
    let (seen, cut, uncut) = (Seen::default(), way_to(&store), way_to(&store));
    let a = live(&cut, "a", &seen);
    store.enqueue(vec![in_line("endless")]).await.unwrap();
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

#[tokio::test(start_paused = true)]
async fn an_error_that_a_dying_dispatcher_did_not_come_to_pauses_the_queue_all_the_same() {
    let store = virtual_store();
    let careful = QueueSettings { on_error: OnError::Pause, ..QueueSettings::default() };
    set(&store, MemoKind::Queue, "line", settings(careful)).await;
    let seen = Seen::default();
    let (_, dying) = live(&way_to(&store), "a", &seen);
    let job = NewJob { retry: RetryPolicy::Manual, ..in_line("endless") };
    let id = job.id;
    store.enqueue(vec![job]).await.unwrap();
    seen.has("a begins").await;
    while store.recall(vec![MemoKind::Seen]).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    dying.abort();
    // Its last word: the error, which the dispatcher in the same process was told of and nobody else.
    let job = store.job(id).await.unwrap().unwrap();
    let fleet = store.nodes().await.unwrap();
    let error = Event::Ended(lifecycle::Outcome::Error("no".to_owned().into()));
    let settlement = Settlement {
        job: id,
        fence: job.fence,
        saw_cancel: false,
        to: lifecycle::decide(&(&job).into(), &error, fleet.now, 0.0).unwrap(),
        noted: false,
        started_at: Some(fleet.now),
        finished_at: Some(fleet.now),
    };
    let author = Author::Node { node: fleet.nodes[0].incarnation, told: Some(Epoch(1)) };
    store.settle(Settle { author, settlements: vec![settlement], done: Vec::new() }).await.unwrap();
    assert_eq!(store.job(id).await.unwrap().unwrap().state, JobState::Stuck);
    let (next, running) = live(&way_to(&store), "b", &seen);
    let paused = support::soon(async {
        loop {
            let memos = store.recall(vec![MemoKind::Queue]).await.unwrap();
            let set: QueueSettings = serde_json::from_str(&memos[0].value).unwrap();
            if let Some(paused) = set.paused {
                return paused;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(paused.reason.unwrap().contains(&id.to_string()), "it says which job it was");
    next.stop().await;
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_expires_while_others_are_given_out_ends_all_the_same() {
    let store = virtual_store();
    let now = store.nodes().await.unwrap().now;
    let pause = Pause { since: now, reason: None };
    set(&store, MemoKind::Queue, "line", settings(QueueSettings { paused: Some(pause), ..QueueSettings::default() }))
        .await;
    let way = way_to(&store);
    let (executor, running) = live(&way, "a", &Seen::default());
    // An end is told with almost every reply, and something expires at almost every moment.
    way.slow_down(5);
    let expiring: Vec<NewJob> = (1..=200_u64)
        .map(|n| NewJob { expires: Some(now.plus(Duration::from_millis(1_000 + 10 * n))), ..in_line("quick") })
        .collect();
    let ids: Vec<_> = expiring.iter().map(|job| job.id).collect();
    store.enqueue(expiring).await.unwrap();
    store.enqueue((0..3_000).map(|_| job("quick", "null")).collect()).await.unwrap();
    for id in ids {
        let ended = support::ended(&store, id).await;
        assert_eq!(ended.state, JobState::Failed);
    }
    executor.stop().await;
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_left_stops_nobody_else_however_many_jobs_wait_for_it() {
    let store = virtual_store();
    let way = way_to(&store);
    let (executor, running) = live(&way, "a", &Seen::default());
    // Alone to know its task, and in no process.
    let ghost = Incarnation(uuid::Uuid::from_u128(7));
    let host = Host { name: "h".into(), boot_id: "b".into(), pid_namespace: String::new(), pid: 1, started: 1 };
    let join = Join {
        incarnation: ghost,
        name: NodeName::new("ghost").unwrap(),
        host,
        slots: 1,
        queue_capacity: 0,
        batch_size: None,
        queues: Serves::All,
        tasks: BTreeSet::from([TaskName::new("haunt").unwrap()]),
        lease: Duration::from_secs(3_600),
        replace: None,
    };
    store.join(join).await.unwrap();
    let haunting: Vec<NewJob> = (0..1_000).map(|_| job("haunt", "null")).collect();
    let first = haunting[0].id;
    store.enqueue(haunting).await.unwrap();
    let job = support::in_state(&store, first, JobState::Scheduled).await;
    // The dispatcher hears of the end when it next looks for news, and of the good-bye with its next beat, which is later.
    way.slow_down(5);
    let now = store.nodes().await.unwrap().now;
    let done = Event::Ended(lifecycle::Outcome::Done { result: None });
    let settlement = Settlement {
        job: first,
        fence: job.fence,
        saw_cancel: false,
        to: lifecycle::decide(&(&job).into(), &done, now, 0.0).unwrap(),
        noted: false,
        started_at: Some(now),
        finished_at: Some(now),
    };
    let author = Author::Node { node: ghost, told: None };
    store.settle(Settle { author, settlements: vec![settlement], done: Vec::new() }).await.unwrap();
    assert!(store.leave(ghost).await.unwrap());
    let quick = support::job("quick", "null");
    let id = quick.id;
    store.enqueue(vec![quick]).await.unwrap();
    assert_eq!(support::ended(&store, id).await.state, JobState::Success);
    executor.stop().await;
    running.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_serial_job_that_is_being_cancelled_has_stopped_before_the_next_one_runs_elsewhere() {
    let store = virtual_store();
    let serial = QueueSettings { concurrency: Concurrency::Serial, ..QueueSettings::default() };
    set(&store, MemoKind::Queue, "line", settings(serial)).await;
    let (seen, cut) = (Seen::default(), way_to(&store));
    let a = live(&cut, "a", &seen);
    let first = in_line("stubborn");
    let id = first.id;
    store.enqueue(vec![first, in_line("endless")]).await.unwrap();
    seen.has("a begins").await;
    let b = live(&way_to(&store), "b", &seen);
    tokio::time::sleep(Duration::from_secs(12)).await;
    support::cancel(&store, id).await;
    seen.has("told to stop").await;
    cut.cut_off(true);
    seen.has("b begins").await;
    assert_eq!(*seen.0.lock().unwrap(), ["a begins", "told to stop", "a ends", "b begins"]);
    cut.cut_off(false);
    for (executor, running) in [a, b] {
        executor.stop().await;
        running.await.unwrap();
    }
}
