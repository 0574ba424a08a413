//! The schema: its steps lead where `schema.sql` says, and to nothing else.

use std::{collections::BTreeSet, thread};

use rusqlite::Connection;
use tempfile::TempDir;
use turnwise_sqlite::{
    SCHEMA, SqliteStore, migrate, migrate_check, migrate_print,
    rusqlite::{self, params},
    steps,
};
use turnwise_store::moving::{PARTS, Part};

fn file() -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db").to_str().unwrap().to_owned();
    (dir, path)
}

/// Kind, name and text of all there is, the text without white space: a column that a later step adds stands on no line
/// of its own.
fn objects(conn: &Connection) -> Vec<(String, String, Option<String>)> {
    let mut objects = conn.prepare("select type, name, sql from sqlite_master order by type, name").unwrap();
    let objects = objects.query_map((), |row| {
        let text: Option<String> = row.get(2)?;
        Ok((row.get(0)?, row.get(1)?, text.map(|text| text.split_whitespace().collect())))
    });
    objects.unwrap().collect::<Result<_, _>>().unwrap()
}

fn schema() -> Vec<(String, String, Option<String>)> {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(SCHEMA).unwrap();
    objects(&conn)
}

#[test]
fn the_steps_one_by_one_lead_to_the_schema() {
    let conn = Connection::open_in_memory().unwrap();
    for step in steps() {
        conn.execute_batch(step.sql).unwrap_or_else(|error| panic!("step {}: {error}", step.name));
    }
    assert_eq!(objects(&conn), schema());
}

#[test]
fn a_file_of_any_earlier_version_is_brought_up_to_date_with_its_jobs() {
    for done in 1..steps().len() {
        let (_dir, path) = file();
        let conn = Connection::open(&path).unwrap();
        for step in &steps()[..done] {
            conn.execute_batch(step.sql).unwrap();
            conn.execute(
                "insert into turnwise_migration (version, name, applied_at) values (?1, ?2, 0)",
                params![step.version, step.name],
            )
            .unwrap();
        }
        for table in ["job", "history"] {
            let columns = "seq, id, task, args, queue, grp, priority, retry, state, attempt, retries, crashes, fence, \
                           cancel_requested, submitted_at";
            let (state, more, ended) = if table == "job" { (0, "", "") } else { (4, ", ended_at", ", 1") };
            let sql = format!(
                "insert into turnwise_{table} ({columns}{more})
                 values (1, randomblob(16), 'ship', 'null', 'q', 'g', 5, 'none', {state}, 0, 0, 0, 0, 0, 0{ended})"
            );
            conn.execute_batch(&sql).unwrap();
        }
        let store = SqliteStore::open(&path, Default::default()).unwrap();
        assert_eq!(objects(&conn), schema());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let jobs = runtime.block_on(turnwise_store::Store::jobs(&store, Default::default())).unwrap();
        assert_eq!(jobs.iter().map(|job| &job.key).collect::<Vec<_>>(), [&None, &None]);
    }
}

#[test]
fn steps_are_numbered_from_one_without_a_gap() {
    assert!(steps().iter().map(|step| step.version).eq(1..=i64::try_from(steps().len()).unwrap()));
}

#[test]
fn an_opened_file_has_the_schema_and_nothing_is_pending() {
    let (_dir, path) = file();
    drop(SqliteStore::open(&path, Default::default()).unwrap());
    assert_eq!(objects(&Connection::open(&path).unwrap()), schema());
    assert_eq!(migrate_check(&path).unwrap(), []);
}

#[test]
fn a_check_returns_what_is_pending_and_makes_no_file() {
    let (_dir, path) = file();
    assert_eq!(migrate_check(&path).unwrap(), steps());
    assert!(!std::path::Path::new(&path).exists());
    assert_eq!(migrate(&path).unwrap(), steps());
    assert_eq!(migrate(&path).unwrap(), [], "the second time there is nothing to do");
    assert_eq!(migrate_check(&path).unwrap(), []);
}

#[test]
fn the_printed_script_leaves_nothing_pending() {
    let (_dir, path) = file();
    Connection::open(&path).unwrap().execute_batch(&migrate_print()).unwrap();
    assert_eq!(migrate_check(&path).unwrap(), []);
    assert_eq!(objects(&Connection::open(&path).unwrap()), schema());
}

#[test]
fn many_may_open_a_new_file_at_once() {
    let (_dir, path) = file();
    thread::scope(|scope| {
        let openers: Vec<_> = (0..8).map(|_| scope.spawn(|| SqliteStore::open(&path, Default::default()))).collect();
        for opener in openers {
            opener.join().unwrap().unwrap();
        }
    });
    assert_eq!(migrate_check(&path).unwrap(), []);
}

#[test]
fn an_applications_own_tables_are_left_alone() {
    let (_dir, path) = file();
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("create table job (what text); create table node (what text)").unwrap();
    conn.execute("insert into job values (?1)", params!["mine"]).unwrap();
    drop(SqliteStore::open(&path, Default::default()).unwrap());
    assert_eq!(conn.query_row("select what from job", (), |row| row.get::<_, String>(0)).unwrap(), "mine");
}

/// Tables that hold nothing of a database that another one could use: what is there as long as nodes are.
const STAYS: [&str; 12] = [
    "assignment",
    "change",
    "dispatcher",
    "lost_node",
    "migration",
    "move",
    "node",
    "origin",
    "statistics_writer",
    "stop_request",
    // They last for a quarter of an hour.
    "ticket",
    "totals",
];
/// What a job has only while a node has it.
const STAYING_COLUMNS: [(&str, &str); 3] = [("job", "node"), ("job", "node_name"), ("job", "result")];

#[test]
fn a_move_brings_every_column_or_it_is_known_why_not() {
    let conn = Connection::open_in_memory().unwrap();
    conn.execute_batch(SCHEMA).unwrap();
    let columns = "select substr(t.name, 10), c.name from sqlite_master t join pragma_table_info(t.name) c
                    where t.type = 'table' and t.name like 'turnwise_%'";
    let mut columns = conn.prepare(columns).unwrap();
    let columns = columns.query_map((), |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    let columns: BTreeSet<_> = columns.map(Result::unwrap).collect();
    let stays = |table: &str, column: &str| STAYS.contains(&table) || STAYING_COLUMNS.contains(&(table, column));
    let needed: BTreeSet<_> = columns.into_iter().filter(|(table, column)| !stays(table, column)).collect();
    let named = |part: &Part| part.columns.iter().map(|column| (part.name.to_owned(), column.name.to_owned()));
    assert_eq!(PARTS.iter().flat_map(named).collect::<BTreeSet<_>>(), needed);
}
