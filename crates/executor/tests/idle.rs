//! When a process says that it is idle, and when it is drained.

mod support;

use std::{
    any::Any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use support::{
    memos::set,
    watched::{self, Watch, Watching},
    *,
};
use turnwise_core::{
    GroupName, NewJob, QueueName, Timestamp,
    settings::{GroupSettings, Pause, QueueSettings},
};
use turnwise_executor::{
    Config, Ctx, Outcome,
    executor::{Builder, Connect},
    task::Task,
};
use turnwise_store::{MemoKind, MemoryStore, Result, Store, StoreError};

/// Submits a job to the queue it is told, without ringing for anybody.
struct Whisper;

impl Task for Whisper {
    type Args = String;
    const NAME: &'static str = "whisper";
    async fn run(&self, ctx: Ctx, queue: String) -> Outcome {
        let store = ctx.state::<MemoryStore>().unwrap();
        store.another_process().enqueue(vec![of(&queue, "noop")]).await.unwrap();
        Outcome::done()
    }
}

/// Submits a job that is due in a moment.
struct Leave;

impl Task for Leave {
    type Args = String;
    const NAME: &'static str = "leave";
    async fn run(&self, ctx: Ctx, queue: String) -> Outcome {
        let store = ctx.state::<MemoryStore>().unwrap();
        let now = store.nodes().await.unwrap().now;
        let job = NewJob { due: Some(now.plus(Duration::from_millis(300))), ..of(&queue, "noop") };
        store.another_process().enqueue(vec![job]).await.unwrap();
        Outcome::done()
    }
}

fn builder(store: &MemoryStore, name: &str, connect: Connect) -> Builder {
    let builder = Builder::new(connect, config(name)).registry(tasks!(Noop, Whisper, Leave));
    builder.state(store.clone()).configure(|config| config.poll_interval = Some(NEVER))
}

/// A node that does not dispatch has its mail to look for.
fn dispatch(config: &mut Config, dispatches: bool) {
    config.dispatch = dispatches;
    if !dispatches {
        looks_often(config);
    }
}

fn slow() -> QueueSettings {
    QueueSettings { rate: Some("1/500ms".parse().unwrap()), ..QueueSettings::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn between_jobs_that_a_rate_holds_back_a_dispatcher_is_not_idle() {
    let store = MemoryStore::default();
    set(&store, MemoKind::Queue, "slow", &slow()).await;
    let (executor, mut events) = listened(builder(&store, "a", connect(&store))).await;
    assert_eq!(successes(&mut events).await, 0);
    submit(&executor, (0..3).map(|_| of("slow", "noop")).collect()).await;
    assert_eq!(successes(&mut events).await, 3);
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_dispatch_is_not_idle_while_work_is_left_for_it() {
    let store = MemoryStore::default();
    set(&store, MemoKind::Queue, "slow", &slow()).await;
    let dispatcher = dispatcher(&store).await;
    let worker = builder(&store, "a", connect(&store)).configure(|config| dispatch(config, false));
    let (worker, mut events) = listened(worker).await;
    assert_eq!(successes(&mut events).await, 0);
    submit(&worker, (0..3).map(|_| of("slow", "noop")).collect()).await;
    assert_eq!(successes(&mut events).await, 3);
    soon(worker.stop()).await;
    soon(dispatcher.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_its_time_or_a_person_or_another_node_is_not_left() {
    let store = MemoryStore::default();
    let pause = || Some(Pause { since: Timestamp::from_micros(0), reason: None });
    set(&store, MemoKind::Queue, "paused", &QueueSettings { paused: pause(), ..QueueSettings::default() }).await;
    set(&store, MemoKind::Group, "paused", &GroupSettings { paused: pause(), ..GroupSettings::default() }).await;
    let later = store.nodes().await.unwrap().now.plus(NEVER);
    let held = [
        of("paused", "noop"),
        NewJob { group: GroupName::new("paused").unwrap(), ..of("default", "noop") },
        NewJob { due: Some(later), ..of("default", "noop") },
        of("default", "unknown"),
    ];
    store.enqueue(held.to_vec()).await.unwrap();
    for dispatches in [true, false] {
        let other = if dispatches { None } else { Some(dispatcher(&store).await) };
        let node = builder(&store, "a", connect(&store)).configure(|config| dispatch(config, dispatches));
        let (executor, mut events) = listened(node).await;
        assert_eq!(successes(&mut events).await, 0);
        submit(&executor, vec![of("default", "noop")]).await;
        assert_eq!(successes(&mut events).await, 1);
        soon(executor.stop()).await;
        if let Some(other) = other {
            soon(other.stop()).await;
        }
    }
}

/// Once a job has been settled, the next looks at the news fail.
#[derive(Default)]
struct Deaf {
    fails: AtomicU32,
    settled: AtomicU32,
}

impl Watch for Deaf {
    fn before<'a>(&'a self, verb: &'static str, _: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        Box::pin(async move {
            let fails = verb == "news"
                && self.fails.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            if fails { Err(StoreError::transient("read the news", "not now")) } else { Ok(()) }
        })
    }

    fn after(&self, verb: &'static str) -> Watching<'_, ()> {
        if verb == "settle" && self.settled.fetch_add(1, Ordering::SeqCst) == 0 {
            self.fails.store(2, Ordering::SeqCst);
        }
        Box::pin(async {})
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_that_failed_is_no_look() {
    let (store, deaf) = (MemoryStore::default(), Arc::new(Deaf::default()));
    let (executor, mut events) = listened(builder(&store, "a", watched::connect(&store, &deaf))).await;
    assert_eq!(successes(&mut events).await, 0);
    submit(&executor, vec![job("whisper", "\"default\"")]).await;
    assert_eq!(successes(&mut events).await, 2, "what it whispered of, too");
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_pool_leaves_to_another_is_left() {
    for dispatches in [true, false] {
        let store = MemoryStore::default();
        let other = if dispatches { None } else { Some(dispatcher(&store).await) };
        let node = builder(&store, "a", connect(&store)).configure(|config| dispatch(config, dispatches));
        let (executor, mut events) = listened(node.pool("mail", |pool| pool.queues(["mail"]))).await;
        assert_eq!(successes(&mut events).await, 0);
        for (from, to) in [("default", "\"mail\""), ("mail", "\"default\"")] {
            submit(&executor, vec![NewJob { queue: QueueName::new(from).unwrap(), ..job("whisper", to) }]).await;
            assert_eq!(successes(&mut events).await, 2, "from {from}, which dispatches: {dispatches}");
        }
        soon(executor.stop()).await;
        if let Some(other) = other {
            soon(other.stop()).await;
        }
    }
}

// --- drained -------------------------------------------------------------------------------------------------

/// A job comes and ends when the backlog has been read, before the reader hears what was found.
struct Meanwhile {
    store: MemoryStore,
    job: Mutex<Option<NewJob>>,
}

impl Watch for Meanwhile {
    fn after(&self, verb: &'static str) -> Watching<'_, ()> {
        Box::pin(async move {
            let job = if verb == "load" { self.job.lock().unwrap().take() } else { None };
            if let Some(job) = job {
                let id = put(&self.store, job).await;
                self.store.bell().ring_news();
                ended(&self.store, id).await;
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pool_leaves_to_another_for_later_is_waited_for() {
    let store = MemoryStore::default();
    let meanwhile = Arc::new(Meanwhile { store: store.clone(), job: Mutex::default() });
    let node = builder(&store, "a", watched::connect(&store, &meanwhile));
    let (executor, mut events) = listened(node.configure(looks_often).pool("mail", |pool| pool.queues(["mail"]))).await;
    assert_eq!(successes(&mut events).await, 0, "the backlog has been read");
    *meanwhile.job.lock().unwrap() =
        Some(NewJob { queue: QueueName::new("mail").unwrap(), ..job("leave", "\"default\"") });
    soon(executor.drained()).await.unwrap();
    assert_eq!(executor.stats().settled, 2, "the one that came, and the one it left");
    soon(executor.stop()).await;
}
