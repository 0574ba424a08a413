//! What happens between a node and a database that is far away, out of reach or led by another node; in virtual time.

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use support::{
    ghost::{self, GHOST},
    memos::{queue_settings, set},
    virtual_time::{self, Living, stop},
    *,
};
use turnwise_core::{
    JobState, NewJob, NodeName, RetryPolicy,
    lifecycle::Outcome as Ended,
    settings::{Concurrency, GroupSettings, OnError, Pause, QueueSettings},
};
use turnwise_executor::{
    Ctx, Outcome, Task,
    executor::{Builder, Connected},
};
use turnwise_store::{
    Epoch, MemoKind, MemoryStore, Store,
    conformance::{Faulty, faulty::Accident},
};

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
fn live(store: &Faulty, name: &str, seen: &Seen) -> Living {
    let store = store.clone();
    let connect = Arc::new(move || {
        let store: Arc<dyn Store> = Arc::new(store.clone());
        Box::pin(async move { Ok(Connected::to(store)) }) as _
    });
    let builder = Builder::new(connect, config(name)).registry(tasks!(Endless, Stubborn, Quick));
    virtual_time::live(builder.state(seen.clone()))
}

fn way_to(store: &MemoryStore) -> Faulty {
    Faulty::new(Arc::new(store.another_process()), Accident::None)
}

fn in_line(task: &str) -> NewJob {
    of("line", task)
}

/// What is seen when the node that runs the job is cut off until another one has taken it over.
async fn when_cut_off(kind: MemoKind, name: &str, settings: impl serde::Serialize) -> Vec<String> {
    let store = virtual_time::store();
    set(&store, kind, name, &settings).await;
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
    stop([a, b]).await;
    story
}

#[tokio::test(start_paused = true)]
async fn a_serial_job_has_stopped_on_a_node_without_contact_before_another_node_runs_it() {
    let serial = QueueSettings { concurrency: Concurrency::Serial, ..QueueSettings::default() };
    let story = when_cut_off(MemoKind::Queue, "line", serial).await;
    assert_eq!(story, ["a begins", "a ends", "b begins"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_of_a_limited_group_has_stopped_on_a_node_without_contact_before_another_node_runs_it() {
    let limited = GroupSettings { concurrency: Some(3), ..GroupSettings::default() };
    let story = when_cut_off(MemoKind::Group, "default", limited).await;
    assert_eq!(story, ["a begins", "a ends", "b begins"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_no_limit_counts_goes_on_without_contact() {
    let unlimited = QueueSettings::default();
    let story = when_cut_off(MemoKind::Queue, "line", unlimited).await;
    assert_eq!(story, ["a begins", "b begins"]);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_a_dying_dispatcher_did_not_come_to_pauses_the_queue_all_the_same() {
    let store = virtual_time::store();
    let careful = QueueSettings { on_error: OnError::Pause, ..QueueSettings::default() };
    set(&store, MemoKind::Queue, "line", &careful).await;
    let seen = Seen::default();
    let (_, dying) = live(&way_to(&store), "a", &seen);
    let id = put(&store, NewJob { retry: Some(RetryPolicy::Manual), ..in_line("endless") }).await;
    seen.has("a begins").await;
    until(async || !store.recall(vec![MemoKind::Seen]).await.unwrap().is_empty()).await;
    dying.abort();
    // Its last word: the error, which the dispatcher in the same process was told of and nobody else.
    let (job, dead) = (now(&store, id).await, fleet(&store).await[0].incarnation);
    ghost::ends(&store, dead, Some(Epoch(1)), &job, Ended::Error("no".to_owned().into())).await.unwrap();
    assert_eq!(now(&store, id).await.state, JobState::Stuck);
    let next = live(&way_to(&store), "b", &seen);
    let paused = found(async || queue_settings(&store, "line").await.paused).await;
    assert!(paused.reason.unwrap().contains(&id.to_string()), "it says which job it was");
    stop([next]).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_expires_while_others_are_given_out_ends_all_the_same() {
    let store = virtual_time::store();
    let now = store.nodes().await.unwrap().now;
    let pause = Pause { since: now, reason: None };
    let paused = QueueSettings { paused: Some(pause), ..QueueSettings::default() };
    set(&store, MemoKind::Queue, "line", &paused).await;
    let way = way_to(&store);
    let node = live(&way, "a", &Seen::default());
    // An end is told with almost every reply, and something expires at almost every moment.
    way.slow_down(5);
    let expiring: Vec<NewJob> = (1..=200_u64)
        .map(|n| NewJob { expires: Some(now.plus(Duration::from_millis(1_000 + 10 * n))), ..in_line("quick") })
        .collect();
    let ids = ids(&expiring);
    store.enqueue(expiring).await.unwrap();
    store.enqueue((0..3_000).map(|_| job("quick", "null")).collect()).await.unwrap();
    for id in ids {
        assert_eq!(ended(&store, id).await.state, JobState::Failed);
    }
    stop([node]).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_left_stops_nobody_else_however_many_jobs_wait_for_it() {
    let store = virtual_time::store();
    let way = way_to(&store);
    let node = live(&way, "a", &Seen::default());
    // Alone to know its task.
    ghost::joins(&store, "haunt", NEVER).await;
    let haunting: Vec<NewJob> = (0..1_000).map(|_| job("haunt", "null")).collect();
    let first = haunting[0].id;
    store.enqueue(haunting).await.unwrap();
    let held = in_state(&store, first, JobState::Scheduled).await;
    // The dispatcher hears of the end when it next looks for news, and of the good-bye with its next beat, which is later.
    way.slow_down(5);
    ghost::ends(&store, GHOST, None, &held, Ended::Done { result: None }).await.unwrap();
    assert!(store.leave(GHOST).await.unwrap());
    let id = put(&store, job("quick", "null")).await;
    assert_eq!(ended(&store, id).await.state, JobState::Success);
    stop([node]).await;
}

#[tokio::test(start_paused = true)]
async fn a_serial_job_that_is_being_cancelled_has_stopped_before_the_next_one_runs_elsewhere() {
    let store = virtual_time::store();
    let serial = QueueSettings { concurrency: Concurrency::Serial, ..QueueSettings::default() };
    set(&store, MemoKind::Queue, "line", &serial).await;
    let (seen, cut) = (Seen::default(), way_to(&store));
    let a = live(&cut, "a", &seen);
    let first = in_line("stubborn");
    let id = first.id;
    store.enqueue(vec![first, in_line("endless")]).await.unwrap();
    seen.has("a begins").await;
    let b = live(&way_to(&store), "b", &seen);
    tokio::time::sleep(Duration::from_secs(12)).await;
    cancel(&store, id).await;
    seen.has("told to stop").await;
    cut.cut_off(true);
    seen.has("b begins").await;
    assert_eq!(*seen.0.lock().unwrap(), ["a begins", "told to stop", "a ends", "b begins"]);
    cut.cut_off(false);
    stop([a, b]).await;
}
