//! PostgreSQL for the suite of promises that every store makes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tokio::sync::OnceCell;
use turnwise_core::{Incarnation, NewJob};
use turnwise_postgres::{PostgresStore, Transactions, migrate};
use turnwise_store::{
    Closing, OperatorStore, Options, Store,
    conformance::{ClosingHarness, Harness, MoveHarness, OperatorHarness},
    moving::mover::Place,
};
use turnwise_testpg::Cluster;

use super::still;

/// A database of its own for each test, with a clock that stands still until it is moved.
pub(crate) struct PostgresHarness {
    /// For the harness itself.
    direct: String,
    /// For the store.
    url: String,
    options: Options,
    /// Where everything is moved to.
    target: OnceCell<String>,
}

/// All tests begin with a copy of this one: that takes a third of the time of making the schema.
static TEMPLATE: OnceCell<String> = OnceCell::const_new();

async fn template() -> String {
    let direct = Cluster::shared().fresh_database().expect("a fresh database");
    migrate(&direct).await.expect("an empty database gets the schema");
    run(&direct, still::CLOCK).await;
    direct
}

fn copy(template: &str) -> String {
    static COPIES: AtomicU64 = AtomicU64::new(1);
    let cluster = Cluster::shared();
    let (server, name) = template.rsplit_once('/').expect("a url of a database");
    let copy = format!("{name}_{}", COPIES.fetch_add(1, Ordering::Relaxed));
    cluster.psql(&cluster.url(), &format!("create database {copy} template {name}")).expect("a copy");
    format!("{server}/{copy}")
}

async fn run(url: &str, text: &str) {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("connect");
    let connection = tokio::spawn(connection);
    client.batch_execute(text).await.expect("the harness's own statement");
    drop(client);
    connection.await.expect("the connection does not panic").expect("the connection ends well");
}

impl PostgresHarness {
    /// `way`: the url by which the store shall reach the database at this one.
    pub(crate) async fn make(options: Options, way: impl Fn(&str) -> String) -> Self {
        let direct = copy(TEMPLATE.get_or_init(template).await);
        let url = way(&direct);
        Self { direct, url, options, target: OnceCell::new() }
    }

    async fn place(&self, url: &str) -> Place {
        let store = PostgresStore::connect(url, self.options.clone()).await.expect("connect");
        Place { store: Arc::new(store.clone()), moves: Arc::new(store), name: url.to_owned() }
    }

    async fn sql(&self, text: &str) {
        run(&self.direct, text).await;
    }
}

#[async_trait]
impl Harness for PostgresHarness {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(PostgresStore::connect(&self.url, self.options.clone()).await.expect("connect"))
    }

    async fn advance(&self, by: Duration) {
        self.sql(&still::advance(by)).await;
    }

    async fn reset(&self) {
        self.sql(still::EMPTY).await;
    }
}

#[async_trait]
impl OperatorHarness for PostgresHarness {
    async fn both(&self) -> (Arc<dyn Store>, Arc<dyn OperatorStore>) {
        let store = PostgresStore::connect(&self.url, self.options.clone()).await.expect("connect");
        (Arc::new(store.clone()), Arc::new(store))
    }
}

#[async_trait]
impl MoveHarness for PostgresHarness {
    async fn source(&self) -> Place {
        self.place(&self.url).await
    }

    async fn target(&self) -> Place {
        let make = || async { copy(TEMPLATE.get_or_init(template).await) };
        self.place(self.target.get_or_init(make).await).await
    }
}

#[async_trait]
impl ClosingHarness for PostgresHarness {
    async fn closing(&self, node: Incarnation, job: NewJob) -> Box<dyn Closing> {
        let transactions = Transactions::new(&self.url, &self.options).expect("a good url");
        let transaction = transactions.begin(node, None, 1).await.expect("begin");
        turnwise_postgres::enqueue_in(&*transaction, &[job]).await.expect("enqueue");
        Box::new(transaction)
    }
}
