//! How often a node on PostgreSQL looks for jobs that no ring has announced.

mod schema;

use std::time::Duration;

use turnwise::{Config, NodeName, task};
use turnwise_testpg::{Cluster, Pace};

#[task("quiet", register = false)]
async fn quiet() {}

/// A job that is stored by hand, while the dispatcher sleeps: nothing rings for it.
const BY_HAND: &str = "insert into turnwise.job (id, task, queue, grp, priority, args)
                       values (gen_random_uuid(), 'quiet', 'default', 'default', 5, 'null')";

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_interval_that_is_set_is_kept_although_notifications_arrive() {
    let url = Cluster::shared().fresh_database().unwrap();
    let turnwise = schema::open(&url).await;
    let (psql, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let count = async |sql: &str| psql.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
    let config = Config { poll_interval: Some(Duration::from_secs(1)), ..Config::new(NodeName::new("a").unwrap()) };
    let mut registry = turnwise::Registry::new();
    registry.register(quiet).unwrap();
    let node = turnwise.executor_with(config).registry(registry).build().unwrap();
    node.start().await.unwrap();
    for ended in 0..3 {
        while count("select count(*) from turnwise.dispatcher where asleep").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let stored = Pace::start();
        psql.execute(BY_HAND, &[]).await.unwrap();
        while count("select count(*) from turnwise.history").await == ended {
            assert!(stored.elapsed() < Duration::from_secs(3), "no look for {:?}", stored.elapsed());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    node.stop().await;
}
