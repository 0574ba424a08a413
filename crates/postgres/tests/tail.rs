//! The tail: whatever order transactions commit in, no job is lost and none is seen early or twice.

mod database;

use database::{client, fresh_store, id, job, look, news};
use turnwise_postgres::enqueue_in;
use turnwise_store::Store;

#[tokio::test]
async fn a_rolled_back_job_is_never_seen() {
    let (store, url) = fresh_store().await;
    let mut cursor = news(&store, None).await.cursor;
    let mut app = client(&url).await;
    let transaction = app.transaction().await.unwrap();
    enqueue_in(&transaction, &[job(1)]).await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, []);
    transaction.rollback().await.unwrap();
    store.enqueue(vec![job(2)]).await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, [id(2)]);
    assert_eq!(look(&store, &mut cursor).await, []);
}

#[tokio::test]
async fn a_long_open_transaction_is_seen_when_it_commits_and_not_before() {
    let (store, url) = fresh_store().await;
    let mut cursor = news(&store, None).await.cursor;
    let mut app = client(&url).await;
    let transaction = app.transaction().await.unwrap();
    enqueue_in(&transaction, &[job(1)]).await.unwrap();
    for n in 2..20 {
        store.enqueue(vec![job(n)]).await.unwrap();
        assert_eq!(look(&store, &mut cursor).await, [id(n)]);
    }
    transaction.commit().await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, [id(1)]);
    assert_eq!(look(&store, &mut cursor).await, []);
}

#[tokio::test]
async fn a_transaction_that_was_open_before_the_tail_began_is_seen_when_it_commits() {
    let (store, url) = fresh_store().await;
    let mut app = client(&url).await;
    let transaction = app.transaction().await.unwrap();
    enqueue_in(&transaction, &[job(1)]).await.unwrap();
    let mut cursor = news(&store, None).await.cursor;
    assert_eq!(look(&store, &mut cursor).await, []);
    transaction.commit().await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, [id(1)]);
    assert_eq!(look(&store, &mut cursor).await, []);
}

#[tokio::test]
async fn lower_numbers_that_commit_later_are_not_lost() {
    let (store, url) = fresh_store().await;
    let mut cursor = news(&store, None).await.cursor;
    let (mut early, mut late) = (client(&url).await, client(&url).await);
    let first = early.transaction().await.unwrap();
    enqueue_in(&first, &[job(1)]).await.unwrap();
    let second = late.transaction().await.unwrap();
    enqueue_in(&second, &[job(2)]).await.unwrap();
    second.commit().await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, [id(2)]);
    first.commit().await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, [id(1)]);
    assert_eq!(look(&store, &mut cursor).await, []);
}

#[tokio::test]
async fn a_prepared_transaction_is_seen_when_it_is_committed() {
    let (store, url) = fresh_store().await;
    let mut cursor = news(&store, None).await.cursor;
    let app = client(&url).await;
    let kept = format!("kept {}", url.rsplit('/').next().unwrap());
    let dropped = format!("dropped {}", url.rsplit('/').next().unwrap());
    app.batch_execute("begin").await.unwrap();
    enqueue_in(&app, &[job(1)]).await.unwrap();
    app.batch_execute(&format!("prepare transaction '{kept}'")).await.unwrap();
    app.batch_execute("begin").await.unwrap();
    enqueue_in(&app, &[job(2)]).await.unwrap();
    app.batch_execute(&format!("prepare transaction '{dropped}'")).await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, []);
    app.batch_execute(&format!("rollback prepared '{dropped}'")).await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, []);
    app.batch_execute(&format!("commit prepared '{kept}'")).await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, [id(1)]);
    assert_eq!(look(&store, &mut cursor).await, []);
}

#[tokio::test]
async fn jobs_of_savepoints_are_seen_with_their_transaction_unless_rolled_back() {
    let (store, url) = fresh_store().await;
    let mut cursor = news(&store, None).await.cursor;
    let mut app = client(&url).await;
    let mut transaction = app.transaction().await.unwrap();
    enqueue_in(&transaction, &[job(1)]).await.unwrap();
    let kept = transaction.savepoint("kept").await.unwrap();
    enqueue_in(&kept, &[job(2)]).await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, []);
    kept.commit().await.unwrap();
    let dropped = transaction.savepoint("dropped").await.unwrap();
    enqueue_in(&dropped, &[job(3)]).await.unwrap();
    dropped.rollback().await.unwrap();
    let late = transaction.savepoint("late").await.unwrap();
    enqueue_in(&late, &[job(4)]).await.unwrap();
    late.commit().await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, []);
    transaction.commit().await.unwrap();
    assert_eq!(look(&store, &mut cursor).await, [id(1), id(2), id(4)]);
    assert_eq!(look(&store, &mut cursor).await, []);
}

#[tokio::test]
async fn memos_of_a_long_open_transaction_are_news_when_it_commits_and_once() {
    let (store, url) = fresh_store().await;
    let mut cursor = news(&store, None).await.cursor;
    let mut app = client(&url).await;
    // What `remember` writes for the dispatcher, only slower.
    let change = "insert into turnwise.change (jobs, ran, memos) values ('{}', '{}', true)";
    let transaction = app.transaction().await.unwrap();
    transaction.execute(change, &[]).await.unwrap();
    for n in 1..4 {
        store.enqueue(vec![job(n)]).await.unwrap();
        let read = news(&store, Some(&cursor)).await;
        assert_eq!((read.memos, read.jobs.len()), (false, 1));
        cursor = read.cursor;
    }
    transaction.commit().await.unwrap();
    let read = news(&store, Some(&cursor)).await;
    assert_eq!((read.memos, read.jobs.len(), read.changes.len()), (true, 0, 0));
    assert!(!news(&store, Some(&read.cursor)).await.memos);
    let transaction = app.transaction().await.unwrap();
    transaction.execute(change, &[]).await.unwrap();
    transaction.rollback().await.unwrap();
    assert!(!news(&store, Some(&read.cursor)).await.memos);
}

#[tokio::test]
async fn a_writer_is_over_when_its_transaction_has_ended_and_what_it_brought_is_in_the_news() {
    let (store, url) = fresh_store().await;
    let mut cursor = news(&store, None).await.cursor;
    let mut app = client(&url).await;
    let transaction = app.transaction().await.unwrap();
    enqueue_in(&transaction, &[job(1)]).await.unwrap();
    // A job that came later and has already been read as news, as a queue's seal would be.
    store.enqueue(vec![job(2)]).await.unwrap();
    let read = news(&store, Some(&cursor)).await;
    let mark = read.writers.next;
    assert!(read.writers.over < mark, "{:?}", read.writers);
    store.enqueue(vec![job(3)]).await.unwrap();
    let read = news(&store, Some(&read.cursor)).await;
    assert!(read.writers.over < mark && mark < read.writers.next, "{:?}", read.writers);
    cursor = read.cursor;
    transaction.commit().await.unwrap();
    let mut jobs = Vec::new();
    // Writers of other databases on the same server count too; they end.
    loop {
        let read = news(&store, Some(&cursor)).await;
        jobs.extend(read.jobs.iter().map(|head| head.id));
        cursor = read.cursor;
        if read.writers.over >= mark {
            break;
        }
    }
    assert_eq!(jobs, [id(1)]);
}

#[tokio::test]
async fn jobs_stamped_by_another_clusters_future_are_not_news_for_ever() {
    let (store, url) = fresh_store().await;
    store.enqueue(vec![job(1)]).await.unwrap();
    // As a dump restored into a young cluster leaves it.
    client(&url).await.batch_execute("update turnwise.job set xact = '999999999999'").await.unwrap();
    let mut cursor = news(&store, None).await.cursor;
    assert_eq!(look(&store, &mut cursor).await, []);
}
