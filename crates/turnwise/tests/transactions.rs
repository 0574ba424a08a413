//! Submitting in the caller's own transaction: commit and there it is, roll back and there is nothing.

mod schema;
use std::time::{Duration, Instant};

use turnwise::{
    Error, Filter, JobRequest, OnFailure, StoreError, Turnwise,
    store::{MemoKind, NewMemo},
};
use turnwise_testpg::Pace;

async fn postgres() -> (String, Turnwise) {
    let url = turnwise_testpg::Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    (url, turnwise)
}

fn request(group: &str) -> JobRequest {
    JobRequest::from_json("mail", r#"{"to": 1.50}"#).group(group).key("db").delay(std::time::Duration::from_secs(60))
}

fn key(job: &turnwise::Job) -> Option<&str> {
    job.key.as_ref().map(turnwise::KeyName::as_str)
}

async fn groups(turnwise: &Turnwise) -> Vec<String> {
    let mut groups: Vec<_> =
        turnwise.jobs(Filter::default()).await.unwrap().iter().map(|job| job.group.to_string()).collect();
    groups.sort();
    groups
}

const SENTENCE: &str = r#"group "acme" has 1000 waiting jobs, its limit"#;

async fn fill(turnwise: &Turnwise) {
    let (name, value) = ("acme".to_owned(), Some(SENTENCE.to_owned()));
    let full = NewMemo { kind: MemoKind::Full, name, value, seen: None, line: None };
    assert_eq!(turnwise.store().remember(None, vec![full]).await.unwrap(), [true]);
}

fn assert_refused<T: std::fmt::Debug>(reply: Result<T, Error>) {
    let error = reply.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Refused(_))), "{error:?}");
    assert_eq!(error.to_string(), SENTENCE);
}

#[tokio::test]
async fn a_full_group_is_refused_with_the_same_words_by_every_way_to_submit() {
    use sqlx::Connection;
    let (url, turnwise) = postgres().await;
    fill(&turnwise).await;
    assert_refused(turnwise.submit(request("acme")).await);
    assert_refused(turnwise.submit_all([request("other"), request("acme")]).await);
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    assert_refused(request("acme").submit_in_postgres(&client).await);
    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    assert_refused(request("acme").submit_in_sqlx(&mut connection).await);
    assert!(groups(&turnwise).await.is_empty());

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let turnwise = Turnwise::open(&format!("sqlite:{}", path.display())).await.unwrap();
    fill(&turnwise).await;
    assert_refused(turnwise.submit(request("acme")).await);
    let connection = turnwise::rusqlite::Connection::open(&path).unwrap();
    assert_refused(request("acme").submit_in_sqlite(&connection));
    assert!(groups(&turnwise).await.is_empty());
}

#[tokio::test]
async fn in_a_tokio_postgres_transaction() {
    let (url, turnwise) = postgres().await;
    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let tx = client.transaction().await.unwrap();
    request("rolled back").submit_in_postgres(&tx).await.unwrap();
    tx.rollback().await.unwrap();
    let tx = client.transaction().await.unwrap();
    let id = request("committed").submit_in_postgres(&tx).await.unwrap();
    assert!(groups(&turnwise).await.is_empty(), "no other session sees it before the commit");
    tx.commit().await.unwrap();
    assert_eq!(groups(&turnwise).await, ["committed"]);
    let job = turnwise.job(id).await.unwrap();
    assert_eq!((job.args.as_str(), key(&job)), (r#"{"to": 1.50}"#, Some("db")));
    assert!(job.due_at.unwrap() > job.submitted_at);
}

#[tokio::test]
async fn in_an_sqlx_transaction() {
    use sqlx::Connection;
    let (url, turnwise) = postgres().await;
    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    request("rolled back").submit_in_sqlx(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let id = request("committed").submit_in_sqlx(&mut tx).await.unwrap();
    assert!(groups(&turnwise).await.is_empty(), "no other session sees it before the commit");
    tx.commit().await.unwrap();
    assert_eq!(groups(&turnwise).await, ["committed"]);
    let job = turnwise.job(id).await.unwrap();
    assert_eq!((job.args.as_str(), key(&job)), (r#"{"to": 1.50}"#, Some("db")));
}

/// What is left out is left out of the row by all of them, so that a default that changes one day changes for all.
#[tokio::test]
async fn the_row_is_the_same_however_one_submits() {
    use sqlx::Connection;
    let (url, turnwise) = postgres().await;
    let plain = || JobRequest::from_json("mail", "[]");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    turnwise.submit(plain()).await.unwrap();
    plain().submit_in_postgres(&client).await.unwrap();
    plain().submit_in_sqlx(&mut connection).await.unwrap();
    let sql = "select (to_jsonb(job) - array['seq', 'id', 'xact', 'submitted_at', 'due_at'])::text from turnwise.job order by id";
    let rows: Vec<String> = client.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[1], &rows[2]), (&rows[0], &rows[0]));

    // What needs a person is not worth a repeat, and both ways report it with the same words.
    client.batch_execute("alter schema turnwise rename to elsewhere").await.unwrap();
    let refused = plain().submit_in_postgres(&client).await.unwrap_err();
    let by_sqlx = plain().submit_in_sqlx(&mut connection).await.unwrap_err();
    assert!(matches!(refused, Error::Store(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(by_sqlx.to_string(), refused.to_string());
}

/// A key is one key for every way to submit: the second submitter gets the first job's id, or is refused.
#[tokio::test]
async fn a_unique_key_is_held_however_one_submits() {
    use sqlx::Connection;
    use turnwise::OnDuplicate;
    let unique = |to: u32| JobRequest::new("mail", &to).unique("k");
    let replace = |to: u32| unique(to).on_duplicate(OnDuplicate::ReplaceArgs);
    let reject = |to: u32| unique(to).on_duplicate(OnDuplicate::Reject);
    let assert_duplicate = |reply: Result<turnwise::JobId, Error>, first| match reply {
        Err(Error::Store(StoreError::Duplicate { holder, .. })) => assert_eq!(holder, first),
        other => panic!("{other:?}"),
    };
    let (url, turnwise) = postgres().await;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut sqlx = sqlx::PgConnection::connect(&url).await.unwrap();
    let mut tx = sqlx.begin().await.unwrap();
    unique(0).submit_in_sqlx(&mut tx).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = sqlx.begin().await.unwrap();
    let first = unique(1).submit_in_sqlx(&mut tx).await.unwrap();
    assert_eq!(unique(2).submit_in_sqlx(&mut tx).await.unwrap(), first);
    tx.commit().await.unwrap();
    assert_eq!(unique(3).submit_in_postgres(&client).await.unwrap(), first);
    assert_eq!(turnwise.submit(unique(4)).await.unwrap(), first);
    assert_eq!(replace(5).submit_in_sqlx(&mut sqlx).await.unwrap(), first);
    assert_eq!(turnwise.job(first).await.unwrap().args.as_str(), "5");
    assert_eq!(replace(6).submit_in_postgres(&client).await.unwrap(), first);
    assert_eq!(turnwise.job(first).await.unwrap().args.as_str(), "6");
    assert_duplicate(reject(7).submit_in_sqlx(&mut sqlx).await, first);
    assert_duplicate(reject(7).submit_in_postgres(&client).await, first);
    assert_duplicate(turnwise.submit(reject(7)).await, first);
    assert_eq!(turnwise.jobs(Filter::default()).await.unwrap().len(), 1);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let turnwise = Turnwise::open(&format!("sqlite:{}", path.display())).await.unwrap();
    let mut connection = turnwise::rusqlite::Connection::open(&path).unwrap();
    let tx = connection.transaction().unwrap();
    unique(0).submit_in_sqlite(&tx).unwrap();
    tx.rollback().unwrap();
    let first = turnwise.submit(unique(1)).await.unwrap();
    let tx = connection.transaction().unwrap();
    assert_eq!(replace(2).submit_in_sqlite(&tx).unwrap(), first);
    assert_duplicate(reject(3).submit_in_sqlite(&tx), first);
    tx.commit().unwrap();
    assert_eq!(turnwise.job(first).await.unwrap().args.as_str(), "2");
    assert_eq!(turnwise.jobs(Filter::default()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn options_of_uniqueness_need_a_key() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let minute = std::time::Duration::from_secs(60);
    let mail = || JobRequest::from_json("mail", r#"{"a": 1, "b": 2}"#);
    for (request, problem) in [
        (mail().unique_for(minute), "unique: is missing"),
        (mail().unique(""), "unique: must not be empty"),
        (mail().unique("k").unique_for(std::time::Duration::ZERO), "unique_for: must be longer than nothing"),
    ] {
        let error = turnwise.submit(request).await.unwrap_err().to_string();
        assert!(error.starts_with(problem), "{error}");
    }
    let first = turnwise.submit_each([mail().unique_by_args().unique_for(minute)]).await.unwrap()[0];
    assert!(first.new && first.duplicate.is_none());
    let same = JobRequest::from_json("mail", r#"{ "b":2,"a":1 }"#).unique_by_args();
    let second = turnwise.submit_each([same]).await.unwrap()[0];
    assert_eq!((second.id, second.new, second.duplicate), (first.id, false, Some(turnwise::Duplicate::Kept)));
}

#[tokio::test]
async fn in_a_rusqlite_transaction() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let turnwise = Turnwise::open(&format!("sqlite:{}", path.display())).await.unwrap();
    let mut connection = turnwise::rusqlite::Connection::open(&path).unwrap();
    let tx = connection.transaction().unwrap();
    request("rolled back").submit_in_sqlite(&tx).unwrap();
    tx.rollback().unwrap();
    let tx = connection.transaction().unwrap();
    let id = request("committed").submit_in_sqlite(&tx).unwrap();
    assert!(groups(&turnwise).await.is_empty(), "no other session sees it before the commit");
    tx.commit().unwrap();
    assert_eq!(groups(&turnwise).await, ["committed"]);
    assert_eq!(key(&turnwise.job(id).await.unwrap()), Some("db"));
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

/// One job, and one that waits for it, in whatever transaction the caller has.
fn pair() -> (JobRequest, JobRequest) {
    let first = request("first");
    let second = request("second").after_all([&first]).on_failure(OnFailure::Run);
    (first, second)
}

async fn assert_waits(turnwise: &Turnwise, second: turnwise::JobId, first: turnwise::JobId) {
    let after = turnwise.story(second, 0).await.unwrap().after;
    assert_eq!((after.ids(), after.on_failure()), (&[first][..], Some(OnFailure::Run)));
}

#[tokio::test]
async fn a_job_waits_for_one_of_the_same_transaction() {
    use sqlx::Connection;
    let (url, turnwise) = postgres().await;
    let (mut client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let tx = client.transaction().await.unwrap();
    let (first, second) = pair();
    let first = first.submit_in_postgres(&tx).await.unwrap();
    let second = second.submit_in_postgres(&tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_waits(&turnwise, second, first).await;

    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let (first, second) = pair();
    let first = first.submit_in_sqlx(&mut tx).await.unwrap();
    let second = second.submit_in_sqlx(&mut tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_waits(&turnwise, second, first).await;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let turnwise = Turnwise::open(&format!("sqlite:{}", path.display())).await.unwrap();
    let mut connection = turnwise::rusqlite::Connection::open(&path).unwrap();
    let tx = connection.transaction().unwrap();
    let (first, second) = pair();
    let first = first.submit_in_sqlite(&tx).unwrap();
    let second = second.submit_in_sqlite(&tx).unwrap();
    tx.commit().unwrap();
    assert_waits(&turnwise, second, first).await;
}

#[tokio::test]
async fn outside_a_transaction_no_job_may_wait_and_nothing_is_stored() {
    use sqlx::Connection;
    let (url, turnwise) = postgres().await;
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    let first = turnwise.submit(request("first")).await.unwrap();
    let waits = || request("second").after_jobs([first]);
    for refused in [waits().submit_in_postgres(&client).await, waits().submit_in_sqlx(&mut connection).await]
        .map(Result::unwrap_err)
    {
        assert_eq!(refused.to_string(), turnwise_postgres::after::NO_TRANSACTION);
    }
    assert_eq!(groups(&turnwise).await, ["first"]);
}

#[tokio::test]
async fn a_batch_is_submitted_with_the_one_that_runs_when_all_are_done() {
    let turnwise = Turnwise::open("memory:").await.unwrap();
    let ids = turnwise.submit_batch((0..3).map(|_| request("batch")), request("last")).await.unwrap();
    assert_eq!(turnwise.job(ids[3]).await.unwrap().group.as_str(), "last");
    let mut batch = ids[..3].to_vec();
    batch.sort_unstable();
    assert_eq!(turnwise.story(ids[3], 0).await.unwrap().after.ids(), batch);
    let alone = turnwise.submit_batch([], request("alone")).await.unwrap();
    assert!(turnwise.story(alone[0], 0).await.unwrap().after.is_empty(), "of an empty batch no job is waited for");
}

#[tokio::test]
async fn by_the_sql_function_a_job_waits_for_others() {
    let (url, turnwise) = postgres().await;
    let cluster = turnwise_testpg::Cluster::shared();
    let first = turnwise.submit(request("first")).await.unwrap();
    let call = |more: &str| {
        let sql = format!("select turnwise.enqueue('mail', \"group\" => 'second', {more})");
        cluster.psql(&url, &sql)
    };
    call(&format!("after => array['{first}', '{first}']::uuid[], on_failure => 'run'")).unwrap();
    let jobs = turnwise.jobs(Filter { group: Some("second".to_owned()), ..Filter::default() }).await.unwrap();
    assert_waits(&turnwise, jobs[0].id, first).await;
    let unknown = JobRequest::new("mail", &()).job_id().unwrap();
    let refused = call(&format!("after => array['{unknown}', '{first}']::uuid[]")).unwrap_err().to_string();
    assert!(refused.contains(&format!("after: there is no job {unknown}")), "{refused}");
    assert!(call(&format!("after => array['{first}']::uuid[], on_failure => 'sometimes'")).is_err());
    call("after => null, on_failure => null").unwrap();
    call("after => '{}'").unwrap();
    assert_eq!(groups(&turnwise).await, ["first", "second", "second", "second"]);
}

#[tokio::test]
async fn a_submit_whose_key_is_in_an_open_transaction_is_repeated_once_and_returns_after_the_documented_time() {
    let (url, turnwise) = postgres().await;
    let (app, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    app.batch_execute("begin; select turnwise.enqueue('mail', unique_key => 'k')").await.unwrap();
    let (asked, pace) = (Instant::now(), Pace::start());
    let error = turnwise.submit(JobRequest::from_json("mail", "null").unique("k")).await.unwrap_err();
    let waited = asked.elapsed();
    assert!(error.to_string().contains("same unique key"), "{error}");
    // docs/guides/unique.md: about 4 s.
    assert!(waited >= Duration::from_millis(3_900), "it gave up after {waited:?}");
    assert!(pace.elapsed() < Duration::from_secs(6), "it gave up after {waited:?}");
    app.batch_execute("rollback").await.unwrap();
    turnwise.submit(JobRequest::from_json("mail", "null").unique("k")).await.unwrap();
}
