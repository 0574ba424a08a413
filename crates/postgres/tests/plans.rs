//! Statements look up each job of a list by its key, whatever the statistics say of the table.

mod database;

use database::{client, fresh_store, job};
use tokio_postgres::Client;
use turnwise_store::Store;

/// The statements that find jobs by a list of ids; the others are for people, or read whole tables.
const BY_LIST: [(&str, &str); 13] = [
    ("assign", include_str!("../sql/assign.sql")),
    ("assign_skip", include_str!("../sql/assign_skip.sql")),
    ("assignments", include_str!("../sql/assignments.sql")),
    ("awaits", include_str!("../sql/awaits.sql")),
    ("control_cancel", include_str!("../sql/control_cancel.sql")),
    ("control_edit", include_str!("../sql/control_edit.sql")),
    ("control_finish", include_str!("../sql/control_finish.sql")),
    ("control_stay", include_str!("../sql/control_stay.sql")),
    ("load_in_hands", include_str!("../sql/load_in_hands.sql")),
    ("settle_discard", include_str!("../sql/settle_discard.sql")),
    ("settle_finish", include_str!("../sql/settle_finish.sql")),
    ("settle_next", include_str!("../sql/settle_next.sql")),
    ("settle_stay", include_str!("../sql/settle_stay.sql")),
];

/// The settings of the store's connections.
const SETTINGS: &str = "set jit = off; set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off; \
                        set max_parallel_workers_per_gather = 0";

/// As the planner gets it: with values in place of the parameters.
fn with_values(statement: &str, ids: &str) -> String {
    let (mut text, mut rest) = (String::new(), statement);
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let number: String = rest[at + 1..].chars().take_while(char::is_ascii_digit).collect();
        rest = &rest[at + 1 + number.len()..];
        text.push_str(match (rest.starts_with("::uuid[]"), rest.starts_with("::"), number.as_str()) {
            (true, ..) => ids,
            (_, true, _) => "null",
            (.., "1") => "'00000000-0000-7000-8000-000000000001'::uuid",
            (.., "3") => "null",
            _ => "1",
        });
    }
    text + rest
}

#[tokio::test]
async fn a_table_that_was_empty_when_it_was_vacuumed_is_not_read_whole_for_a_list() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    app.batch_execute("alter table turnwise.job set (autovacuum_enabled = off)").await.unwrap();
    store.enqueue((1..=2_000).map(job).collect()).await.unwrap();
    app.batch_execute("delete from turnwise.job").await.unwrap();
    // As a vacuum that another process keeps from truncating the table.
    app.batch_execute("vacuum (truncate off, analyze) turnwise.job").await.unwrap();
    store.enqueue((1..=5_000).map(job).collect()).await.unwrap();
    let expected = "select reltuples::int from pg_class where oid = 'turnwise.job'::regclass";
    assert_eq!(app.query_one(expected, &[]).await.unwrap().get::<_, i32>(0), 0, "or this shows nothing");

    each_job_is_looked_up(&app).await;
}

/// Every first flood of a new installation is such a table, until it is vacuumed: a node asked for its jobs with parallel workers, or from
/// all jobs to the requests to stop, and each job waited 15 ms longer for its start.
#[tokio::test]
async fn a_table_that_was_flooded_and_never_vacuumed_is_not_read_whole_for_a_list() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    app.batch_execute("alter table turnwise.job set (autovacuum_enabled = off)").await.unwrap();
    for first in (1..=100_000).step_by(10_000) {
        store.enqueue((first..first + 10_000).map(job).collect()).await.unwrap();
    }
    app.batch_execute("delete from turnwise.job").await.unwrap();
    store.enqueue((100_001..=100_100).map(job).collect()).await.unwrap();
    each_job_is_looked_up(&app).await;
}

async fn each_job_is_looked_up(app: &Client) {
    app.batch_execute(SETTINGS).await.unwrap();
    let some = "select string_agg(id::text, ',') from (select id from turnwise.job limit 20) as few";
    let ids = format!("'{{{}}}'", app.query_one(some, &[]).await.unwrap().get::<_, String>(0));
    for (name, statement) in BY_LIST {
        let rows = app.query(&format!("explain {}", with_values(statement, &ids)), &[]).await;
        let rows = rows.unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let plan: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let by_key = |line: &str| line.contains("using job_pkey on job") || line.contains("Index Scan on job_pkey");
        let looks = plan.iter().zip(plan.iter().skip(1)).filter(|(line, _)| by_key(line));
        let conditions: Vec<_> = looks.map(|(_, condition)| condition.contains("Index Cond: (")).collect();
        let plan = plan.join("\n");
        assert!(!conditions.is_empty() && conditions.iter().all(|good| *good), "{name}:\n{plan}");
        assert!(!plan.contains("Gather") && !plan.contains("Seq Scan on job"), "{name}:\n{plan}");
    }
}
