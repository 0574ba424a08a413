//! Jobs in nodes' hands: given by an assign, read as mail, settled; what a run notes, and what a person decides.

use std::time::Duration;

use turnwise_core::{
    Fence, Incarnation, JobHead, JobId, JobState, Timestamp,
    audit::NewAuditLine,
    job::AssignedJob,
    lifecycle::{End, Target, Transition},
    scheduler::Pick,
    story::{Finished, Line, Progress},
};
use uuid::Uuid;

use super::Epoch;

/// A batch of assignments; chosen by the dispatcher, so that a repeated assign is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId(pub Uuid);

impl BatchId {
    /// A fresh id from the caller's clock and randomness; later ones are greater, so that mail is read in order.
    pub fn in_order(now: Timestamp, random: u64) -> Self {
        Self(Uuid::from_u64_pair(u64::try_from(now.micros()).unwrap_or(0), random))
    }
}

/// A batch of picks, to be given to nodes.
#[derive(Debug, Clone)]
pub struct Assign {
    /// The node that dispatches.
    pub holder: Incarnation,
    /// Its term; if another one leads, nothing is assigned.
    pub epoch: Epoch,
    /// One delivery per node in the picks; the batch of a node is `(batch, node)`.
    pub batch: BatchId,
    /// Which job, at which fence, to which node; answered in this order.
    pub picks: Vec<Pick>,
}

/// What became of one pick.
#[derive(Debug, Clone, PartialEq)]
pub enum AssignReply {
    /// To the dispatcher's own node: it starts from here.
    Mine(Box<AssignedJob>),
    /// To another node, which reads it as a [`Delivery`].
    Theirs(Fence),
    /// Another transaction holds its row, or its node has left; nothing was changed.
    Locked,
    /// It is not at rest at the picked fence any more, but like this; nothing was changed.
    Changed(JobHead),
    /// It is not among the unfinished jobs.
    Gone,
}

/// A batch of jobs that another process's dispatcher gave to a node.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// Which one. The node names it in [`Settle::done`] once all of its jobs are settled.
    pub batch: BatchId,
    /// Jobs of the batch that are (still) in this node's hands.
    pub jobs: Vec<AssignedJob>,
}

/// What a node finds when it looks at its mail.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Mail {
    /// The batches that it does not know yet.
    pub batches: Vec<Delivery>,
    /// Jobs in its hands that a person wants stopped, each at the fence that was asked for. At every look, until they are settled.
    pub stop: Vec<(JobId, Fence)>,
}

impl Mail {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.stop.is_empty()
    }
}

/// What [`Store::settle`](super::Store::settle) is asked to write, in one transaction.
#[derive(Debug, Clone)]
pub struct Settle {
    /// The node that decided, and the node whose jobs they must be.
    pub author: Author,
    /// Answered in this order. Of two about one job the later was made knowing the earlier, and a store may write the later alone.
    pub settlements: Vec<Settlement>,
    /// Batches of which no job is left in the node's hands: their rows are removed.
    pub done: Vec<BatchId>,
}

/// The node that settles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The node that has the jobs. `told`: the dispatcher of this epoch lives in the same process and is notified there.
    Node { node: Incarnation, told: Option<Epoch> },
    /// The dispatcher, for a lost node. `bury`: remove the node and its assignments once nothing is left in its hands.
    Dispatcher { holder: Incarnation, epoch: Epoch, lost: Incarnation, bury: bool },
}

/// What follows the run of one job, or its node's loss, as core decided.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The job that was assigned.
    pub job: JobId,
    /// Of that assignment. If the row has another one, nothing is written.
    pub fence: Fence,
    /// Whether the decision took a cancel request into account. If not, and there is one by then, nothing is written:
    /// [`Settled::CancelRequested`].
    pub saw_cancel: bool,
    /// What to write.
    pub to: Transition,
    /// Whether notes or attempts of the job may be in the store: where nothing is kept, they go with it.
    pub noted: bool,
    /// When the task began; `None`: it did not run.
    pub started_at: Option<Timestamp>,
    /// When the task ended; `None`: it has not, or its node was lost.
    pub finished_at: Option<Timestamp>,
}

impl Settlement {
    /// How long the run took that this settles.
    pub fn ran(&self) -> Option<Duration> {
        Some(self.finished_at?.since(self.started_at?))
    }

    /// Whether this takes a job out of the node's hands that it was asked to stop: then the request is over.
    pub fn ends_stop(&self) -> bool {
        self.saw_cancel && self.to.to != Target::Running
    }

    /// Whether the run ended in an error: the job has failed, or is stuck. When the dispatcher reads this, the job may run again.
    pub fn failed(&self) -> bool {
        matches!(self.to.to, Target::Finish { end: End::Failed, .. } | Target::Stuck { .. })
    }

    /// Whether this ends the job with success.
    pub fn well(&self) -> bool {
        matches!(self.to.to, Target::Finish { end: End::Success, .. })
    }
}

/// What became of one settlement, note or decision of a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Written, now or by an earlier call whose reply was lost. (A call that raised the fence, or wrote a person's decision, gets
    /// [`Settled::Superseded`] when it is repeated: the first call itself has changed the row.)
    Applied,
    /// A cancel was requested meanwhile: decide again.
    CancelRequested,
    /// The fence moved on: another node has the job. A stale write was refused.
    Superseded,
    /// No trace of it: finished and not kept.
    Gone,
    /// Left alone, for [`Store::control`](super::Store::control) waits for no lock: an open transaction holds the row. Decide
    /// again later.
    Locked,
    /// Left alone: the job was to leave its queue, and holds a unique key within it.
    KeyHeld,
}

/// What a run has reported: log lines, progress, finished steps.
#[derive(Debug, Clone)]
pub struct Note {
    /// The job that runs.
    pub job: JobId,
    /// Of its assignment. If the row has another one, nothing of the note is written.
    pub fence: Fence,
    /// `Some` replaces what was reported before.
    pub progress: Option<Progress>,
    /// New lines of its log; a line whose place is taken already is left out.
    pub lines: Vec<Line>,
    /// Whether to check for more lines than may be kept. The check costs time, so not every note asks for it.
    pub trim: bool,
    /// Newly finished steps; the first result that is written for a name stands.
    pub steps: Vec<Finished>,
}

/// A person's decision about one job, as core made it a transition.
#[derive(Debug, Clone)]
pub struct Intervention {
    /// The job that the decision is about.
    pub job: JobId,
    /// What the decision was made for; anything else is [`Settled::Superseded`].
    pub state: JobState,
    /// As the person saw it; another one is [`Settled::Superseded`] too.
    pub fence: Fence,
    /// What to write.
    pub to: Transition,
    /// Written to the audit log in the same transaction, if the decision is.
    pub line: Option<Box<NewAuditLine>>,
}
