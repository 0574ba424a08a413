//! The message for a person when the file is not what it should be, and what a caller should do when it is busy.

use std::{fs, path::Path};

use rusqlite::Connection;
use turnwise_core::{JobId, Json, NewJob, TaskName};
use turnwise_sqlite::{SqliteStore, found_version, migrate_check, rusqlite};
use turnwise_store::{Store, StoreError};

fn refused(path: &Path) -> String {
    match SqliteStore::open(path.to_str().unwrap(), Default::default()) {
        Err(StoreError::Refused(text)) => text,
        other => panic!("{other:?}"),
    }
}

fn job(n: u64) -> NewJob {
    NewJob::new(JobId::from_parts(n, [0; 10]), TaskName::new("ship").unwrap(), Json::null())
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("letter.txt");
    let text = "Dear Sir or Madam, this is a letter. ".repeat(100);
    fs::write(&path, &text).unwrap();
    let error = refused(&path);
    assert!(error.contains("letter.txt") && error.contains("not a SQLite database"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_missing_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(&dir.path().join("nowhere/jobs.db"));
    assert!(error.contains("nowhere") && error.contains("does not exist"), "{error}");
}

#[test]
fn a_directory_is_not_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let error = refused(dir.path());
    assert!(error.contains("cannot be opened"), "{error}");
}

#[test]
fn a_newer_schema_is_refused_with_both_versions_if_it_declares_a_break() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let name = path.to_str().unwrap();
    drop(SqliteStore::open(name, Default::default()).unwrap());
    let conn = Connection::open(&path).unwrap();
    let known: i64 = conn.query_row("select max(version) from turnwise_migration", (), |row| row.get(0)).unwrap();
    let later = "alter table turnwise_job add column mood text not null default 'good';
                 insert into turnwise_migration (version, name, applied_at) values (998, 'of tomorrow', 0)";
    conn.execute_batch(later).unwrap();
    // It only added: it is used as it is.
    assert_eq!(migrate_check(name).unwrap(), []);
    drop(SqliteStore::connect(name, Default::default()).unwrap());
    assert_eq!(found_version(name).unwrap(), 998);
    let breaks =
        "insert into turnwise_migration (version, name, applied_at, breaks) values (999, 'the day after', 0, 1)";
    conn.execute_batch(breaks).unwrap();
    let error = refused(&path);
    for part in ["version 999", &format!("knows {known}"), "step 999", "run the turnwise that migrated it"] {
        assert!(error.contains(part), "{error}");
    }
    assert!(matches!(migrate_check(name), Err(StoreError::Refused(_))));
}

#[test]
fn half_a_schema_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let conn = Connection::open(&path).unwrap();
    conn.execute_batch("create table turnwise_node (what text)").unwrap();
    let error = refused(&path);
    assert!(error.contains("step 1") && error.contains("turnwise_node"), "{error}");
    let tables: i64 = conn.query_row("select count(*) from sqlite_master", (), |row| row.get(0)).unwrap();
    assert_eq!(tables, 1, "the step was taken back as a whole");
}

#[tokio::test]
async fn a_file_that_is_held_too_long_is_a_reason_to_try_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let url = format!("sqlite:{}?busy_timeout=1ms", path.display());
    let store = SqliteStore::open(&url, Default::default()).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let error = store.enqueue(vec![job(1)]).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("holds the database"), "{error}");
    assert_eq!(store.job(job(1).id).await.unwrap(), None, "reads do not wait");
    let second = SqliteStore::open(&url, Default::default()).unwrap();
    assert_eq!(second.job(job(1).id).await.unwrap(), None, "nor does opening");
    other.execute_batch("commit").unwrap();
    assert!(store.enqueue(vec![job(1)]).await.unwrap()[0].new);
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_acknowledged_into_a_file_that_was_deleted_or_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let url = path.to_str().unwrap();
    let store = SqliteStore::open(url, Default::default()).unwrap();
    store.enqueue(vec![job(1)]).await.unwrap();
    let refused = |answer: turnwise_store::Result<_>| match answer {
        Err(StoreError::Refused(text)) => text,
        other => panic!("{other:?}"),
    };
    for file in fs::read_dir(dir.path()).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    let error = refused(store.enqueue(vec![job(2)]).await);
    assert!(error.contains("jobs.db") && error.contains("deleted"), "{error}");
    // Another process comes and makes a new one.
    let new = SqliteStore::open(url, Default::default()).unwrap();
    new.enqueue(vec![job(3)]).await.unwrap();
    let error = refused(store.enqueue(vec![job(4)]).await);
    assert!(error.contains("jobs.db") && error.contains("replaced"), "{error}");
    let there: Vec<JobId> = new.jobs(Default::default()).await.unwrap().into_iter().map(|job| job.id).collect();
    assert_eq!(there, [job(3).id]);
}

#[tokio::test]
async fn a_file_that_was_moved_away_is_written_to_again_once_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let (path, away) = (dir.path().join("jobs.db"), dir.path().join("away.db"));
    let store = SqliteStore::open(path.to_str().unwrap(), Default::default()).unwrap();
    fs::rename(&path, &away).unwrap();
    #[cfg(unix)]
    assert!(matches!(store.enqueue(vec![job(1)]).await, Err(StoreError::Refused(_))));
    fs::rename(&away, &path).unwrap();
    store.enqueue(vec![job(1)]).await.unwrap();
    assert!(store.job(job(1).id).await.unwrap().is_some());
}
