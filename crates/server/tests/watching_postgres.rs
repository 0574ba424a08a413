//! What it costs a PostgreSQL that people watch, in statements as it counts them itself: a few a second, whatever pages they have open.

mod support;

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use support::{Server, request};
use tokio::{sync::watch, time::Instant};
use turnwise::{Options, Schema, Turnwise};
use turnwise_testpg::Cluster;

/// Statements a second and server that people who watch may cost. The aim is four, which pages that have to be read now and then do not reach yet:
/// each makes about eight.
const MOST: f64 = 8.0;
/// For so long is counted.
const COUNTED: Duration = Duration::from_secs(30);
/// Before that, pages are read as often as they may be for a moment.
const BEFORE: Duration = Duration::from_secs(8);
/// Pages that are open, each of them by several people.
const OPEN: [&str; 10] = [
    "/",
    "/fairness",
    "/jobs",
    "/errors",
    "/queues",
    "/tasks",
    "/nodes",
    "/schedules",
    "/groups/acme",
    "/queues/default",
];

struct Database {
    cluster: Cluster,
    url: String,
    /// Whether statements are counted, too: where the server has the extension for it.
    counts: bool,
}

impl Database {
    fn new() -> Self {
        let cluster = Cluster::start_counting().unwrap();
        let url = cluster.fresh_database().unwrap();
        let sql = |text: &str| cluster.psql(&url, text).unwrap();
        let counts = sql("show shared_preload_libraries").contains("pg_stat_statements");
        if counts {
            sql("create extension pg_stat_statements");
            sql(
                "do $$ begin execute format('alter database %I set pg_stat_statements.track = top', current_database()); end $$",
            );
            sql(
                "do $$ begin execute format('alter database %I set pg_stat_statements.track_utility = off', current_database()); end $$",
            );
        }
        Self { cluster, url, counts }
    }

    fn number(&self, sql: &str) -> f64 {
        self.cluster.psql(&self.url, sql).unwrap().trim().parse().unwrap()
    }

    /// Statements, but for those that begin and end transactions, and transactions.
    fn done(&self) -> [f64; 2] {
        let statements = if self.counts { self.number("select sum(calls) from pg_stat_statements") } else { 0.0 };
        let of_this = "from pg_stat_database where datname = current_database()";
        [statements, self.number(&format!("select xact_commit + xact_rollback {of_this}"))]
    }

    /// How many of each are done in a second.
    async fn pace(&self) -> [f64; 2] {
        let (before, began) = (self.done(), Instant::now());
        tokio::time::sleep(COUNTED).await;
        let (after, seconds) = (self.done(), began.elapsed().as_secs_f64());
        [0, 1].map(|at| (after[at] - before[at]) / seconds)
    }
}

/// As a page in a browser: it hears that something has happened, and is read again, at most every two seconds.
async fn watch_page(server: &Server, path: &str, mut over: watch::Receiver<bool>) -> usize {
    let opened = server.get(path).await;
    assert_eq!(opened.status, 200, "{path}: {}", opened.text);
    let mut stream = server.listen("/api/v1/events?pace=calm").await;
    let mut read = 0;
    while !*over.borrow() {
        tokio::select! {
            _ = stream.next() => {}
            _ = over.changed() => break,
        }
        let mut again = request("GET", path, None);
        again.headers_mut().insert("x-turnwise-refresh", "1".parse().unwrap());
        let page = server.send(again).await;
        assert!(matches!(page.status, 200 | 429), "{path}: {} {}", page.status, page.text);
        read += usize::from(page.status == 200);
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    read
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching_costs_few_statements_a_second_whatever_pages_are_open() {
    // Two minutes: with `./check --full`.
    if std::env::var_os("TURNWISE_FULL").is_none() {
        return;
    }
    let database = Database::new();
    let options = Options { schema: Schema::Migrate, ..Options::default() };
    let server = Server::of("postgres", Turnwise::open_with(&database.url, options).await.unwrap());
    let node = server.node().await;
    let (end, over) = watch::channel(false);
    let mut submits = over.clone();
    // Something happens all the time: a page that nothing happens on is not read again at all.
    let jobs = async {
        while !*submits.borrow() {
            server.submit(json!({"task": "double", "args": 1, "group": "acme"})).await;
            let _ = tokio::time::timeout(Duration::from_secs(1), submits.changed()).await;
        }
    };
    let counted = async {
        tokio::time::sleep(BEFORE).await;
        let alone = database.pace().await;
        let people = |times: usize| OPEN.iter().cycle().take(OPEN.len() * times);
        let mut costs = Vec::new();
        for times in [1, 5] {
            let (end, over) = watch::channel(false);
            let watching = join_all(people(times).map(|path| watch_page(&server, path, over.clone())));
            let counting = async {
                tokio::time::sleep(BEFORE).await;
                let pace = database.pace().await;
                end.send_replace(true);
                [0, 1].map(|at| pace[at] - alone[at])
            };
            let (read, cost) = tokio::join!(watching, counting);
            for (path, times) in people(times).zip(&read) {
                assert!(*times >= 2, "{path} was read again {times} times: {read:?}");
            }
            costs.push(cost);
        }
        end.send_replace(true);
        costs
    };
    let ((), costs) = tokio::join!(jobs, counted);
    node.stop().await;
    for [statements, transactions] in costs {
        assert!(statements <= MOST, "{statements} statements a second");
        assert!(transactions <= MOST, "{transactions} transactions a second");
    }
}
