//! A fresh database for each test, and the few helpers all of them use.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::collections::BTreeSet;

use tokio_postgres::{Client, NoTls};
use turnwise_core::{Incarnation, JobId, Json, NewJob, NodeName, Serves, TaskName, node::Host};
use turnwise_postgres::PostgresStore;
use turnwise_store::{AskNews, Beat, Cursor, Epoch, Join, Joined, News, Options, Store};
use turnwise_testpg::Cluster;
use uuid::Uuid;

pub(crate) const LEASE: std::time::Duration = std::time::Duration::from_secs(60);

pub(crate) fn fresh_url() -> String {
    Cluster::shared().fresh_database().expect("a fresh database")
}

pub(crate) async fn fresh_store() -> (PostgresStore, String) {
    let url = fresh_url();
    (PostgresStore::open(&url, Options::default()).await.expect("an empty database opens"), url)
}

/// A plain connection, as an application has one.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
    tokio::spawn(connection);
    client
}

pub(crate) fn id(n: u64) -> JobId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&n.to_be_bytes());
    JobId::from_parts(1_700_000_000_000 + n, random)
}

pub(crate) fn job(n: u64) -> NewJob {
    NewJob::new(id(n), TaskName::new("mail").expect("a good name"), Json::parse("args", "{}").expect("good JSON"))
}

pub(crate) fn node(n: u128) -> Incarnation {
    Incarnation(Uuid::from_u128(n))
}

pub(crate) async fn join(store: &PostgresStore, incarnation: Incarnation, name: &str) {
    let join = Join {
        incarnation,
        name: NodeName::new(name).expect("a good name"),
        host: Host {
            name: "host".into(),
            boot_id: String::new(),
            pid_namespace: String::new(),
            pid: 1,
            started: 1,
            version: None,
        },
        slots: 10,
        queue_capacity: 100,
        batch_size: None,
        queues: Serves::All,
        tasks: BTreeSet::from([TaskName::new("mail").expect("a good name")]),
        lease: LEASE,
        replace: None,
        worker: None,
    };
    let joined = store.join(join).await.expect("join");
    assert!(matches!(joined, Joined::In { .. }), "{joined:?}");
}

/// A node that has joined and dispatches.
pub(crate) async fn lead(store: &PostgresStore, incarnation: Incarnation, name: &str) -> Epoch {
    join(store, incarnation, name).await;
    let beat = Beat::new(incarnation, LEASE, 10, true);
    store.beat(beat).await.expect("beat").epoch.expect("no other node dispatches")
}

pub(crate) async fn news(store: &PostgresStore, cursor: Option<&Cursor>) -> News {
    let ask = AskNews { cursor: cursor.cloned(), epoch: Epoch(0), asleep: false, new_jobs: u32::MAX };
    store.news(ask).await.expect("news")
}

/// The ids in the news since `cursor`, which moves on.
pub(crate) async fn look(store: &PostgresStore, cursor: &mut Cursor) -> Vec<JobId> {
    let news = news(store, Some(cursor)).await;
    *cursor = news.cursor;
    news.jobs.iter().map(|head| head.id).collect()
}
