//! Jobs that wait for jobs, where transactions stay open meanwhile.

mod database;

use std::time::Duration;

use database::{client, fresh_url, id, job, lead, node};
use tokio_postgres::{Client, IsolationLevel};
use turnwise_core::{
    After, Fence, JobState, NewJob, OnFailure, Retention,
    after::Awaits,
    lifecycle::{self, Event, JobFacts, Outcome},
    scheduler::Pick,
};
use turnwise_postgres::{PostgresStore, enqueue_in};
use turnwise_store::{
    Assign, AssignReply, Author, BatchId, Intervention, Load, Options, Settle, Settled, Settlement, Store,
};
use uuid::Uuid;

/// Only what ends well is kept.
const FORGETS: Retention =
    Retention { success: Duration::from_secs(86_400), failed: Duration::ZERO, cancelled: Duration::ZERO };

struct Place {
    url: String,
    store: PostgresStore,
}

impl Place {
    async fn new() -> Self {
        Self::with(FORGETS, fresh_url()).await
    }

    async fn with(retention: Retention, url: String) -> Self {
        let options = Options { retention: Some(retention), ..Options::default() };
        Self { store: PostgresStore::open(&url, options).await.unwrap(), url }
    }

    async fn client(&self) -> Client {
        client(&self.url).await
    }

    /// Job `n` runs and ends like this.
    async fn run(&self, n: u64, outcome: Outcome) {
        let alpha = node(1);
        let epoch = lead(&self.store, alpha, "alpha").await;
        let picks = vec![Pick { job: id(n), fence: Fence(0), node: alpha, limited: false }];
        let batch = BatchId(Uuid::from_u128(n.into()));
        let assigned = self.store.assign(Assign { holder: alpha, epoch, batch, picks }).await.unwrap();
        assert!(matches!(assigned[0].1, AssignReply::Mine(_)), "{assigned:?}");
        let settlement = Settlement {
            job: id(n),
            fence: Fence(1),
            saw_cancel: false,
            to: self.decide(n, &Event::Ended(outcome)).await,
            noted: false,
            started_at: None,
            finished_at: None,
        };
        let author = Author::Node { node: alpha, told: None };
        let settle = Settle { author, settlements: vec![settlement], done: vec![batch] };
        assert_eq!(self.store.settle(settle).await.unwrap(), [Settled::Applied]);
    }

    async fn fail(&self, n: u64) {
        self.run(n, Outcome::Fail("no".into())).await;
        assert_eq!(self.store.job(id(n)).await.unwrap(), None);
    }

    /// A person cancels job `n`, which waits.
    async fn cancel(&self, n: u64) {
        let to = self.decide(n, &Event::Cancel).await;
        let cancel = Intervention { job: id(n), state: JobState::Waiting, fence: Fence(0), to, line: None };
        assert_eq!(self.store.control(vec![cancel]).await.unwrap(), [Settled::Applied]);
    }

    async fn decide(&self, n: u64, event: &Event) -> lifecycle::Transition {
        let now = self.store.nodes().await.unwrap().now;
        let job = self.store.job(id(n)).await.unwrap().unwrap();
        lifecycle::decide(&JobFacts::from(&job), event, now, 0.0).unwrap()
    }

    async fn prune(&self) {
        self.store.prune(None, 100).await.unwrap();
    }

    async fn awaits(&self, n: u64) -> Awaits {
        let page = self.store.load(Load::These(vec![id(n)])).await.unwrap();
        *page.jobs[0].awaits.clone().expect("it waits")
    }

    /// Bad ends that are kept for jobs that may wait for them in transactions that are not visible yet.
    async fn bad_ends(&self) -> i64 {
        self.client().await.query_one("select count(*) from turnwise.bad_end", &[]).await.unwrap().get(0)
    }
}

fn waits(n: u64, after: u64) -> NewJob {
    NewJob { after: After::new([id(after)], OnFailure::Fail).unwrap(), ..job(n) }
}

fn ended_badly(n: u64, state: JobState) -> Awaits {
    Awaits { on_failure: OnFailure::Fail, open: vec![], ended_badly: Some((id(n), state)) }
}

#[tokio::test]
async fn a_bad_end_that_is_not_kept_reaches_a_job_submitted_in_a_transaction_open_then() {
    let place = Place::new().await;
    place.store.enqueue(vec![job(1), job(2)]).await.unwrap();
    let mut app = place.client().await;
    let transaction = app.transaction().await.unwrap();
    enqueue_in(&transaction, &[waits(3, 1), waits(4, 2)]).await.unwrap();
    place.fail(1).await;
    place.cancel(2).await;
    for _ in 0..3 {
        place.prune().await;
    }
    transaction.commit().await.unwrap();
    assert_eq!(place.awaits(3).await, ended_badly(1, JobState::Failed));
    assert_eq!(place.awaits(4).await, ended_badly(2, JobState::Cancelled));
}

#[tokio::test]
async fn a_bad_end_reaches_a_job_whose_transaction_still_saw_it_unfinished() {
    let place = Place::new().await;
    place.store.enqueue(vec![job(1)]).await.unwrap();
    let mut app = place.client().await;
    let transaction = app.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await.unwrap();
    transaction.query("select from turnwise.job", &[]).await.unwrap();
    place.fail(1).await;
    for _ in 0..3 {
        place.prune().await;
    }
    // It has written nothing until now, and so has no number that others could see.
    enqueue_in(&transaction, &[waits(2, 1)]).await.unwrap();
    for _ in 0..3 {
        place.prune().await;
    }
    transaction.commit().await.unwrap();
    assert_eq!(place.awaits(2).await, ended_badly(1, JobState::Failed));
}

#[tokio::test]
async fn a_bad_end_is_forgotten_once_no_new_job_can_wait_for_it() {
    let place = Place::new().await;
    place.store.enqueue(vec![job(1), job(2), waits(3, 1), waits(4, 2)]).await.unwrap();
    place.fail(1).await;
    place.cancel(2).await;
    assert_eq!(place.bad_ends().await, 2);
    let mut rounds = 0;
    while place.bad_ends().await > 0 {
        rounds += 1;
        assert!(rounds < 1_000, "they stay for ever");
        place.prune().await;
    }
    assert_eq!(place.awaits(3).await, ended_badly(1, JobState::Failed), "the waiting job records it");
    assert_eq!(place.awaits(4).await, ended_badly(2, JobState::Cancelled));
}

#[tokio::test]
async fn a_bad_end_that_came_with_a_dump_of_another_database_is_forgotten() {
    let place = Place::new().await;
    let later = "insert into turnwise.bad_end (id, state, xact)
                 values ($1, 5, ((pg_current_xact_id()::text::bigint + 3000000000)::text)::xid8)";
    place.client().await.execute(later, &[&id(1).uuid()]).await.unwrap();
    place.prune().await;
    assert_eq!(place.bad_ends().await, 0);
}

#[tokio::test]
async fn good_ends_leave_no_bad_end() {
    let place = Place::with(Duration::ZERO.into(), fresh_url()).await;
    place.store.enqueue(vec![job(1)]).await.unwrap();
    place.run(1, Outcome::Done { result: None }).await;
    assert_eq!((place.store.job(id(1)).await.unwrap(), place.bad_ends().await), (None, 0));
}

#[tokio::test]
async fn a_bad_end_pruned_by_rows_reaches_a_job_submitted_in_a_transaction_open_then() {
    let keeps = Place::with(Retention::default(), fresh_url()).await;
    keeps.store.enqueue(vec![job(1)]).await.unwrap();
    keeps.cancel(1).await;
    let mut app = keeps.client().await;
    let transaction = app.transaction().await.unwrap();
    enqueue_in(&transaction, &[waits(2, 1)]).await.unwrap();
    let forgets = Place::with(FORGETS, keeps.url).await;
    while forgets.store.job(id(1)).await.unwrap().is_some() {
        forgets.prune().await;
    }
    transaction.commit().await.unwrap();
    assert_eq!(forgets.awaits(2).await, ended_badly(1, JobState::Cancelled));
}

#[tokio::test]
async fn a_bad_end_in_a_dropped_slice_reaches_a_job_committed_a_moment_before() {
    let place = Place::with(Retention::default(), fresh_url()).await;
    place.store.enqueue(vec![job(1)]).await.unwrap();
    place.cancel(1).await;
    let watch = place.client().await;
    let later = "create or replace function turnwise.now() returns timestamptz language sql stable
                 as 'select pg_catalog.now() + interval ''30 days'''";
    watch.batch_execute(later).await.unwrap();
    // New slices are made while the old one cannot be dropped: so the prunes below do not wait to make one.
    let sql = "select tableoid::regclass::text from turnwise.history where id = $1";
    let slice: String = watch.query_one(sql, &[&id(1).uuid()]).await.unwrap().get(0);
    watch.batch_execute(&format!("begin; lock table {slice} in access share mode")).await.unwrap();
    place.prune().await;
    watch.batch_execute("commit").await.unwrap();
    let mut last = 1;
    while place.store.job(id(1)).await.unwrap().is_some() {
        last += 1;
        let mut app = place.client().await;
        let transaction = app.transaction().await.unwrap();
        enqueue_in(&transaction, &[waits(last, 1)]).await.unwrap();
        let store = place.store.clone();
        let prune = tokio::spawn(async move { store.prune(None, 100).await.unwrap() });
        // The prune that drops the slice waits for this transaction, for a moment.
        let waiting = "select exists (select from pg_locks
                        where not granted and relation = 'turnwise.history_cancelled'::regclass)";
        while !prune.is_finished() && !watch.query_one(waiting, &[]).await.unwrap().get::<_, bool>(0) {
            tokio::task::yield_now().await;
        }
        transaction.commit().await.unwrap();
        prune.await.unwrap();
    }
    for n in 2..=last {
        assert_eq!(place.awaits(n).await, ended_badly(1, JobState::Cancelled), "{n}");
    }
}

#[tokio::test]
async fn a_slice_with_bad_ends_stays_while_a_transaction_sees_its_jobs_as_unfinished() {
    let place = Place::with(Retention::default(), fresh_url()).await;
    place.store.enqueue(vec![job(1)]).await.unwrap();
    let app = place.client().await;
    // It has read nothing of history, and locks nothing there.
    app.batch_execute("begin isolation level repeatable read; select 1 from turnwise.migration").await.unwrap();
    place.cancel(1).await;
    let later = "create or replace function turnwise.now() returns timestamptz language sql stable
                 as 'select pg_catalog.now() + interval ''30 days'''";
    place.client().await.batch_execute(later).await.unwrap();
    place.prune().await;
    assert!(place.store.job(id(1)).await.unwrap().is_some(), "its slice is there");
    app.batch_execute("commit").await.unwrap();
    // Any other process with an older snapshot, a vacuum too, delays the drop to the next round.
    let begun = std::time::Instant::now();
    while place.store.job(id(1)).await.unwrap().is_some() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(30), "its slice is still there");
        place.prune().await;
    }
}
