//! The ends of tasks' transactions: which connections are ended, what is written when, and what a lost connection costs.

mod database;

use database::{client, fresh_url, id, job, lead, node};
use tokio_postgres::Client;
use turnwise_core::{
    Fence,
    lifecycle::{self, Event, JobFacts, Outcome},
    scheduler::Pick,
};
use turnwise_postgres::{PostgresStore, TaskTransaction, Transactions};
use turnwise_store::{Assign, BatchId, Closed, Closing, Last, Options, Settlement, Store, Undone};
use uuid::Uuid;

const STATUS: &str = include_str!("../sql/closing_status.sql");
const TERMINATE: &str = include_str!("../sql/closing_terminate.sql");

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
    // After a failover the number may be any transaction's.
    assert_eq!(ended("a shop", "turnwise task 1", 0).await, 0);
    assert_eq!(ended("turnwise task 2", "turnwise task 1", 0).await, 0);
    assert_eq!(ended("turnwise task 1", "turnwise task 1", 1).await, 0);
}

#[tokio::test]
async fn only_connections_of_lost_nodes_tasks_are_ended_and_no_strangers() {
    let url = fresh_url();
    let (running, asking) = (client(&url).await, client(&url).await);
    // Roles belong to the whole cluster, and the name of a fresh database is unique.
    let stranger = format!("stranger_of_{}", url.rsplit('/').next().unwrap());
    asking.batch_execute(&format!("create role {stranger} login superuser")).await.unwrap();
    let another = client(&url.replace("postgres@", &format!("{stranger}@"))).await;
    for one in [&running, &another, &asking] {
        one.batch_execute("set application_name = 'turnwise task 1'").await.unwrap();
    }
    let ended = async |asks: &str| {
        let rows = asking.query(TERMINATE, &[&vec![asks]]).await.unwrap();
        rows.len()
    };
    let pid: i32 = running.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    assert_eq!(ended("turnwise task 2").await, 0);
    // Whatever role it has taken on, it did not log in as the stranger.
    asking.batch_execute(&format!("set role {stranger}")).await.unwrap();
    assert_eq!(ended("turnwise task 1").await, 1);
    asking.batch_execute("reset role").await.unwrap();
    another.query("select 1", &[]).await.expect("the stranger goes on");
    assert!(running.query("select 1", &[]).await.is_err());
    // A connection that was ended is listed for a moment longer.
    while asking.query_opt("select from pg_stat_activity where pid = $1", &[&pid]).await.unwrap().is_some() {}
    assert_eq!(ended("turnwise task 1").await, 0, "nor does it end itself");
    drop(another);
    asking.batch_execute(&format!("drop role {stranger}")).await.unwrap();
}

/// Job 1 runs in a transaction.
struct Place {
    store: PostgresStore,
    app: Client,
    transaction: TaskTransaction,
}

impl Place {
    async fn new() -> Self {
        let url = fresh_url();
        let store = PostgresStore::open(&url, Options::default()).await.unwrap();
        store.enqueue(vec![job(1)]).await.unwrap();
        let alpha = node(1);
        let epoch = lead(&store, alpha, "alpha").await;
        let picks = vec![Pick { job: id(1), fence: Fence(0), node: alpha, limited: false }];
        store.assign(Assign { holder: alpha, epoch, batch: BatchId(Uuid::nil()), picks }).await.unwrap();
        let transaction = Transactions::new(&url, &Options::default()).unwrap().begin(alpha, None, 1).await.unwrap();
        Self { store, app: client(&url).await, transaction }
    }

    async fn last(&self) -> Last {
        let now = self.store.nodes().await.unwrap().now;
        let job = self.store.job(id(1)).await.unwrap().unwrap();
        let done = Event::Ended(Outcome::Done { result: None });
        let to = lifecycle::decide(&JobFacts::from(&job), &done, now, 0.0).unwrap();
        let (started_at, finished_at) = (None, None);
        let settlement =
            Settlement { job: id(1), fence: Fence(1), saw_cancel: false, to, noted: false, started_at, finished_at };
        Last { node: node(1), told: None, settlement, note: None }
    }
}

#[tokio::test]
async fn a_transactional_task_has_ended_at_its_end_and_not_when_its_transaction_began() {
    let place = Place::new().await;
    let last = place.last().await;
    place.app.batch_execute("create table watch as select clock_timestamp() as at").await.unwrap();
    assert!(matches!(Box::new(place.transaction).settle(last).await, Closed::Committed));
    let later =
        "select ended_at >= at and finished_at >= at and ended_at < clock_timestamp() from turnwise.history, watch";
    assert!(place.app.query_one(later, &[]).await.unwrap().get::<_, bool>(0));
}

#[tokio::test]
async fn a_connection_lost_before_the_commit_is_reported_as_such() {
    let cut = async |place: &Place| {
        let sql = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'turnwise task %'
                      and datname = current_database()";
        assert_eq!(place.app.query(sql, &[]).await.unwrap().len(), 1);
    };
    let place = Place::new().await;
    let last = place.last().await;
    cut(&place).await;
    let closed = Box::new(place.transaction).settle(last).await;
    assert!(matches!(closed, Closed::Cut(_)), "{closed:?}");
    let place = Place::new().await;
    cut(&place).await;
    assert_eq!(Box::new(place.transaction).roll_back().await, Undone::Cut);
    let place = Place::new().await;
    assert_eq!(Box::new(place.transaction).roll_back().await, Undone::Asked);
    let place = Place::new().await;
    let last = place.last().await;
    place.transaction.batch_execute("select 1 / 0").await.unwrap_err();
    let closed = Box::new(place.transaction).settle(last).await;
    assert!(matches!(closed, Closed::Failed(_)), "{closed:?}");
}
