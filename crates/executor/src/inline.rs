//! A node without loops: its caller names each job to run, and the call returns when the end is stored. For tests of tasks:
//! what surrounds a run is the real thing, but no scheduler decides whose turn it is.

use std::sync::Arc;

use tokio::time::Instant;
use turnwise_core::{JobId, scheduler::Pick};
use turnwise_store::{Assign, AssignReply, BatchId, Beat, Load, StoreError};

use crate::{
    executor::{Builder, Executor, StartError},
    life::Life,
    mail, settle, worker,
};

/// A node on a store that no other node dispatches on.
#[derive(Debug)]
pub struct Inline {
    /// Kept, for dropping it would stop the node.
    _executor: Executor,
    life: Arc<Life>,
}

impl Inline {
    /// Joins the fleet. Time is the store's own, to the microsecond: it passes when that passes.
    pub async fn new(builder: Builder) -> Result<Self, StartError> {
        let executor = builder.still().build()?;
        let life = executor.enter().await?;
        Ok(Self { _executor: executor, life })
    }

    /// Runs the job once and stores how that ended, whether it is due or not. `false`: it is not there, or has ended.
    pub async fn run(&self, id: JobId) -> Result<bool, StoreError> {
        let life = &self.life;
        let Some(batch) = self.assign(id).await? else { return Ok(false) };
        let Some((job, run)) = life.next_job().await else { return Ok(false) };
        assert_eq!(job.id, id, "batch {batch:?} brought another job");
        let work = async {
            worker::run(life, job, run).await;
            while !life.has_nothing() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = work => {}
            () = settle::settle(life.clone()) => {}
            // So that a cancel reaches the run.
            () = mail::mail(life.clone()) => {}
        }
        Ok(true)
    }

    async fn assign(&self, id: JobId) -> Result<Option<BatchId>, StoreError> {
        let life = &self.life;
        let node = life.incarnation;
        let sent = Instant::now();
        let beat = Beat::new(node, life.node.config.lease, life.desk.slots(), true);
        let reply = life.store.beat(beat).await?;
        life.node.clock.heard(reply.now);
        life.heard(sent, reply.lineage);
        let epoch = reply.epoch.ok_or(StoreError::NotLeading)?;
        let page = life.store.load(Load::These(vec![id])).await?;
        let Some(head) = page.jobs.first() else { return Ok(None) };
        let batch = BatchId::in_order(reply.now, life.node.chance.random());
        // From the reply, not from the mail.
        life.desk.expect(batch);
        let picks = vec![Pick { job: id, fence: head.fence, node, limited: false }];
        let replies = life.store.assign(Assign { holder: node, epoch, batch, picks }).await?;
        match replies.into_iter().next() {
            Some((_, AssignReply::Mine(job))) => {
                life.desk.accept(batch, vec![*job]);
                Ok(Some(batch))
            }
            _ => Ok(None),
        }
    }
}
