//! What operators need, while others' transactions are open.

mod database;

use std::time::Duration;

use database::{client, fresh_store, job};
use turnwise_core::OnceKey;
use turnwise_postgres::PostgresStore;
use turnwise_store::{BodyHash, Filter, Once, OperatorStore, Store, SubmitOnce, Submitted};
use turnwise_testpg::Pace;

fn call(n: u64, body: u8) -> SubmitOnce {
    let key = OnceKey::new("k").expect("a good key");
    SubmitOnce { caller: None, key, body: BodyHash([body; 32]), jobs: vec![job(n)], line: None }
}

fn submitted(n: u64) -> Vec<Submitted> {
    vec![Submitted::itself(job(n).id, true)]
}

async fn stored(store: &PostgresStore) -> usize {
    store.jobs(Filter::default()).await.unwrap().len()
}

/// As another server leaves it that has not committed.
const TAKE: &str = "insert into turnwise.once (caller, key, body, answers)
                    values ('00000000-0000-0000-0000-000000000000', 'k', $1, '')";

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_an_open_transaction_takes_is_under_way_and_soon_said_so() {
    let (store, url) = fresh_store().await;
    let mut other = client(&url).await;
    let transaction = other.transaction().await.unwrap();
    transaction.execute(TAKE, &[&[1_u8; 32].as_slice()]).await.unwrap();
    let asked = Pace::start();
    assert_eq!(store.submit_once(call(1, 1)).await.unwrap(), Once::UnderWay);
    // Between the patience that is promised and that of any other submit, which waits for ten seconds.
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    assert_eq!(stored(&store).await, 0);
    transaction.rollback().await.unwrap();
    assert_eq!(store.submit_once(call(1, 1)).await.unwrap(), Once::Submitted(submitted(1)));
    assert_eq!(stored(&store).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_another_gets_its_answer_when_that_commits() {
    let (store, url) = fresh_store().await;
    let mut other = client(&url).await;
    let transaction = other.transaction().await.unwrap();
    transaction.execute(TAKE, &[&[1_u8; 32].as_slice()]).await.unwrap();
    let waiting = |body| {
        let store = store.clone();
        tokio::spawn(async move {
            loop {
                match store.submit_once(call(1, body)).await.unwrap() {
                    Once::UnderWay => {}
                    answer => return answer,
                }
            }
        })
    };
    let (same, another) = (waiting(1), waiting(2));
    let watcher = client(&url).await;
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while watcher.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) < 2 {
        tokio::task::yield_now().await;
    }
    transaction.commit().await.unwrap();
    assert_eq!(same.await.unwrap(), Once::Again(vec![]), "what the other was answered");
    assert_eq!(another.await.unwrap(), Once::OtherBody);
    assert_eq!(stored(&store).await, 0, "neither of them submits");
}
