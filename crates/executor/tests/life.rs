//! The life of jobs on nodes, on the memory store.

mod support;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use support::{
    ghost::{self, GHOST},
    memos::{queue_settings, set},
    *,
};
use turnwise_core::{
    Incarnation, JobId, JobState, NewJob, NodeName, RetryPolicy, Timestamp, lifecycle,
    settings::{InstallationSettings, OnError, Pause, QueueSettings},
    turn::Scheme,
};
use turnwise_executor::{
    Ctx, Event, EventKind, Executor, Outcome, Registry, StartError, Task,
    executor::{Builder, Connect, Connected},
};
use turnwise_store::{
    BatchId, Beat, Epoch, Filter, Intervention, Load, Mail, MemoKind, MemoryStore, Page, Result, Settle, Settled,
    Settlement, Store, StoreError, delegate::Delegate, memo::Draft,
};

/// Fails its first n attempts.
struct Flaky;
impl Task for Flaky {
    type Args = u32;
    const NAME: &'static str = "flaky";
    async fn run(&self, ctx: Ctx, fail: u32) -> Outcome {
        if ctx.attempt() <= fail {
            Outcome::error(format!("attempt {}", ctx.attempt()))
        } else {
            Outcome::done_with(&ctx.attempt())
        }
    }
}

struct Panics;
impl Task for Panics {
    type Args = ();
    const NAME: &'static str = "panics";
    async fn run(&self, _: Ctx, (): ()) -> Outcome {
        panic!("boom")
    }
}

/// Runs until it is asked to stop, unless it is told to be quick.
struct Patient;
impl Task for Patient {
    type Args = Option<String>;
    const NAME: &'static str = "patient";
    async fn run(&self, ctx: Ctx, quick: Option<String>) -> Outcome {
        if quick.is_none() {
            ctx.cancelled().await;
        }
        Outcome::done()
    }
}

/// Blocks the thread it runs on until its test lets it go.
struct Blocks;
impl Task for Blocks {
    type Args = usize;
    const NAME: &'static str = "blocks";
    async fn run(&self, _: Ctx, test: usize) -> Outcome {
        block_until_let_go(test);
        Outcome::done()
    }
}

/// By number of the test.
static LET_GO: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// Threads that are blocked, or were.
static BLOCKED: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

fn block_until_let_go(test: usize) {
    BLOCKED[test].fetch_add(1, Ordering::SeqCst);
    while !LET_GO[test].load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Looks again on this thread until it is so: those of the runtime, and with them its clock, may all be blocked.
async fn look_until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let since = std::time::Instant::now();
    while !look().await {
        assert!(since.elapsed() < Duration::from_secs(60), "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until the one node has beaten twice.
async fn two_beats(store: &MemoryStore) {
    let lease = async || fleet(store).await[0].lease_until;
    for _ in 0..2 {
        let before = lease().await;
        look_until("a beat", async || lease().await != before).await;
    }
}

/// Ends when jobs have started on two nodes.
struct Meet;
impl Task for Meet {
    type Args = ();
    const NAME: &'static str = "meet";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let meeting = ctx.state::<Meeting>().unwrap();
        meeting.0.0.send_if_modified(|nodes| nodes.insert(ctx.node().clone()));
        meeting.0.0.subscribe().wait_for(|nodes| nodes.len() == 2).await.unwrap();
        Outcome::done()
    }
}

#[derive(Clone)]
struct Meeting(tokio::sync::watch::Sender<BTreeSet<NodeName>>);

/// A node that knows the tasks above.
fn node(store: &MemoryStore, name: &str) -> Builder {
    support::node(store, name, tasks!(Noop, Flaky, Panics, Patient, Blocks))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_posted_job_ends_in_success() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let mut events = executor.events();
    let posted = executor.submit(job("noop", "null")).await.unwrap();
    assert!(posted.new);
    let event = soon(events.wait_for(EventKind::Success)).await.unwrap();
    assert_eq!(event.job().unwrap().id, posted.id);
    let job = ended(&store, posted.id).await;
    assert_eq!((job.state, job.counts.attempt, job.node.as_ref().unwrap().as_str()), (JobState::Success, 1, "a"));
    assert!(job.started_at.unwrap() <= job.finished_at.unwrap());
    executor.stop().await;
    assert!(fleet(&store).await.is_empty(), "a node that stops leaves the fleet");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flaky_job_is_tried_again_until_it_succeeds() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let flaky = executor.submit(job("flaky", "2")).await.unwrap().id;
    let hopeless = executor.submit(job("flaky", "9")).await.unwrap().id;
    let good = ended(&store, flaky).await;
    assert_eq!((good.state, good.counts.attempt, good.result.unwrap().as_str()), (JobState::Success, 3, "3"));
    let bad = ended(&store, hopeless).await;
    assert_eq!((bad.state, bad.counts.attempt, bad.error.as_deref()), (JobState::Failed, 4, Some("attempt 4")));
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_an_error_of_its_job_and_of_nobody_else() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let mut panics = job("panics", "null");
    panics.retry = Some(RetryPolicy::None);
    let panics = executor.submit(panics).await.unwrap().id;
    let wrong_args = executor.submit(job("flaky", "\"x\"")).await.unwrap().id;
    let neighbour = executor.submit(job("noop", "null")).await.unwrap().id;
    assert_eq!(ended(&store, panics).await.error.as_deref(), Some("panic: boom"));
    assert!(ended(&store, wrong_args).await.error.unwrap().starts_with("args: "));
    assert_eq!(ended(&store, neighbour).await.state, JobState::Success);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_cancelled_on_request() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let id = executor.submit(job("patient", "null")).await.unwrap().id;
    in_state(&store, id, JobState::Running).await;
    cancel(&store, id).await;
    // The task returns `done`, but nobody may read success after the cancel was confirmed.
    assert_eq!(ended(&store, id).await.state, JobState::Cancelled);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_returns_what_cannot_finish_and_spends_no_attempt() {
    let store = MemoryStore::default();
    let executor =
        started(node(&store, "a").configure(|config| config.await_termination = Duration::from_millis(50))).await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(executor.submit(job("patient", "null")).await.unwrap().id);
    }
    in_state(&store, ids[0], JobState::Running).await;
    soon(executor.stop()).await;
    for id in ids {
        let job = now(&store, id).await;
        assert_eq!((job.state, job.counts.attempt, job.counts.crashes), (JobState::Waiting, 0, 0), "{job:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_share_the_work() {
    let store = MemoryStore::default();
    let meeting = Meeting(tokio::sync::watch::Sender::default());
    let meets = |name| started(support::node(&store, name, tasks!(Meet)).state(meeting.clone()));
    let (a, b) = (meets("a").await, meets("b").await);
    let jobs: Vec<_> = (0..40).map(|_| job("meet", "null")).collect();
    store.enqueue(jobs).await.unwrap();
    soon(async { tokio::try_join!(a.drained(), b.drained()) }).await.unwrap();
    let done = store.jobs(Filter { limit: Some(1000), ..Filter::default() }).await.unwrap();
    assert!(done.iter().all(|job| job.state == JobState::Success && job.counts.attempt == 1));
    let names: BTreeSet<_> = done.iter().map(|job| job.node.clone().unwrap()).collect();
    assert_eq!(names.len(), 2, "both nodes ran some");
    a.stop().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_node_dispatches_at_once_when_the_dispatcher_stops() {
    let store = MemoryStore::default();
    let a = started(node(&store, "a").configure(|config| config.lease = NEVER)).await;
    let b = started(node(&store, "b").configure(|config| config.lease = NEVER)).await;
    soon(a.stop()).await;
    // Its own bell stands for the ring that the store of another process would send.
    b.bell().unwrap().ring_lead();
    let id = b.submit(job("noop", "null")).await.unwrap().id;
    assert_eq!(ended(&store, id).await.node.unwrap().as_str(), "b");
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_node_that_fell_silent_run_elsewhere() {
    let store = MemoryStore::default();
    let epoch = ghost::leads(&store, Duration::from_millis(1)).await;
    let id = put(&store, job("noop", "null")).await;
    store.assign(ghost::assignment(epoch, id, GHOST)).await.unwrap();

    let executor = started(node(&store, "a").configure(|config| config.lease = SHORT_LEASE)).await;
    let job = ended(&store, id).await;
    assert_eq!((job.state, job.counts.crashes, job.node.unwrap().as_str()), (JobState::Success, 1, "a"));
    soon(executor.drained()).await.unwrap();
    executor.stop().await;
    assert!(fleet(&store).await.is_empty(), "the lost node was buried");
}

struct Strange;
impl Task for Strange {
    type Args = ();
    const NAME: &'static str = "strange";
    async fn run(&self, _: Ctx, (): ()) -> Outcome {
        Outcome::done()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_nodes_job_of_a_task_the_dispatcher_does_not_know_waits_for_one_who_does() {
    let store = MemoryStore::default();
    let epoch = ghost::leads(&store, Duration::from_millis(1)).await;
    let id = put(&store, job("strange", "null")).await;
    store.assign(ghost::assignment(epoch, id, GHOST)).await.unwrap();

    let ignorant = started(node(&store, "a").configure(|config| config.lease = SHORT_LEASE)).await;
    in_state(&store, id, JobState::Waiting).await;
    soon(ignorant.drained()).await.unwrap();
    assert_eq!(now(&store, id).await.state, JobState::Waiting, "neither failed nor dropped");

    let knowing = started(support::node(&store, "b", tasks!(Strange))).await;
    let job = ended(&store, id).await;
    assert_eq!((job.state, job.node.unwrap().as_str()), (JobState::Success, "b"));
    knowing.stop().await;
    ignorant.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_name_alive_twice_is_refused_with_advice() {
    let store = MemoryStore::default();
    let first = started(node(&store, "a")).await;
    let second = node(&store, "a").build().unwrap();
    let error = soon(second.start()).await.unwrap_err();
    assert!(matches!(error, StartError::NameTaken { .. }) && error.to_string().contains("--name"), "{error}");
    first.stop().await;
    soon(second.start()).await.unwrap();
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_block_every_thread_stop_neither_heartbeat_nor_fleet() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(executor.submit(job("blocks", "0")).await.unwrap().id);
    }
    look_until("both threads to be blocked", async || BLOCKED[0].load(Ordering::SeqCst) >= 2).await;
    two_beats(&store).await;
    LET_GO[0].store(true, Ordering::SeqCst);
    for id in ids {
        let job = ended(&store, id).await;
        assert_eq!((job.state, job.counts.crashes), (JobState::Success, 0));
    }
    assert_eq!(executor.stats().lost, 0);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_hears_until_it_is_removed() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let (tell, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let (first, second) = (tell.clone(), tell);
    let listener = executor.on(EventKind::Success, move |event| {
        assert!(matches!(event, Event::Success(_)));
        first.send("first").unwrap();
    });
    executor.submit(job("noop", "null")).await.unwrap();
    assert_eq!(soon(heard.recv()).await, Some("first"));
    listener.remove();
    let _second = executor.on(EventKind::Success, move |_| second.send("second").unwrap());
    executor.submit(job("noop", "null")).await.unwrap();
    assert_eq!(soon(heard.recv()).await, Some("second"), "the first hears nothing any more");
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_blocks_does_not_stop_the_heartbeat() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let (entered, mut inside) = tokio::sync::mpsc::unbounded_channel();
    let _blocks = executor.on(EventKind::Success, move |_| {
        entered.send(()).unwrap();
        block_until_let_go(1);
    });
    executor.submit(job("noop", "null")).await.unwrap();
    soon(inside.recv()).await.unwrap();
    two_beats(&store).await;
    LET_GO[1].store(true, Ordering::SeqCst);
    let later = executor.submit(job("blocks", "1")).await.unwrap().id;
    assert_eq!(ended(&store, later).await.counts.crashes, 0);
    assert_eq!(executor.stats().lost, 0);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_cancelled_before_it_began_does_not_begin() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a").configure(|config| config.core_pool_size = 1)).await;
    let quick = executor.submit(job("patient", r#""quick""#)).await.unwrap().id;
    ended(&store, quick).await;
    // A task that was quick so far is prefetched: the second job is assigned while the first runs.
    let first = executor.submit(job("patient", "null")).await.unwrap().id;
    in_state(&store, first, JobState::Running).await;
    let second = executor.submit(job("patient", r#""quick""#)).await.unwrap().id;
    let held = in_state(&store, second, JobState::Scheduled).await;
    assert_eq!(held.state, JobState::Scheduled);
    cancel(&store, second).await;
    cancel(&store, first).await;
    let second = ended(&store, second).await;
    assert_eq!((second.state, second.counts.attempt, second.started_at), (JobState::Cancelled, 0, None));
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prefetched_jobs_run_in_the_order_they_were_picked_in() {
    let store = MemoryStore::default();
    let strict = InstallationSettings { scheme: Scheme::Strict, ..InstallationSettings::default() };
    let mut draft = Draft::read(&store, [MemoKind::Installation]).await.unwrap();
    draft.set(MemoKind::Installation, "", Some(&strict)).unwrap();
    assert!(draft.write(&store, None).await.unwrap());
    let executor = started(node(&store, "a").configure(|config| config.core_pool_size = 1)).await;
    let quick = executor.submit(job("noop", "null")).await.unwrap().id;
    ended(&store, quick).await;
    let mut events = executor.events();
    // Submitted last things first.
    let jobs: Vec<_> = (1..=10)
        .rev()
        .map(|priority| NewJob { priority: turnwise_core::Priority::new(priority).unwrap(), ..job("noop", "null") })
        .collect();
    let by_priority: Vec<_> = jobs.iter().rev().map(|job| job.id).collect();
    store.enqueue(jobs).await.unwrap();
    let mut order = Vec::new();
    while order.len() < 10 {
        order.push(soon(events.wait_for(EventKind::Started)).await.unwrap().job().unwrap().id);
    }
    assert_eq!(order, by_priority);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_nobody_knows_stays_waiting_and_is_not_waited_for() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let unknown = executor.submit(job("unheard-of", "null")).await.unwrap().id;
    let known = executor.submit(job("noop", "null")).await.unwrap().id;
    soon(executor.drained()).await.unwrap();
    assert_eq!(now(&store, known).await.state, JobState::Success);
    assert_eq!(now(&store, unknown).await.state, JobState::Waiting);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_not_started_before_it_is_due() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let mut later = job("noop", "null");
    let due = store.nodes().await.unwrap().now.plus(Duration::from_millis(300));
    later.due = Some(due);
    let id = executor.submit(later).await.unwrap().id;
    assert!(ended(&store, id).await.started_at.unwrap() >= due);
    executor.stop().await;
}

/// A memory store that cannot take the word "unstorable" as a result; one in which a dispatcher elsewhere assigns a job
/// to each node that says good-bye for the first time; and one in which a job goes wrong elsewhere just before a new
/// dispatcher reads it.
#[derive(Debug)]
struct Picky(Arc<MemoryStore>, Arc<Late>);

#[derive(Debug, Default)]
struct Late {
    /// The ghost's term, and the job it assigns.
    job: std::sync::Mutex<Option<(Epoch, JobId)>>,
    /// Whether each good-bye was the last.
    left: std::sync::Mutex<Vec<bool>>,
    /// The job that goes wrong in the ghost's hands.
    fails: std::sync::Mutex<Option<JobId>>,
    /// The mail of this job is read while it runs, and brought when it is said so.
    slow_mail: std::sync::Mutex<Option<JobId>>,
    mail_read: tokio::sync::Notify,
    bring_mail: tokio::sync::Notify,
    mail_brought: tokio::sync::Notify,
    /// An open transaction holds this job; how often the dispatcher tried to end it nevertheless.
    held: std::sync::Mutex<Option<JobId>>,
    tries: AtomicU32,
}

#[async_trait::async_trait]
impl Delegate for Picky {
    fn inner(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    async fn settle(&self, settle: Settle) -> Result<Vec<Settled>> {
        let bad = |settlement: &Settlement| format!("{:?}", settlement.to.to).contains("unstorable");
        if settle.settlements.iter().any(bad) {
            return Err(StoreError::broken("settle", "a value is too strange"));
        }
        self.0.settle(settle).await
    }

    async fn leave(&self, node: Incarnation) -> Result<bool> {
        let late = self.1.job.lock().unwrap().take();
        if let Some((epoch, job)) = late {
            self.0.assign(ghost::assignment(epoch, job, node)).await?;
        }
        let left = self.0.leave(node).await?;
        self.1.left.lock().unwrap().push(left);
        Ok(left)
    }

    async fn load(&self, load: Load) -> Result<Page> {
        let fails = self.1.fails.lock().unwrap().take();
        if let Some(id) = fails {
            let job = now(&self.0, id).await;
            let error = lifecycle::Outcome::Error("no".to_owned().into());
            ghost::ends(&self.0, GHOST, None, &job, error).await?;
        }
        self.0.load(load).await
    }

    async fn assignments(&self, node: Incarnation, known: Vec<BatchId>) -> Result<Mail> {
        let slow = self.1.slow_mail.lock().unwrap().take();
        let Some(id) = slow else {
            self.1.mail_brought.notify_one();
            return self.0.assignments(node, known).await;
        };
        in_hands(&self.0, id).await;
        let mail = self.0.assignments(node, known).await?;
        assert!(!mail.batches.is_empty(), "the job is in its hands");
        self.1.mail_read.notify_one();
        self.1.bring_mail.notified().await;
        Ok(mail)
    }

    async fn control(&self, all: Vec<Intervention>) -> Result<Vec<Settled>> {
        let held = *self.1.held.lock().unwrap();
        let (locked, free): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| Some(one.job) == held);
        if !locked.is_empty() {
            self.1.tries.fetch_add(1, Ordering::Relaxed);
            assert!(free.is_empty(), "the only one that is to end");
            return Ok(vec![Settled::Locked; locked.len()]);
        }
        self.0.control(free).await
    }
}

/// Counts its runs, each of which waits for the gate to open; where the argument says so, the first one snoozes instead.
struct Gated;
impl Task for Gated {
    type Args = bool;
    const NAME: &'static str = "gated";
    async fn run(&self, ctx: Ctx, snoozes: bool) -> Outcome {
        let gate = ctx.state::<Gate>().unwrap();
        if gate.runs.fetch_add(1, Ordering::Relaxed) == 0 && snoozes {
            return Outcome::snooze(Duration::ZERO);
        }
        gate.open.subscribe().wait_for(|open| *open).await.unwrap();
        Outcome::done()
    }
}

#[derive(Clone, Default)]
struct Gate {
    open: tokio::sync::watch::Sender<bool>,
    runs: Arc<AtomicU32>,
}

fn gated(builder: Builder, gate: &Gate) -> Builder {
    builder.registry(tasks!(Gated, Noop)).state(gate.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_that_was_read_while_a_job_ran_and_comes_after_its_end_does_not_run_it_again() {
    let store = MemoryStore::default();
    let (gate, story) = (Gate::default(), Arc::new(Late::default()));
    let slow = job("gated", "false");
    let id = slow.id;
    *story.slow_mail.lock().unwrap() = Some(id);
    let one_slot = picky(&store, &story, "a").configure(|config| config.core_pool_size = 1);
    let executor = started(gated(one_slot, &gate)).await;
    executor.submit(slow).await.unwrap();
    soon(story.mail_read.notified()).await;
    gate.open.send_replace(true);
    ended(&store, id).await;
    let me = fleet(&store).await[0].incarnation;
    until(async || store.assignments(me, vec![]).await.unwrap().is_empty()).await;
    // What is settled next is settled after the node has forgotten the first batch.
    let second = executor.submit(job("noop", "null")).await.unwrap().id;
    ended(&store, second).await;
    story.bring_mail.notify_one();
    soon(story.mail_brought.notified()).await;
    // One slot: whatever came with the mail runs before this one.
    let third = executor.submit(job("noop", "null")).await.unwrap().id;
    ended(&store, third).await;
    assert_eq!(gate.runs.load(Ordering::Relaxed), 1);
    executor.stop().await;
}

async fn tried(story: &Late, times: u32) {
    until(async || story.tries.load(Ordering::Relaxed) >= times).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_job_that_a_transaction_holds_stops_nobody_and_ends_when_that_is_over() {
    let store = MemoryStore::default();
    let (gate, story) = (Gate::default(), Arc::new(Late::default()));
    let expires = Some(store.nodes().await.unwrap().now);
    let id = put(&store, NewJob { expires, ..job("unheard-of", "null") }).await;
    *story.held.lock().unwrap() = Some(id);
    let never_polls = picky(&store, &story, "a").configure(|config| config.poll_interval = Some(NEVER));
    let executor = started(gated(never_polls, &gate)).await;
    tried(&story, 1).await;
    for _ in 0..20 {
        let other = executor.submit(job("noop", "null")).await.unwrap().id;
        ended(&store, other).await;
    }
    assert_eq!(story.tries.load(Ordering::Relaxed), 1, "not before the next poll");
    executor.stop().await;

    let executor = started(gated(picky(&store, &story, "b"), &gate)).await;
    tried(&story, 3).await;
    *story.held.lock().unwrap() = None;
    assert_eq!(ended(&store, id).await.state, JobState::Failed);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_failover_gives_out_again_under_a_lower_fence_runs_again() {
    let store = MemoryStore::default();
    let gate = Gate::default();
    let pause = async |paused| {
        let settings = QueueSettings { paused, ..QueueSettings::default() };
        set(&store, MemoKind::Queue, "default", &settings).await;
    };
    pause(Some(Pause { since: Timestamp::MIN, reason: None })).await;
    let executor = started(gated(node(&store, "a"), &gate)).await;
    let id = executor.submit(job("gated", "true")).await.unwrap().id;
    let snapshot = store.snapshot();
    pause(None).await;
    when(&store, id, |job| job.fence.0 == 2 && job.state == JobState::Running).await;
    // It runs under fence 2, and the database knows nothing of 1.
    store.fail_over(&snapshot);
    pause(None).await;
    in_hands(&store, id).await;
    gate.open.send_replace(true);
    assert_eq!(ended(&store, id).await.state, JobState::Success);
    executor.stop().await;
}

/// A node that looks often, on such a store.
fn picky(store: &MemoryStore, late: &Arc<Late>, name: &str) -> Builder {
    let (store, late) = (store.clone(), late.clone());
    let connect: Connect = Arc::new(move || {
        let picky = Picky(Arc::new(store.another_process()), late.clone());
        Box::pin(async move { Ok(Connected::to(Arc::new(picky))) })
    });
    Builder::new(connect, config(name)).configure(looks_often)
}

struct Echo;
impl Task for Echo {
    type Args = String;
    const NAME: &'static str = "echo";
    async fn run(&self, _: Ctx, word: String) -> Outcome {
        Outcome::done_with(&word)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_cannot_be_stored_fails_its_own_job_and_no_other() {
    let store = MemoryStore::default();
    let words = ["fine", "unstorable", "fine", "fine", "fine"];
    let jobs: Vec<_> = words.iter().map(|word| job("echo", &format!("{word:?}"))).collect();
    let ids = ids(&jobs);
    store.enqueue(jobs).await.unwrap();
    let executor = started(picky(&store, &Arc::default(), "a").registry(tasks!(Echo))).await;
    for (id, word) in ids.into_iter().zip(words) {
        let job = ended(&store, id).await;
        match word {
            "fine" => assert_eq!((job.state, job.result.unwrap().as_str()), (JobState::Success, r#""fine""#)),
            _ => assert!(job.state == JobState::Failed && job.error.unwrap().contains("could not be stored")),
        }
    }
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_on_its_way_to_a_node_that_leaves_comes_back_without_a_crash() {
    let store = MemoryStore::default();
    let epoch = ghost::leads(&store, NEVER).await;
    // It would run for ever if it began.
    let id = put(&store, job("patient", "null")).await;
    let story = Arc::new(Late::default());
    *story.job.lock().unwrap() = Some((epoch, id));
    let node = picky(&store, &story, "a").registry(tasks!(Patient));
    let executor = started(node.configure(|config| config.dispatch = false)).await;
    soon(executor.stop()).await;
    let job = now(&store, id).await;
    assert_eq!((job.state, job.counts.attempt, job.counts.crashes), (JobState::Waiting, 0, 0), "{job:?}");
    assert_eq!(*story.left.lock().unwrap(), [false, true], "it stays for the job, and then it goes");
    let nodes = fleet(&store).await;
    assert_eq!(nodes.iter().map(|node| node.incarnation).collect::<Vec<_>>(), [GHOST]);
}

/// Waits until the node dispatches and has nothing to do.
async fn at_rest(executor: &Executor) {
    soon(executor.drained()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_that_took_back_commits_new_jobs_are_seen() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let early = executor.submit(job("noop", "null")).await.unwrap().id;
    ended(&store, early).await;
    at_rest(&executor).await;
    let snapshot = store.snapshot();
    let lost = executor.submit(job("noop", "null")).await.unwrap().id;
    ended(&store, lost).await;
    store.fail_over(&snapshot);
    assert!(store.job(lost).await.unwrap().is_none(), "it was taken back");
    // Its number is one that the dispatcher has seen already, in a history that is no more.
    let id = put(&store, job("noop", "null")).await;
    assert_eq!(ended(&store, id).await.state, JobState::Success);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_end_a_failover_took_back_does_not_stay_in_its_nodes_hands() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a")).await;
    let id = executor.submit(job("patient", "null")).await.unwrap().id;
    in_state(&store, id, JobState::Running).await;
    let snapshot = store.snapshot();
    cancel(&store, id).await;
    assert_eq!(ended(&store, id).await.state, JobState::Cancelled);
    at_rest(&executor).await;
    store.fail_over(&snapshot);
    // In the hands of a node that has long forgotten it; it is given back, and runs again under the next fence.
    let running = when(&store, id, |job| job.state == JobState::Running && job.fence.0 == 2).await;
    assert_eq!(running.counts.crashes, 0, "nobody died");
    cancel(&store, id).await;
    assert_eq!(ended(&store, id).await.state, JobState::Cancelled);
    executor.stop().await;
}

/// The queue "careful" pauses on error.
async fn set_careful(store: &MemoryStore) {
    let settings = QueueSettings { on_error: OnError::Pause, ..QueueSettings::default() };
    set(store, MemoKind::Queue, "careful", &settings).await;
}

/// A job of a queue that pauses on error goes wrong on a node that does not dispatch.
async fn pauses_for_trouble_elsewhere(retry: RetryPolicy, rests: JobState) {
    let store = MemoryStore::default();
    set_careful(&store).await;
    // It dispatches, and knows none of the tasks.
    let a = started(node(&store, "a").registry(Registry::new())).await;
    let b = started(node(&store, "b").configure(|config| config.dispatch = false)).await;
    let args = job("flaky", "9").args;
    let id = put(&store, NewJob { retry: Some(retry), args, ..of("careful", "flaky") }).await;
    let went_wrong = in_state(&store, id, rests).await;
    assert_eq!(went_wrong.error.as_deref(), Some("attempt 1"));
    let paused = found(async || queue_settings(&store, "careful").await.paused).await;
    assert!(paused.reason.unwrap().contains(&id.to_string()), "it says which job it was");
    let (next, other) = (of("careful", "noop"), job("noop", "null"));
    let (next_id, other_id) = (next.id, other.id);
    // Both are seen at once: when the one has run, the other could have.
    store.enqueue(vec![next, other]).await.unwrap();
    assert_eq!(ended(&store, other_id).await.node.unwrap().as_str(), "b");
    assert_eq!(now(&store, next_id).await.state, JobState::Waiting);
    b.stop().await;
    a.stop().await;
}

/// A job of a queue that pauses on error goes wrong elsewhere while a new dispatcher is about to read the backlog.
async fn pauses_for_trouble_at_a_take_over(retry: RetryPolicy, rests: JobState) {
    let store = MemoryStore::default();
    set_careful(&store).await;
    let epoch = ghost::leads(&store, NEVER).await;
    let id = put(&store, NewJob { retry: Some(retry), ..of("careful", "noop") }).await;
    store.assign(ghost::assignment(epoch, id, GHOST)).await.unwrap();
    store.beat(Beat::new(GHOST, NEVER, 1, false)).await.unwrap();
    let story = Arc::new(Late::default());
    *story.fails.lock().unwrap() = Some(id);
    let executor = started(picky(&store, &story, "a")).await;
    until(async || queue_settings(&store, "careful").await.paused.is_some()).await;
    assert_eq!(now(&store, id).await.state, rests);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_elsewhere_during_a_take_over_pauses_a_queue_that_pauses_on_error() {
    pauses_for_trouble_at_a_take_over(RetryPolicy::None, JobState::Failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_stuck_elsewhere_during_a_take_over_pauses_a_queue_that_pauses_on_error() {
    pauses_for_trouble_at_a_take_over(RetryPolicy::Manual, JobState::Stuck).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_on_another_node_pauses_a_queue_that_pauses_on_error() {
    pauses_for_trouble_elsewhere(RetryPolicy::None, JobState::Failed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_stuck_on_another_node_pauses_a_queue_that_pauses_on_error() {
    pauses_for_trouble_elsewhere(RetryPolicy::Manual, JobState::Stuck).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_starts_at_once_one_passes() {
    for _ in 0..20 {
        let store = MemoryStore::default();
        let executor = node(&store, "a").build().unwrap();
        let (together, runtime) = (std::sync::Barrier::new(4), tokio::runtime::Handle::current());
        let started = tokio::task::block_in_place(|| {
            std::thread::scope(|threads| {
                let start = || {
                    together.wait();
                    runtime.block_on(soon(executor.start()))
                };
                let starting: Vec<_> = (0..4).map(|_| threads.spawn(start)).collect();
                starting.into_iter().map(|start| start.join().unwrap()).collect::<Vec<_>>()
            })
        });
        let refused = started.iter().filter(|started| matches!(started, Err(StartError::Running))).count();
        assert_eq!((started.iter().filter(|started| started.is_ok()).count(), refused), (1, 3), "{started:?}");
        assert_eq!(fleet(&store).await.len(), 1);
        soon(executor.stop()).await;
        soon(executor.start()).await.unwrap();
        soon(executor.stop()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_handed_back_does_not_count_as_settled() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a").configure(|config| {
        config.core_pool_size = 1;
        config.wait_for_tasks_on_shutdown = false;
    }))
    .await;
    let ran = executor.submit(job("noop", "null")).await.unwrap().id;
    ended(&store, ran).await;
    let ids = [
        executor.submit(job("patient", "null")).await.unwrap().id,
        executor.submit(job("noop", "null")).await.unwrap().id,
    ];
    in_state(&store, ids[0], JobState::Running).await;
    soon(executor.stop()).await;
    for id in ids {
        assert_eq!(now(&store, id).await.state, JobState::Waiting, "it was handed back");
    }
    assert_eq!(executor.stats().settled, 1);
}
