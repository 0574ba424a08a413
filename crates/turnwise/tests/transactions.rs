//! Submitting in the caller's own transaction: commit and there it is, roll back and there is nothing.

use turnwise::{Filter, JobRequest, Turnwise};

async fn postgres() -> (String, Turnwise) {
    let url = turnwise_testpg::Cluster::shared().fresh_database().unwrap();
    let turnwise = Turnwise::open(&url).await.unwrap();
    (url, turnwise)
}

fn request(group: &str) -> JobRequest {
    JobRequest::from_json("mail", r#"{"to": 1.50}"#).group(group).after(std::time::Duration::from_secs(60))
}

async fn groups(turnwise: &Turnwise) -> Vec<String> {
    let mut groups: Vec<_> =
        turnwise.jobs(Filter::default()).await.unwrap().iter().map(|job| job.group.to_string()).collect();
    groups.sort();
    groups
}

#[tokio::test]
async fn in_a_tokio_postgres_transaction() {
    let (url, turnwise) = postgres().await;
    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let tx = client.transaction().await.unwrap();
    request("rolled back").enqueue_in_postgres(&tx).await.unwrap();
    tx.rollback().await.unwrap();
    let tx = client.transaction().await.unwrap();
    let id = request("committed").enqueue_in_postgres(&tx).await.unwrap();
    assert!(groups(&turnwise).await.is_empty(), "nobody sees it before the commit");
    tx.commit().await.unwrap();
    assert_eq!(groups(&turnwise).await, ["committed"]);
    let job = turnwise.job(id).await.unwrap();
    assert_eq!(job.args.as_str(), r#"{"to": 1.50}"#);
    assert!(job.due_at.unwrap() > job.submitted_at);
}

#[tokio::test]
async fn in_an_sqlx_transaction() {
    use sqlx::Connection;
    let (url, turnwise) = postgres().await;
    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    request("rolled back").enqueue_in_sqlx(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let id = request("committed").enqueue_in_sqlx(&mut tx).await.unwrap();
    assert!(groups(&turnwise).await.is_empty(), "nobody sees it before the commit");
    tx.commit().await.unwrap();
    assert_eq!(groups(&turnwise).await, ["committed"]);
    assert_eq!(turnwise.job(id).await.unwrap().args.as_str(), r#"{"to": 1.50}"#);
}

#[tokio::test]
async fn in_a_rusqlite_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let turnwise = Turnwise::open(&format!("sqlite:{}", path.display())).await.unwrap();
    let mut connection = turnwise::sqlite::rusqlite::Connection::open(&path).unwrap();
    let tx = connection.transaction().unwrap();
    request("rolled back").enqueue_in_sqlite(&tx).unwrap();
    tx.rollback().unwrap();
    let tx = connection.transaction().unwrap();
    request("committed").enqueue_in_sqlite(&tx).unwrap();
    assert!(groups(&turnwise).await.is_empty(), "nobody sees it before the commit");
    tx.commit().unwrap();
    assert_eq!(groups(&turnwise).await, ["committed"]);
}

#[tokio::test]
async fn by_the_sql_function_from_any_language() {
    let (url, turnwise) = postgres().await;
    let cluster = turnwise_testpg::Cluster::shared();
    let sql = r#"begin; select turnwise.enqueue('mail', '{"to": 1}'); rollback;
                 select turnwise.enqueue('mail', '{"to": 2}', "group" => 'acme', priority => 2);"#;
    cluster.psql(&url, sql).unwrap();
    let jobs = turnwise.jobs(Filter::default()).await.unwrap();
    assert_eq!(jobs.len(), 1);
    assert_eq!((jobs[0].group.as_str(), jobs[0].priority.get(), jobs[0].args.as_str()), ("acme", 2, r#"{"to": 2}"#));
    for wrong in ["priority => 11", r#""group" => ''"#, "retry => 'sometimes'"] {
        assert!(cluster.psql(&url, &format!("select turnwise.enqueue('mail', {wrong})")).is_err(), "{wrong}");
    }
}
