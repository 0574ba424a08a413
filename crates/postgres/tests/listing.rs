//! Lists find their jobs by the index that docs/lists.md names, and look at no more rows than it says.

mod database;

use database::{client, fresh_store, job};
use tokio_postgres::Client;
use turnwise_store::Store;

const PAGE: &str = include_str!("../../../docs/lists.md");

/// The settings of the store's connections.
const SETTINGS: &str = "set jit = off; set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off;
                        set max_parallel_workers_per_gather = 0;
                        set plan_cache_mode = force_generic_plan";

/// The plan of a statement whose values are not known when it is made, as that of a prepared one.
async fn plan(app: &Client, sql: &str, values: &str) -> String {
    app.batch_execute("deallocate all").await.unwrap();
    app.batch_execute(&format!("prepare list as {sql}")).await.unwrap();
    let rows =
        app.query(&format!("explain (analyze, costs off, timing off) execute list ({values})"), &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

const NEWEST: &str = "'ffffffff-ffff-ffff-ffff-ffffffffffff'";
const OTHERS: &str = "null, null, null, null, null, null, null, null";

#[tokio::test]
async fn every_list_goes_down_the_index_that_the_page_names() {
    let (store, url) = fresh_store().await;
    store.enqueue((1..=3_000).map(job).collect()).await.unwrap();
    let app = client(&url).await;
    app.batch_execute(
        "insert into turnwise.history (id, seq, task, queue, grp, priority, args, state, attempt, retries, crashes, fence,
                                       cancel_requested, submitted_at, ended_at, fingerprint)
         select turnwise.new_id(), n, 'mail', 'q', 'g', 5, 'null', 4 + n % 3, 1, 0, 0, 1, false, now(), now(), 'f' || n % 2
           from generate_series(1, 3000) as n;
         analyze turnwise.job; analyze turnwise.history",
    )
    .await
    .unwrap();
    app.batch_execute(SETTINGS).await.unwrap();
    let cases = [
        (
            include_str!("../sql/list_jobs.sql"),
            format!("{NEWEST}, 10000, 10, '{{0}}', {OTHERS}"),
            "Index Scan Backward using job_pkey",
        ),
        (
            include_str!("../sql/list_history.sql"),
            format!("{NEWEST}, 10000, 10, '{{4}}', {OTHERS}"),
            "Index Scan Backward using history_success",
        ),
        (
            include_str!("../sql/list_fingerprint.sql"),
            format!("{NEWEST}, 10000, 10, '{{3}}', {OTHERS}, 'f1'"),
            "Index Scan Backward using job_pkey",
        ),
        (
            include_str!("../sql/list_failed.sql"),
            format!("{NEWEST}, 10000, 10, '{{5}}', {OTHERS}, 'f1'"),
            "_fingerprint_id_idx",
        ),
        (include_str!("../sql/list_edge_jobs.sql"), format!("{NEWEST}, 10000"), "using job_pkey"),
        (include_str!("../sql/list_edge_history.sql"), format!("{NEWEST}, 10000, '{{5}}'"), "using history_failed"),
        (include_str!("../sql/list_edge_failed.sql"), format!("{NEWEST}, 10000, 'f1'"), "_fingerprint_id_idx"),
    ];
    for (sql, values, index) in cases {
        let plan = plan(&app, sql, &values).await;
        assert!(plan.contains(index), "{sql}\n{plan}");
        for whole in ["Seq Scan on job", "Seq Scan on history", "Sort Key"] {
            // The parts of history are merged by their key, without being sorted.
            let sorted = plan.lines().any(|line| line.contains(whole) && !plan.contains("Merge Append"));
            assert!(!sorted, "{whole}: {sql}\n{plan}");
        }
    }
    let none =
        plan(&app, include_str!("../sql/list_history.sql"), &format!("{NEWEST}, 10000, 10, '{{5}}', {OTHERS}")).await;
    assert!(!none.contains("history_success"), "other states are not looked at:\n{none}");
    let bounded = format!("{NEWEST}, 500, 10, '{{0}}', null, null, '{{other}}', null, null, null, null, null");
    let bounded = plan(&app, include_str!("../sql/list_jobs.sql"), &bounded).await;
    assert!(bounded.contains("Rows Removed by Filter: 500"), "no more than that are looked at:\n{bounded}");
    for index in ["job_pkey", "history_id", "history_failed_fingerprint", "unique_key_pkey"] {
        assert!(PAGE.contains(&format!("`{index}`")), "docs/lists.md does not name {index}");
        let there = "select to_regclass('turnwise.' || $1) is not null";
        assert!(app.query_one(there, &[&index]).await.unwrap().get::<_, bool>(0), "there is no {index}");
    }
}
