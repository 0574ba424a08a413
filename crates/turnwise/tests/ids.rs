//! Ids that the library makes are never refused, however wrong this machine's clock is; ids that a caller chose may be.

use std::time::Duration;

use turnwise::{JobId, JobRequest, Registry, Timestamp, Turnwise, testing::Kit};
use turnwise_testpg::Cluster;

const HOUR: Duration = Duration::from_secs(3600);

fn request() -> JobRequest {
    JobRequest::from_json("mail", "{}")
}

fn time_of(id: JobId) -> Timestamp {
    Timestamp::from_micros(i64::try_from(id.unix_millis()).unwrap() * 1_000)
}

/// A database whose clock is an hour behind this machine's.
async fn behind() -> (String, tokio_postgres::Client) {
    let url = Cluster::shared().fresh_database().unwrap();
    turnwise_postgres::migrate(&url).await.unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    for name in ["now() returns timestamptz language sql stable", "clock() returns timestamptz language sql volatile"] {
        let sql =
            format!("create or replace function turnwise.{name} as $$ select pg_catalog.now() - interval '1 hour' $$");
        client.batch_execute(&sql).await.unwrap();
    }
    (url, client)
}

/// One test: what a process knows of the time is the same for all of its threads.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_ahead_of_the_database_refuses_no_id_of_the_librarys_own() {
    let (url, mut client) = behind().await;
    let turnwise = Turnwise::open(&url).await.unwrap();
    let (early, waits) = (request(), request());
    let shown = early.job_id().unwrap();
    let requests = [early.clone(), waits.after_all([&early])];
    let ids = turnwise.submit_all(requests).await.unwrap();
    let now = turnwise.now().await.unwrap();
    assert!(ids[0] != shown && ids.iter().all(|id| !id.is_ahead(now)), "they are of the database's time: {ids:?}");
    assert!(ids[0] < ids[1], "in the order they were given");
    let story = turnwise.story(ids[1], 1).await.unwrap();
    assert_eq!(story.after.ids(), [ids[0]], "it waits for the job under its other id");

    // From now on the time is known: requests get ids of it at once, and keep them.
    let request_now = request();
    let shown = request_now.job_id().unwrap();
    assert!(now.since(time_of(shown)) < Duration::from_secs(60) && !shown.is_ahead(now), "{shown}");
    assert_eq!(turnwise.submit(request_now).await.unwrap(), shown);
    let transaction = client.transaction().await.unwrap();
    let id = request().submit_in_postgres(&transaction).await.unwrap();
    transaction.commit().await.unwrap();
    assert!(!id.is_ahead(now.plus(Duration::from_secs(1))));

    let given = JobId::from_parts(u64::try_from(now.plus(HOUR).micros() / 1_000).unwrap(), [7; 10]);
    let refused = turnwise.submit(request().id(given)).await.unwrap_err().to_string();
    assert!(refused.starts_with("id: is more than a minute ahead of the database's time"), "{refused}");
}

#[tokio::test]
async fn an_id_that_is_no_uuid_of_version_seven_is_refused_before_anything_is_asked() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let odd: JobId = "12345678-9abc-4def-8123-456789abcdef".parse().unwrap();
    let refused = turnwise.submit(request().id(odd)).await.unwrap_err();
    assert!(matches!(&refused, turnwise::Error::Invalid(invalid) if invalid.field == "id"), "{refused:?}");
}

#[tokio::test]
async fn a_kit_whose_time_is_set_back_takes_jobs() {
    let kit = Kit::new(Registry::new()).await.unwrap();
    kit.set_time(kit.now().minus(HOUR * 24 * 365));
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(kit.turnwise().submit(request()).await.unwrap());
    }
    assert!(ids.is_sorted() && ids.iter().all(|id| !id.is_ahead(kit.now())), "{ids:?}");
    let now = time_of(request().job_id().unwrap());
    assert!(now.since(kit.now()) > HOUR, "other handles of the process know nothing of it");
}
