//! Pools: how many tasks run at a time, on which threads, for which queues; and how a process looks for work and says that
//! there is none.

mod support;

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use support::{
    watched::{self, Watch, Watching},
    *,
};
use turnwise_core::{GroupName, JobId, JobState, NewJob};
use turnwise_executor::{Config, Ctx, EventKind, Executor, Outcome, Registry, executor::Builder, task::Task};
use turnwise_store::{Assign, Bell, MemoryStore, Store};

/// What tasks and tests know together.
#[derive(Default)]
struct Board {
    running: AtomicU32,
    most: AtomicU32,
    open: tokio::sync::Notify,
    gate: Mutex<bool>,
    opened: Condvar,
    names: Mutex<Vec<(String, String)>>,
}

impl Board {
    fn open_gate(&self) {
        *self.gate.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn note(&self, ctx: &Ctx) {
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        self.names.lock().unwrap().push((ctx.node().to_string(), thread));
    }
}

fn board(ctx: &Ctx) -> Arc<Board> {
    ctx.state::<Arc<Board>>().unwrap().0.as_ref().clone()
}

/// Runs until it is let go.
struct Hold;

impl Task for Hold {
    type Args = ();
    const NAME: &'static str = "hold";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let board = board(&ctx);
        let running = board.running.fetch_add(1, Ordering::SeqCst) + 1;
        board.most.fetch_max(running, Ordering::SeqCst);
        board.open.notified().await;
        board.running.fetch_sub(1, Ordering::SeqCst);
        Outcome::done()
    }
}

/// Notes where it runs.
struct Note;

impl Task for Note {
    type Args = ();
    const NAME: &'static str = "note";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let board = board(&ctx);
        board.note(&ctx);
        let noted = ctx.clone();
        ctx.blocking(move || {
            board.note(&noted);
            Outcome::done()
        })
        .await
    }
}

/// Keeps its thread until the gate opens, as a careless async task does.
struct Block;

impl Task for Block {
    type Args = ();
    const NAME: &'static str = "block";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let board = board(&ctx);
        board.running.fetch_add(1, Ordering::SeqCst);
        let open = board.gate.lock().unwrap();
        drop(board.opened.wait_while(open, |open| !*open).unwrap());
        Outcome::done()
    }
}

/// Submits a job by another process's hand, which rings for nobody here, and ends at once.
struct Whisper;

impl Task for Whisper {
    type Args = ();
    const NAME: &'static str = "whisper";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let store = ctx.state::<MemoryStore>().unwrap();
        // Whose turn it is at once, when it is known.
        let group = GroupName::new("quiet").unwrap();
        store.another_process().enqueue(vec![NewJob { group, ..job("noop", "null") }]).await.unwrap();
        Outcome::done()
    }
}

fn tasks() -> Registry {
    tasks!(Hold, Note, Block, Whisper, Noop)
}

/// A node that never polls.
fn quiet(store: &MemoryStore, board: &Arc<Board>, change: impl FnOnce(&mut Config)) -> Builder {
    let node = node(store, "a", tasks()).state(board.clone()).state(store.clone());
    node.configure(|config| {
        config.poll_interval = Some(NEVER);
        change(config);
    })
}

/// Waits until so many tasks hold a slot.
async fn running(board: &Board, count: u32) {
    until(async || board.running.load(Ordering::SeqCst) == count).await;
}

/// Lets each of these go when it runs, until all have ended.
async fn let_go(store: &MemoryStore, board: &Board, jobs: Vec<JobId>) {
    soon(async {
        for id in jobs {
            while !now(store, id).await.state.finished() {
                board.open.notify_one();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    })
    .await;
}

/// Rings once: a second ring could bring the look that the node is to think of by itself.
async fn whisper(store: &MemoryStore, executor: &Executor) {
    store.enqueue(vec![job("whisper", "null")]).await.unwrap();
    executor.bell().unwrap().ring_news();
}

/// Before the dispatcher wakes to clear up, which it does twice a minute.
async fn early<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(15), what).await.expect("did not happen before the clearing up")
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_open_up_to_max_pool_size_and_never_more_run() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let executor = started(quiet(&store, &board, |config| {
        config.core_pool_size = 1;
        config.max_pool_size = Some(3);
    }))
    .await;
    assert_eq!(slots(&store, "a").await, Some(1), "at rest");
    let ids = submit(&executor, (0..12).map(|_| job("hold", "null")).collect()).await;
    running(&board, 3).await;
    until(async || slots(&store, "a").await == Some(3)).await;
    let_go(&store, &board, ids).await;
    assert_eq!(board.most.load(Ordering::SeqCst), 3);
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_one_size_runs_no_more_than_that() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let executor = started(quiet(&store, &board, |config| config.core_pool_size = 2)).await;
    let ids = submit(&executor, (0..6).map(|_| job("hold", "null")).collect()).await;
    let_go(&store, &board, ids).await;
    assert_eq!(board.most.load(Ordering::SeqCst), 2);
    soon(executor.stop()).await;
}

#[tokio::test(start_paused = true)]
async fn slots_close_again_when_nothing_has_needed_them_for_long() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let builder = quiet(&store, &board, |config| {
        config.core_pool_size = 1;
        config.max_pool_size = Some(4);
    });
    let executor = builder.build().unwrap();
    let story = async {
        while executor.bell().is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        submit(&executor, (0..4).map(|_| job("hold", "null")).collect()).await;
        running(&board, 4).await;
        while board.running.load(Ordering::SeqCst) > 0 {
            board.open.notify_one();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        while slots(&store, "a").await != Some(1) {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        executor.stop().await;
    };
    // In the clock's own time: an hour of it passes in no time.
    tokio::time::timeout(NEVER, async { tokio::join!(executor.live_here(), story) }).await.expect("they close");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_run_on_threads_named_after_their_pool() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let builder = quiet(&store, &board, |config| config.thread_name_prefix = Some("job-executor-".to_owned()))
        .pool("mail", |pool| pool.queues(["mail"]).core_pool_size(2));
    let executor = started(builder).await;
    for id in submit(&executor, vec![of("default", "note"), of("mail", "note")]).await {
        ended(&store, id).await;
    }
    let names = board.names.lock().unwrap().clone();
    assert_eq!(names.len(), 4, "twice on its own thread, twice on one for what blocks: {names:?}");
    for (node, thread) in names {
        let prefix = if node == "a" { "job-executor-" } else { "mail-" };
        let number = thread.strip_prefix(prefix).and_then(|number| number.parse::<u32>().ok());
        assert!(number.is_some_and(|number| number > 0), "{node} on {thread}");
    }
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_bound_to_a_pool_runs_there_and_the_others_on_the_nodes_own() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let builder = quiet(&store, &board, |_| {}).pool("mail", |pool| pool.queues(["mail", "letters"]));
    let executor = started(builder).await;
    for (queue, node) in [("mail", "a/mail"), ("default", "a"), ("letters", "a/mail"), ("another", "a")] {
        let ids = submit(&executor, vec![of(queue, "note")]).await;
        ended(&store, ids[0]).await;
        let seen = std::mem::take(&mut *board.names.lock().unwrap());
        assert!(seen.iter().all(|(seen, _)| seen == node) && seen.len() == 2, "{queue}: {seen:?}");
    }
    soon(executor.drained()).await.unwrap();
    assert_eq!(executor.stats().settled, 4);
    soon(executor.stop()).await;
    assert!(fleet(&store).await.is_empty(), "all of it has left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_whose_threads_are_all_blocked_does_not_slow_another() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let builder = quiet(&store, &board, |_| {}).pool("slow", |pool| pool.queues(["slow"]).core_pool_size(64));
    let executor = started(builder).await;
    let blocked = submit(&executor, (0..64).map(|_| of("slow", "block")).collect()).await;
    until(async || board.running.load(Ordering::SeqCst) > 0).await;
    for id in submit(&executor, (0..20).map(|_| of("default", "noop")).collect()).await {
        ended(&store, id).await;
    }
    assert!(!now(&store, blocked[0]).await.state.finished(), "they are in the way still");
    board.open_gate();
    for id in blocked {
        ended(&store, id).await;
    }
    soon(executor.stop()).await;
}

/// How many jobs each assignment was of.
#[derive(Default)]
struct Batches(Mutex<Vec<usize>>);

impl Watch for Batches {
    fn before<'a>(
        &'a self,
        _: &'static str,
        asked: &'a (dyn std::any::Any + Send + Sync),
    ) -> Watching<'a, turnwise_store::Result<()>> {
        if let Some(assign) = asked.downcast_ref::<Assign>() {
            self.0.lock().unwrap().push(assign.picks.len());
        }
        Box::pin(async { Ok(()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_given_its_batch_size_at_once_and_not_the_dispatchers() {
    let (store, board, batches) = (MemoryStore::default(), Arc::new(Board::default()), Arc::new(Batches::default()));
    let builder = Builder::new(watched::connect(&store, &batches), config("a")).registry(tasks()).state(board.clone());
    let builder = builder.configure(|config| (config.batch_size, config.core_pool_size) = (7, 30));
    let executor = started(builder.pool("mail", |pool| pool.queues(["mail"]).batch_size(2))).await;
    for (queue, most) in [("mail", 2), ("default", 7)] {
        store.enqueue((0..20).map(|_| of(queue, "noop")).collect()).await.unwrap();
        executor.bell().unwrap().ring_news();
        soon(executor.drained()).await.unwrap();
        let batches = std::mem::take(&mut *batches.0.lock().unwrap());
        assert_eq!(batches.iter().sum::<usize>(), 20, "{batches:?}");
        assert_eq!(batches.iter().max(), Some(&most), "{queue}: {batches:?}");
    }
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_one_of_whose_pools_cannot_join_does_not_start() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let other = started(Builder::new(connect(&store), config("a/mail"))).await;
    let executor = quiet(&store, &board, |_| {}).pool("mail", |pool| pool.queues(["mail"])).build().unwrap();
    let refused = soon(executor.start()).await.unwrap_err().to_string();
    assert!(refused.starts_with("the node name \"a/mail\" is in use"), "{refused}");
    let nodes = fleet(&store).await;
    assert_eq!(nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["a/mail"], "nothing of it is left");
    soon(other.stop()).await;
    soon(executor.start()).await.expect("the name is free now");
    let ids = submit(&executor, vec![of("mail", "noop"), of("default", "noop")]).await;
    for id in ids {
        ended(&store, id).await;
    }
    assert_eq!(executor.stats().lost, 0, "nobody declared it lost");
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_stopped_can_be_started_again() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let executor = quiet(&store, &board, |_| {}).pool("mail", |pool| pool.queues(["mail"])).build().unwrap();
    for _ in 0..2 {
        soon(executor.start()).await.unwrap();
        let ids = submit(&executor, vec![of("mail", "noop"), of("default", "noop")]).await;
        for id in ids {
            ended(&store, id).await;
        }
        soon(executor.stop()).await;
        assert!(fleet(&store).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_still_stopping_is_not_started_again() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let executor = quiet(&store, &board, |config| config.await_termination = NEVER).build().unwrap();
    soon(executor.start()).await.unwrap();
    let ids = submit(&executor, vec![job("hold", "null")]).await;
    running(&board, 1).await;
    let mut stopping = Box::pin(executor.stop());
    assert!(futures_util::poll!(&mut stopping).is_pending());
    // A caller that stops waiting has not stopped the node.
    drop(stopping);
    assert!(matches!(executor.start().await, Err(turnwise_executor::StartError::Running)));
    board.open.notify_one();
    soon(executor.stop()).await;
    ended(&store, ids[0]).await;
    soon(executor.start()).await.unwrap();
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_does_not_wait_interrupts_what_runs_and_spends_no_attempt() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let executor = started(quiet(&store, &board, |config| {
        config.wait_for_tasks_on_shutdown = false;
        config.await_termination = NEVER;
        config.core_pool_size = 1;
    }))
    .await;
    let ids = submit(&executor, (0..3).map(|_| job("hold", "null")).collect()).await;
    running(&board, 1).await;
    soon(executor.stop()).await;
    for id in ids {
        let job = in_state(&store, id, JobState::Waiting).await;
        assert_eq!((job.counts.attempt, job.node), (0, None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_that_waits_lets_what_runs_end_and_hands_back_the_rest() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let executor = started(quiet(&store, &board, |config| {
        config.await_termination = NEVER;
        config.core_pool_size = 1;
    }))
    .await;
    let ids = submit(&executor, (0..3).map(|_| job("hold", "null")).collect()).await;
    running(&board, 1).await;
    let stop = tokio::spawn(async move { executor.stop().await });
    // It takes nothing more from then on.
    until(async || slots(&store, "a").await == Some(0)).await;
    board.open.notify_one();
    soon(stop).await.unwrap();
    let mut states = Vec::new();
    for id in ids {
        states.push(now(&store, id).await.state);
    }
    states.sort();
    assert_eq!(states, [JobState::Waiting, JobState::Waiting, JobState::Success]);
}

// --- push, poll, idle ----------------------------------------------------------------------------------------

#[tokio::test(flavor = "multi_thread")]
async fn a_posted_job_starts_right_after_its_commit_without_a_poll() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let executor = started(quiet(&store, &board, |_| {}).pool("mail", |pool| pool.queues(["mail"]))).await;
    for queue in ["default", "mail", "default"] {
        let ids = submit(&executor, vec![of(queue, "noop")]).await;
        ended(&store, ids[0]).await;
    }
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_is_said_once_when_nothing_is_left_and_again_after_more_work() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    // One at a time, none held ready: between two jobs it holds nothing, and is not idle.
    let builder = quiet(&store, &board, |config| (config.core_pool_size, config.queue_capacity) = (1, 0));
    let (executor, mut events) = listened(builder.pool("mail", |pool| pool.queues(["mail"]))).await;
    assert_eq!(successes(&mut events).await, 0, "there was nothing to begin with");
    for _ in 0..2 {
        store.enqueue((0..50).map(|_| job("noop", "null")).collect()).await.unwrap();
        executor.bell().unwrap().ring_news();
        assert_eq!(successes(&mut events).await, 50);
        let ids = submit(&executor, vec![of("mail", "noop")]).await;
        assert_eq!(successes(&mut events).await, 1, "a pool's work too");
        ended(&store, ids[0]).await;
    }
    soon(executor.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_dispatch_says_when_it_is_idle() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let dispatcher = dispatcher(&store).await;
    let worker = node(&store, "a", tasks()).state(board.clone()).state(store.clone());
    let (worker, mut events) = listened(worker.configure(|config| config.dispatch = false)).await;
    assert_eq!(successes(&mut events).await, 0);
    let ids = submit(&worker, vec![of("default", "noop")]).await;
    assert_eq!(successes(&mut events).await, 1);
    ended(&store, ids[0]).await;
    soon(worker.stop()).await;
    soon(dispatcher.stop()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_no_bell_told_of_is_found_when_nothing_else_is_left() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    // With a lease so long, no look for lost nodes wakes the dispatcher either.
    let (executor, mut events) = listened(quiet(&store, &board, |config| config.lease = NEVER)).await;
    soon(events.wait_for(EventKind::Idle)).await.unwrap();
    whisper(&store, &executor).await;
    assert_eq!(early(successes(&mut events)).await, 2, "what it whispered of, too");
    soon(executor.stop()).await;
}

/// Rings when the test does, and for nothing that is written.
struct Silent(Bell);

impl Watch for Silent {
    fn bell(&self) -> Option<Bell> {
        Some(self.0.clone())
    }
}

/// No time passes while there is something to do, so no look is due by the clock: but for the one that is rung for, there are
/// those that come after so many jobs.
#[tokio::test(start_paused = true)]
async fn a_job_no_bell_told_of_is_found_after_so_many_others_while_the_node_is_busy() {
    let (store, board) = (MemoryStore::default(), Arc::new(Board::default()));
    let silent = Arc::new(Silent(Bell::default()));
    let mut config = config("a");
    (config.look_every, config.lease, config.poll_interval) = (5, NEVER, Some(NEVER));
    (config.core_pool_size, config.queue_capacity) = (1, 0);
    let node = Builder::new(watched::connect(&store, &silent), config).registry(tasks());
    let executor = node.state(board).state(store.clone()).build().unwrap();
    let mut events = executor.events();
    let story = async {
        events.wait_for(EventKind::Idle).await.unwrap();
        let jobs = std::iter::once(job("whisper", "null")).chain((0..200).map(|_| job("noop", "null")));
        let jobs: Vec<NewJob> = jobs.collect();
        let told = ids(&jobs);
        store.enqueue(jobs).await.unwrap();
        executor.bell().unwrap().ring_news();
        let mut order = Vec::new();
        while order.len() < 201 + 1 {
            let event = events.next().await.unwrap();
            order.extend(event.job().filter(|_| event.kind() == EventKind::Success).map(|job| job.id));
        }
        let found = order.iter().position(|id| !told.contains(id)).expect("it was found at last");
        assert!(found <= 10, "five jobs, and those on their way then; it was number {found}");
        executor.stop().await;
    };
    tokio::time::timeout(NEVER, async { tokio::join!(executor.live_here(), story) }).await.expect("it ends");
}
