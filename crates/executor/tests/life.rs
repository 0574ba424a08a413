//! The life of jobs on nodes, on the memory store.

use std::{
    collections::BTreeSet,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use turnwise_core::{
    Incarnation, Job, JobId, JobState, Json, NewJob, NodeName, QueueName, RetryPolicy, Serves, TaskName, Timestamp,
    lifecycle,
    settings::{InstallationSettings, OnError, QueueSettings},
    turn::Scheme,
};
use turnwise_executor::{
    Config, Ctx, Event, EventKind, Executor, Outcome, Registry, StartError, Task,
    executor::{Builder, Connect},
};
use turnwise_store::{Beat, Epoch, Filter, Intervention, Join, MemoKind, MemoryStore, NewMemo, Store, memo::Draft};

/// Long enough for any machine; a test that needs it has failed.
const DEADLINE: Duration = Duration::from_secs(30);

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("did not happen in time")
}

struct Noop;
impl Task for Noop {
    type Args = ();
    const NAME: &'static str = "noop";
    async fn run(&self, _: Ctx, (): ()) -> Outcome {
        Outcome::done()
    }
}

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

/// A lease that a busy machine does not break.
fn patient(config: &mut Config) {
    config.lease = Duration::from_secs(5);
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
    let lease = async || store.nodes().await.unwrap().nodes[0].lease_until;
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

fn connect(store: &MemoryStore) -> Connect {
    let store = store.clone();
    Arc::new(move || {
        let store = store.another_process();
        Box::pin(async move { Ok(Arc::new(store) as Arc<dyn Store>) })
    })
}

fn node(store: &MemoryStore, name: &str) -> Builder {
    let mut registry = Registry::new();
    registry.register(Noop).unwrap().register(Flaky).unwrap().register(Panics).unwrap();
    registry.register(Patient).unwrap().register(Blocks).unwrap();
    let mut config = Config::new(NodeName::new(name).unwrap());
    config.core_pool_size = 4;
    config.poll_interval = Duration::from_millis(20);
    config.lease = Duration::from_millis(900);
    Builder::new(connect(store), config).registry(registry)
}

async fn started(builder: Builder) -> Executor {
    let executor = builder.build().unwrap();
    soon(executor.start()).await.unwrap();
    executor
}

static NEXT: AtomicU32 = AtomicU32::new(1);

fn job(task: &str, args: &str) -> NewJob {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut random = [0; 10];
    random[6..].copy_from_slice(&number.to_be_bytes());
    let mut job =
        NewJob::new(JobId::from_parts(1, random), TaskName::new(task).unwrap(), Json::parse("args", args).unwrap());
    job.retry = RetryPolicy::durations(vec![Duration::from_millis(1); 3]).unwrap();
    job
}

async fn ended(store: &MemoryStore, id: JobId) -> Job {
    soon(async {
        loop {
            if let Some(job) = store.job(id).await.unwrap().filter(|job| job.state.finished()) {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

async fn in_state(store: &MemoryStore, id: JobId, state: JobState) -> Job {
    soon(async {
        loop {
            if let Some(job) = store.job(id).await.unwrap().filter(|job| job.state == state) {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

async fn cancel(store: &MemoryStore, id: JobId) {
    let job = store.job(id).await.unwrap().unwrap();
    let to = lifecycle::decide(&(&job).into(), &lifecycle::Event::Cancel, Timestamp::MIN, 0.0).unwrap();
    store.control(vec![Intervention { job: id, state: job.state, fence: job.fence, to }]).await.unwrap();
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
    assert!(store.nodes().await.unwrap().nodes.is_empty(), "a node that stops leaves the fleet");
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
    panics.retry = RetryPolicy::None;
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
        let job = store.job(id).await.unwrap().unwrap();
        assert_eq!((job.state, job.counts.attempt, job.counts.crashes), (JobState::Waiting, 0, 0), "{job:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_share_the_work() {
    let store = MemoryStore::default();
    let meeting = Meeting(tokio::sync::watch::Sender::default());
    let meets = |name| {
        let mut registry = Registry::new();
        registry.register(Meet).unwrap();
        started(node(&store, name).registry(registry).state(meeting.clone()))
    };
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
    let long = |config: &mut Config| config.lease = Duration::from_secs(600);
    let a = started(node(&store, "a").configure(long)).await;
    let b = started(node(&store, "b").configure(long)).await;
    soon(a.stop()).await;
    // Its own bell stands for the ring that the store of another process would send.
    b.bell().unwrap().ring_lead();
    let id = b.submit(job("noop", "null")).await.unwrap().id;
    assert_eq!(ended(&store, id).await.node.unwrap().as_str(), "b");
    b.stop().await;
}

/// A node that is in no process joins and dispatches.
async fn ghost_leads(store: &MemoryStore, ghost: Incarnation, lease: Duration) -> Epoch {
    let join = Join {
        incarnation: ghost,
        name: NodeName::new("ghost").unwrap(),
        host: turnwise_core::node::Host {
            name: "h".into(),
            boot_id: "b".into(),
            pid_namespace: String::new(),
            pid: 1,
            started: 1,
        },
        slots: 1,
        queue_capacity: 0,
        batch_size: None,
        queues: Serves::All,
        tasks: BTreeSet::from([TaskName::new("noop").unwrap()]),
        lease,
        replace: None,
    };
    store.join(join).await.unwrap();
    let beat = Beat::new(ghost, lease, 1, true);
    store.beat(beat).await.unwrap().epoch.unwrap()
}

fn assign(holder: Incarnation, epoch: Epoch, job: JobId, node: Incarnation) -> turnwise_store::Assign {
    let picks = vec![turnwise_core::scheduler::Pick { job, fence: turnwise_core::Fence(0), node, limited: false }];
    turnwise_store::Assign { holder, epoch, batch: turnwise_store::BatchId(uuid::Uuid::from_u128(9)), picks }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_a_node_that_fell_silent_run_elsewhere() {
    let store = MemoryStore::default();
    let ghost = Incarnation(uuid::Uuid::from_u128(7));
    let epoch = ghost_leads(&store, ghost, Duration::from_millis(1)).await;
    let lost = job("noop", "null");
    let id = lost.id;
    store.enqueue(vec![lost]).await.unwrap();
    store.assign(assign(ghost, epoch, id, ghost)).await.unwrap();

    let executor = started(node(&store, "a")).await;
    let job = ended(&store, id).await;
    assert_eq!((job.state, job.counts.crashes, job.node.unwrap().as_str()), (JobState::Success, 1, "a"));
    soon(executor.drained()).await.unwrap();
    executor.stop().await;
    assert!(store.nodes().await.unwrap().nodes.is_empty(), "the lost node was buried");
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
    let ghost = Incarnation(uuid::Uuid::from_u128(7));
    let epoch = ghost_leads(&store, ghost, Duration::from_millis(1)).await;
    let lost = job("strange", "null");
    let id = lost.id;
    store.enqueue(vec![lost]).await.unwrap();
    store.assign(assign(ghost, epoch, id, ghost)).await.unwrap();

    let ignorant = started(node(&store, "a")).await;
    in_state(&store, id, JobState::Waiting).await;
    soon(ignorant.drained()).await.unwrap();
    assert_eq!(store.job(id).await.unwrap().unwrap().state, JobState::Waiting, "neither failed nor dropped");

    let mut registry = Registry::new();
    registry.register(Strange).unwrap();
    let knowing = started(node(&store, "b").registry(registry)).await;
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
    let executor = started(node(&store, "a").configure(patient)).await;
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
    let executor = started(node(&store, "a").configure(patient)).await;
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
    assert_eq!(store.job(known).await.unwrap().unwrap().state, JobState::Success);
    assert_eq!(store.job(unknown).await.unwrap().unwrap().state, JobState::Waiting);
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
struct Picky(MemoryStore, Arc<Late>);

#[derive(Debug, Default)]
struct Late {
    /// The dispatcher and its job.
    job: std::sync::Mutex<Option<(Incarnation, Epoch, JobId)>>,
    /// Whether each good-bye was the last.
    left: std::sync::Mutex<Vec<bool>>,
    /// The node and the job that goes wrong there.
    fails: std::sync::Mutex<Option<(Incarnation, JobId)>>,
    /// The mail of this job is read while it runs, and brought when it is said so.
    slow_mail: std::sync::Mutex<Option<JobId>>,
    mail_read: tokio::sync::Notify,
    bring_mail: tokio::sync::Notify,
    mail_brought: tokio::sync::Notify,
    /// Somebody's open transaction holds this job; how often it was to be ended nevertheless.
    held: std::sync::Mutex<Option<JobId>>,
    tries: AtomicU32,
}

#[async_trait::async_trait]
impl Store for Picky {
    async fn settle(&self, settle: turnwise_store::Settle) -> turnwise_store::Result<Vec<turnwise_store::Settled>> {
        let bad = |settlement: &turnwise_store::Settlement| format!("{:?}", settlement.to.to).contains("unstorable");
        if settle.settlements.iter().any(bad) {
            return Err(turnwise_store::StoreError::broken("settle", "a value is too strange"));
        }
        self.0.settle(settle).await
    }
    async fn enqueue(&self, jobs: Vec<NewJob>) -> turnwise_store::Result<Vec<turnwise_store::Submitted>> {
        self.0.enqueue(jobs).await
    }
    async fn join(&self, join: Join) -> turnwise_store::Result<turnwise_store::Joined> {
        self.0.join(join).await
    }
    async fn beat(&self, beat: turnwise_store::Beat) -> turnwise_store::Result<turnwise_store::Pulse> {
        self.0.beat(beat).await
    }
    async fn leave(&self, node: Incarnation) -> turnwise_store::Result<bool> {
        let late = self.1.job.lock().unwrap().take();
        if let Some((holder, epoch, job)) = late {
            self.0.assign(assign(holder, epoch, job, node)).await?;
        }
        let left = self.0.leave(node).await?;
        self.1.left.lock().unwrap().push(left);
        Ok(left)
    }
    async fn load(&self, load: turnwise_store::Load) -> turnwise_store::Result<turnwise_store::Page> {
        let fails = self.1.fails.lock().unwrap().take();
        if let Some((node, id)) = fails {
            let job = self.0.job(id).await?.unwrap();
            let error = lifecycle::Event::Ended(lifecycle::Outcome::Error("no".to_owned().into()));
            let now = self.0.nodes().await?.now;
            let settlement = turnwise_store::Settlement {
                job: id,
                fence: job.fence,
                saw_cancel: false,
                to: lifecycle::decide(&(&job).into(), &error, now, 0.0).unwrap(),
                started_at: Some(now),
                finished_at: Some(now),
                noted: false,
            };
            let author = turnwise_store::Author::Node { node, told: None };
            self.0.settle(turnwise_store::Settle { author, settlements: vec![settlement], done: vec![] }).await?;
        }
        self.0.load(load).await
    }
    async fn news(&self, ask: turnwise_store::AskNews) -> turnwise_store::Result<turnwise_store::News> {
        self.0.news(ask).await
    }
    async fn assign(
        &self,
        assign: turnwise_store::Assign,
    ) -> turnwise_store::Result<Vec<(JobId, turnwise_store::AssignReply)>> {
        self.0.assign(assign).await
    }
    async fn assignments(
        &self,
        node: Incarnation,
        known: Vec<turnwise_store::BatchId>,
    ) -> turnwise_store::Result<Vec<turnwise_store::Delivery>> {
        let slow = self.1.slow_mail.lock().unwrap().take();
        let Some(id) = slow else {
            self.1.mail_brought.notify_one();
            return self.0.assignments(node, known).await;
        };
        in_hands(&self.0, id).await;
        let deliveries = self.0.assignments(node, known).await?;
        assert!(!deliveries.is_empty(), "the job is in its hands");
        self.1.mail_read.notify_one();
        self.1.bring_mail.notified().await;
        Ok(deliveries)
    }
    async fn note(
        &self,
        node: Incarnation,
        notes: Vec<turnwise_store::Note>,
    ) -> turnwise_store::Result<Vec<turnwise_store::Settled>> {
        self.0.note(node, notes).await
    }
    async fn story(&self, ask: turnwise_store::AskStory) -> turnwise_store::Result<turnwise_core::story::Story> {
        self.0.story(ask).await
    }
    async fn lost_nodes(&self, ask: turnwise_store::AskLost) -> turnwise_store::Result<Vec<turnwise_store::LostNode>> {
        self.0.lost_nodes(ask).await
    }
    async fn control(&self, all: Vec<Intervention>) -> turnwise_store::Result<Vec<turnwise_store::Settled>> {
        let held = *self.1.held.lock().unwrap();
        let (locked, free): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| Some(one.job) == held);
        if !locked.is_empty() {
            self.1.tries.fetch_add(1, Ordering::Relaxed);
            assert!(free.is_empty(), "the only one that is to end");
            return Ok(vec![turnwise_store::Settled::Locked; locked.len()]);
        }
        self.0.control(free).await
    }
    async fn prune(&self, seen: Option<turnwise_store::Cursor>, limit: u32) -> turnwise_store::Result<u64> {
        self.0.prune(seen, limit).await
    }
    async fn job(&self, id: JobId) -> turnwise_store::Result<Option<Job>> {
        self.0.job(id).await
    }
    async fn jobs(&self, filter: Filter) -> turnwise_store::Result<Vec<Job>> {
        self.0.jobs(filter).await
    }
    async fn nodes(&self) -> turnwise_store::Result<turnwise_store::Fleet> {
        self.0.nodes().await
    }
    async fn recall(&self, kinds: Vec<MemoKind>) -> turnwise_store::Result<Vec<turnwise_store::Memo>> {
        self.0.recall(kinds).await
    }
    async fn remember(
        &self,
        lead: Option<(Incarnation, Epoch)>,
        memos: Vec<NewMemo>,
    ) -> turnwise_store::Result<Vec<bool>> {
        self.0.remember(lead, memos).await
    }
    fn bell(&self) -> turnwise_store::Bell {
        self.0.bell()
    }
}

async fn in_hands(store: &MemoryStore, id: JobId) {
    soon(async {
        while !store.job(id).await.unwrap().is_some_and(|job| job.state.assigned()) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
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
    let mut registry = Registry::new();
    registry.register(Gated).unwrap().register(Noop).unwrap();
    builder.registry(registry).state(gate.clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_that_was_read_while_a_job_ran_and_comes_after_its_end_does_not_run_it_again() {
    let store = MemoryStore::default();
    let (gate, story) = (Gate::default(), Arc::new(Late::default()));
    let slow = job("gated", "false");
    let id = slow.id;
    *story.slow_mail.lock().unwrap() = Some(id);
    let mut config = Config::new(NodeName::new("a").unwrap());
    config.core_pool_size = 1;
    config.poll_interval = Duration::from_millis(20);
    let executor = started(gated(Builder::new(connect_picky(&store, &story), config), &gate)).await;
    executor.submit(slow).await.unwrap();
    soon(story.mail_read.notified()).await;
    gate.open.send_replace(true);
    ended(&store, id).await;
    let me = store.nodes().await.unwrap().nodes[0].incarnation;
    soon(async {
        while !store.assignments(me, vec![]).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
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
    soon(async {
        while story.tries.load(Ordering::Relaxed) < times {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_job_that_a_transaction_holds_stops_nobody_and_ends_when_that_is_over() {
    let store = MemoryStore::default();
    let (gate, story) = (Gate::default(), Arc::new(Late::default()));
    let expires = Some(store.nodes().await.unwrap().now);
    let late = NewJob { expires, ..job("unheard-of", "null") };
    let id = late.id;
    *story.held.lock().unwrap() = Some(id);
    store.enqueue(vec![late]).await.unwrap();
    let mut config = Config::new(NodeName::new("a").unwrap());
    config.poll_interval = Duration::from_secs(3600);
    let executor = started(gated(Builder::new(connect_picky(&store, &story), config), &gate)).await;
    tried(&story, 1).await;
    for _ in 0..20 {
        let other = executor.submit(job("noop", "null")).await.unwrap().id;
        ended(&store, other).await;
    }
    assert_eq!(story.tries.load(Ordering::Relaxed), 1, "not before the next poll");
    executor.stop().await;

    let mut config = Config::new(NodeName::new("b").unwrap());
    config.poll_interval = Duration::from_millis(20);
    let executor = started(gated(Builder::new(connect_picky(&store, &story), config), &gate)).await;
    tried(&story, 3).await;
    *story.held.lock().unwrap() = None;
    assert_eq!(ended(&store, id).await.state, JobState::Failed);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_a_failover_gives_out_again_under_a_lower_fence_runs_again() {
    let store = MemoryStore::default();
    let gate = Gate::default();
    let pause = |paused| {
        let set = QueueSettings { paused, ..QueueSettings::default() };
        let value = Some(serde_json::to_string(&set).unwrap());
        let memo = NewMemo { kind: MemoKind::Queue, name: "default".to_owned(), value, seen: None };
        store.remember(None, vec![memo])
    };
    pause(Some(turnwise_core::settings::Pause { since: Timestamp::MIN, reason: None })).await.unwrap();
    let executor = started(gated(node(&store, "a"), &gate)).await;
    let id = executor.submit(job("gated", "true")).await.unwrap().id;
    let snapshot = store.snapshot();
    pause(None).await.unwrap();
    soon(async {
        while !store.job(id).await.unwrap().is_some_and(|job| job.fence.0 == 2 && job.state == JobState::Running) {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    // It runs under fence 2, and the database knows nothing of 1.
    store.fail_over(&snapshot);
    pause(None).await.unwrap();
    in_hands(&store, id).await;
    gate.open.send_replace(true);
    assert_eq!(ended(&store, id).await.state, JobState::Success);
    executor.stop().await;
}

fn connect_picky(store: &MemoryStore, late: &Arc<Late>) -> Connect {
    let (store, late) = (store.clone(), late.clone());
    Arc::new(move || {
        let picky = Picky(store.another_process(), late.clone());
        Box::pin(async move { Ok(Arc::new(picky) as Arc<dyn Store>) })
    })
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
    let connect = connect_picky(&store, &Arc::default());
    let mut registry = Registry::new();
    registry.register(Echo).unwrap();
    let mut config = Config::new(NodeName::new("a").unwrap());
    config.poll_interval = Duration::from_millis(20);
    let words = ["fine", "unstorable", "fine", "fine", "fine"];
    let jobs: Vec<_> = words.iter().map(|word| job("echo", &format!("{word:?}"))).collect();
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    store.enqueue(jobs).await.unwrap();
    let executor = started(Builder::new(connect, config).registry(registry)).await;
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
    let ghost = Incarnation(uuid::Uuid::from_u128(7));
    let epoch = ghost_leads(&store, ghost, Duration::from_secs(600)).await;
    // It would run for ever if it began.
    let late = job("patient", "null");
    let id = late.id;
    store.enqueue(vec![late]).await.unwrap();
    let story = Arc::new(Late::default());
    *story.job.lock().unwrap() = Some((ghost, epoch, id));
    let mut registry = Registry::new();
    registry.register(Patient).unwrap();
    let mut config = Config::new(NodeName::new("a").unwrap());
    config.dispatch = false;
    let executor = started(Builder::new(connect_picky(&store, &story), config).registry(registry)).await;
    soon(executor.stop()).await;
    let job = store.job(id).await.unwrap().unwrap();
    assert_eq!((job.state, job.counts.attempt, job.counts.crashes), (JobState::Waiting, 0, 0), "{job:?}");
    assert_eq!(*story.left.lock().unwrap(), [false, true], "it stays for the job, and then it goes");
    let nodes = store.nodes().await.unwrap().nodes;
    assert_eq!(nodes.iter().map(|node| node.incarnation).collect::<Vec<_>>(), [ghost]);
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
    let next = job("noop", "null");
    let id = next.id;
    store.enqueue(vec![next]).await.unwrap();
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
    let running = soon(async {
        loop {
            let job = store.job(id).await.unwrap().unwrap();
            if job.state == JobState::Running && job.fence.0 == 2 {
                return job;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(running.counts.crashes, 0, "nobody died");
    cancel(&store, id).await;
    assert_eq!(ended(&store, id).await.state, JobState::Cancelled);
    executor.stop().await;
}

async fn queue_settings(store: &MemoryStore, queue: &str) -> QueueSettings {
    let memos = store.recall(vec![MemoKind::Queue]).await.unwrap();
    let memo = memos.iter().find(|memo| memo.name == queue).unwrap();
    serde_json::from_str(&memo.value).unwrap()
}

/// A job of a queue that pauses on error goes wrong on a node that does not dispatch.
async fn pauses_for_trouble_elsewhere(retry: RetryPolicy, rests: JobState) {
    let store = MemoryStore::default();
    let set = QueueSettings { on_error: OnError::Pause, ..QueueSettings::default() };
    let memo = NewMemo {
        kind: MemoKind::Queue,
        name: "careful".to_owned(),
        value: Some(serde_json::to_string(&set).unwrap()),
        seen: None,
    };
    store.remember(None, vec![memo]).await.unwrap();
    // It dispatches, and knows none of the tasks.
    let a = started(node(&store, "a").registry(Registry::new())).await;
    let b = started(node(&store, "b").configure(|config| config.dispatch = false)).await;
    let careful = |task, args| NewJob { queue: QueueName::new("careful").unwrap(), ..job(task, args) };
    let bad = NewJob { retry, ..careful("flaky", "9") };
    let id = bad.id;
    store.enqueue(vec![bad]).await.unwrap();
    let went_wrong = in_state(&store, id, rests).await;
    assert_eq!(went_wrong.error.as_deref(), Some("attempt 1"));
    let paused = soon(async {
        loop {
            if let Some(pause) = queue_settings(&store, "careful").await.paused {
                return pause;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert!(paused.reason.unwrap().contains(&id.to_string()), "it says which job it was");
    let (next, other) = (careful("noop", "null"), job("noop", "null"));
    let (next_id, other_id) = (next.id, other.id);
    // Both are seen at once: when the one has run, the other could have.
    store.enqueue(vec![next, other]).await.unwrap();
    assert_eq!(ended(&store, other_id).await.node.unwrap().as_str(), "b");
    assert_eq!(store.job(next_id).await.unwrap().unwrap().state, JobState::Waiting);
    b.stop().await;
    a.stop().await;
}

/// A job of a queue that pauses on error goes wrong elsewhere while a new dispatcher is about to read the backlog.
async fn pauses_for_trouble_at_a_take_over(retry: RetryPolicy, rests: JobState) {
    let store = MemoryStore::default();
    let set = QueueSettings { on_error: OnError::Pause, ..QueueSettings::default() };
    let value = Some(serde_json::to_string(&set).unwrap());
    let memo = NewMemo { kind: MemoKind::Queue, name: "careful".to_owned(), value, seen: None };
    store.remember(None, vec![memo]).await.unwrap();
    let (ghost, lease) = (Incarnation(uuid::Uuid::from_u128(7)), Duration::from_secs(600));
    let epoch = ghost_leads(&store, ghost, lease).await;
    let bad = NewJob { queue: QueueName::new("careful").unwrap(), retry, ..job("noop", "null") };
    let id = bad.id;
    store.enqueue(vec![bad]).await.unwrap();
    store.assign(assign(ghost, epoch, id, ghost)).await.unwrap();
    store.beat(Beat::new(ghost, lease, 1, false)).await.unwrap();
    let story = Arc::new(Late::default());
    *story.fails.lock().unwrap() = Some((ghost, id));
    let mut config = Config::new(NodeName::new("a").unwrap());
    config.poll_interval = Duration::from_millis(20);
    let executor = started(Builder::new(connect_picky(&store, &story), config)).await;
    soon(async {
        while queue_settings(&store, "careful").await.paused.is_none() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    assert_eq!(store.job(id).await.unwrap().unwrap().state, rests);
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
        assert_eq!(store.nodes().await.unwrap().nodes.len(), 1);
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
        assert_eq!(store.job(id).await.unwrap().unwrap().state, JobState::Waiting, "it was handed back");
    }
    assert_eq!(executor.stats().settled, 1);
}
