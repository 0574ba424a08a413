//! A node that is in no process: the test itself makes its calls.

use std::{collections::BTreeSet, time::Duration};

use turnwise_core::{
    Fence, Incarnation, Job, JobId, NodeName, Serves, TaskName,
    lifecycle::{self, Event},
    node::Host,
    scheduler::Pick,
};
use turnwise_store::{Assign, Author, BatchId, Beat, Epoch, Join, MemoryStore, Result, Settle, Settlement, Store};
use uuid::Uuid;

pub(crate) const GHOST: Incarnation = Incarnation(Uuid::from_u128(7));

/// Joins with one slot, for one task.
pub(crate) async fn joins(store: &MemoryStore, task: &str, lease: Duration) {
    let host =
        Host { name: "h".into(), boot_id: "b".into(), pid_namespace: String::new(), pid: 1, started: 1, version: None };
    let join = Join {
        incarnation: GHOST,
        name: NodeName::new("ghost").unwrap(),
        host,
        slots: 1,
        queue_capacity: 0,
        batch_size: None,
        queues: Serves::All,
        tasks: BTreeSet::from([TaskName::new(task).unwrap()]),
        lease,
        replace: None,
        worker: None,
    };
    store.join(join).await.unwrap();
}

/// Joins and dispatches.
pub(crate) async fn leads(store: &MemoryStore, lease: Duration) -> Epoch {
    joins(store, "noop", lease).await;
    store.beat(Beat::new(GHOST, lease, 1, true)).await.unwrap().epoch.unwrap()
}

/// What it assigns as the dispatcher: a job that no node has had yet.
pub(crate) fn assignment(epoch: Epoch, job: JobId, node: Incarnation) -> Assign {
    let picks = vec![Pick { job, fence: Fence(0), node, limited: false }];
    Assign { holder: GHOST, epoch, batch: BatchId(Uuid::from_u128(9)), picks }
}

/// The node's word on how its run of the job has ended. `told`: the dispatcher of this term is in the same process, and knows.
pub(crate) async fn ends(
    store: &MemoryStore,
    node: Incarnation,
    told: Option<Epoch>,
    job: &Job,
    outcome: lifecycle::Outcome,
) -> Result<()> {
    let now = store.nodes().await?.now;
    let settlement = Settlement {
        job: job.id,
        fence: job.fence,
        saw_cancel: false,
        to: lifecycle::decide(&job.into(), &Event::Ended(outcome), now, 0.0).unwrap(),
        noted: false,
        started_at: Some(now),
        finished_at: Some(now),
    };
    let author = Author::Node { node, told };
    store.settle(Settle { author, settlements: vec![settlement], done: Vec::new() }).await?;
    Ok(())
}
