//! What the server says of itself.

mod database;

use database::{client, fresh_url};
use turnwise_postgres::{PostgresStore, migrate};
use turnwise_store::{OperatorStore, Options};

#[tokio::test]
async fn an_open_transaction_is_told_with_its_process() {
    let url = fresh_url();
    migrate(&url).await.unwrap();
    let store = PostgresStore::open(&url, Options::default()).await.unwrap();
    let other = client(&url).await;
    other.batch_execute("begin; set local application_name = 'forgotten'; select txid_current()").await.unwrap();
    let pid: i32 = other.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    let vitals = store.vitals().await.unwrap();
    let open = vitals.open.unwrap();
    let held = open.iter().find(|held| held.pid == Some(pid)).unwrap_or_else(|| panic!("{open:?}"));
    assert!(held.who.contains("forgotten") && held.who.contains("idle in transaction"), "{held:?}");
    assert!(held.open_for.is_some() && held.behind >= 0, "{held:?}");
    assert!(vitals.connections.is_some_and(|connections| connections.used >= 2));
    assert_eq!(vitals.settings.get("in_recovery").map(String::as_str), Some("off"));
    assert!(vitals.settings.contains_key("synchronous_commit") && vitals.settings.contains_key("autovacuum"));
    other.batch_execute("rollback").await.unwrap();
    let open = store.vitals().await.unwrap().open.unwrap();
    assert!(open.iter().all(|held| held.pid != Some(pid)), "{open:?}");
}
