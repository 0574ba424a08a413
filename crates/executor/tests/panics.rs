//! Panics in control loops, at every call of the store that they make; in virtual time.

mod support;

use std::{
    any::Any,
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};

use support::{
    Noop, config, fleet, ids, job,
    memos::set,
    put, sooner_or_later, story, tasks,
    virtual_time::{self, Living, stop},
    watched::{self, Watch, Watching},
};
use tokio::{sync::Notify, time::Instant};
use turnwise_core::{
    JobId, JobState, Json, NewJob, TaskName,
    periodic::{Periodic, When},
    statistics::Counted,
};
use turnwise_executor::{Ctx, Event, Outcome, Task, executor::Builder};
use turnwise_store::{Filter, MemoKind, MemoryStore, OperatorStore, Result, Settle, Store, StoreError};

/// Says something, finishes a step, and takes a moment.
struct Talks;
impl Task for Talks {
    type Args = ();
    const NAME: &'static str = "talks";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        ctx.log("here I am");
        let _: u32 = ctx.step("one", async { Ok::<_, std::io::Error>(1) }).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        Outcome::done()
    }
}

/// Ends when it may.
struct Gate;
impl Task for Gate {
    type Args = ();
    const NAME: &'static str = "gate";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        ctx.state::<Open>().unwrap().0.0.notified().await;
        Outcome::done()
    }
}

#[derive(Clone, Default)]
struct Open(Arc<Notify>);

/// Panics at one verb, so many times: before the store is asked, or after it has answered.
struct Panics {
    verb: &'static str,
    after: bool,
    left: AtomicU64,
    calls: AtomicU64,
}

impl Panics {
    fn new(verb: &'static str, after: bool, times: u64) -> Arc<Self> {
        Arc::new(Self { verb, after, left: AtomicU64::new(times), calls: AtomicU64::new(0) })
    }

    fn meet(&self, verb: &'static str, after: bool) {
        if verb != self.verb || after != self.after {
            return;
        }
        self.calls.fetch_add(1, SeqCst);
        if self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok() {
            panic!("an injected panic at {verb}");
        }
    }
}

impl Watch for Panics {
    fn before<'a>(&'a self, verb: &'static str, _: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        Box::pin(async move {
            self.meet(verb, false);
            Ok(())
        })
    }

    fn after(&self, verb: &'static str) -> Watching<'_, ()> {
        Box::pin(async move { self.meet(verb, true) })
    }
}

fn live(store: &MemoryStore, name: &str, watch: &Arc<impl Watch>, open: &Open) -> Living {
    let builder = Builder::new(watched::connect_both(store, watch), config(name)).registry(tasks!(Talks, Noop, Gate));
    virtual_time::live(builder.state(open.clone()))
}

async fn all_in(store: &MemoryStore, ids: &[JobId], state: JobState) -> bool {
    for id in ids {
        if store.job(*id).await.unwrap().is_none_or(|job| job.state != state) {
            return false;
        }
    }
    true
}

/// Calls, and the loop that makes each of them.
const LOOPS: [(&str, &str); 14] = [
    ("join", "join"),
    ("beat", "beat"),
    ("assignments", "mail"),
    ("settle", "settle"),
    ("note", "settle"),
    ("news", "dispatch"),
    ("recall", "dispatch"),
    ("load", "dispatch"),
    ("assign", "dispatch"),
    ("lost_nodes", "dispatch"),
    ("remember", "dispatch"),
    ("prune", "dispatch"),
    // The schedules' submitter.
    ("enqueue", "dispatch"),
    ("leave", "leave"),
];

#[tokio::test(start_paused = true)]
async fn a_panic_in_any_loop_is_told_loses_no_end_and_the_node_works_on() {
    for (verb, part) in LOOPS {
        for after in [false, true] {
            panic_at(verb, part, after).await;
        }
    }
}

async fn panic_at(verb: &'static str, part: &'static str, after: bool) {
    let at = format!("a panic at {verb}, {}", if after { "after it" } else { "before it" });
    let (store, watch) = (virtual_time::store(), Panics::new(verb, after, 2));
    let now = store.nodes().await.unwrap().now;
    let every = Periodic::new(When::every("10s").unwrap(), TaskName::new("noop").unwrap(), Json::null(), now);
    set(&store, MemoKind::Schedule, "every", &every).await;
    let jobs: Vec<NewJob> = (0..30).map(|_| job("talks", "null")).collect();
    let ids = ids(&jobs);
    store.enqueue(jobs).await.unwrap();
    let (executor, running) = live(&store, "a", &watch, &Open::default());
    let mut events = executor.events();
    let told: Arc<Mutex<BTreeSet<&'static str>>> = Arc::default();
    let hears = told.clone();
    let listening = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            if let Event::Panicked(panic) = event {
                assert!(panic.error.contains("an injected panic"), "{panic:?}");
                hears.lock().unwrap().insert(panic.part);
            }
        }
    });
    let began = Instant::now();
    sooner_or_later(&at, || all_in(&store, &ids, JobState::Success)).await;
    assert!(began.elapsed() < Duration::from_secs(30), "{at}: {:?}", began.elapsed());
    if verb != "leave" {
        // Also where the loop comes by seldom.
        sooner_or_later(&at, async || watch.left.load(SeqCst) == 0).await;
        let id = put(&store, job("noop", "null")).await;
        sooner_or_later(&at, || all_in(&store, std::slice::from_ref(&id), JobState::Success)).await;
    }
    for id in &ids {
        let job = store.job(*id).await.unwrap().unwrap();
        assert_eq!(job.counts.attempt, 1, "{at}: no job runs again for it");
    }
    assert_eq!(executor.stats().lost, 0, "{at}");
    let stopping = Instant::now();
    executor.stop().await;
    running.await.unwrap();
    assert!(stopping.elapsed() < Duration::from_secs(20), "{at}: {:?}", stopping.elapsed());
    let unfinished = Filter { states: vec![JobState::Scheduled, JobState::Running], ..Filter::default() };
    assert_eq!(store.jobs(unfinished).await.unwrap(), [], "{at}");
    assert_eq!(fleet(&store).await, [], "{at}: it has left");
    drop(executor);
    listening.await.unwrap();
    let told = told.lock().unwrap();
    assert!(told.contains(part), "{at}: {told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_a_node_looks_whether_it_is_idle_is_told_and_it_looks_again() {
    let (store, sick) = (virtual_time::store(), Panics::new("nodes", false, 2));
    let a = live(&store, "a", &Panics::new("nodes", false, 0), &Open::default());
    sooner_or_later("a leads", async || fleet(&store).await.iter().any(|node| node.dispatcher)).await;
    let b = live(&store, "b", &sick, &Open::default());
    let mut events = b.0.events();
    let mut told = 0;
    while let Some(event) = events.next().await {
        match event {
            Event::Panicked(panic) => {
                assert_eq!(panic.part, "idle");
                told += 1;
            }
            Event::Idle => break,
            _ => {}
        }
    }
    assert_eq!(told, 2);
    stop([a, b]).await;
}

#[tokio::test(start_paused = true)]
async fn another_node_dispatches_when_the_dispatcher_panics() {
    let store = virtual_time::store();
    let (sick, sound) = (Panics::new("news", false, 0), Panics::new("news", false, 0));
    let a = live(&store, "a", &sick, &Open::default());
    sooner_or_later("a leads", async || fleet(&store).await.iter().any(|node| node.dispatcher)).await;
    let b = live(&store, "b", &sound, &Open::default());
    sooner_or_later("b is there", async || fleet(&store).await.len() == 2).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let before = sick.calls.load(SeqCst);
    sick.left.store(u64::MAX, SeqCst);
    let id = put(&store, job("noop", "null")).await;
    let began = Instant::now();
    sooner_or_later("it runs", || all_in(&store, std::slice::from_ref(&id), JobState::Success)).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let leads = fleet(&store).await.into_iter().find(|node| node.dispatcher).unwrap();
    assert_eq!(leads.name.as_str(), "b");
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(sick.calls.load(SeqCst) - before, 1, "one panic, and it leads no more");
    assert_eq!(a.0.stats().lost, 0);
    stop([a, b]).await;
}

#[tokio::test(start_paused = true)]
async fn data_that_makes_every_dispatcher_panic_is_met_ever_more_seldom_and_stops_neither_beats_nor_ends() {
    let store = virtual_time::store();
    let open = Open::default();
    let watches = [Panics::new("news", false, 0), Panics::new("news", false, 0)];
    let a = live(&store, "a", &watches[0], &open);
    let id = put(&store, job("gate", "null")).await;
    sooner_or_later("it runs", || all_in(&store, std::slice::from_ref(&id), JobState::Running)).await;
    let b = live(&store, "b", &watches[1], &open);
    sooner_or_later("b is there", async || fleet(&store).await.len() == 2).await;
    let before: u64 = watches.iter().map(|watch| watch.calls.load(SeqCst)).sum();
    watches.iter().for_each(|watch| watch.left.store(u64::MAX, SeqCst));
    tokio::time::sleep(Duration::from_secs(20)).await;
    open.0.notify_one();
    let began = Instant::now();
    sooner_or_later("its end is written", || all_in(&store, std::slice::from_ref(&id), JobState::Success)).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    tokio::time::sleep(Duration::from_secs(1200)).await;
    let met = watches.iter().map(|watch| watch.calls.load(SeqCst)).sum::<u64>() - before;
    assert!((10..=70).contains(&met), "met {met} times by two nodes in twenty minutes");
    assert_eq!((a.0.stats().lost, b.0.stats().lost), (0, 0));
    watches.iter().for_each(|watch| watch.left.store(0, SeqCst));
    let id = put(&store, job("noop", "null")).await;
    let began = Instant::now();
    sooner_or_later("work goes on", || all_in(&store, std::slice::from_ref(&id), JobState::Success)).await;
    assert!(began.elapsed() < Duration::from_secs(70), "{:?}", began.elapsed());
    stop([a, b]).await;
}

/// What the dispatcher does besides, and how its panics are told.
const ASIDE: [(&str, &str); 4] = [
    ("begin_statistics", "statistics"),
    ("write_statistics", "statistics"),
    ("merge_statistics", "statistics"),
    ("write_totals", "totals"),
];

#[tokio::test(start_paused = true)]
async fn a_panic_in_what_a_dispatcher_does_besides_is_told_and_never_stops_dispatching() {
    for (verb, part) in ASIDE {
        for after in [false, true] {
            panic_aside(verb, part, after).await;
        }
    }
}

async fn panic_aside(verb: &'static str, part: &'static str, after: bool) {
    let at = format!("a panic at {verb}, {}", if after { "after it" } else { "before it" });
    let (store, watch) = (virtual_time::store(), Panics::new(verb, after, u64::MAX));
    let (executor, running) = live(&store, "a", &watch, &Open::default());
    let mut events = executor.events();
    let listening = tokio::spawn(async move {
        let mut told = Vec::new();
        while let Some(event) = events.next().await {
            if let Event::Panicked(panic) = event {
                assert_eq!(panic.hold_off, Duration::ZERO, "{panic:?}");
                told.push(panic.part);
            }
        }
        told
    });
    sooner_or_later(&at, async || fleet(&store).await.iter().any(|node| node.dispatcher)).await;
    // Longer than until old statistics are merged.
    let works = async |rounds: u32| {
        for _ in 0..rounds {
            store.ask_totals().await.unwrap();
            let id = put(&store, job("noop", "null")).await;
            let began = Instant::now();
            sooner_or_later(&at, || all_in(&store, std::slice::from_ref(&id), JobState::Success)).await;
            assert!(began.elapsed() <= Duration::from_secs(2), "{at}: a job waited {:?}", began.elapsed());
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
    };
    works(75).await;
    assert!(watch.calls.load(SeqCst) >= 2, "{at}: {} calls", watch.calls.load(SeqCst));
    watch.left.store(0, SeqCst);
    works(75).await;
    let totals = store.ask_totals().await.unwrap();
    let written = totals.last.expect("totals are written again");
    assert!(totals.now.since(written.at) < Duration::from_secs(10), "{at}: {:?}", totals.now.since(written.at));
    executor.stop().await;
    running.await.unwrap();
    let counted: u64 =
        store.statistics_totals().await.unwrap().iter().map(|row| row.sums.count(Counted::Success)).sum();
    assert!(counted >= 75, "{at}: {counted} ends are counted");
    drop(executor);
    let told = listening.await.unwrap();
    assert!(told.len() >= 2 && told.iter().all(|one| *one == part), "{at}: {told:?}");
}

/// Writing the good end of one job panics.
struct Spoils {
    job: JobId,
    met: AtomicBool,
}

impl Watch for Spoils {
    fn before<'a>(&'a self, verb: &'static str, asked: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        Box::pin(async move {
            if verb == "settle" {
                let settle = asked.downcast_ref::<Settle>().unwrap();
                let good =
                    |to: &turnwise_core::lifecycle::Transition| to.state(JobState::Scheduled) == JobState::Success;
                if settle.settlements.iter().any(|end| end.job == self.job && good(&end.to)) {
                    self.met.store(true, SeqCst);
                    panic!("an injected panic for one job");
                }
            }
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_whose_write_panics_fails_its_job_and_holds_up_no_other() {
    let store = virtual_time::store();
    let jobs: Vec<NewJob> = (0..200).map(|_| job("noop", "null")).collect();
    let mut ids = ids(&jobs);
    store.enqueue(jobs).await.unwrap();
    let spoilt = ids.remove(100);
    let watch = Arc::new(Spoils { job: spoilt, met: AtomicBool::new(false) });
    let (executor, running) = live(&store, "a", &watch, &Open::default());
    let began = Instant::now();
    sooner_or_later("all others", || all_in(&store, &ids, JobState::Success)).await;
    sooner_or_later("the one", || all_in(&store, std::slice::from_ref(&spoilt), JobState::Failed)).await;
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(watch.met.load(SeqCst));
    let story = story(&store, spoilt).await;
    let said = story.attempts.last().unwrap().failure.as_ref().unwrap().text();
    assert!(said.contains("its end could not be stored"), "{said}");
    assert_eq!(executor.stats().lost, 0);
    executor.stop().await;
    running.await.unwrap();
}

/// The `running` of one job cannot be written, nor can anything that is written together with it.
struct BrokenBegin {
    job: JobId,
    settles: AtomicU64,
}

impl Watch for BrokenBegin {
    fn before<'a>(&'a self, verb: &'static str, asked: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        Box::pin(async move {
            if verb == "settle" {
                let settle = asked.downcast_ref::<Settle>().unwrap();
                let mut its = settle.settlements.iter().filter(|settlement| settlement.job == self.job);
                if settle.settlements.iter().any(|settlement| settlement.job == self.job) {
                    self.settles.fetch_add(1, SeqCst);
                }
                if its.any(|settlement| settlement.to.state(JobState::Scheduled) == JobState::Running) {
                    return Err(StoreError::broken("settle", "it cannot be written"));
                }
            }
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_suspect_whose_begin_cannot_be_stored_fails_without_a_run_and_holds_up_no_other() {
    let store = virtual_time::store();
    let open = Open::default();
    let suspect = put(&store, job("gate", "null")).await;
    let (_, doomed) = live(&store, "doomed", &Panics::new("none", false, 0), &open);
    sooner_or_later("it runs", || all_in(&store, std::slice::from_ref(&suspect), JobState::Running)).await;
    doomed.abort();
    let watch = Arc::new(BrokenBegin { job: suspect, settles: AtomicU64::new(0) });
    let (executor, running) = live(&store, "a", &watch, &open);
    let mut others = Vec::new();
    for _ in 0..10_000 {
        // It is suspected, tried again, and fails; something is always written beside it.
        if all_in(&store, std::slice::from_ref(&suspect), JobState::Failed).await {
            break;
        }
        others.push(put(&store, job("noop", "null")).await);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    sooner_or_later("all others", || all_in(&store, &others, JobState::Success)).await;
    let ended = store.job(suspect).await.unwrap().unwrap();
    assert_eq!(ended.counts.crashes, 1, "a node died under it once");
    let error = ended.error.unwrap_or_default();
    assert!(error.contains("its end could not be stored") && error.contains("it cannot be written"), "{error}");
    // In halves, until it is alone; and its end.
    let settles = watch.settles.load(SeqCst);
    assert!((2..=12).contains(&settles), "{settles} calls with it: tried again and again");
    assert_eq!(executor.stats().lost, 0);
    executor.stop().await;
    running.await.unwrap();
}
