//! The verbs. Each is one atomic step and safe to repeat after a lost reply. No policy lives here: a store writes what
//! `turnwise_core` decided, if the row still is what the decision was made for.

mod fleet;
mod hands;
mod look;
mod memos;
mod news;
mod submitted;

use std::fmt;

use turnwise_core::{Incarnation, Job, JobId, NewJob, Retention, story::Story};

pub use fleet::*;
pub use hands::*;
pub use look::*;
pub use memos::*;
pub use news::*;
pub use submitted::*;

use crate::{Bell, Schema, StoreError};

pub type Result<T> = std::result::Result<T, StoreError>;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long finished jobs are kept; `None`: as it is set for the installation, a week unless anything is. Zero for a state:
    /// jobs that end so are deleted instead of entering `history`.
    pub retention: Option<Retention>,
    /// How many lines of a job's log are kept; `None`: as it is set for the installation,
    /// [`LOG_LINES`](turnwise_core::story::LOG_LINES) unless anything is.
    pub log_lines: Option<u32>,
    /// How many connections to PostgreSQL a process has at most, the one that listens included. Transactions of tasks come on
    /// top. At least 3.
    pub connections: u32,
    /// How many transactions of tasks a process has open at a time, each with a connection of its own; a run beyond them waits.
    /// `None`: as many as it has slots.
    pub task_connections: Option<u32>,
    /// What opening the database may do to its schema.
    pub schema: Schema,
}

impl Default for Options {
    fn default() -> Self {
        let schema = Schema::default();
        Self { retention: None, log_lines: None, connections: 10, task_connections: None, schema }
    }
}

/// The one trait. Enqueueing in the caller's own transaction is a method of each driver, not of this trait: the store
/// hands out neither connections nor transactions.
#[async_trait::async_trait]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Stores `jobs` in one transaction: all of them or none, in submission order. An id that is already there, unfinished
    /// or finished, is left alone and reported as not new; so the same call may be repeated until it answers.
    ///
    /// A new job whose group has a [`MemoKind::Full`] memo refuses the whole call: [`StoreError::Refused`] with the
    /// memo's value as its text. The same for new jobs that wait for one another in a circle (found by
    /// [`check`](turnwise_core::after::check)), and for a job that waits for an id that is neither there nor in this call:
    /// `after: there is no job …`; and for a new job whose id is more than a minute ahead of the database's time. A job that is
    /// already there is never a reason to refuse, if its id is a UUIDv7: any other is refused at once.
    ///
    /// A job with a [unique key](turnwise_core::Unique) that another holds is not stored; the reply names the holder, and
    /// with [`OnDuplicate::Reject`](turnwise_core::unique::OnDuplicate) the whole call is [`StoreError::Duplicate`]. Of any
    /// number of submitters of one key at once, one gets it. A submitter that finds the key locked by an open transaction waits for
    /// that transaction to end; if that takes too long, it gets [`StoreError::Transient`].
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Submitted>>;

    /// Makes a node known. The same name alive in another incarnation is answered with [`Joined::Taken`]; nothing changes.
    /// With `replace`, that other incarnation is marked lost in the same step and dispatches no more, provided that the end of its
    /// lease is still the one that the caller saw.
    /// Rings for the lead, so that the dispatcher sees the new node at once.
    async fn join(&self, join: Join) -> Result<Joined>;

    /// Prolongs the node's lease, and with `lead` takes or prolongs the dispatcher's, if it is free, over, or its own.
    /// Taking it raises the epoch; a holder that beats without `lead` gives it up at once. A lead counts as over if it is still the
    /// term that [`Beat::over`] names, and if it was taken in another [`Lineage`], for its holder too. With [`Beat::only_look`]
    /// nothing is written: the reply says which node leads, and no more. A node that is unknown or lost gets `alive: false`, and
    /// nothing is prolonged.
    async fn beat(&self, beat: Beat) -> Result<BeatReply>;

    /// Gives up dispatching at once, and removes the node with its mail. `true`: it is gone. `false`: jobs are still in its hands,
    /// perhaps unread, and the node stays as it is, to settle them and call again; if it does not, its lease runs out like any
    /// other.
    async fn leave(&self, node: Incarnation) -> Result<bool>;

    /// Reads unfinished jobs for the scheduler: a page in id order, the named ones that are still there, or all that are in
    /// nodes' hands, by id.
    async fn load(&self, load: Load) -> Result<Page>;

    /// What has become visible since `cursor`: new jobs, and changes made by others than the dispatcher's own node.
    /// Without a cursor: no news, only where to begin. No job is left out, in whatever order transactions commit.
    async fn news(&self, ask: AskNews) -> Result<News>;

    /// Gives picked jobs to nodes: `waiting | stuck → scheduled`, fence + 1, if holder and epoch still lead
    /// ([`StoreError::NotLeading`] otherwise, and nothing is changed). A pick whose row is not at the picked fence and at rest,
    /// or is locked by another transaction, or whose node has left, is answered and left alone. Repeated, it answers what the
    /// first call did. The answers come in the order of the picks.
    async fn assign(&self, assign: Assign) -> Result<Vec<(JobId, AssignReply)>>;

    /// The node's undelivered batches: those not in `known`, by id, each in the order of its picks. Kept until [`Settle::done`]
    /// names them. And which of its jobs shall stop.
    async fn assignments(&self, node: Incarnation, known: Vec<BatchId>) -> Result<Mail>;

    /// Writes decisions about assigned jobs, each guarded by its fence and its node, and removes the batches in `done`.
    /// A finished job leaves for history. Answers in the order of the settlements. A dispatcher that settles for a lost
    /// node raises the fence, so that the lost node's own late settle is [`Settled::Superseded`].
    async fn settle(&self, settle: Settle) -> Result<Vec<Settled>>;

    /// Writes the notes of running jobs, each guarded by its fence and its node: [`Settled::Applied`], or
    /// [`Settled::Superseded`] and nothing of that note is written. Repeated, it changes nothing: a line with its number
    /// is there once, and the first result of a step stands.
    async fn note(&self, node: Incarnation, notes: Vec<Note>) -> Result<Vec<Settled>>;

    /// Marks nodes as lost as [`AskLost::expire`] says: from then on their beats are refused. A node whose row an open transaction
    /// holds is not marked this time: it is beating, joining or leaving right now, and the dispatcher asks again. Returns all lost
    /// nodes with the jobs still in their hands, at most `limit` jobs in all. [`StoreError::NotLeading`] for any caller but the
    /// dispatcher.
    ///
    /// In the same step, each node that it returns for the first time is noted as a [`Loss`]. Repeated, the note stays as it is.
    async fn lost_nodes(&self, ask: AskLost) -> Result<Vec<LostNode>>;

    /// Writes a person's decisions, each guarded by the state and fence the person saw. What another open transaction
    /// holds is [`Settled::Locked`]. An edit ([`Target::Edited`](turnwise_core::lifecycle::Target)) is written to a job at rest, and
    /// raises its fence: a pick of it that is in flight is answered [`AssignReply::Changed`]. One that moves the job out of the scope
    /// of a unique key that the job holds is [`Settled::KeyHeld`].
    async fn control(&self, interventions: Vec<Intervention>) -> Result<Vec<Settled>>;

    /// Deletes what is not needed any more, at most `limit` rows of each kind: history that ended before the
    /// [edge](Retention::edge) of its retention, changes the dispatcher has seen, unique keys that no job can hold any
    /// more, [losses](Loss) of more than a day ago, keys of [submits that are done
    /// once](crate::OperatorStore::submit_once) after a day, lines of the audit log after [400
    /// days](turnwise_core::audit::KEEP_AUDIT); with each job its story. Returns how many rows were deleted; `limit` or
    /// more means that there may be more.
    async fn prune(&self, seen: Option<Cursor>, limit: u32) -> Result<u64>;

    /// One job, finished or not.
    async fn job(&self, id: JobId) -> Result<Option<Job>>;

    /// Jobs, finished ones included, newest id first.
    async fn jobs(&self, filter: Filter) -> Result<Vec<Job>>;

    /// What is known of one job besides its row; empty for a job that is not there.
    async fn story(&self, ask: AskStory) -> Result<Story>;

    /// All nodes, lost ones included, by name and joining time; and which nodes were lost within the last day.
    async fn nodes(&self) -> Result<Fleet>;

    /// All memos of these kinds, by kind and name: small durable values such as settings and charges. Only core reads their
    /// values; the store itself uses two kinds: it refuses jobs of a group with a [`MemoKind::Full`] memo, and goes by what
    /// [`MemoKind::Installation`] says about keeping jobs and logs.
    async fn recall(&self, kinds: Vec<MemoKind>) -> Result<Vec<Memo>>;

    /// Writes memos in one transaction, each of them named once. With `lead`, only if that holder and epoch lead
    /// ([`StoreError::NotLeading`] otherwise, and nothing is changed). What is written without `lead` is news to the
    /// dispatcher, and rings.
    ///
    /// Answers in the order of the memos; `false`: the version was not [`NewMemo::seen`] any more, and this memo is left
    /// alone. Repeated, a memo with `seen` gets `false` if the first call wrote it (read it again: the first call itself raised the
    /// version); a memo without `seen` is written again, the same value under the next version.
    async fn remember(&self, lead: Option<(Incarnation, Epoch)>, memos: Vec<NewMemo>) -> Result<Vec<bool>>;

    /// Where to wait for a ring.
    fn bell(&self) -> Bell;
}
