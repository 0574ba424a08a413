//! Who is ended when nobody has heard what became of a task's transaction.

mod database;

use database::{client, fresh_url};

const STATUS: &str = include_str!("../sql/closing_status.sql");

/// Asks for a transaction as the node `asks` does, when `runs` has one open under its number.
async fn ended(runs: &str, asks: &str, another_backend: i32) -> i64 {
    let url = fresh_url();
    let (running, asking) = (client(&url).await, client(&url).await);
    running.batch_execute(&format!("set application_name = '{runs}'; begin")).await.unwrap();
    let row = running.query_one("select pg_current_xact_id()::text, pg_backend_pid()", &[]).await.unwrap();
    let (xact, backend): (String, i32) = (row.get(0), row.get(1));
    let row = asking.query_one(STATUS, &[&xact, &(backend + another_backend), &asks]).await.unwrap();
    assert_eq!(row.get::<_, Option<&str>>(0), Some("in progress"));
    row.get(1)
}

#[tokio::test]
async fn only_the_connection_that_a_commit_was_sent_on_is_ended() {
    assert_eq!(ended("turnwise task 1", "turnwise task 1", 0).await, 1);
    // After a failover the number may be anybody's.
    assert_eq!(ended("a shop", "turnwise task 1", 0).await, 0);
    assert_eq!(ended("turnwise task 2", "turnwise task 1", 0).await, 0);
    assert_eq!(ended("turnwise task 1", "turnwise task 1", 1).await, 0);
}
