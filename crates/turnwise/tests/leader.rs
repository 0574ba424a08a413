//! The dispatcher is on another machine: whether it lives is seen by its session with PostgreSQL.

mod schema;
mod wait;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use tokio::sync::oneshot;
use turnwise::{Builder, Config, Ctx, Filter, JobRequest, JobState, NodeName, Outcome, Registry, Task, Turnwise};
use turnwise_core::node::Host;
use turnwise_executor::{Process, executor::Connected};
use turnwise_postgres::PostgresStore;
use turnwise_testpg::{Cluster, Pace};
use wait::until;

struct Short;
impl Task for Short {
    type Args = u64;
    const NAME: &'static str = "short";
    async fn run(&self, ctx: Ctx, millis: u64) -> Outcome {
        tokio::time::sleep(Duration::from_millis(millis)).await;
        ctx.state::<Runs>().unwrap().0.0.fetch_add(1, Ordering::SeqCst);
        Outcome::done()
    }
}

/// Runs that have ended on a machine.
#[derive(Clone, Default)]
struct Runs(Arc<AtomicUsize>);

/// A node on a machine of its own. No other node sees its processes.
struct Machine {
    runs: Runs,
    power: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Machine {
    /// `seed`: for chance of its own; two machines with the same one would be taken for one node.
    fn start(url: &str, name: &str, seed: u64) -> Self {
        let runs = Runs::default();
        let (power, cut) = oneshot::channel();
        let (url, name, state) = (url.to_owned(), name.to_owned(), runs.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let host = Host {
                    name: name.clone(),
                    boot_id: name.clone(),
                    pid_namespace: String::new(),
                    pid: 1,
                    started: 1,
                    version: None,
                };
                let process = Process { host, is_gone: Arc::new(|_| false) };
                let connect = Arc::new(move || {
                    let url = url.clone();
                    Box::pin(async move {
                        let store = PostgresStore::connect(&url, Default::default()).await?;
                        Ok(Connected::to_both(Arc::new(store)))
                    }) as _
                });
                let mut registry = Registry::new();
                registry.register(Short).unwrap();
                let mut config = Config::new(NodeName::new(name).unwrap());
                (config.core_pool_size, config.queue_capacity) = (4, 8);
                let builder = Builder::new(connect, config).registry(registry).state(state);
                let node = builder.simulated(process, seed, 10_000).build().unwrap();
                tokio::select! {
                    () = node.live_here() => {}
                    _ = cut => {}
                }
            });
            // As after a loss of power, but that its connections are closed, as the kernel does after `kill -9`.
            runtime.shutdown_background();
        });
        Self { runs, power: Some(power), thread: Some(thread) }
    }

    fn kill(&mut self) {
        drop(self.power.take());
        self.thread.take().unwrap().join().unwrap();
    }

    fn runs(&self) -> usize {
        self.runs.0.load(Ordering::SeqCst)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.kill();
        }
    }
}

struct Scene {
    turnwise: Turnwise,
    psql: tokio_postgres::Client,
    first: Machine,
    second: Machine,
}

impl Scene {
    /// The first leads; both have worked.
    async fn begin() -> Self {
        Self::begin_on(Cluster::shared()).await
    }

    async fn begin_on(cluster: &Cluster) -> Self {
        let url = cluster.fresh_database().unwrap();
        let turnwise = schema::open(&url).await;
        let (psql, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let first = Machine::start(&url, "first", 1);
        let mut scene = Self { turnwise, psql, first, second: Machine::start(&url, "second", 2) };
        until("a dispatcher", async || scene.leader().await.is_some()).await;
        if scene.leader().await.as_deref() != Some("first") {
            std::mem::swap(&mut scene.first, &mut scene.second);
        }
        scene.submit(200, 20).await;
        until("work on both", async || scene.first.runs() > 0 && scene.second.runs() > 0).await;
        until("a session that can be seen", async || scene.seen().await).await;
        scene
    }

    async fn leader(&self) -> Option<String> {
        let dispatcher = "select node.name from turnwise.dispatcher join turnwise.node on incarnation = holder";
        self.psql.query_opt(dispatcher, &[]).await.unwrap().map(|row| row.get(0))
    }

    async fn epoch(&self) -> i64 {
        self.psql.query_one("select epoch from turnwise.dispatcher", &[]).await.unwrap().get(0)
    }

    async fn seen(&self) -> bool {
        let there = "select coalesce(there, false) from turnwise.leader()";
        self.psql.query_opt(there, &[]).await.unwrap().is_some_and(|row| row.get(0))
    }

    async fn submit(&self, count: usize, millis: u64) {
        let jobs = (0..count).map(|_| JobRequest::new("short", &millis)).collect::<Vec<_>>();
        self.turnwise.submit_all(jobs).await.unwrap();
    }

    async fn unfinished(&self) -> usize {
        let states = vec![JobState::Waiting, JobState::Scheduled, JobState::Running, JobState::Stuck];
        self.turnwise.jobs(Filter { states, limit: Some(10_000), ..Filter::default() }).await.unwrap().len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_is_dispatched_within_a_second_of_the_death_of_a_dispatcher_elsewhere() {
    let mut scene = Scene::begin().await;
    scene.submit(2_000, 20).await;
    until("work", async || scene.second.runs() > 100).await;
    let epoch = scene.epoch().await;
    scene.first.kill();
    let killed = Pace::start();
    until("another dispatcher", async || scene.epoch().await != epoch).await;
    let silent = killed.elapsed();
    assert!(silent < Duration::from_secs(1), "no node dispatched for {silent:?}");
    // What the dead node had in its hands waits for its lease to expire; nothing else has to wait.
    until("the end", async || scene.unfinished().await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_fleet_dispatches_within_two_seconds_of_the_death_of_a_dispatcher_elsewhere() {
    let mut scene = Scene::begin().await;
    until("the end", async || scene.unfinished().await == 0).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let runs = scene.second.runs();
    scene.first.kill();
    let killed = Pace::start();
    scene.submit(1, 0).await;
    until("the job's end", async || scene.second.runs() > runs).await;
    let silent = killed.elapsed();
    assert!(silent < Duration::from_secs(2), "nothing was dispatched for {silent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_living_dispatcher_whose_session_is_cut_keeps_the_lead() {
    let scene = Scene::begin().await;
    let epoch = scene.epoch().await;
    scene.submit(1_000, 20).await;
    for _ in 0..10 {
        // The one with the lock that the dispatcher's row names. One that was ended may be listed for a moment longer, and the
        // next not be there yet.
        let cut = "select pg_terminate_backend(pid) from pg_locks, turnwise.dispatcher
                    where locktype = 'advisory' and (classid::bigint << 32 | objid::bigint) = session";
        until("a session to cut", async || !scene.psql.query(cut, &[]).await.unwrap().is_empty()).await;
        until("a session that can be seen", async || scene.seen().await).await;
    }
    until("the end", async || scene.unfinished().await == 0).await;
    assert_eq!(scene.epoch().await, epoch, "the lead went from one that lives to another");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_node_that_watches_a_dispatcher_elsewhere_asks_once_a_second_at_most() {
    let cluster = Cluster::start_set_up("log_statement = all", &[]).unwrap();
    let scene = Scene::begin_on(&cluster).await;
    until("the end", async || scene.unfinished().await == 0).await;
    let folder: String = scene.psql.query_one("show data_directory", &[]).await.unwrap().get(0);
    let log = std::path::Path::new(&folder).with_file_name("log");
    // What work leaves to do: history is tidied up once, and a node counts as having work for five seconds.
    let tidied = async || String::from_utf8_lossy(&std::fs::read(&log).unwrap()).contains("-- key_page.sql");
    until("the tidying up", tidied).await;
    let so_far = std::fs::read(&log).unwrap().len();
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let text = std::fs::read(&log).unwrap();
    let most = 2 * usize::try_from(begun.elapsed().as_secs()).unwrap();
    let text = String::from_utf8_lossy(&text[so_far..]);
    let asked: Vec<&str> =
        text.lines().filter(|line| line.contains("LOG:  execute") || line.contains("LOG:  statement")).collect();
    assert!(asked.len() > 10, "the log says nothing:\n{text}");
    assert!(
        asked.len() <= most,
        "two idle nodes asked {} times, and may {most} times:\n{}",
        asked.len(),
        asked.join("\n")
    );
}
