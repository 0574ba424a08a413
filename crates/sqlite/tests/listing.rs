//! Lists find their jobs by the index that docs/lists.md names.

use rusqlite::Connection;
use turnwise_sqlite::{SCHEMA, rusqlite};

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
    ] {
        let plan = plan(&conn, sql);
        assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
    for index in ["turnwise_job_fingerprint", "turnwise_history_fingerprint"] {
        assert!(PAGE.contains(index), "docs/lists.md does not name {index}");
    }
}
