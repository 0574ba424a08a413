//! A job as it is kept.

use turnwise_core::{
    Failure, Fence, GroupName, Incarnation, JobHead, JobId, JobState, Json, KeyName, NodeName, OnFailure, Priority,
    QueueName, RetryPolicy, TaskName, Terms, Timestamp,
    job::{AssignedJob, Counts, long_args},
};

use crate::{store::LostJob, verdict::SettleFacts};

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) seq: i64,
    pub(super) id: JobId,
    pub(super) task: TaskName,
    pub(super) args: Json,
    pub(super) queue: QueueName,
    pub(super) group: GroupName,
    pub(super) priority: Priority,
    pub(super) retry: Option<RetryPolicy>,
    pub(super) key: Option<KeyName>,
    pub(super) terms: Terms,
    pub(super) expires_at: Option<Timestamp>,
    /// It waits for those in `after`.
    pub(super) on_failure: Option<OnFailure>,
    pub(super) state: JobState,
    pub(super) counts: Counts,
    pub(super) fence: Fence,
    pub(super) cancel_requested: bool,
    pub(super) node: Option<Incarnation>,
    pub(super) node_name: Option<NodeName>,
    pub(super) result: Option<Json>,
    pub(super) error: Option<Failure>,
    pub(super) submitted_at: Timestamp,
    pub(super) due_at: Option<Timestamp>,
    pub(super) assigned_at: Option<Timestamp>,
    pub(super) started_at: Option<Timestamp>,
    pub(super) finished_at: Option<Timestamp>,
    /// When it entered history.
    pub(super) ended_at: Option<Timestamp>,
}

impl Row {
    pub(super) fn found(&self) -> SettleFacts {
        let &Self { state, fence, node, cancel_requested, started_at, .. } = self;
        SettleFacts { state, fence, node, cancel_requested, started_at }
    }

    pub(super) fn in_hands_of(&self, node: Incarnation) -> bool {
        self.found().in_hands_of(node)
    }

    /// All but the jobs it waits for.
    pub(super) fn head(&self) -> JobHead {
        JobHead {
            id: self.id,
            seq: self.seq,
            task: self.task.clone(),
            queue: self.queue.clone(),
            group: self.group.clone(),
            priority: self.priority,
            state: self.state,
            due: self.due_at,
            fence: self.fence,
            crashes: self.counts.crashes,
            node: self.node,
            key: self.key.clone(),
            submitted_at: self.submitted_at,
            expires: self.expires_at,
            args_bytes: long_args(self.args.as_str().len()),
            awaits: None,
        }
    }

    pub(super) fn assigned(&self, limited: bool) -> AssignedJob {
        AssignedJob {
            id: self.id,
            fence: self.fence,
            task: self.task.clone(),
            args: self.args.clone(),
            queue: self.queue.clone(),
            group: self.group.clone(),
            priority: self.priority,
            retry: self.retry.clone(),
            terms: self.terms.clone(),
            state: self.state,
            counts: self.counts,
            cancel_requested: self.cancel_requested,
            submitted_at: self.submitted_at,
            limited,
        }
    }

    pub(super) fn held(&self) -> LostJob {
        LostJob {
            id: self.id,
            fence: self.fence,
            state: self.state,
            counts: self.counts,
            retry: self.retry.clone(),
            terms: self.terms.clone(),
            cancel_requested: self.cancel_requested,
        }
    }
}
