//! Other programs open the file beside a store, and close it: what the store has in hand stays in the file.

use std::{
    env, fs,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use rusqlite::Connection;
use turnwise_core::{JobId, Json, NewJob, TaskName};
use turnwise_sqlite::{SqliteStore, rusqlite};
use turnwise_store::{Options, Schema, Store, StoreError};

/// Names the file to the process that is another program.
const FILE: &str = "TURNWISE_TEST_FILE_OF_ANOTHER_PROGRAM";

/// Not a test of its own: as another process, it reads the file and closes it.
#[test]
fn as_another_program() {
    let Some(file) = env::var_os(FILE) else { return };
    let conn = Connection::open(file).unwrap();
    conn.query_row("select count(*) from turnwise_job", (), |_| Ok(())).unwrap();
    conn.close().unwrap();
}

/// What any program with SQLite does that looks into the file once.
fn another_program_looks(file: &Path) {
    let mut program = Command::new(env::current_exe().unwrap());
    let output = program.args(["--exact", "as_another_program"]).env(FILE, file).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn open(file: &Path) -> SqliteStore {
    SqliteStore::open(file.to_str().unwrap(), Options::default()).unwrap()
}

fn as_it_is(file: &Path) -> SqliteStore {
    SqliteStore::connect(file.to_str().unwrap(), Options { schema: Schema::Existing, ..Options::default() }).unwrap()
}

/// Whether this process holds SQLite's lock on the file, which tells other programs that it is in use. Without it, a program with a SQLite
/// before 3.51 deletes the log when it closes the file; the SQLite of this test would not.
fn is_locked(file: &Path) -> bool {
    let (this, file) = (std::process::id().to_string(), format!(":{}", fs::metadata(file).unwrap().ino()));
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "POSIX", _, _, process, place, ..] => process == this && place.ends_with(&file),
        _ => false,
    })
}

fn log(file: &Path) -> PathBuf {
    format!("{}-wal", file.display()).into()
}

fn job(n: u64) -> NewJob {
    NewJob::new(JobId::from_parts(n, [0; 10]), TaskName::new("ship").unwrap(), Json::null())
}

fn jobs_in(file: &Path) -> i64 {
    let conn = Connection::open(file).unwrap();
    conn.query_row("select count(*) from turnwise_job", (), |row| row.get(0)).unwrap()
}

/// A store writes, another program looks, and so on; then everything is closed and counted.
async fn nothing_is_lost(file: &Path, seen_by_others: &Path, stores: Vec<SqliteStore>) {
    let mut submitted = 0;
    stores[0].enqueue(vec![job(0)]).await.unwrap();
    let inode = fs::metadata(log(file)).unwrap().ino();
    for _ in 0..2 {
        for store in &stores {
            submitted += 1;
            store.enqueue(vec![job(submitted)]).await.unwrap();
            assert!(is_locked(file), "another program would take the file for unused");
            another_program_looks(seen_by_others);
            assert_eq!(fs::metadata(log(file)).map(|log| log.ino()).ok(), Some(inode), "the log was deleted");
        }
    }
    drop(stores);
    assert_eq!(jobs_in(file), i64::try_from(submitted).unwrap() + 1);
}

#[tokio::test]
async fn a_program_that_looks_at_the_file_beside_a_store_takes_nothing_away() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jobs.db");
    nothing_is_lost(&file, &file, vec![open(&file)]).await;
}

#[tokio::test]
async fn of_several_handles_in_a_process_none_takes_the_others_locks() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("jobs.db");
    let first = open(&file);
    // One that has gone again, and some that are opened as commands open a file.
    drop(as_it_is(&file));
    nothing_is_lost(&file, &file, vec![first, as_it_is(&file), open(&file), as_it_is(&file)]).await;
}

#[tokio::test]
async fn a_link_to_the_file_is_the_file() {
    let [dir, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let (file, link) = (dir.path().join("jobs.db"), other.path().join("link.db"));
    symlink(&file, &link).unwrap();
    nothing_is_lost(&file, &link, vec![open(&link), as_it_is(&link)]).await;
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1, "something lies beside the link");
}

#[tokio::test]
async fn a_copy_that_sqlite_makes_while_a_store_writes_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (file, copy) = (dir.path().join("jobs.db"), dir.path().join("copy.db"));
    let store = open(&file);
    store.enqueue(vec![job(1)]).await.unwrap();
    let conn = Connection::open(&file).unwrap();
    conn.execute("vacuum into ?1", [copy.to_str().unwrap()]).unwrap();
    store.enqueue(vec![job(2)]).await.unwrap();
    drop((store, conn));
    assert_eq!((jobs_in(&copy), jobs_in(&file)), (1, 2));
}

#[tokio::test]
async fn nothing_is_written_into_a_log_that_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    for (name, open) in [("a.db", open as fn(&Path) -> SqliteStore), ("b.db", as_it_is)] {
        let file = dir.path().join(name);
        drop(self::open(&file));
        let store = open(&file);
        store.enqueue(vec![job(1)]).await.unwrap();
        // The program that the store is a part of reads the file by other means than SQLite, and another one looks, with an old SQLite.
        fs::read(&file).unwrap();
        assert!(!is_locked(&file), "it is not needed any more that only SQLite opens the file");
        Connection::open(&file).unwrap().execute_batch("pragma wal_checkpoint").unwrap();
        fs::remove_file(log(&file)).unwrap();
        refuses(&store, "was deleted").await;
        // Also when another log was begun in its place.
        fs::write(log(&file), "").unwrap();
        refuses(&store, "was replaced").await;
        drop(store);
        assert_eq!(jobs_in(&file), 1, "what was answered as done is there");
    }
}

async fn refuses(store: &SqliteStore, problem: &str) {
    match store.enqueue(vec![job(2)]).await {
        Err(StoreError::Refused(text)) => assert!(text.contains("the log") && text.contains(problem), "{text}"),
        other => panic!("{other:?}"),
    }
}
