//! The database's clock is changed by hours, either way; in virtual time.

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use support::{
    config, connect, job, put, tasks,
    virtual_time::{Living, live, stop},
};
use tokio::time::Instant;
use turnwise_core::{JobId, Timestamp};
use turnwise_executor::{Ctx, Outcome, Task, executor::Builder};
use turnwise_store::{MemoryStore, Options, memory::Clock};

const HOURS: i64 = 3 * 3_600 * 1_000_000;

/// Runs until it is stopped, and says where it began.
struct Endless;
impl Task for Endless {
    type Args = ();
    const NAME: &'static str = "endless";
    async fn run(&self, ctx: Ctx, (): ()) -> Outcome {
        let node = ctx.node().to_string();
        ctx.state::<Begun>().unwrap().0.0.lock().unwrap().push((ctx.id(), node));
        std::future::pending().await
    }
}

#[derive(Clone, Default)]
struct Begun(Arc<Mutex<Vec<(JobId, String)>>>);

struct Scene {
    store: MemoryStore,
    skew: Arc<AtomicI64>,
    begun: Begun,
    lease: Duration,
}

impl Scene {
    fn new() -> Self {
        let (base, skew) = (Instant::now(), Arc::new(AtomicI64::new(0)));
        let hand = skew.clone();
        let clock = Clock::new(move || {
            let passed = i64::try_from(base.elapsed().as_micros()).unwrap();
            Timestamp::from_micros(1_000_000_000_000_000 + passed + hand.load(SeqCst))
        });
        let store = MemoryStore::new(Options::default(), clock);
        Self { store, skew, begun: Begun::default(), lease: Duration::from_secs(5) }
    }

    /// A node with one slot.
    fn live(&self, name: &str) -> Living {
        let mut config = config(name);
        (config.core_pool_size, config.queue_capacity, config.lease) = (1, 0, self.lease);
        let builder = Builder::new(connect(&self.store), config).registry(tasks!(Endless));
        live(builder.state(self.begun.clone()))
    }

    async fn submit(&self) -> JobId {
        put(&self.store, job("endless", "null")).await
    }

    fn ran_on(&self, id: JobId) -> Vec<String> {
        let begun = self.begun.0.lock().unwrap();
        begun.iter().filter(|(job, _)| *job == id).map(|(_, node)| node.clone()).collect()
    }

    /// How long it takes until the job has begun there.
    async fn begins(&self, id: JobId, node: &str) -> Duration {
        let since = Instant::now();
        while self.ran_on(id).last().is_none_or(|last| last != node) {
            assert!(since.elapsed() < Duration::from_secs(600), "it does not begin on {node}: {:?}", self.ran_on(id));
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        since.elapsed()
    }

    /// Node `a` dispatches, and each of the two runs a job; both have been there for long enough to call the other lost.
    async fn two(&self) -> [(Living, JobId); 2] {
        let a = self.live("a");
        let first = self.submit().await;
        self.begins(first, "a").await;
        let b = self.live("b");
        let second = self.submit().await;
        self.begins(second, "b").await;
        tokio::time::sleep(self.lease * 3).await;
        [(a, first), (b, second)]
    }

    fn jump(&self, micros: i64) {
        self.skew.fetch_add(micros, SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_put_forward_by_hours_makes_nobody_lost() {
    // Whichever comes first: a beat, a look for the lost, or the news.
    for moment in [0, 300, 700, 1_100, 1_500, 1_900] {
        let scene = Scene::new();
        let [(a, first), (b, second)] = scene.two().await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        scene.jump(HOURS);
        tokio::time::sleep(scene.lease * 20).await;
        assert_eq!((scene.ran_on(first).len(), scene.ran_on(second).len()), (1, 1), "at {moment} ms a job ran again");
        assert_eq!((a.0.stats().lost, b.0.stats().lost), (0, 0), "at {moment} ms");
        stop([a, b]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_set_back_by_hours_makes_nobody_lost() {
    let scene = Scene::new();
    let [(a, first), (b, second)] = scene.two().await;
    scene.jump(-HOURS);
    tokio::time::sleep(scene.lease * 20).await;
    assert_eq!((scene.ran_on(first).len(), scene.ran_on(second).len()), (1, 1));
    assert_eq!((a.0.stats().lost, b.0.stats().lost), (0, 0));
    stop([a, b]).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_died_before_the_clock_was_set_back_is_lost_after_a_lease() {
    let scene = Scene::new();
    let [(a, first), (b, second)] = scene.two().await;
    b.1.abort();
    scene.jump(-HOURS);
    let since = Instant::now();
    let c = scene.live("c");
    let taken = scene.begins(second, "c").await;
    assert!(taken < scene.lease * 2, "after {taken:?}, {:?} since the clock was set back", since.elapsed());
    assert_eq!(scene.ran_on(first).len(), 1);
    stop([a, c]).await;
}

#[tokio::test(start_paused = true)]
async fn a_dispatcher_that_died_before_the_clock_was_set_back_is_replaced_after_a_lease() {
    let scene = Scene::new();
    let [(a, first), (b, second)] = scene.two().await;
    let c = scene.live("c");
    tokio::time::sleep(scene.lease * 2).await;
    a.1.abort();
    scene.jump(-HOURS);
    let work = scene.submit().await;
    let idle = scene.begins(work, "c").await;
    assert!(idle < scene.lease * 2, "nothing was dispatched for {idle:?}");
    let d = scene.live("d");
    let taken = scene.begins(first, "d").await;
    assert!(taken < scene.lease * 2, "the dead one's job was taken after {taken:?} more");
    assert_eq!(scene.ran_on(second).len(), 1);
    stop([b, c, d]).await;
}
