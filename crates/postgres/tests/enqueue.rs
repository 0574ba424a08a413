//! Submitting in the caller's own transaction, and from any language.

mod database;

use database::{client, fresh_store, id, job};
use turnwise_core::{JobId, State};
use turnwise_postgres::enqueue_in;
use turnwise_store::{Enqueued, Filter, Store, StoreError};
use uuid::Uuid;

#[tokio::test]
async fn a_rolled_back_transaction_leaves_no_job() {
    let (store, url) = fresh_store().await;
    let mut app = client(&url).await;
    let transaction = app.transaction().await.unwrap();
    assert_eq!(enqueue_in(&transaction, &[job(1)]).await.unwrap(), [Enqueued { id: id(1), new: true }]);
    transaction.rollback().await.unwrap();
    assert_eq!(store.job(id(1)).await.unwrap(), None);
}

#[tokio::test]
async fn a_job_exists_together_with_the_writes_of_its_transaction() {
    let (store, url) = fresh_store().await;
    let mut app = client(&url).await;
    app.batch_execute("create table bill (id int)").await.unwrap();
    let transaction = app.transaction().await.unwrap();
    transaction.batch_execute("insert into bill values (1)").await.unwrap();
    enqueue_in(&transaction, &[job(1), job(2), job(1)]).await.unwrap();
    assert_eq!(store.job(id(1)).await.unwrap(), None);
    transaction.commit().await.unwrap();
    assert_eq!(store.jobs(Filter::default()).await.unwrap().len(), 2);
    let again = enqueue_in(&app, &[job(2), job(3)]).await.unwrap();
    assert_eq!(again.iter().map(|reply| reply.new).collect::<Vec<_>>(), [false, true]);
}

#[tokio::test]
async fn the_sql_function_submits_with_named_parameters() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    let sql = r#"select turnwise.enqueue('mail', '{"to": 1.50}', "group" => 'acme', priority => 2, retry => 'none')"#;
    let first = JobId(app.query_one(sql, &[]).await.unwrap().get::<_, Uuid>(0));
    let second = JobId(app.query_one("select turnwise.enqueue('report')", &[]).await.unwrap().get::<_, Uuid>(0));
    assert!(first < second, "ids sort by time");
    assert_eq!(first.0.get_version_num(), 7);
    let job = store.job(first).await.unwrap().unwrap();
    assert_eq!((job.task.as_str(), job.group.as_str(), job.queue.as_str()), ("mail", "acme", "default"));
    assert_eq!((job.args.as_str(), job.priority.get(), job.retry.to_string().as_str()), (r#"{"to": 1.50}"#, 2, "none"));
    assert_eq!((job.state, job.due_at), (State::Waiting, Some(job.submitted_at)));
    let plain = store.job(second).await.unwrap().unwrap();
    assert_eq!((plain.args.as_str(), plain.retry), ("null", turnwise_core::RetryPolicy::default()));
}

#[tokio::test]
async fn the_sql_function_refuses_what_no_node_could_read() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    for bad in [
        "turnwise.enqueue('')",
        "turnwise.enqueue('mail', priority => 11)",
        "turnwise.enqueue('mail', priority => 0)",
        "turnwise.enqueue('mail', \"group\" => '')",
        "turnwise.enqueue('mail', queue => repeat('x', 201))",
        "turnwise.enqueue('mail', retry => 'sometimes')",
    ] {
        let error = app.query_one(&format!("select {bad}"), &[]).await.expect_err(bad);
        assert_eq!(error.code().map(|code| code.code()), Some("23514"), "{bad}");
    }
    assert_eq!(store.jobs(Filter::default()).await.unwrap(), []);
}

#[tokio::test]
async fn more_jobs_than_one_statement_takes_are_one_transaction() {
    let (store, _) = fresh_store().await;
    let jobs: Vec<_> = (0..20_001).map(job).collect();
    let replies = store.enqueue(jobs).await.unwrap();
    assert!(replies.len() == 20_001 && replies.iter().all(|reply| reply.new));
    let last = store.jobs(Filter { limit: Some(1), ..Filter::default() }).await.unwrap();
    assert_eq!(last[0].id, id(20_000));
}

#[tokio::test]
async fn a_database_that_is_not_there_is_refused_by_name() {
    let url = database::fresh_url() + "_gone";
    let error = turnwise_postgres::PostgresStore::open(&url, Default::default()).await.expect_err("no such database");
    assert!(matches!(&error, StoreError::Refused(text) if text.contains("does not exist")), "{error}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_transient() {
    // Port 1 is nobody's.
    let error = turnwise_postgres::PostgresStore::open("postgres://postgres@127.0.0.1:1/x", Default::default()).await;
    assert!(error.expect_err("nobody listens").is_transient());
}
