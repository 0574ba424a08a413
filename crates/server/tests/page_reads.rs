//! What pages read of a large database: no table from end to end, and no more rows than the counts and lists of the API look at.

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
/// Rows that a page may look at: without a dispatcher, the most of them count four times, and list besides.
const MOST: u64 = 4 * COUNTED as u64 + 5_000;

/// How often a page is asked for until it is made in time.
const TRIES: usize = 10;

/// How many rows of jobs were found by an index so far, and how many in tables that were read from one end to the other.
fn looked_at(url: &str) -> (u64, u64) {
    let cluster = Cluster::shared();
    // What a connection has read is known when it ends.
    let others = "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    cluster.psql(url, &format!("select pg_terminate_backend(pid) {others}")).unwrap();
    while cluster.psql(url, &format!("select count(*) {others}")).unwrap().trim() != "0" {
        std::thread::yield_now();
    }
    let jobs = "where schemaname = 'turnwise' and (relname = 'job' or relname like 'history%')";
    let sum = |text: &str| cluster.psql(url, text).unwrap().trim().parse().unwrap();
    (
        sum(&format!("select coalesce(sum(idx_tup_read), 0) from pg_stat_user_indexes {jobs}")),
        sum(&format!("select coalesce(sum(seq_tup_read), 0) from pg_stat_user_tables {jobs}")),
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
    drop(server);
    let mut seen = 0;
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
        assert_eq!(read, 0, "{path}: a table of jobs was read from end to end");
        // Why a job waits, and what would become of others, is found in the whole backlog, which is read once and kept.
        let of_backlog = page.looks_at_backlog();
        assert!(of_backlog || found <= MOST, "{path}: {found} rows were looked at");
        seen += found;
    }
    assert!(seen > SIZE.waiting, "nothing was counted: {seen}");
}
