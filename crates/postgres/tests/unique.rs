//! Unique keys where several transactions are open at once, and from any language.

mod database;

use std::time::{Duration, Instant};

use database::{client, fresh_store, id, job, news};
use turnwise_core::{
    JobId, NewJob, Unique, UniqueKey,
    lifecycle::{self, Event, JobFacts},
    unique::{Hold, OnDuplicate},
};
use turnwise_postgres::{DUPLICATE, PostgresStore, enqueue_in};
use turnwise_store::{Duplicate, Filter, Intervention, Settled, Store, StoreError, Submitted};
use turnwise_testpg::Pace;
use uuid::Uuid;

fn keyed(n: u64, key: &str) -> NewJob {
    NewJob { unique: Some(Box::new(Unique::new(UniqueKey::new(key).unwrap()))), ..job(n) }
}

fn kept(n: u64) -> Submitted {
    Submitted::held_by(id(n), Duplicate::Kept)
}

fn new(n: u64) -> Submitted {
    Submitted::itself(id(n), true)
}

/// Waits until a backend waits for another's transaction.
async fn until_a_lock_is_awaited(url: &str) {
    let app = client(url).await;
    let sql = "select exists (select from pg_stat_activity
                where datname = current_database() and wait_event_type = 'Lock')";
    while !app.query_one(sql, &[]).await.unwrap().get::<_, bool>(0) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_meets_an_open_transaction_gets_the_key_if_that_is_rolled_back() {
    let (store, url) = fresh_store().await;
    let mut app = client(&url).await;
    let open = app.transaction().await.unwrap();
    assert_eq!(enqueue_in(&open, &[keyed(1, "k")]).await.unwrap(), [new(1)]);
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.enqueue(vec![keyed(2, "k")]).await }
    });
    until_a_lock_is_awaited(&url).await;
    open.rollback().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), [new(2)]);
    assert_eq!(store.jobs(Filter::default()).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_meets_an_open_transaction_is_told_its_job_if_that_commits() {
    let (store, url) = fresh_store().await;
    let mut app = client(&url).await;
    let open = app.transaction().await.unwrap();
    enqueue_in(&open, &[keyed(1, "k")]).await.unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.enqueue(vec![keyed(2, "k")]).await }
    });
    until_a_lock_is_awaited(&url).await;
    // Others do not wait with it: neither those without a key nor those with another one.
    store.enqueue(vec![job(3)]).await.unwrap();
    assert_eq!(store.enqueue(vec![keyed(4, "other")]).await.unwrap(), [new(4)]);
    open.commit().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), [kept(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn five_submits_that_wait_for_one_key_leave_a_connection_to_another_key() {
    let (store, url) = fresh_store().await;
    let mut app = client(&url).await;
    let open = app.transaction().await.unwrap();
    enqueue_in(&open, &[keyed(1, "k")]).await.unwrap();
    // Each asks for its connection, or for its turn, before the next is begun.
    let submit = |store: PostgresStore, n| Box::pin(async move { store.enqueue(vec![keyed(n, "k")]).await });
    let mut waiting: Vec<_> = (2..=6).map(|n| submit(store.clone(), n)).collect();
    for waiter in &mut waiting {
        assert!(futures_util::poll!(waiter.as_mut()).is_pending());
    }
    let waiting = tokio::spawn(futures_util::future::join_all(waiting));
    until_a_lock_is_awaited(&url).await;
    assert_eq!(store.enqueue(vec![keyed(7, "other")]).await.unwrap(), [new(7)]);
    let app = client(&url).await;
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    assert_eq!(app.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 1, "one of the five waits in the database");
    open.commit().await.unwrap();
    for reply in waiting.await.unwrap() {
        assert_eq!(reply.unwrap(), [kept(1)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_whose_holder_has_ended_is_taken_over_by_one_of_two_open_transactions() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![keyed(1, "k")]).await.unwrap();
    client(&url).await.batch_execute("delete from turnwise.job").await.unwrap();
    let mut app = client(&url).await;
    let open = app.transaction().await.unwrap();
    assert_eq!(enqueue_in(&open, &[keyed(2, "k")]).await.unwrap(), [new(2)]);
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.enqueue(vec![keyed(3, "k")]).await }
    });
    until_a_lock_is_awaited(&url).await;
    open.commit().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), [kept(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_stays_open_lets_a_submitter_come_again_and_says_so() {
    let (store, url) = fresh_store().await;
    let mut app = client(&url).await;
    let open = app.transaction().await.unwrap();
    enqueue_in(&open, &[keyed(1, "k")]).await.unwrap();
    // The documented time, docs/guides/unique.md.
    let (asked, pace) = (Instant::now(), Pace::start());
    let error = store.enqueue(vec![keyed(2, "k")]).await.unwrap_err();
    let waited = asked.elapsed();
    assert!(error.is_transient() && error.to_string().contains("same unique key"), "{error}");
    assert!(waited >= Duration::from_millis(1_900), "it gave up after {waited:?}");
    assert!(pace.elapsed() < Duration::from_secs(3), "it gave up after {waited:?}");
    open.rollback().await.unwrap();
    assert_eq!(store.enqueue(vec![keyed(2, "k")]).await.unwrap(), [new(2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn thirty_two_transactions_half_of_them_rolled_back_leave_one_job() {
    let (store, url) = fresh_store().await;
    let mut racing = Vec::new();
    for n in 1..=32 {
        let url = url.clone();
        racing.push(tokio::spawn(async move {
            let mut app = client(&url).await;
            let transaction = app.transaction().await.unwrap();
            let reply = enqueue_in(&transaction, &[keyed(n, "k")]).await.unwrap()[0];
            if n % 2 == 0 {
                transaction.rollback().await.unwrap();
                return None;
            }
            transaction.commit().await.unwrap();
            Some(reply)
        }));
    }
    let mut replies = Vec::new();
    for racer in racing {
        replies.extend(racer.await.unwrap());
    }
    let jobs = store.jobs(Filter::default()).await.unwrap();
    assert_eq!(jobs.len(), 1, "{replies:?}");
    assert_eq!(replies.iter().filter(|reply| reply.new).count(), 1);
    assert!(replies.iter().all(|reply| reply.id == jobs[0].id), "all replies name the stored job: {replies:?}");
}

#[tokio::test]
async fn a_rejected_duplicate_leaves_what_a_savepoint_saves() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![keyed(1, "k")]).await.unwrap();
    let mut app = client(&url).await;
    let mut transaction = app.transaction().await.unwrap();
    enqueue_in(&transaction, &[keyed(2, "mine")]).await.unwrap();
    let unique = Unique { on_duplicate: OnDuplicate::Reject, ..Unique::new(UniqueKey::new("k").unwrap()) };
    let reject = NewJob { unique: Some(Box::new(unique)), ..job(4) };
    let savepoint = transaction.savepoint("submit").await.unwrap();
    let error = enqueue_in(&savepoint, &[keyed(3, "fresh"), reject]).await.unwrap_err();
    assert!(matches!(error, StoreError::Duplicate { holder, .. } if holder == id(1)), "{error}");
    savepoint.rollback().await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(store.enqueue(vec![keyed(5, "fresh"), keyed(6, "mine")]).await.unwrap(), [new(5), kept(2)]);
}

#[tokio::test]
async fn the_sql_function_knows_unique_keys() {
    let (store, url) = fresh_store().await;
    let app = client(&url).await;
    let enqueue = async |sql: &str| {
        JobId::from_uuid(
            app.query_one(&format!("select turnwise.enqueue({sql})"), &[]).await.unwrap().get::<_, Uuid>(0),
        )
    };
    let first = enqueue("'mail', '{\"n\": 1}', unique_key => 'k'").await;
    assert_eq!(enqueue("'mail', unique_key => 'k'").await, first);
    // One table for all submitters.
    assert_eq!(
        store.enqueue(vec![NewJob { task: "mail".parse().unwrap(), ..keyed(1, "k") }]).await.unwrap()[0].id,
        first
    );
    assert_ne!(enqueue("'post', unique_key => 'k'").await, first, "another task");
    let scoped = enqueue("'mail', unique_key => 'k', unique_scope => 'nightly', unique_for => '1 hour'").await;
    assert_eq!(enqueue("'post', unique_key => 'k', unique_scope => 'nightly'").await, scoped);
    assert_eq!(enqueue("'mail', '{\"n\": 2}', unique_key => 'k', on_duplicate => 'replace-args'").await, first);
    assert_eq!(store.job(first).await.unwrap().unwrap().args.as_str(), r#"{"n": 2}"#);
    let refused = "select turnwise.enqueue('mail', unique_key => 'k', on_duplicate => 'reject')";
    let error = app.query_one(refused, &[]).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!((error.code().code(), error.detail()), (DUPLICATE, Some(first.to_string().as_str())));
    let wrong = "select turnwise.enqueue('mail', unique_key => 'k', on_duplicate => 'drop')";
    let error = app.query_one(wrong, &[]).await.unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("must be keep, reject or replace-args"));
    for period in ["0", "-1 hour"] {
        let wrong = format!("select turnwise.enqueue('mail', unique_key => 'new', unique_for => '{period}')");
        let error = app.query_one(&wrong, &[]).await.unwrap_err();
        assert!(
            error.as_db_error().unwrap().message().starts_with("unique_for: must be longer than nothing"),
            "{error}"
        );
    }
    let post = "'post', '{\"n\": 3}', unique_key => 'k', unique_scope => 'nightly', on_duplicate => 'replace-args'";
    assert_eq!(enqueue(post).await, scoped);
    assert_eq!(store.job(scoped).await.unwrap().unwrap().args.as_str(), "null", "another task's");
    assert_eq!(store.jobs(Filter::default()).await.unwrap().len(), 3);
}

#[tokio::test]
async fn a_period_ends_by_the_databases_clock() {
    let (store, url) = fresh_store().await;
    let unique = Unique { hold: Hold::For(Duration::from_secs(60)), ..Unique::new(UniqueKey::new("k").unwrap()) };
    let keyed = |n| NewJob { unique: Some(Box::new(unique.clone())), ..job(n) };
    store.enqueue(vec![keyed(1)]).await.unwrap();
    assert_eq!(store.enqueue(vec![keyed(2)]).await.unwrap(), [kept(1)]);
    client(&url).await.batch_execute("update turnwise.unique_key set expires = now()").await.unwrap();
    assert_eq!(store.enqueue(vec![keyed(3)]).await.unwrap(), [new(3)]);
}

#[tokio::test]
async fn a_job_that_an_open_transaction_holds_is_left_alone_and_not_waited_for() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![keyed(1, "k"), job(2)]).await.unwrap();
    let mut app = client(&url).await;
    let open = app.transaction().await.unwrap();
    let unique = Unique { on_duplicate: OnDuplicate::ReplaceArgs, ..Unique::new(UniqueKey::new("k").unwrap()) };
    let replace = NewJob { unique: Some(Box::new(unique)), ..job(3) };
    let replies = enqueue_in(&open, &[replace]).await.unwrap();
    assert_eq!(replies, [Submitted::held_by(id(1), Duplicate::Replaced)]);
    let mut cancels = Vec::new();
    for n in [1, 2, 9] {
        let job = store.job(id(n.min(2))).await.unwrap().unwrap();
        let to = lifecycle::decide(&JobFacts::from(&job), &Event::Cancel, job.submitted_at, 0.0).unwrap();
        cancels.push(Intervention { job: id(n), state: job.state, fence: job.fence, to, line: None });
    }
    // Nothing ends that transaction meanwhile.
    let replies = store.control(cancels.clone()).await.unwrap();
    assert_eq!(replies, [Settled::Locked, Settled::Applied, Settled::Gone]);
    open.commit().await.unwrap();
    assert_eq!(store.control(cancels).await.unwrap(), [Settled::Applied, Settled::Superseded, Settled::Gone]);
}

/// A transaction that has been open for a while, by its own clock, and a connection beside it.
async fn long_open(app: &mut tokio_postgres::Client) -> tokio_postgres::Transaction<'_> {
    let open = app.transaction().await.unwrap();
    open.query_one("select now()", &[]).await.unwrap();
    open
}

#[tokio::test]
async fn a_period_is_counted_from_the_submit_however_long_its_transaction_has_been_open() {
    let (_store, url) = fresh_store().await;
    let hour = Unique { hold: Hold::For(Duration::from_secs(3600)), ..Unique::new(UniqueKey::new("k").unwrap()) };
    let mut app = client(&url).await;
    let open = long_open(&mut app).await;
    let beside = client(&url).await;
    beside.batch_execute("create table seen as select clock_timestamp() as at").await.unwrap();
    let jobs = [NewJob { unique: Some(Box::new(hour)), ..job(1) }];
    assert_eq!(enqueue_in(&open, &jobs).await.unwrap(), [new(1)]);
    open.commit().await.unwrap();
    let sql = "select expires - interval '1 hour' > at from turnwise.unique_key, seen";
    assert!(beside.query_one(sql, &[]).await.unwrap().get::<_, bool>(0));
}

#[tokio::test]
async fn a_period_that_ended_while_a_transaction_was_open_holds_nothing_in_it() {
    let (store, url) = fresh_store().await;
    let minute = Unique { hold: Hold::For(Duration::from_secs(60)), ..Unique::new(UniqueKey::new("k").unwrap()) };
    store.enqueue(vec![NewJob { unique: Some(Box::new(minute)), ..job(1) }]).await.unwrap();
    let mut app = client(&url).await;
    let open = long_open(&mut app).await;
    let over = "update turnwise.unique_key set expires = clock_timestamp()";
    client(&url).await.batch_execute(over).await.unwrap();
    assert_eq!(enqueue_in(&open, &[keyed(2, "k")]).await.unwrap(), [new(2)]);
    open.commit().await.unwrap();
}

#[tokio::test]
async fn keys_that_are_pruned_while_they_are_taken_stay() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![keyed(1, "k"), keyed(2, "l"), keyed(3, "m")]).await.unwrap();
    client(&url).await.batch_execute("delete from turnwise.job").await.unwrap();
    let mut app = client(&url).await;
    let open = app.transaction().await.unwrap();
    enqueue_in(&open, &[keyed(4, "l")]).await.unwrap();
    // Nothing ends that transaction meanwhile: pruning that waited for it would end with an error.
    assert_eq!(store.prune(None, 100).await.unwrap(), 2, "the others go");
    open.commit().await.unwrap();
    assert_eq!(store.prune(None, 100).await.unwrap(), 0);
    assert_eq!(store.enqueue(vec![keyed(5, "l")]).await.unwrap(), [kept(4)]);
}

#[tokio::test]
async fn an_open_transaction_that_takes_a_key_keeps_no_change_that_was_read() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![keyed(1, "k"), job(2)]).await.unwrap();
    let app = client(&url).await;
    app.batch_execute("delete from turnwise.job; insert into turnwise.change (jobs, ran) values ('{}', '{}')")
        .await
        .unwrap();
    let seen = news(&store, None).await.cursor;
    let mut app = client(&url).await;
    let open = app.transaction().await.unwrap();
    enqueue_in(&open, &[keyed(3, "k")]).await.unwrap();
    assert_eq!(store.prune(Some(seen), 100).await.unwrap(), 1, "the change goes, the key stays");
    open.rollback().await.unwrap();
}
