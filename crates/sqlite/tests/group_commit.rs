//! Many callers, few commits; and no caller fails because of another.

use std::time::Duration;

use rusqlite::Connection;
use tempfile::TempDir;
use turnwise_core::{Incarnation, JobId, Json, NewJob, TaskName};
use turnwise_sqlite::{SqliteStore, rusqlite};
use turnwise_store::{Assign, BatchId, Epoch, Filter, Store, StoreError};
use uuid::Uuid;

fn file() -> (TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db").to_str().unwrap().to_owned();
    (dir, path)
}

fn job(n: u64) -> NewJob {
    NewJob::new(JobId::from_parts(n, [0; 10]), TaskName::new("ship").unwrap(), Json::null())
}

async fn count(store: &SqliteStore) -> usize {
    store.jobs(Filter { limit: Some(10_000), ..Filter::default() }).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_is_there() {
    let (_dir, path) = file();
    let stores = [(); 2].map(|()| SqliteStore::open(&path, Default::default()).unwrap());
    let callers: Vec<_> = (0..1_000)
        .map(|n| {
            let (store, other) = (stores[0].clone(), stores[1].clone());
            tokio::spawn(async move {
                let writer = if n % 2 == 0 { &store } else { &other };
                assert!(writer.enqueue(vec![job(n)]).await.unwrap()[0].new);
                // Seen by the other process too, at once: the answer came after the commit.
                assert!(other.job(job(n).id).await.unwrap().is_some() && store.job(job(n).id).await.unwrap().is_some());
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(count(&stores[0]).await, 1_000);
}

#[tokio::test]
async fn a_failing_request_does_not_harm_its_neighbours() {
    let (_dir, path) = file();
    let store = SqliteStore::open(&path, Default::default()).unwrap();
    let unknown = Incarnation(Uuid::nil());
    let assign = Assign { holder: unknown, epoch: Epoch(7), batch: BatchId(Uuid::nil()), picks: vec![] };
    // Another connection holds the file while the requests queue up behind the first; they then share a commit.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let (first, before, failed, after, ()) = tokio::join!(
        store.enqueue(vec![job(1)]),
        store.enqueue(vec![job(2)]),
        store.assign(assign),
        store.enqueue(vec![job(3), job(2)]),
        async { other.execute_batch("commit").unwrap() },
    );
    assert!(matches!(failed, Err(StoreError::NotLeading)));
    assert!(first.unwrap()[0].new && before.unwrap()[0].new);
    assert_eq!(after.unwrap().iter().map(|enqueued| enqueued.new).collect::<Vec<_>>(), [true, false]);
    assert_eq!(count(&store).await, 3);
}

#[tokio::test]
async fn a_caller_that_goes_away_harms_no_other() {
    let (_dir, path) = file();
    let store = SqliteStore::open(&path, Default::default()).unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("begin immediate").unwrap();
    let impatient = tokio::time::timeout(Duration::ZERO, store.enqueue(vec![job(1)]));
    assert!(impatient.await.is_err(), "the file is held");
    other.execute_batch("commit").unwrap();
    store.enqueue(vec![job(2)]).await.unwrap();
    assert_eq!(count(&store).await, 2, "the first was under way, and is safe to repeat");
}

#[tokio::test]
async fn the_file_is_closed_when_the_last_handle_is_dropped() {
    let (_dir, path) = file();
    let store = SqliteStore::open(&path, Default::default()).unwrap();
    let clone = store.clone();
    store.enqueue(vec![job(1)]).await.unwrap();
    drop(store);
    clone.enqueue(vec![job(2)]).await.unwrap();
    let wal = format!("{path}-wal");
    assert!(std::fs::exists(&wal).unwrap());
    drop(clone);
    // SQLite removes it with the last connection: all four threads have ended.
    assert!(!std::fs::exists(&wal).unwrap());
}

#[tokio::test]
async fn jobs_in_memory_end_with_the_store() {
    let store = SqliteStore::open("sqlite::memory:", Default::default()).unwrap();
    store.enqueue(vec![job(1)]).await.unwrap();
    assert_eq!(count(&store.clone()).await, 1);
    let another = SqliteStore::open("sqlite::memory:", Default::default()).unwrap();
    assert_eq!(count(&another).await, 0);
}
