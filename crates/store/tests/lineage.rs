//! What a failover does to the memory store: the last commits are taken back, and whoever led has to begin anew.

use turnwise_core::{Incarnation, JobId, Json, NewJob, NodeName, Serves, TaskName, node::Host};
use turnwise_store::{Assign, BatchId, Beat, Epoch, Join, Lineage, MemoryStore, Store, StoreError};
use uuid::Uuid;

const LEASE: std::time::Duration = std::time::Duration::from_secs(5);

fn job(n: u8) -> NewJob {
    NewJob::new(JobId::from_parts(1, [n; 10]), TaskName::new("t").unwrap(), Json::null())
}

#[test]
fn epochs_of_two_lineages_are_never_the_same() {
    let (old, new) = (Lineage(0), Lineage(1));
    let taken_back = Epoch(6).next(old);
    assert_eq!(taken_back, Epoch(7));
    let after = Epoch(6).next(new);
    assert!(after > taken_back && after.is_of(new) && !after.is_of(old) && !taken_back.is_of(new));
    assert_eq!(after.next(new), Epoch(after.0 + 1));
}

#[tokio::test]
async fn a_failover_takes_back_what_came_after_the_snapshot_and_ends_the_lead() {
    let store = MemoryStore::default();
    let node = Incarnation(Uuid::from_u128(1));
    let join = Join {
        incarnation: node,
        name: NodeName::new("n").unwrap(),
        host: Host { name: String::new(), boot_id: String::new(), pid_namespace: String::new(), pid: 1, started: 1 },
        slots: 1,
        queue_capacity: 1,
        batch_size: None,
        queues: Serves::All,
        tasks: Default::default(),
        lease: LEASE,
        replace: None,
    };
    store.join(join).await.unwrap();
    let beat = || store.beat(Beat { node, lease: LEASE, slots: 1, lead: true });
    store.enqueue(vec![job(1)]).await.unwrap();
    let before = beat().await.unwrap();
    let snapshot = store.snapshot();
    store.enqueue(vec![job(2)]).await.unwrap();
    store.fail_over(&snapshot);
    assert!(store.job(job(1).id).await.unwrap().is_some());
    assert!(store.job(job(2).id).await.unwrap().is_none());
    let assign = Assign { holder: node, epoch: before.epoch.unwrap(), batch: BatchId(Uuid::nil()), picks: vec![] };
    assert!(matches!(store.assign(assign).await, Err(StoreError::NotLeading)));
    let after = beat().await.unwrap();
    assert_eq!((before.lineage, after.lineage), (Lineage(0), Lineage(1)));
    assert!(after.epoch > before.epoch, "{after:?}");
    assert_eq!(beat().await.unwrap().epoch, after.epoch);
}
