//! What the statements cost: assigning is a HOT update, and no batch reads all jobs.

mod database;

use database::{client, fresh_store, id, job, lead, node};
use turnwise_core::{Fence, scheduler::Pick};
use turnwise_store::{Assign, AssignReply, BatchId, Store};
use uuid::Uuid;

async fn number(url: &str, sql: &str) -> i64 {
    client(url).await.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn assigning_is_a_hot_update_and_reads_only_its_own_rows() {
    const JOBS: u64 = 2_000;
    let (store, url) = fresh_store().await;
    let alpha = node(1);
    let epoch = lead(&store, alpha, "alpha").await;
    // A statement that was planned while there were no jobs must not keep that plan.
    assign(&store, alpha, epoch, 0..0, 0).await;
    store.enqueue((0..JOBS).map(job).collect()).await.unwrap();
    for batch in 0..20 {
        let from = batch * 100;
        let replies = assign(&store, alpha, epoch, from..from + 100, batch).await;
        assert!(replies.iter().all(|(_, reply)| matches!(reply, AssignReply::Mine(_))));
    }
    drop(store);
    // Statistics arrive when the backends that made them end; ask until they have.
    let updates = "select n_tup_upd from pg_stat_user_tables where schemaname = 'turnwise' and relname = 'job'";
    while number(&url, updates).await < 2_000 {
        tokio::task::yield_now().await;
    }
    let hot = "select n_tup_hot_upd from pg_stat_user_tables where schemaname = 'turnwise' and relname = 'job'";
    let hot = number(&url, hot).await;
    assert!(hot >= 1_990, "{hot} of 2000 updates were HOT");
    let read = "select seq_tup_read from pg_stat_user_tables where schemaname = 'turnwise' and relname = 'job'";
    assert_eq!(number(&url, read).await, 0, "no statement reads the table whole");
}

async fn assign(
    store: &turnwise_postgres::PostgresStore,
    alpha: turnwise_core::Incarnation,
    epoch: turnwise_store::Epoch,
    jobs: std::ops::Range<u64>,
    batch: u64,
) -> Vec<(turnwise_core::JobId, AssignReply)> {
    let picks = jobs.map(|n| Pick { job: id(n), fence: Fence(0), node: alpha, limited: false }).collect();
    let batch = BatchId(Uuid::from_u128(batch.into()));
    store.assign(Assign { holder: alpha, epoch, batch, picks }).await.unwrap()
}

#[tokio::test]
async fn a_locked_job_does_not_hold_up_the_others() {
    let (store, url) = fresh_store().await;
    let alpha = node(1);
    let epoch = lead(&store, alpha, "alpha").await;
    store.enqueue((0..2).map(job).collect()).await.unwrap();
    let mut app = client(&url).await;
    let transaction = app.transaction().await.unwrap();
    transaction.query("select from turnwise.job where id = $1 for update", &[&id(0).uuid()]).await.unwrap();
    let replies = assign(&store, alpha, epoch, 0..2, 1).await;
    assert_eq!(replies[0], (id(0), AssignReply::Locked));
    assert!(matches!(replies[1].1, AssignReply::Mine(_)));
    transaction.rollback().await.unwrap();
    let again = assign(&store, alpha, epoch, 0..2, 2).await;
    assert!(again.iter().all(|(_, reply)| matches!(reply, AssignReply::Mine(_))), "{again:?}");
}
