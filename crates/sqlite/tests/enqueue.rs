//! Jobs in the caller's own transaction: there when it commits, never there when it does not.

use rusqlite::{Connection, TransactionBehavior};
use tempfile::TempDir;
use turnwise_core::{GroupName, JobId, JobState, Json, NewJob, TaskName};
use turnwise_sqlite::{SqliteStore, enqueue_in, rusqlite};
use turnwise_store::{AskNews, Epoch, Filter, MemoKind, NewMemo, Store, StoreError, Submitted};

struct Scene {
    _dir: TempDir,
    store: SqliteStore,
    conn: Connection,
}

fn scene() -> Scene {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("jobs.db");
    let store = SqliteStore::open(path.to_str().unwrap(), Default::default()).unwrap();
    let conn = Connection::open(path).unwrap();
    conn.execute_batch("create table purchase (what text)").unwrap();
    Scene { _dir: dir, store, conn }
}

fn job(n: u64) -> NewJob {
    NewJob::new(JobId::from_parts(n, [0; 10]), TaskName::new("ship").unwrap(), Json::null())
}

fn purchases(conn: &Connection) -> i64 {
    conn.query_row("select count(*) from purchase", (), |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn a_committed_transaction_brings_its_jobs_along() {
    let mut scene = scene();
    let ask = |cursor| AskNews { cursor, epoch: Epoch(1), asleep: false, new_jobs: u32::MAX };
    let before = scene.store.news(ask(None)).await.unwrap().cursor;
    let order = scene.conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    order.execute("insert into purchase values ('tea')", ()).unwrap();
    let enqueued = enqueue_in(&order, &[job(1), job(2)]).unwrap();
    assert_eq!(enqueued, [Submitted::itself(job(1).id, true), Submitted::itself(job(2).id, true)]);
    assert_eq!(scene.store.job(job(1).id).await.unwrap(), None, "not before the commit");
    order.commit().unwrap();
    assert_eq!(scene.store.job(job(1).id).await.unwrap().unwrap().state, JobState::Waiting);
    let news = scene.store.news(ask(Some(before))).await.unwrap();
    assert_eq!(news.jobs.iter().map(|head| head.id).collect::<Vec<_>>(), [job(1).id, job(2).id]);
}

#[tokio::test]
async fn a_rolled_back_transaction_leaves_no_job() {
    let mut scene = scene();
    let order = scene.conn.transaction().unwrap();
    enqueue_in(&order, &[job(1)]).unwrap();
    order.rollback().unwrap();
    assert_eq!(scene.store.jobs(Filter::default()).await.unwrap(), []);
    // Nor does it hide the next one that gets its number.
    let ask = |cursor| AskNews { cursor, epoch: Epoch(1), asleep: false, new_jobs: u32::MAX };
    let cursor = scene.store.news(ask(None)).await.unwrap().cursor;
    scene.store.enqueue(vec![job(2)]).await.unwrap();
    assert_eq!(scene.store.news(ask(Some(cursor))).await.unwrap().jobs[0].id, job(2).id);
}

#[tokio::test]
async fn without_a_transaction_all_jobs_are_stored_at_once() {
    let scene = scene();
    let enqueued = scene.store.enqueue_in(&scene.conn, &[job(1), job(1), job(2)]).unwrap();
    assert_eq!(enqueued.iter().map(|enqueued| enqueued.new).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(scene.store.jobs(Filter::default()).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_failed_enqueue_leaves_the_callers_transaction_usable() {
    let mut scene = scene();
    // The caller's own trigger makes the second job fail after the first was written.
    let trigger = "create temp trigger no_mail before insert on turnwise_job when new.task = 'mail'
                   begin select raise(abort, 'no mail today'); end";
    scene.conn.execute_batch(trigger).unwrap();
    let order = scene.conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    order.execute("insert into purchase values ('tea')", ()).unwrap();
    let mail = NewJob { task: TaskName::new("mail").unwrap(), ..job(2) };
    assert!(enqueue_in(&order, &[job(1), mail]).unwrap_err().to_string().contains("no mail today"));
    order.commit().unwrap();
    assert_eq!(purchases(&scene.conn), 1);
    assert_eq!(scene.store.jobs(Filter::default()).await.unwrap(), [], "none of the jobs");
}

#[tokio::test]
async fn of_many_jobs_one_of_which_is_not_taken_none_is_stored() {
    for (raise, said) in [("raise(abort, 'no mail today')", "no mail today"), ("raise(ignore)", "not taken all jobs")] {
        let mut scene = scene();
        let trigger = format!(
            "create temp trigger no_mail before insert on turnwise_job when new.task = 'mail' begin select {raise}; end"
        );
        scene.conn.execute_batch(&trigger).unwrap();
        let order = scene.conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        order.execute("insert into purchase values ('tea')", ()).unwrap();
        let mut jobs: Vec<_> = (1..=25).map(job).collect();
        jobs[13].task = TaskName::new("mail").unwrap();
        let error = enqueue_in(&order, &jobs).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        order.commit().unwrap();
        assert_eq!(purchases(&scene.conn), 1);
        assert_eq!(scene.store.jobs(Filter::default()).await.unwrap(), [], "none of the jobs");
    }
}

#[tokio::test]
async fn a_transaction_that_read_too_early_is_told_to_begin_immediate() {
    let mut scene = scene();
    let order = scene.conn.transaction_with_behavior(TransactionBehavior::Deferred).unwrap();
    purchases(&order);
    scene.store.enqueue(vec![job(1)]).await.unwrap();
    let error = enqueue_in(&order, &[job(2)]).unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("begin immediate"), "{error}");
}

#[tokio::test]
async fn a_full_group_refuses_the_job_and_leaves_the_callers_transaction_usable() {
    let mut scene = scene();
    let sentence = r#"group "default" has 1000 waiting jobs, its limit"#;
    let full = NewMemo {
        kind: MemoKind::Full,
        name: "default".to_owned(),
        value: Some(sentence.to_owned()),
        seen: None,
        line: None,
    };
    scene.store.enqueue(vec![job(1)]).await.unwrap();
    scene.store.remember(None, vec![full]).await.unwrap();
    let order = scene.conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
    order.execute("insert into purchase values ('tea')", ()).unwrap();
    assert_eq!(enqueue_in(&order, &[job(1)]).unwrap(), [Submitted::itself(job(1).id, false)]);
    let other = NewJob { group: GroupName::new("other").unwrap(), ..job(2) };
    let error = enqueue_in(&order, &[other, job(3)]).unwrap_err();
    assert!(matches!(&error, StoreError::Refused(text) if text == sentence), "{error}");
    order.commit().unwrap();
    assert_eq!(purchases(&scene.conn), 1);
    assert_eq!(scene.store.jobs(Filter::default()).await.unwrap().len(), 1, "none of the new jobs");
}

#[test]
fn a_connection_to_another_file_is_refused() {
    let error = enqueue_in(&Connection::open_in_memory().unwrap(), &[job(1)]).unwrap_err();
    assert!(matches!(&error, StoreError::Refused(text) if text.contains("no turnwise schema")), "{error}");
}
