//! Submitting in the caller's own transaction, and from any language.

mod database;

use database::{client, fresh_store, id, job, join, node};
use futures_util::{StreamExt, future::join_all, stream::poll_fn};
use tokio_postgres::{AsyncMessage, NoTls, Transaction};
use turnwise_core::{GroupName, JobId, JobState, KeyName, NewJob, RetryPolicy, Timestamp, calendar::GivenTime};
use turnwise_postgres::{PostgresStore, REFUSED, enqueue_in};
use turnwise_store::{Filter, MemoKind, NewMemo, Store, StoreError, Submitted};
use uuid::Uuid;

#[tokio::test]
async fn a_rolled_back_transaction_leaves_no_job() {
    let (store, url) = fresh_store().await;
    let mut app = client(&url).await;
    let transaction = app.transaction().await.unwrap();
    assert_eq!(enqueue_in(&transaction, &[job(1)]).await.unwrap(), [Submitted::itself(id(1), true)]);
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
    let sql = r#"select turnwise.enqueue('mail', '{"to": 1.50}', "group" => 'acme', priority => 2, retry => 'none',
                 key => 'db-1', expires => '2030-01-01 00:00:00.123457+00')"#;
    let first = JobId::from_uuid(app.query_one(sql, &[]).await.unwrap().get::<_, Uuid>(0));
    let second =
        JobId::from_uuid(app.query_one("select turnwise.enqueue('report')", &[]).await.unwrap().get::<_, Uuid>(0));
    assert!(first < second, "ids sort by time");
    assert_eq!(first.uuid().get_version_num(), 7);
    let job = store.job(first).await.unwrap().unwrap();
    assert_eq!((job.task.as_str(), job.group.as_str(), job.queue.as_str()), ("mail", "acme", "default"));
    assert_eq!((job.args.as_str(), job.priority.get(), job.retry), (r#"{"to": 1.50}"#, 2, Some(RetryPolicy::None)));
    assert_eq!((job.state, job.due_at), (JobState::Waiting, Some(job.submitted_at)));
    assert_eq!(job.key, Some(KeyName::new("db-1").unwrap()));
    assert_eq!(job.expires_at, Some(Timestamp::from_micros(1_893_456_000_123_457)));
    let plain = store.job(second).await.unwrap().unwrap();
    assert_eq!((plain.args.as_str(), plain.retry), ("null", None));
    assert_eq!((plain.key, plain.expires_at), (None, None));
}

#[tokio::test]
async fn what_a_caller_names_is_told_from_what_is_left_out() {
    let (store, url) = fresh_store().await;
    let mut app = client(&url).await;
    let submit = async |app: &Transaction<'_>, rest: &str| {
        let sql = format!("select turnwise.enqueue('report'{rest})");
        JobId::from_uuid(app.query_one(&sql, &[]).await.unwrap().get::<_, Uuid>(0))
    };
    let app = app.transaction().await.unwrap();
    let bare = submit(&app, "").await;
    let named = submit(&app, ", retry => 'exponential:10s,5', due => now()").await;
    // As a node of the last release stores a job that names the default policy, or none.
    let before = submit(&app, "").await;
    app.execute("update turnwise.job set retry = null where id = $1", &[&before.uuid()]).await.unwrap();
    app.commit().await.unwrap();
    let read = async |id| {
        let job = store.job(id).await.unwrap().unwrap();
        let follows = GivenTime::from(&job).follows_from().is_some();
        (job.retry, follows)
    };
    assert_eq!(read(bare).await, (None, true), "its task's policy, and its queue's schedule");
    assert_eq!(read(named).await, (Some(RetryPolicy::default()), false));
    assert_eq!(read(before).await.0, Some(RetryPolicy::default()), "rows from before keep the default");
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
        "turnwise.enqueue('mail', key => '')",
        "turnwise.enqueue('mail', key => repeat('x', 201))",
        "turnwise.enqueue(E'ma\\til')",
        "turnwise.enqueue('mail', queue => 'a' || chr(133) || 'b')",
        "turnwise.enqueue('mail', for_group => E'a\\nb')",
        "turnwise.enqueue('mail', \"group\" => ' acme')",
        "turnwise.enqueue('mail', key => 'db' || chr(8239))",
        "turnwise.enqueue('mail', unique_key => E'a\\u007f')",
        "turnwise.enqueue('mail', unique_scope => '', unique_key => 'a')",
        "turnwise.enqueue('mail', on_exhausted => E'clean\\rup')",
    ] {
        let error = app.query_one(&format!("select {bad}"), &[]).await.expect_err(bad);
        assert_eq!(error.code().map(|code| code.code()), Some("23514"), "{bad}");
    }
    assert_eq!(store.jobs(Filter::default()).await.unwrap(), []);
}

/// The library and the function agree about every name, so that no row can hold one that a node would not have taken.
#[tokio::test]
async fn the_sql_function_takes_the_names_that_the_library_takes() {
    let (_, url) = fresh_store().await;
    let app = client(&url).await;
    let awkward = (1..=0x3100).filter_map(char::from_u32).filter(|c| c.is_control() || c.is_whitespace() || *c == 'é');
    for c in awkward {
        for name in [format!("a{c}b"), format!("{c}b"), format!("a{c}")] {
            let checked = app.execute("select turnwise.check_name('group', $1)", &[&name]).await;
            assert_eq!(checked.is_ok(), GroupName::new(&name).is_ok(), "{name:?}");
        }
    }
}

#[tokio::test]
async fn the_sql_function_takes_a_timeout_a_task_for_the_end_of_the_retries_and_a_group_without_quotes() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    let call = r#"select turnwise.enqueue('mail', '{"to": 1.50}', for_group => 'acme', timeout => '1.5 minutes',
                  on_exhausted => 'apologise')"#;
    let id = JobId::from_uuid(app.query_one(call, &[]).await.unwrap().get::<_, Uuid>(0));
    let job = store.job(id).await.unwrap().unwrap();
    assert_eq!((job.group.as_str(), job.terms.timeout()), ("acme", Some(std::time::Duration::from_secs(90))));
    let step = job.terms.on_exhausted().unwrap();
    assert_eq!((step.task.as_str(), step.args.as_str()), ("apologise", r#"{"to": 1.50}"#));
    assert_eq!(step.retry, None, "that of its task");
    assert!(step.terms.is_empty());
    let bad = |what: &str| ("22023".to_owned(), what.to_owned());
    let limits = "timeout: must be longer than nothing and at most ten years, not ";
    assert_eq!(says(&app, "timeout => '0'").await, bad(&format!("{limits}'00:00:00'")));
    assert_eq!(says(&app, "timeout => '-1s'").await, bad(&format!("{limits}'-00:00:01'")));
    assert_eq!(says(&app, "timeout => '3651 days'").await, bad(&format!("{limits}'3651 days'")));
    let both = r#""group" => 'a', for_group => 'b'"#;
    assert_eq!(says(&app, both).await, bad(r#"for_group: cannot be given together with "group""#));
}

/// What the database says to a call of the function with these parameters.
async fn says(app: &tokio_postgres::Client, parameters: &str) -> (String, String) {
    let error =
        app.query_one(&format!("select turnwise.enqueue('mail', {parameters})"), &[]).await.expect_err(parameters);
    let error = error.as_db_error().expect("the database says so");
    (error.code().code().to_owned(), error.message().to_owned())
}

#[tokio::test]
async fn the_sql_function_names_the_valid_words_for_what_follows_a_failure() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![job(1)]).await.unwrap();
    let app = client(&url).await;
    let after = format!("after => array['{}']::uuid[]", id(1));
    // "over" is a word of the table, not one of the call.
    for wrong in ["over", "sometimes", ""] {
        let sentence = format!("on_failure: must be fail, run or cancel, not '{wrong}'");
        assert_eq!(
            says(&app, &format!("{after}, on_failure => '{wrong}'")).await,
            ("22023".to_owned(), sentence.clone())
        );
        assert_eq!(says(&app, &format!("on_failure => '{wrong}'")).await.1, sentence, "also where it waits for no job");
    }
    assert_eq!(store.jobs(Filter::default()).await.unwrap().len(), 1);
    for right in ["'fail'", "'run'", "'cancel'", "null"] {
        app.query_one(&format!("select turnwise.enqueue('mail', {after}, on_failure => {right})"), &[]).await.unwrap();
    }
}

#[tokio::test]
async fn the_sql_function_lets_a_job_wait_for_ten_thousand_and_no_more() {
    let (store, url) = fresh_store().await;
    store.enqueue((1..=10_001).map(job).collect()).await.unwrap();
    let app = client(&url).await;
    let many = "after => array(select id from turnwise.job order by id limit 10001)";
    let sentence = "after: a job may wait for at most 10000 jobs, not 10001";
    assert_eq!(says(&app, many).await, ("22023".to_owned(), sentence.to_owned()));
    let sentence = "after: must name jobs by their ids, not null";
    assert_eq!(says(&app, "after => array[null]::uuid[]").await, ("22023".to_owned(), sentence.to_owned()));
    let twice = "with most as (select id from turnwise.job order by id limit 10000)
                 select turnwise.enqueue('mail', after => array(select id from most union all select id from most))";
    let id = app.query_one(twice, &[]).await.unwrap().get::<_, Uuid>(0);
    let waits = app.query_one("select count(*) from turnwise.dependency where job = $1", &[&id]).await.unwrap();
    assert_eq!(waits.get::<_, i64>(0), 10_000, "each counts once");
}

const SENTENCE: &str = r#"group "default" has 1000 waiting jobs, its limit: 100%"#;

async fn fill(store: &PostgresStore) {
    let (name, value) = ("default".to_owned(), Some(SENTENCE.to_owned()));
    store.remember(None, vec![NewMemo { kind: MemoKind::Full, name, value, seen: None, line: None }]).await.unwrap();
}

#[tokio::test]
async fn a_full_group_refuses_the_job_and_a_savepoint_saves_the_rest_of_the_transaction() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![job(1)]).await.unwrap();
    fill(&store).await;
    let mut app = client(&url).await;
    app.batch_execute("create table bill (id int)").await.unwrap();
    let mut transaction = app.transaction().await.unwrap();
    transaction.batch_execute("insert into bill values (1)").await.unwrap();
    let savepoint = transaction.savepoint("enqueue").await.unwrap();
    assert_eq!(enqueue_in(&savepoint, &[job(1)]).await.unwrap(), [Submitted::itself(id(1), false)]);
    let other = NewJob { group: GroupName::new("other").unwrap(), ..job(2) };
    let error = enqueue_in(&savepoint, &[other, job(3)]).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused(text) if text == SENTENCE), "{error}");
    savepoint.rollback().await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(app.query_one("select count(*) from bill", &[]).await.unwrap().get::<_, i64>(0), 1);
    assert_eq!(store.jobs(Filter::default()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_sql_function_refuses_a_job_of_a_full_group() {
    let (store, url) = fresh_store().await;
    fill(&store).await;
    let app = client(&url).await;
    let error = app.query_one("select turnwise.enqueue('mail')", &[]).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!((error.code().code(), error.message()), (REFUSED, SENTENCE));
    assert_eq!(store.jobs(Filter::default()).await.unwrap(), []);
    app.query_one("select turnwise.enqueue('mail', \"group\" => 'other')", &[]).await.unwrap();
}

#[tokio::test]
async fn more_jobs_than_one_statement_takes_are_refused_together() {
    let (store, _) = fresh_store().await;
    fill(&store).await;
    let group = GroupName::new("other").unwrap();
    let mut jobs: Vec<_> = (0..10_000).map(|n| NewJob { group: group.clone(), ..job(n) }).collect();
    jobs.push(job(10_000));
    let error = store.enqueue(jobs).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused(text) if text == SENTENCE), "{error}");
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
    // No server listens on port 1.
    let error = turnwise_postgres::PostgresStore::open("postgres://postgres@127.0.0.1:1/x", Default::default()).await;
    assert!(error.expect_err("no server listens").is_transient());
}

#[tokio::test]
async fn a_full_group_refuses_a_long_list_and_nothing_of_it_is_stored() {
    let (store, _) = fresh_store().await;
    fill(&store).await;
    let error = store.enqueue((1..=600).map(job).collect()).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused(text) if text == SENTENCE), "{error}");
    assert_eq!(store.jobs(Filter::default()).await.unwrap(), []);
}

#[tokio::test]
async fn submits_that_come_together_share_a_commit() {
    let (store, url) = fresh_store().await;
    let replies = join_all((1..=300).map(|n| store.enqueue(vec![job(n)]))).await;
    for (n, reply) in (1..).zip(replies) {
        assert_eq!(reply.unwrap(), [Submitted::itself(id(n), true)]);
    }
    let commits = client(&url).await.query_one("select count(distinct xact) from turnwise.job", &[]).await.unwrap();
    assert!((1..=2).contains(&commits.get::<_, i64>(0)), "{commits:?}");
}

#[tokio::test]
async fn one_refused_submit_spoils_no_other_that_travels_with_it() {
    let (store, _) = fresh_store().await;
    fill(&store).await;
    let other = |n| NewJob { group: GroupName::new("other").unwrap(), ..job(n) };
    let submits = (1..=20).map(|n| store.enqueue(vec![if n % 5 == 0 { job(n) } else { other(n) }]));
    for (n, reply) in (1..).zip(join_all(submits).await) {
        match n % 5 {
            0 => assert!(matches!(reply, Err(StoreError::Refused(text)) if text == SENTENCE), "{n}"),
            _ => assert_eq!(reply.unwrap(), [Submitted::itself(id(n), true)]),
        }
    }
    assert_eq!(store.jobs(Filter::default()).await.unwrap().len(), 16);
}

#[tokio::test]
async fn a_submitter_that_goes_away_holds_up_no_other() {
    let (store, _) = fresh_store().await;
    let mut gone = Box::pin(store.enqueue(vec![job(1)]));
    assert!(futures_util::poll!(&mut gone).is_pending());
    drop(gone);
    for n in 2..10 {
        assert_eq!(store.enqueue(vec![job(n)]).await.unwrap(), [Submitted::itself(id(n), true)]);
    }
    // The submitter may repeat it, to learn what became of it.
    store.enqueue(vec![job(1)]).await.unwrap();
    assert_eq!(store.jobs(Filter::default()).await.unwrap().len(), 9);
}

#[tokio::test]
async fn a_submit_that_waits_for_an_open_transaction_waits_alone() {
    let (store, url) = fresh_store().await;
    let mut app = client(&url).await;
    let transaction = app.transaction().await.unwrap();
    enqueue_in(&transaction, &[job(5)]).await.unwrap();
    let submits = join_all((1..=20).map(|n| store.enqueue(vec![job(n)]))).await;
    for (n, reply) in (1..).zip(submits) {
        match n {
            5 => assert!(reply.unwrap_err().is_transient()),
            _ => assert_eq!(reply.unwrap(), [Submitted::itself(id(n), true)]),
        }
    }
    transaction.commit().await.unwrap();
    assert_eq!(store.enqueue(vec![job(5)]).await.unwrap(), [Submitted::itself(id(5), false)]);
}

/// What the server says beside its answer to this, without the names of the messages' fields.
async fn notices(url: &str, sql: &str) -> Vec<String> {
    let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    let messages = poll_fn(move |context| connection.poll_message(context));
    let asked = async move {
        client.batch_execute(sql).await.unwrap();
    };
    let (said, ()) = tokio::join!(messages.collect::<Vec<_>>(), asked);
    let notice = |message| match message {
        Ok(AsyncMessage::Notice(notice)) => Some(notice.message().to_owned()),
        _ => None,
    };
    said.into_iter().filter_map(notice).collect()
}

#[tokio::test]
async fn the_sql_function_names_tasks_that_no_living_node_knows() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    let misspelt = "select turnwise.enqueue('mial', next => 'mail', on_exhausted => 'repotr')";
    assert_eq!(notices(&url, misspelt).await, Vec::<String>::new(), "where no node lives, none is to blame");
    join(&store, node(1), "a node that knows mail").await;
    let said = |task: &str| format!("no living node knows the task \"{task}\"; jobs of it wait until one does");
    assert_eq!(notices(&url, misspelt).await, [said("mial"), said("repotr")]);
    assert_eq!(notices(&url, "select turnwise.enqueue('mail')").await, Vec::<String>::new());
    let stored = "select count(*) from turnwise.job";
    assert_eq!(app.query_one(stored, &[]).await.unwrap().get::<_, i64>(0), 3, "it is a notice and no refusal");
}
