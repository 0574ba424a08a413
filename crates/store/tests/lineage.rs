//! What a failover does to the memory store: the last commits are taken back, and the lead has to be taken anew.

use turnwise_core::{Incarnation, JobId, Json, NewJob, NodeName, Serves, TaskName, node::Host};
use turnwise_store::{Assign, BatchId, Beat, Epoch, Join, Lineage, MemoryStore, Store, StoreError};
use uuid::Uuid;

const LEASE: std::time::Duration = std::time::Duration::from_secs(5);

fn job(n: u8) -> NewJob {
    NewJob::new(JobId::from_parts(1, [n; 10]), TaskName::new("t").unwrap(), Json::null())
}

#[test]
fn no_two_lineages_have_an_epoch_in_common() {
    let (old, new) = (Lineage(0), Lineage(700_000_005));
    let forgotten = Epoch(6).next(Some(old), old);
    assert_eq!(forgotten, Epoch(7));
    let after = Epoch(6).next(Some(old), new);
    assert_eq!(after, Epoch(700_000_012));
    assert_eq!(after.next(Some(new), new), Epoch(after.0 + 1));
    // Lower or higher, known or not: another lineage is a new beginning, and the epoch only grows.
    assert!(after.next(Some(new), Lineage(3)) > after && after.next(None, new) > after);
}

#[tokio::test]
async fn a_failover_takes_back_what_came_after_the_snapshot_and_ends_the_lead() {
    let store = MemoryStore::default();
    let node = Incarnation(Uuid::from_u128(1));
    let join = Join {
        incarnation: node,
        name: NodeName::new("n").unwrap(),
        host: Host {
            name: String::new(),
            boot_id: String::new(),
            pid_namespace: String::new(),
            pid: 1,
            started: 1,
            version: None,
        },
        slots: 1,
        queue_capacity: 1,
        batch_size: None,
        queues: Serves::All,
        tasks: Default::default(),
        lease: LEASE,
        replace: None,
        worker: None,
    };
    store.join(join).await.unwrap();
    let beat = || store.beat(Beat::new(node, LEASE, 1, true));
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
    assert_ne!(before.lineage, after.lineage);
    assert!(after.epoch > before.epoch, "{after:?}");
    assert_eq!(beat().await.unwrap().epoch, after.epoch);
}
