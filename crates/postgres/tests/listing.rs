//! Lists find their jobs by the index that docs/lists.md names, and look at no more rows than it says.

mod database;

use database::{client, fresh_store, job};
use tokio_postgres::Client;
use turnwise_core::{GroupName, JobState};
use turnwise_store::{
    OperatorStore, Store,
    operators::{AskJobs, ListFilter},
};

const PAGE: &str = include_str!("../../../docs/lists.md");

/// The settings of the store's connections.
const SETTINGS: &str = "set jit = off; set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off;
                        set max_parallel_workers_per_gather = 0;
                        set plan_cache_mode = force_generic_plan";

/// What a list by groups sets besides.
const IN_ORDER: &str = "set enable_sort = off; set enable_bitmapscan = off";

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
         select turnwise.new_id(), n, 'mail', 'q', 'g', 5, 'null', 4 + n % 3, 1, 0, 0, 1, false, now(), now(), 'f' || n % 50
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
    app.batch_execute(IN_ORDER).await.unwrap();
    let group = |states: &str| {
        format!("{NEWEST}, 10000, 10, '{{{states}}}', null, 'g', null, null, null, null, null, null, null")
    };
    for (sql, values, index) in [
        (include_str!("../sql/list_group.sql"), group("0"), "Index Scan Backward using job_group"),
        (include_str!("../sql/list_group_history.sql"), group("4,5"), "_grp_id_idx"),
        (include_str!("../sql/list_edge_group.sql"), format!("{NEWEST}, 10000, 'g'"), "using job_group"),
        (include_str!("../sql/list_edge_group_history.sql"), format!("{NEWEST}, 10000, 'g', '{{4,5}}'"), "_grp_id_idx"),
    ] {
        let plan = plan(&app, sql, &values).await;
        assert!(plan.contains(index) && plan.contains("Index Cond: ((ROW("), "{sql}\n{plan}");
        // Nodes are found by theirs.
        let of_jobs = plan.replace("node_pkey on node", "");
        for other in ["Seq Scan on job", "Seq Scan on history", "_pkey", "rest_id_idx", "history_cancelled"] {
            assert!(!of_jobs.contains(other), "{other}: {sql}\n{plan}");
        }
        // The parts of history are merged by their key, without being sorted.
        assert!(!plan.contains("Sort Key") || plan.contains("Merge Append"), "{sql}\n{plan}");
    }
    let none =
        plan(&app, include_str!("../sql/list_history.sql"), &format!("{NEWEST}, 10000, 10, '{{5}}', {OTHERS}")).await;
    assert!(!none.contains("history_success"), "other states are not looked at:\n{none}");
    let bounded = format!("{NEWEST}, 500, 10, '{{0}}', null, null, '{{other}}', null, null, null, null, null");
    let bounded = plan(&app, include_str!("../sql/list_jobs.sql"), &bounded).await;
    assert!(bounded.contains("Rows Removed by Filter: 500"), "no more than that are looked at:\n{bounded}");
    for index in
        ["job_pkey", "job_group", "history_pkey", "history_group", "history_failed_fingerprint", "unique_key_pkey"]
    {
        assert!(PAGE.contains(&format!("`{index}`")), "docs/lists.md does not name {index}");
        let there = "select to_regclass('turnwise.' || $1) is not null";
        assert!(app.query_one(there, &[&index]).await.unwrap().get::<_, bool>(0), "there is no {index}");
    }
}

/// 60,000 jobs of a loud group have not ended and 60,000 have; thirty of a quiet one are older, and twenty of these have ended.
const LOUD: &str = "
    create temporary table old as
    select n, (lpad(to_hex(n), 12, '0') || '7000800000000000000' || case when n > 30 then 1 else 0 end)::uuid as ended,
           (lpad(to_hex(n), 12, '0') || '70008000000000000000')::uuid as id, case when n <= 30 then 'quiet' else 'loud' end as grp
      from generate_series(1, 60030) as n;
    insert into turnwise.job (id, task, queue, grp, priority, args) select id, 'mail', 'q', grp, 5, 'null' from old
     where n <= 10 or n > 30;
    insert into turnwise.history (id, seq, task, queue, grp, priority, args, state, attempt, retries, crashes, fence,
                                  cancel_requested, submitted_at, ended_at)
    select ended, n, 'mail', 'q', grp, 5, 'null', 4 + n % 3, 1, 0, 0, 1, false, now(), now() + n % 2 * interval '1 day' from old
     where n > 10";

#[tokio::test]
async fn the_page_of_a_quiet_group_is_complete_and_costs_as_much_as_its_own_jobs() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    app.batch_execute(LOUD).await.unwrap();
    // Before the tables were ever analyzed, and when the quiet group is too small to be seen by that.
    for analyzed in [false, true] {
        if analyzed {
            app.batch_execute("analyze turnwise.job; analyze turnwise.history").await.unwrap();
        }
        let quiet = ListFilter { groups: Some([GroupName::new("quiet").unwrap()].into()), ..ListFilter::default() };
        let failed = ListFilter { states: [JobState::Failed].into(), ..quiet.clone() };
        let queue = ListFilter { queues: Some(["q".parse().unwrap()].into()), ..quiet.clone() };
        for (filter, count) in [(quiet, 30), (failed, 6), (queue, 30)] {
            let page = store.list_jobs(AskJobs { filter, limit: 100, ..AskJobs::default() }).await.unwrap();
            assert_eq!((page.jobs.len(), page.next, page.reached), (count, None, None));
            assert!(page.jobs.is_sorted_by_key(|job| std::cmp::Reverse(job.id)));
        }
        app.batch_execute(SETTINGS).await.unwrap();
        app.batch_execute(IN_ORDER).await.unwrap();
        let values = |states: &str| {
            format!("{NEWEST}, 10000, 100, '{{{states}}}', null, 'quiet', null, null, null, null, null, null, null")
        };
        for (sql, values) in [
            (include_str!("../sql/list_group.sql"), values("0,1,2,3")),
            (include_str!("../sql/list_group_history.sql"), values("4,5,6")),
        ] {
            let plan = plan(&app, sql, &values).await;
            assert!(!plan.contains("Rows Removed") && !plan.contains("job_pkey"), "{sql}\n{plan}");
            let actual = |line: &str| line.split("actual rows=").nth(1)?.split([' ', '.']).next()?.parse::<u32>().ok();
            let most = plan.lines().filter_map(actual).max();
            assert!(most.is_some_and(|most| (10..=20).contains(&most)), "{sql}\n{plan}");
        }
    }
}
