//! Lists find their jobs by the index that docs/lists.md names, and look at no more rows than it says.

use rusqlite::{Connection, StatementStatus};
use turnwise_core::{GroupName, JobState};
use turnwise_sqlite::{SCHEMA, SqliteStore, rusqlite};
use turnwise_store::{
    OperatorStore,
    operators::{AskJobs, ListFilter},
};

const PAGE: &str = include_str!("../../../docs/lists.md");

/// What SQLite says of the table with jobs, finished or not.
fn plan(conn: &Connection, sql: &str) -> String {
    let mut plan = conn.prepare(&format!("explain query plan {sql}")).unwrap();
    for parameter in 1..=plan.parameter_count() {
        plan.raw_bind_parameter(parameter, 1).unwrap();
    }
    let mut rows = plan.raw_query();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        lines.push(row.get::<_, String>("detail").unwrap());
    }
    lines.join("\n")
}

#[test]
fn every_list_goes_down_the_index_that_the_page_names() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(SCHEMA).unwrap();
    for (sql, index) in [
        (include_str!("../sql/list_jobs.sql"), "SEARCH j USING INDEX sqlite_autoindex_turnwise_job_1 (id<?)"),
        (
            include_str!("../sql/list_history.sql"),
            "SEARCH turnwise_history USING INDEX sqlite_autoindex_turnwise_history_1 (id<?)",
        ),
        (
            include_str!("../sql/list_fingerprint.sql"),
            "SEARCH j USING INDEX turnwise_job_fingerprint (fingerprint=? AND id<?)",
        ),
        (
            include_str!("../sql/list_failed.sql"),
            "SEARCH turnwise_history USING INDEX turnwise_history_fingerprint (fingerprint=? AND id<?)",
        ),
        (include_str!("../sql/list_group.sql"), "SEARCH j USING INDEX turnwise_job_group (grp=? AND id<?)"),
        (
            include_str!("../sql/list_group_history.sql"),
            "SEARCH turnwise_history USING INDEX turnwise_history_group (grp=? AND state=? AND id<?)",
        ),
    ] {
        let plan = plan(&conn, sql);
        assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
    for index in
        ["turnwise_job_fingerprint", "turnwise_history_fingerprint", "turnwise_job_group", "turnwise_history_group"]
    {
        assert!(PAGE.contains(index), "docs/lists.md does not name {index}");
    }
}

/// 60,000 jobs of a loud group have not ended and 60,000 have; thirty of a quiet one are older, and twenty of these have ended.
const LOUD: &str = "
    create temporary table old as
    with recursive n (n) as (select 1 union all select n + 1 from n where n < 60030)
    select n, unhex(printf('%012x70008000000000000000', n)) as id, iif(n <= 30, 'quiet', 'loud') as grp from n;
    insert into turnwise_job (id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
                              cancel_requested, submitted_at)
    select id, 'mail', 'null', 'q', grp, 5, 'task', 0, 0, 0, 0, 0, 0, n from old where n <= 10 or n > 30;
    insert into turnwise_history (id, seq, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence,
                                  cancel_requested, submitted_at, ended_at)
    select iif(n > 30, unhex(printf('%012x70008000000000000001', n)), id), n, 'mail', 'null', 'q', grp, 5, 'task', 4 + n % 3, 1, 0, 0, 1,
           0, n, n
      from old where n > 10";

#[tokio::test]
async fn the_page_of_a_quiet_group_is_complete_and_costs_as_much_as_its_own_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let store = SqliteStore::open(&format!("sqlite:{}", path.display()), Default::default()).unwrap();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch(LOUD).unwrap();
    let quiet = ListFilter { groups: Some([GroupName::new("quiet").unwrap()].into()), ..ListFilter::default() };
    let failed = ListFilter { states: [JobState::Failed].into(), ..quiet.clone() };
    let queue = ListFilter { queues: Some(["q".parse().unwrap()].into()), ..quiet.clone() };
    for (filter, count) in [(quiet, 30), (failed, 6), (queue, 30)] {
        let page = store.list_jobs(AskJobs { filter, limit: 100, ..AskJobs::default() }).await.unwrap();
        assert_eq!((page.jobs.len(), page.next, page.reached), (count, None, None));
        assert!(page.jobs.is_sorted_by_key(|job| std::cmp::Reverse(job.id)));
    }
    // Steps of SQLite's machine: some dozens for each row that is shown, and for each of three states.
    for (sql, rows) in
        [(include_str!("../sql/list_group.sql"), 10), (include_str!("../sql/list_group_history.sql"), 20)]
    {
        let mut list = conn.prepare(sql).unwrap();
        let newest: &[u8] = &[0xff; 16];
        list.raw_bind_parameter(1, newest).unwrap();
        list.raw_bind_parameter(2, "quiet").unwrap();
        for state in 3..=list.parameter_count() {
            list.raw_bind_parameter(state, i64::try_from(state).unwrap() + 1).unwrap();
        }
        let mut found = list.raw_query();
        let mut count = 0;
        while found.next().unwrap().is_some() {
            count += 1;
        }
        drop(found);
        assert_eq!(count, rows, "{sql}");
        let steps = list.get_status(StatementStatus::VmStep);
        assert!(steps < 2_500, "{steps} steps\n{sql}");
    }
}
