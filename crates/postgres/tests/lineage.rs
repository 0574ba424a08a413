//! After a failover or a restore the last commits may be gone; whoever dispatched before must notice.

mod database;

use database::{LEASE, client, fresh_store, id, job, lead, node};
use turnwise_core::{Fence, scheduler::Pick};
use turnwise_store::{Assign, AssignReply, BatchId, Beat, Lineage, MemoKind, NewMemo, Store, StoreError};
use uuid::Uuid;

#[tokio::test]
async fn the_lineage_is_the_servers_timeline() {
    let (store, url) = fresh_store().await;
    let epoch = lead(&store, node(1), "alpha").await;
    let pulse = store.beat(Beat { node: node(1), lease: LEASE, slots: 1, lead: true }).await.unwrap();
    let timeline: i32 =
        client(&url).await.query_one("select timeline_id from pg_control_checkpoint()", &[]).await.unwrap().get(0);
    assert_eq!(pulse.lineage, Lineage(i64::from(timeline)));
    assert!(epoch.is_of(pulse.lineage) && pulse.epoch == Some(epoch), "{epoch:?}");
}

#[tokio::test]
async fn a_lead_from_before_a_failover_is_over_for_its_holder_too() {
    let (store, url) = fresh_store().await;
    let alpha = node(1);
    let before = lead(&store, alpha, "alpha").await;
    store.enqueue(vec![job(1)]).await.unwrap();
    // As a promoted server would answer.
    let app = client(&url).await;
    app.batch_execute(
        "create or replace function turnwise.lineage() returns bigint language sql stable as 'select 7::bigint'",
    )
    .await
    .unwrap();
    let assign = |epoch| {
        let pick = Pick { job: id(1), fence: Fence(0), node: alpha, limited: false };
        store.assign(Assign { holder: alpha, epoch, batch: BatchId(Uuid::from_u128(1)), picks: vec![pick] })
    };
    assert!(matches!(assign(before).await, Err(StoreError::NotLeading)));
    let memo = NewMemo { kind: MemoKind::Charge, name: "x".into(), value: Some("1".into()), seen: None };
    assert!(matches!(store.remember(Some((alpha, before)), vec![memo]).await, Err(StoreError::NotLeading)));
    let pulse = store.beat(Beat { node: alpha, lease: LEASE, slots: 1, lead: true }).await.unwrap();
    let now = pulse.epoch.unwrap();
    assert!(pulse.lineage == Lineage(7) && now.is_of(Lineage(7)) && now > before, "{pulse:?}");
    assert!(matches!(assign(now).await.unwrap()[..], [(_, AssignReply::Mine(_))]));
    let again = store.beat(Beat { node: alpha, lease: LEASE, slots: 1, lead: true }).await.unwrap();
    assert_eq!(again.epoch, Some(now), "within one lineage the lead goes on");
}
