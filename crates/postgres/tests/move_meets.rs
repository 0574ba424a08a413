//! Closing a database for a move meets what nodes and submitters write: the first is held before its commit, the second waits for it, and is
//! then done or refused, so that nothing comes into a closed database and nothing that is acknowledged stays behind.

mod database;

use std::{future::Future, sync::Arc, time::Duration};

use database::{client, fresh_url, id, job, join, lead, node};
use tokio_postgres::Client;
use turnwise_core::{
    Fence, Incarnation,
    lifecycle::{self, Event, JobFacts, Outcome},
    scheduler::Pick,
};
use turnwise_postgres::PostgresStore;
use turnwise_store::{
    Assign, Author, BatchId, Epoch, MoveStore, Options, Result, Settle, Settlement, Store, StoreError,
    moving::{Hindrance, MoveId, Moving, PARTS, Side},
};
use uuid::Uuid;

/// A transaction of the first party waits in its commit for the gate.
const HOLD: &str = "
    create function turnwise.test_hold() returns trigger language plpgsql set lock_timeout = 0 as $$
    begin
        if current_setting('turnwise.test_hold', true) = 'on' then
            perform pg_advisory_xact_lock_shared(4711);
        end if;
        return null;
    end $$;
    do $$
    declare one text;
    begin
        foreach one in array array['job', 'node', 'move', 'history'] loop
            execute format(
                'create constraint trigger test_hold after insert or update or delete on turnwise.%I
                     deferrable initially deferred for each row execute function turnwise.test_hold()', one);
        end loop;
    end $$";

/// Alpha dispatches and beta works, but neither has beaten in time.
struct Stage {
    first: Arc<PostgresStore>,
    second: Arc<PostgresStore>,
    epoch: Epoch,
    app: Client,
}

const ALPHA: u128 = 1;
const BETA: u128 = 2;

impl Stage {
    async fn make() -> Self {
        let url = fresh_url();
        let store = PostgresStore::open(&url, Options::default()).await.unwrap();
        let epoch = lead(&store, node(ALPHA), "alpha").await;
        join(&store, node(BETA), "beta").await;
        store.enqueue(vec![job(1)]).await.unwrap();
        drop(store);
        let app = client(&url).await;
        app.batch_execute("update turnwise.node set lease_until = now() - interval '1 second'").await.unwrap();
        app.batch_execute(HOLD).await.unwrap();
        let party = async |name, options| {
            let url = format!("{url}?application_name={name}{options}");
            Arc::new(PostgresStore::connect(&url, Options::default()).await.unwrap())
        };
        let first = party("first", "&options=-c%20turnwise.test_hold%3Don").await;
        Self { first, second: party("second", "").await, epoch, app }
    }

    fn assign(&self) -> Assign {
        let pick = Pick { job: id(1), fence: Fence(0), node: node(BETA), limited: false };
        Assign { holder: node(ALPHA), epoch: self.epoch, batch: BatchId(Uuid::from_u128(1)), picks: vec![pick] }
    }

    async fn blocked(&self, name: &str) {
        let blocked = "select count(*) > 0 from pg_stat_activity where datname = current_database()
                          and application_name = $1 and cardinality(pg_blocking_pids(pid)) > 0";
        let begun = std::time::Instant::now();
        while !self.app.query_one(blocked, &[&name]).await.unwrap().get::<_, bool>(0) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{name} does not wait");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// What both are answered: the second begins when the first is about to commit, and waits for it.
    async fn meet<A: Send + 'static, B: Send + 'static>(
        &self,
        first: impl Future<Output = A> + Send + 'static,
        second: impl Future<Output = B> + Send + 'static,
    ) -> (A, B) {
        self.app.batch_execute("select pg_advisory_lock(4711)").await.unwrap();
        let first = tokio::spawn(first);
        self.blocked("first").await;
        let second = tokio::spawn(second);
        self.blocked("second").await;
        self.app.batch_execute("select pg_advisory_unlock(4711)").await.unwrap();
        (first.await.unwrap(), second.await.unwrap())
    }

    /// Jobs that a mover would take along.
    async fn moved(&self) -> usize {
        let part = PARTS.iter().find(|part| part.name == "job").unwrap();
        self.second.export(part, Vec::new(), 100).await.unwrap().len()
    }
}

/// A call of one of the verbs, again while it gets no answer.
async fn answered<T, F: Future<Output = Result<T>>>(call: impl Fn() -> F) -> Result<T> {
    loop {
        match call().await {
            Err(StoreError::Transient { .. }) => {}
            answer => return answer,
        }
    }
}

fn close(store: &Arc<PostgresStore>) -> impl Future<Output = std::result::Result<(), Hindrance>> + Send + 'static {
    let store = Arc::clone(store);
    let moving = Moving::new(MoveId(Uuid::from_u128(7)), Side::Source, "the other".to_owned());
    async move { answered(|| store.close(moving.clone())).await.unwrap() }
}

fn submit(store: &Arc<PostgresStore>) -> impl Future<Output = Result<()>> + Send + 'static {
    let store = Arc::clone(store);
    async move { answered(|| store.enqueue(vec![job(2)])).await.map(drop) }
}

fn give(store: &Arc<PostgresStore>, assign: Assign) -> impl Future<Output = Result<()>> + Send + 'static {
    let store = Arc::clone(store);
    async move { answered(|| store.assign(assign.clone())).await.map(drop) }
}

fn come(store: &Arc<PostgresStore>) -> impl Future<Output = ()> + Send + 'static {
    let store = Arc::clone(store);
    async move { join(&store, node(3), "gamma").await }
}

async fn settlement(store: &PostgresStore) -> Settle {
    let held = store.job(id(1)).await.unwrap().unwrap();
    let event = Event::Ended(Outcome::Done { result: None });
    let settlement = Settlement {
        job: held.id,
        fence: held.fence,
        saw_cancel: false,
        to: lifecycle::decide(&JobFacts::from(&held), &event, held.submitted_at, 0.0).unwrap(),
        noted: true,
        started_at: None,
        finished_at: None,
    };
    let author = Author::Node { node: Incarnation(Uuid::from_u128(BETA)), told: None };
    Settle { author, settlements: vec![settlement], done: vec![BatchId(Uuid::from_u128(1))] }
}

fn end(store: &Arc<PostgresStore>, settle: Settle) -> impl Future<Output = Result<()>> + Send + 'static {
    let store = Arc::clone(store);
    async move { answered(|| store.settle(settle.clone())).await.map(drop) }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T>) {
    assert!(matches!(&answer, Err(StoreError::Refused(text)) if text.contains("the other")), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_submitted_before_a_database_is_closed_is_moved_and_what_comes_later_is_refused() {
    let stage = Stage::make().await;
    let (stored, closed) = stage.meet(submit(&stage.first), close(&stage.second)).await;
    assert!(stored.is_ok() && closed.is_ok(), "{stored:?} {closed:?}");
    assert_eq!(stage.moved().await, 2, "it was acknowledged");

    let stage = Stage::make().await;
    let (closed, stored) = stage.meet(close(&stage.first), submit(&stage.second)).await;
    assert!(closed.is_ok(), "{closed:?}");
    refused(stored);
    assert_eq!(stage.moved().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_not_closed_beneath_a_job_that_is_given_out_and_gives_none_out_once_it_is() {
    let stage = Stage::make().await;
    let (given, closed) = stage.meet(give(&stage.first, stage.assign()), close(&stage.second)).await;
    assert!(given.is_ok(), "{given:?}");
    assert_eq!(closed, Err(Hindrance::InHands));
    let settle = settlement(&stage.first).await;
    let (ended, closed) = stage.meet(end(&stage.first, settle), close(&stage.second)).await;
    assert!(ended.is_ok() && closed.is_ok(), "the last job in hand has ended before: {ended:?} {closed:?}");
    assert_eq!(stage.moved().await, 0, "it is in history");

    let stage = Stage::make().await;
    let (closed, given) = stage.meet(close(&stage.first), give(&stage.second, stage.assign())).await;
    assert!(closed.is_ok(), "{closed:?}");
    refused(given);
    assert_eq!(stage.second.job(id(1)).await.unwrap().unwrap().fence, Fence(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_not_closed_beneath_a_node_that_joins() {
    let stage = Stage::make().await;
    let ((), closed) = stage.meet(come(&stage.first), close(&stage.second)).await;
    let Err(Hindrance::Nodes(nodes)) = closed else { panic!("{closed:?}") };
    assert_eq!(nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["gamma"]);
}
