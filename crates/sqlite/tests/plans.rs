//! Every statement finds its rows by an index: a table of a million jobs must not be read for one of them.

use std::{fs, path::Path};

use rusqlite::Connection;
use turnwise_sqlite::{SCHEMA, rusqlite};

/// How SQLite would go about it.
fn plan(conn: &Connection, sql: &str) -> Vec<String> {
    let mut plan = conn.prepare(&format!("explain query plan {sql}")).unwrap();
    // The values do not matter to the plan.
    for parameter in 1..=plan.parameter_count() {
        plan.raw_bind_parameter(parameter, 1).unwrap();
    }
    let mut rows = plan.raw_query();
    let mut lines = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        lines.push(row.get("detail").unwrap());
    }
    lines
}

#[test]
fn no_statement_reads_all_jobs_or_sorts_them() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(SCHEMA).unwrap();
    let mut checked = 0;
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")).unwrap() {
        let path = file.unwrap().path();
        for step in plan(&conn, &fs::read_to_string(&path).unwrap()) {
            checked += 1;
            assert!(!step.contains("TEMP B-TREE"), "{}: {step}", path.display());
            // A listing goes backwards through all ids until it has enough. What nodes hold is asked when one leaves, is lost or
            // learns of another lineage, and once in a move: an index for that would be written twice for each job.
            let whole = ["jobs.sql", "lost_jobs.sql", "load_held_by.sql", "leave_holds.sql", "move_in_hands.sql"]
                .iter()
                .any(|file| path.ends_with(file));
            let all = step.starts_with("SCAN") && !whole;
            let large = [
                "turnwise_job",
                "turnwise_history",
                "turnwise_change",
                "turnwise_assignment",
                "turnwise_stop_request",
                "turnwise_memo",
                "turnwise_attempt",
                "turnwise_log",
                "turnwise_step",
                "turnwise_progress",
                "turnwise_unique_key",
                "turnwise_once",
                "turnwise_audit",
                "turnwise_statistics",
                "turnwise_statistics_error",
            ];
            assert!(!all || !step.split_whitespace().any(|word| large.contains(&word)), "{}: {step}", path.display());
        }
    }
    assert!(checked > 55, "only {checked} steps were looked at");
}
