//! What a task can do in a run, and what can happen to it, on the memory store.

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use support::*;
use tokio::sync::Notify;
use turnwise_core::{
    JobState, RetryPolicy, Step, TaskName,
    lifecycle::Ending,
    story::{Level, Progress},
};
use turnwise_executor::{Ctx, EventKind, Next, Outcome, Registry, Task, TaskError};
use turnwise_store::{MemoryStore, Store};

/// What tasks of one test leave behind for it to see.
#[derive(Default)]
struct Board {
    said: Mutex<Vec<String>>,
    count: AtomicU32,
    go: Notify,
}

impl Board {
    fn say(&self, text: impl Into<String>) {
        self.said.lock().unwrap().push(text.into());
    }
    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }
}

fn board(ctx: &Ctx) -> Arc<Board> {
    ctx.state::<Arc<Board>>().unwrap().0.as_ref().clone()
}

struct Fetch;
impl Task for Fetch {
    type Args = u32;
    const NAME: &'static str = "fetch";
    fn retry(&self) -> Option<&'static str> {
        Some("none")
    }
    async fn run(&self, ctx: Ctx, number: u32) -> Outcome {
        board(&ctx).say(format!("fetch {number}"));
        Outcome::next(Next::to("send", &(number + 1)).delay(Duration::from_millis(5)))
    }
}

struct Send;
impl Task for Send {
    type Args = u32;
    const NAME: &'static str = "send";
    fn retry(&self) -> Option<&'static str> {
        Some("durations:1ms,2ms")
    }
    async fn run(&self, ctx: Ctx, number: u32) -> Outcome {
        let board = board(&ctx);
        board.say(format!("send {number} attempt {}", ctx.attempt()));
        match board.count.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Outcome::error("not yet"),
            _ => Outcome::done_with(&number),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_on_as_another_task_with_its_own_retries() {
    let store = MemoryStore::default();
    let board = Arc::new(Board::default());
    let executor = started(node(&store, "a", tasks!(Fetch, Send)).state(board.clone())).await;
    let mut first = job("fetch", "7");
    first.retry = Some(RetryPolicy::None);
    let id = executor.submit(first).await.unwrap().id;
    let done = ended(&store, id).await;
    assert_eq!((done.state, done.task.as_str(), done.result.unwrap().as_str()), (JobState::Success, "send", "8"));
    assert_eq!(done.counts.attempt, 4);
    assert_eq!(board.said(), ["fetch 7", "send 8 attempt 2", "send 8 attempt 3", "send 8 attempt 4"]);
    let story = story(&store, id).await;
    let steps: Vec<_> = story.attempts.iter().map(|attempt| (attempt.task.as_str(), attempt.ending)).collect();
    assert_eq!(steps, [("fetch", Ending::Next), ("send", Ending::Error), ("send", Ending::Error)]);
    executor.stop().await;
}

struct Hopeless;
impl Task for Hopeless {
    type Args = u32;
    const NAME: &'static str = "hopeless";
    fn on_exhausted(&self) -> Option<&'static str> {
        Some("apologise")
    }
    async fn run(&self, _: Ctx, _: u32) -> Outcome {
        Outcome::error("never")
    }
}

struct Apologise;
impl Task for Apologise {
    type Args = u32;
    const NAME: &'static str = "apologise";
    async fn run(&self, _: Ctx, number: u32) -> Outcome {
        Outcome::done_with(&format!("sorry for {number}"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_retries_run_out_goes_on_where_it_is_to() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a", tasks!(Hopeless, Apologise))).await;
    let by_task = executor.submit(job("hopeless", "3")).await.unwrap().id;
    let mut own = job("hopeless", "4");
    own.retry = Some(RetryPolicy::None);
    own.terms
        .set_on_exhausted(Step {
            task: TaskName::new("apologise").unwrap(),
            args: turnwise_core::Json::parse("args", "44").unwrap(),
            retry: Some(RetryPolicy::None),
            terms: turnwise_core::Terms::default(),
        })
        .unwrap();
    let by_job = executor.submit(own).await.unwrap().id;
    for (id, runs, result) in [(by_task, 5, "\"sorry for 3\""), (by_job, 2, "\"sorry for 44\"")] {
        let done = ended(&store, id).await;
        assert_eq!((done.state, done.counts.attempt), (JobState::Success, runs));
        assert_eq!((done.result.unwrap().as_str(), done.error.as_deref()), (result, Some("never")));
    }
    executor.stop().await;
}

struct Slow;
impl Task for Slow {
    type Args = ();
    const NAME: &'static str = "slow";
    fn timeout(&self) -> Option<&'static str> {
        Some("20ms")
    }
    async fn run(&self, _: Ctx, (): ()) -> Outcome {
        std::future::pending().await
    }
    async fn clean_up(&self, ctx: Ctx, (): ()) {
        board(&ctx).say("cleaned up");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_too_long_is_cut_short_and_tried_again() {
    let store = MemoryStore::default();
    let board = Arc::new(Board::default());
    let executor = started(node(&store, "a", tasks!(Slow)).state(board.clone())).await;
    let mut slow = job("slow", "null");
    slow.retry = Some(RetryPolicy::durations(vec![Duration::from_millis(1)]).unwrap());
    let id = executor.submit(slow).await.unwrap().id;
    let failed = ended(&store, id).await;
    assert_eq!((failed.state, failed.counts.attempt), (JobState::Failed, 2));
    assert_eq!(failed.error.as_deref(), Some("timed out: it took longer than 20ms"));
    assert_eq!(board.said(), ["cleaned up", "cleaned up"]);
    let endings: Vec<_> = story(&store, id).await.attempts.iter().map(|attempt| attempt.ending).collect();
    assert_eq!(endings, [Ending::TimedOut, Ending::TimedOut]);
    executor.stop().await;
}

/// Does not listen: it blocks a thread of the runtime until it is let go.
struct Deaf;
impl Task for Deaf {
    type Args = ();
    const NAME: &'static str = "deaf";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let board = board(&ctx);
        board.say("blocks");
        while board.count.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        board.say("returns");
        Outcome::done()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_task_that_blocks_its_thread_beyond_its_time_is_given_up_without_its_neighbours() {
    let store = MemoryStore::default();
    let board = Arc::new(Board::default());
    let executor = started(node(&store, "a", tasks!(Deaf, Apologise)).state(board.clone())).await;
    let mut deaf = job("deaf", "null");
    deaf.retry = Some(RetryPolicy::None);
    deaf.terms.set_timeout(Duration::from_millis(20)).unwrap();
    let id = executor.submit(deaf).await.unwrap().id;
    let given_up = ended(&store, id).await;
    assert_eq!((given_up.state, given_up.counts.attempt), (JobState::Failed, 1));
    assert_eq!(board.said(), ["blocks"]);
    until(async || slots(&store, "a").await == Some(3)).await;
    // The others go on, on the slots that are left.
    let next = executor.submit(job("apologise", "1")).await.unwrap().id;
    assert_eq!(ended(&store, next).await.state, JobState::Success);
    // Once it returns, nobody believes it, and its slot is there again.
    board.count.store(1, Ordering::SeqCst);
    until(async || slots(&store, "a").await == Some(4)).await;
    assert_eq!(board.said(), ["blocks", "returns"]);
    assert_eq!((ended(&store, id).await.state, executor.stats().settled), (JobState::Failed, 2));
    executor.stop().await;
}

struct Talks;
impl Task for Talks {
    type Args = u32;
    const NAME: &'static str = "talks";
    async fn run(&self, ctx: Ctx, lines: u32) -> Outcome {
        ctx.progress(1, 4, "begun");
        for number in 0..lines {
            ctx.log(format!("line {number}"));
        }
        ctx.log_at(Level::Warn, "nearly done");
        if lines == 3 {
            board(&ctx).go.notified().await;
        }
        ctx.progress(4, 4, "all of it");
        Outcome::done()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_says_is_read_while_it_runs_and_afterwards() {
    let store = MemoryStore::default();
    let board = Arc::new(Board::default());
    let executor = started(node(&store, "a", tasks!(Talks)).state(board.clone())).await;
    let id = executor.submit(job("talks", "3")).await.unwrap().id;
    let early = found(async || Some(story(&store, id).await).filter(|story| story.lines.len() == 4)).await;
    assert_eq!(early.progress, Some(Progress::new(1, 4, "begun")));
    assert!(!now(&store, id).await.state.finished());
    board.go.notify_one();
    assert_eq!(ended(&store, id).await.state, JobState::Success);
    let late = story(&store, id).await;
    assert_eq!((late.progress, late.lines.len()), (Some(Progress::new(4, 4, "all of it")), 4));
    assert_eq!((late.lines[3].level, late.lines[3].text.as_str()), (Level::Warn, "nearly done"));
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_keeps_its_last_lines() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a", tasks!(Talks)).state(Arc::new(Board::default()))).await;
    let id = executor.submit(job("talks", "25000")).await.unwrap().id;
    ended(&store, id).await;
    let story = story(&store, id).await;
    assert!(story.lines.len() <= 10_000, "{}", story.lines.len());
    assert_eq!(story.lines.last().map(|line| line.text.as_str()), Some("nearly done"));
    let told_of_the_gap = story.dropped > 0 || story.lines[0].text.contains("faster than they could be kept");
    assert!(told_of_the_gap, "{:?}", story.lines[0]);
    executor.stop().await;
}

struct Steps;
impl Task for Steps {
    type Args = ();
    const NAME: &'static str = "steps";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        turnwise_executor::task::from_result(steps(ctx).await)
    }
}

async fn steps(ctx: Ctx) -> Result<u32, TaskError> {
    let board = board(&ctx);
    let one: u32 = ctx.step("one", async { say(&board, "one", 1) }).await?;
    let two: u32 = ctx.step("two", async { say(&board, "two", one + 1) }).await?;
    if ctx.attempt() < 3 {
        return Err(TaskError::new("between the steps"));
    }
    let again: u32 = ctx.step("two", async { say(&board, "two again", 99) }).await?;
    Ok(two * 10 + again)
}

fn say(board: &Board, text: &str, value: u32) -> Result<u32, TaskError> {
    board.say(text);
    Ok(value)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_step_is_not_run_again() {
    let store = MemoryStore::default();
    let board = Arc::new(Board::default());
    let executor = started(node(&store, "a", tasks!(Steps)).state(board.clone())).await;
    let id = executor.submit(job("steps", "null")).await.unwrap().id;
    let done = ended(&store, id).await;
    assert_eq!((done.state, done.counts.attempt, done.result.unwrap().as_str()), (JobState::Success, 3, "22"));
    assert_eq!(board.said(), ["one", "two"]);
    let attempt = &story(&store, id).await.attempts[0];
    let failure = attempt.failure.as_ref().unwrap();
    assert_eq!(failure.text(), "between the steps");
    assert!(failure.place.as_ref().unwrap().contains("runs.rs:"), "{failure:?}");
    executor.stop().await;
}

struct Naps;
impl Task for Naps {
    type Args = u64;
    const NAME: &'static str = "naps";
    async fn run(&self, ctx: Ctx, millis: u64) -> Outcome {
        let board = board(&ctx);
        board.count.fetch_add(1, Ordering::SeqCst);
        match ctx.sleep(Duration::from_millis(millis)).await {
            Ok(()) => Outcome::done_with(&ctx.attempt()),
            Err(error) => Outcome::error(error),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_sleep_hold_no_slot() {
    let store = MemoryStore::default();
    let board = Arc::new(Board::default());
    let executor = started(node(&store, "a", tasks!(Naps, Apologise)).state(board.clone())).await;
    let sleepers: Vec<_> = (0..10_000).map(|_| job("naps", "3600000")).collect();
    let ids = ids(&sleepers);
    store.enqueue(sleepers).await.unwrap();
    executor.bell().unwrap().ring_news();
    for id in &ids {
        let asleep = when(&store, *id, |job| job.state == JobState::Waiting && job.fence.0 == 1).await;
        assert_eq!((asleep.counts.attempt, asleep.node), (0, None));
    }
    let awake = executor.submit(job("apologise", "1")).await.unwrap().id;
    assert_eq!(ended(&store, awake).await.state, JobState::Success);
    assert_eq!(board.count.load(Ordering::SeqCst), 10_000, "each has begun once");
    // Cancelled in their sleep like any waiting job.
    cancel(&store, ids[0]).await;
    assert_eq!(ended(&store, ids[0]).await.state, JobState::Cancelled);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_job_goes_on_when_its_time_has_come() {
    let store = MemoryStore::default();
    let board = Arc::new(Board::default());
    let executor = started(node(&store, "a", tasks!(Naps)).state(board.clone())).await;
    let id = executor.submit(job("naps", "1100")).await.unwrap().id;
    let done = ended(&store, id).await;
    assert_eq!((done.state, done.result.unwrap().as_str(), done.fence.0), (JobState::Success, "1", 2));
    assert!(done.finished_at.unwrap().since(done.submitted_at) >= Duration::from_millis(1_100));
    assert_eq!(board.count.load(Ordering::SeqCst), 2, "the task began twice, and slept once");
    executor.stop().await;
}

/// Stops when it is asked to, or does not.
struct Cancelled;
impl Task for Cancelled {
    type Args = bool;
    const NAME: &'static str = "cancelled";
    async fn run(&self, ctx: Ctx, listens: bool) -> Outcome {
        board(&ctx).say("begun");
        board(&ctx).go.notify_one();
        if listens {
            ctx.cancelled().await
        } else {
            std::future::pending().await
        }
        board(&ctx).say("stopped");
        Outcome::done()
    }
    async fn clean_up(&self, ctx: Ctx, _: bool) {
        board(&ctx).say("cleaned up");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_stops_by_itself_or_is_dropped_and_is_cleaned_up_after() {
    for listens in [true, false] {
        let store = MemoryStore::default();
        let board = Arc::new(Board::default());
        let node = node(&store, "a", tasks!(Cancelled)).state(board.clone());
        // The task that listens has as long as it needs to say so.
        let grace = if listens { NEVER } else { Duration::from_millis(50) };
        let executor = started(node.configure(|config| config.cancel_grace = grace)).await;
        let id = executor.submit(job("cancelled", if listens { "true" } else { "false" })).await.unwrap().id;
        soon(board.go.notified()).await;
        cancel(&store, id).await;
        assert_eq!(ended(&store, id).await.state, JobState::Cancelled);
        let expected: &[&str] = if listens { &["begun", "stopped", "cleaned up"] } else { &["begun", "cleaned up"] };
        assert_eq!(board.said(), expected);
        executor.stop().await;
    }
}

struct Panics;
impl Task for Panics {
    type Args = bool;
    const NAME: &'static str = "panics";
    async fn run(&self, ctx: Ctx, blocking: bool) -> Outcome {
        if blocking { ctx.blocking(|| panic!("on a thread")).await } else { panic!("on the runtime") }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_kept_with_its_place() {
    let store = MemoryStore::default();
    let executor = started(node(&store, "a", tasks!(Panics))).await;
    for (args, text) in [("true", "panic: on a thread"), ("false", "panic: on the runtime")] {
        let mut panics = job("panics", args);
        panics.retry = Some(RetryPolicy::None);
        let id = executor.submit(panics).await.unwrap().id;
        assert_eq!(ended(&store, id).await.error.as_deref(), Some(text));
        let attempts = story(&store, id).await.attempts;
        let failure = attempts[0].failure.as_ref().unwrap();
        assert_eq!((attempts[0].ending, failure.text().as_str()), (Ending::Panic, text));
        assert!(failure.place.as_ref().is_some_and(|place| place.contains("tests/runs.rs:")), "{failure:?}");
    }
    executor.stop().await;
}

struct Wrong;
impl Task for Wrong {
    type Args = ();
    const NAME: &'static str = "wrong";
    fn timeout(&self) -> Option<&'static str> {
        Some("soon")
    }
    async fn run(&self, _: Ctx, (): ()) -> Outcome {
        Outcome::done()
    }
}

#[test]
fn a_task_with_a_wrong_timeout_is_refused() {
    let error = Registry::new().register(Wrong).unwrap_err().to_string();
    assert!(error.contains("wrong") && error.contains("\"soon\" is not a duration"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_tells_of_a_job_that_goes_on_only_when_it_ends() {
    let store = MemoryStore::default();
    let board = Arc::new(Board::default());
    board.count.store(2, Ordering::SeqCst);
    let executor = started(node(&store, "a", tasks!(Fetch, Send)).state(board.clone())).await;
    let mut events = executor.events();
    let id = executor.submit(job("fetch", "1")).await.unwrap().id;
    let event = soon(events.wait_for(EventKind::Success)).await.unwrap();
    assert_eq!((event.job().unwrap().id, event.job().unwrap().attempt), (id, 2));
    in_state(&store, id, JobState::Success).await;
    executor.stop().await;
}

struct Traces;
impl Task for Traces {
    type Args = bool;
    const NAME: &'static str = "traces";
    async fn run(&self, ctx: Ctx, blocking: bool) -> Outcome {
        tracing::info!(page = 7, name = "a b", "reading");
        if blocking {
            let told = || {
                tracing::error!("on a thread");
                Outcome::done()
            };
            ctx.blocking(told).await;
        }
        tokio::task::yield_now().await;
        tracing::debug!("not wanted");
        tracing::warn!("slow");
        Outcome::done()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tracing_events_of_a_task_land_in_its_jobs_log() {
    use tracing_subscriber::{Layer, filter::LevelFilter, layer::SubscriberExt, util::SubscriberInitExt};
    tracing_subscriber::registry().with(turnwise_executor::JobLog::new().with_filter(LevelFilter::INFO)).init();
    let store = MemoryStore::default();
    let executor = started(node(&store, "a", tasks!(Traces))).await;
    tracing::info!("outside of any task");
    let id = executor.submit(job("traces", "true")).await.unwrap().id;
    ended(&store, id).await;
    let story = story(&store, id).await;
    let lines: Vec<_> = story.lines.iter().map(|line| (line.level, line.text.as_str())).collect();
    let expected = [(Level::Info, "reading page=7 name=\"a b\""), (Level::Error, "on a thread"), (Level::Warn, "slow")];
    assert_eq!(lines, expected);
    executor.stop().await;
}

async fn noted(ctx: Ctx, inner: turnwise_executor::Inner) -> Outcome {
    board(&ctx).say(format!("before {}", ctx.task()));
    let outcome = inner.run(ctx.clone()).await;
    board(&ctx).say("after");
    outcome
}

#[tokio::test(flavor = "multi_thread")]
async fn middleware_goes_around_every_task_in_the_order_it_was_given() {
    let store = MemoryStore::default();
    let board = Arc::new(Board::default());
    let node = node(&store, "a", tasks!(Apologise)).state(board.clone());
    let refuses = |ctx: Ctx, inner: turnwise_executor::Inner| async move {
        match ctx.group().as_str() {
            "banned" => Outcome::fail("banned"),
            _ => inner.run(ctx).await,
        }
    };
    let executor = started(node.middleware(noted).middleware(refuses)).await;
    let good = executor.submit(job("apologise", "1")).await.unwrap().id;
    assert_eq!(ended(&store, good).await.result.unwrap().as_str(), "\"sorry for 1\"");
    let mut banned = job("apologise", "2");
    banned.group = turnwise_core::GroupName::new("banned").unwrap();
    let bad = executor.submit(banned).await.unwrap().id;
    assert_eq!(ended(&store, bad).await.error.as_deref(), Some("banned"));
    assert_eq!(board.said(), ["before apologise", "after", "before apologise", "after"]);
    executor.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_has_not_begun_in_time_fails_without_a_run() {
    let store = MemoryStore::default();
    let board = Arc::new(Board::default());
    let node = node(&store, "a", tasks!(Cancelled, Apologise)).state(board.clone());
    let executor = started(node.configure(|config| config.core_pool_size = 1)).await;
    let holds_the_slot = executor.submit(job("cancelled", "true")).await.unwrap().id;
    soon(board.go.notified()).await;
    let mut late = job("apologise", "1");
    late.expires = Some(store.nodes().await.unwrap().now.plus(Duration::from_millis(50)));
    let late = executor.submit(late).await.unwrap().id;
    let failed = ended(&store, late).await;
    assert_eq!((failed.state, failed.counts.attempt, failed.started_at), (JobState::Failed, 0, None));
    assert!(failed.error.unwrap().starts_with("expired"));
    cancel(&store, holds_the_slot).await;
    ended(&store, holds_the_slot).await;
    executor.stop().await;
}
