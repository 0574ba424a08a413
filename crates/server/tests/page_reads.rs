//! What pages read of a large database: no large table from end to end, and each no more rows than it shows or counts. (On SQLite, every
//! statement's plan is looked at in `crates/sqlite/tests/plans.rs`.)

#[path = "support/large.rs"]
mod large;
mod support;

use std::time::{SystemTime, UNIX_EPOCH};

use large::Size;
use support::{Server, request};
use turnwise::{Options, Schema, Turnwise};
use turnwise_server::{Page, Verb, limits::COUNTED, pages};
use turnwise_testpg::Cluster;

/// Of 200,000 rows.
const SIZE: Size = Size { finished: 60_000, waiting: 140_000, groups: 5_000 };
/// Minutes of statistics, of twenty queues with 200 groups each.
const MINUTES: u64 = 10;
/// Rows of jobs that one count looks at, where no dispatcher says how many there are.
const COUNT: u64 = COUNTED as u64 + 1_000;
/// Rows of statistics by queue of the last hour, and of a queue's groups.
const BY_QUEUE: u64 = 20 * (MINUTES + 1) * 2;
const BY_GROUP: u64 = 220 * (MINUTES + 1);

/// Rows that a page may look at, in all tables. `None`: what is found in the whole backlog, which is read once and kept.
fn most(page: &Page) -> Option<u64> {
    if page.looks_at_backlog() {
        return None;
    }
    Some(match page.path {
        // How much there is, what is wrong, the queues, and jobs in nodes' hands; what happened in the last hour.
        "/" => 4 * COUNT + 2 * BY_QUEUE,
        "/fairness" => COUNT + BY_QUEUE + BY_GROUP,
        "/jobs" | "/queues" | "/tasks" => COUNT + BY_QUEUE + 3_000,
        // Also its own numbers of each queue.
        "/groups/{name}" => COUNT + BY_QUEUE + 9_000,
        // One that looks for some of the jobs looks at no more of them than a count does.
        "/queues/{name}" | "/tasks/{name}" | "/jobs/suggest" | "/mine" => 2 * COUNT + 2 * BY_QUEUE + 1_000,
        "/nodes" => COUNT + 1_000,
        // Settings, or a page of a list.
        _ => 3_000,
    })
}

/// How often a page is asked for until it is made in time.
const TRIES: usize = 10;

/// How many rows were found by an index so far, and how many in large tables that were read from one end to the other.
fn looked_at(url: &str) -> (u64, u64) {
    let cluster = Cluster::shared();
    // What a connection has read is known when it ends.
    let others = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    cluster.psql(url, &format!("select pg_terminate_backend(pid) {others}")).unwrap();
    while cluster.psql(url, &format!("select count(*) {others}")).unwrap().trim() != "0" {
        std::thread::yield_now();
    }
    let all = "where schemaname = 'turnwise'";
    let large =
        "relname = any ('{job,audit,attempt,log,change}') or relname like 'history%' or relname like 'statistics%'";
    let sum = |text: &str| cluster.psql(url, text).unwrap().trim().parse().unwrap();
    (
        sum(&format!("select coalesce(sum(idx_tup_read), 0) from pg_stat_user_indexes {all}")),
        sum(&format!("select coalesce(sum(seq_tup_read), 0) from pg_stat_user_tables {all} and ({large})")),
    )
}

/// Where a page is, with a name in its path that there is.
fn address(page: &Page, job: &str) -> Option<String> {
    let name = match page.path.split('/').nth(1).unwrap_or_default() {
        "jobs" => job,
        "groups" => "group7",
        "queues" => "queue7",
        "tasks" => "mail",
        "assets" | "decide" | "schedules" | "nodes" if page.path.contains('{') => return None,
        _ => "",
    };
    let path = page.path.replace("{id}", name).replace("{name}", name);
    Some(format!("{path}?weight=2&do=cancel&filter=group:group7&name=group7"))
}

async fn open(url: &str) -> Server {
    let options = Options { schema: Schema::Migrate, ..Options::default() };
    Server::of("postgres", Turnwise::open_with(url, options).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_page_reads_all_jobs() {
    let url = Cluster::shared().fresh_database().unwrap();
    let server = open(&url).await;
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    large::postgres(Cluster::shared(), &url, SIZE, now).unwrap();
    let jobs = server.get("/api/v1/jobs?state=waiting&limit=1").await.expect(200);
    let job = jobs["jobs"][0]["id"].as_str().unwrap().to_owned();
    large::small_things(&server.turnwise, SIZE, MINUTES).await.unwrap();
    // As it is some hours later: a table that is small was worth no index yet.
    Cluster::shared().psql(&url, "vacuum analyze").unwrap();
    drop(server);
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages().iter().filter(|page| matches!(page.verb, Verb::Get)) {
        let Some(path) = address(page, &job) else { continue };
        let mut tries = 0;
        let (found, read) = loop {
            let (found, read) = looked_at(&url);
            let server = open(&url).await;
            let answer = server.send(request("GET", &path, None)).await;
            drop(server);
            tries += 1;
            // On a busy machine a page may take longer than people like to wait: what it looked at until then says little.
            if answer.status == 503 && tries < TRIES {
                continue;
            }
            assert!(matches!(answer.status, 200 | 303), "{path}: {} {}", answer.status, answer.text);
            let after = looked_at(&url);
            break (after.0 - found, after.1 - read);
        };
        if read > 0 || most(page).is_some_and(|most| found > most) {
            wrong.push(format!("{path}: {found} rows by an index, of {:?}; {read} without one", most(page)));
        }
        seen += found;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > SIZE.waiting, "nothing was counted: {seen}");
}
