//! An id that was acknowledged is stored once, whatever moment its repeat comes at.

mod database;

use std::time::{Duration, Instant};

use database::{client, fresh_store, id, job, lead, node};
use tokio_postgres::Client;
use turnwise_core::{
    Fence, NewJob, RetryPolicy,
    lifecycle::{self, Event, JobFacts, Outcome},
    scheduler::Pick,
};
use turnwise_postgres::{PostgresStore, enqueue_in};
use turnwise_store::{Assign, Author, BatchId, Settle, Settled, Settlement, Store, StoreError, Submitted};
use uuid::Uuid;

/// A transaction that deletes a job waits before its commit while the returned client holds the lock.
async fn hold_settles(url: &str) -> Client {
    let app = client(url).await;
    app.batch_execute(
        "create function hold() returns trigger language plpgsql set lock_timeout = 0
             as 'begin perform pg_advisory_xact_lock_shared(7); return null; end';
         create constraint trigger hold after delete on turnwise.job deferrable initially deferred
             for each row execute function hold();
         select pg_advisory_lock(7)",
    )
    .await
    .unwrap();
    app
}

/// Waits until so many backends wait for a lock.
async fn blocked(app: &Client, count: i64) {
    let begun = Instant::now();
    let sql = "select count(*) from pg_stat_activity
                where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0";
    while app.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) < count {
        assert!(begun.elapsed() < Duration::from_secs(20), "no backend waits");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn run(store: &PostgresStore, jobs: &[NewJob]) -> Settle {
    let epoch = lead(store, node(1), "alpha").await;
    let pick = |job: &NewJob| Pick { job: job.id, fence: Fence(0), node: node(1), limited: false };
    let batch = BatchId(Uuid::from_u128(1));
    store.assign(Assign { holder: node(1), epoch, batch, picks: jobs.iter().map(pick).collect() }).await.unwrap();
    let mut settlements = Vec::new();
    for one in jobs {
        let now = store.job(one.id).await.unwrap().unwrap();
        let facts = JobFacts {
            state: now.state,
            counts: now.counts,
            retry: now.retry.as_ref().unwrap_or(&RetryPolicy::DEFAULT),
            terms: &now.terms,
            cancel_requested: false,
            fence: now.fence,
            begun: false,
        };
        let to =
            lifecycle::decide(&facts, &Event::Ended(Outcome::Done { result: None }), now.submitted_at, 0.0).unwrap();
        settlements.push(Settlement {
            job: one.id,
            fence: Fence(1),
            saw_cancel: false,
            to,
            noted: false,
            started_at: None,
            finished_at: None,
        });
    }
    Settle { author: Author::Node { node: node(1), told: None }, settlements, done: vec![batch] }
}

/// Rows of unfinished jobs, and of finished ones.
async fn rows(app: &Client) -> (i64, i64) {
    let sql = "select (select count(*) from turnwise.job), (select count(*) from turnwise.history)";
    let row = app.query_one(sql, &[]).await.unwrap();
    (row.get(0), row.get(1))
}

/// The client's own repeat: the reply was lost, or the connection.
async fn submit_again(store: &PostgresStore, jobs: &[NewJob]) -> Vec<Submitted> {
    loop {
        match store.enqueue(jobs.to_vec()).await {
            Err(StoreError::Transient { .. }) => {}
            replies => break replies.unwrap(),
        }
    }
}

async fn repeat_meets_the_settle(count: u64) {
    let (store, url) = fresh_store().await;
    let jobs: Vec<NewJob> = (1..=count).map(job).collect();
    store.enqueue(jobs.clone()).await.unwrap();
    let settle = run(&store, &jobs).await;
    let app = hold_settles(&url).await;
    let settling = tokio::spawn({
        let store = store.clone();
        async move { store.settle(settle).await }
    });
    blocked(&app, 1).await;
    let submitting = tokio::spawn({
        let (store, jobs) = (store.clone(), jobs.clone());
        async move { submit_again(&store, &jobs).await }
    });
    blocked(&app, 2).await;
    app.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
    assert!(settling.await.unwrap().unwrap().iter().all(|reply| *reply == Settled::Applied));
    let replies = submitting.await.unwrap();
    assert!(replies.iter().all(|reply| !reply.new), "{replies:?}");
    assert_eq!(rows(&app).await, (0, i64::try_from(count).unwrap()), "unfinished and finished");
}

#[tokio::test]
async fn a_submit_that_is_repeated_while_its_job_is_settled_is_recognised() {
    repeat_meets_the_settle(1).await;
}

#[tokio::test]
async fn a_long_list_that_is_repeated_while_its_jobs_are_settled_is_recognised() {
    repeat_meets_the_settle(300).await;
}

#[tokio::test]
async fn in_the_callers_transaction_a_repeat_is_recognised_too() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![job(1)]).await.unwrap();
    let settle = run(&store, &[job(1)]).await;
    let app = hold_settles(&url).await;
    let settling = tokio::spawn({
        let store = store.clone();
        async move { store.settle(settle).await }
    });
    blocked(&app, 1).await;
    let mut caller = client(&url).await;
    let submitting = tokio::spawn(async move {
        let transaction = caller.transaction().await.unwrap();
        let replies = enqueue_in(&transaction, &[job(1), job(2)]).await.unwrap();
        transaction.commit().await.unwrap();
        replies
    });
    blocked(&app, 2).await;
    app.batch_execute("select pg_advisory_unlock(7)").await.unwrap();
    settling.await.unwrap().unwrap();
    assert_eq!(submitting.await.unwrap(), [Submitted::itself(id(1), false), Submitted::itself(id(2), true)]);
    assert_eq!(rows(&app).await, (1, 1));
}
