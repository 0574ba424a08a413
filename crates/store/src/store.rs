//! The verbs. Each is one atomic step and safe to repeat after a lost reply. No policy lives here: a store writes what
//! `turnwise_core` decided, if the row still is what the decision was made for.

use std::{collections::BTreeSet, fmt, num::NonZeroU32, time::Duration};

use turnwise_core::{
    Fence, Incarnation, Job, JobHead, JobId, JobState, NewJob, Node, NodeName, Retention, RetryPolicy, Serves,
    TaskName, Terms, Timestamp,
    job::{AssignedJob, Counts},
    lead::Sight,
    lifecycle::{Clears, End, JobFacts, Target, Transition},
    node::Host,
    scheduler::Pick,
    story::{Finished, Line, LineAt, Progress, Story},
    unique::Replacing,
};
use uuid::Uuid;

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
    /// `after: there is no job …`. A job that is already there is never a reason to refuse.
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
    /// nothing is written: the pulse says which node leads, and no more. A node that is unknown or lost gets `alive: false`, and
    /// nothing is prolonged.
    async fn beat(&self, beat: Beat) -> Result<Pulse>;

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
    async fn lost_nodes(&self, ask: AskLost) -> Result<Vec<LostNode>>;

    /// Writes a person's decisions, each guarded by the state and fence the person saw. What another open transaction
    /// holds is [`Settled::Locked`].
    async fn control(&self, interventions: Vec<Intervention>) -> Result<Vec<Settled>>;

    /// Deletes what is not needed any more, at most `limit` rows of each kind: history that ended before the
    /// [edge](Retention::edge) of its retention, changes the dispatcher has seen, unique keys that no job can hold any more; with
    /// each job its story. Returns how many rows were deleted; `limit` or more means that there may be more.
    async fn prune(&self, seen: Option<Cursor>, limit: u32) -> Result<u64>;

    /// One job, finished or not.
    async fn job(&self, id: JobId) -> Result<Option<Job>>;

    /// Jobs, finished ones included, newest id first.
    async fn jobs(&self, filter: Filter) -> Result<Vec<Job>>;

    /// What is known of one job besides its row; empty for a job that is not there.
    async fn story(&self, ask: AskStory) -> Result<Story>;

    /// All nodes, lost ones included, by name and joining time.
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

/// What became of a submitted job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Submitted {
    /// The job that stands for it: itself, or the one that holds its unique key.
    pub id: JobId,
    /// `false`: it was there already, or another job stands for it.
    pub new: bool,
    /// Set when another job stands for it.
    pub duplicate: Option<Duplicate>,
}

impl Submitted {
    /// The job itself, now or since an earlier call.
    pub fn itself(id: JobId, new: bool) -> Self {
        Self { id, new, duplicate: None }
    }

    /// Another job stands for it.
    pub fn held_by(id: JobId, duplicate: Duplicate) -> Self {
        Self { id, new: false, duplicate: Some(duplicate) }
    }
}

/// How the job that holds the key stands for one that was submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicate {
    /// As it is.
    Kept,
    /// With the arguments of the one that was submitted.
    Replaced,
    /// As it is, though its arguments were to be replaced: it had begun, or is in a node's hands.
    TooLate,
    /// As it is, though its arguments were to be replaced: it is a job of another task.
    OtherTask,
}

impl From<Replacing> for Duplicate {
    fn from(may: Replacing) -> Self {
        match may {
            Replacing::Allowed => Self::Replaced,
            Replacing::OtherTask => Self::OtherTask,
            Replacing::TooLate => Self::TooLate,
        }
    }
}

/// Which term of dispatching; only grows. Assigning, and all else that only the dispatcher may do, needs the present one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, serde::Serialize)]
#[serde(transparent)]
pub struct Epoch(pub i64);

impl Epoch {
    /// The first term of a new lineage is up to this far from the last one. The drivers' SQL knows the number too.
    const STRIDE: i64 = 1_000_000_000;

    /// The term after this one, which was begun in the lineage `last`, in a database that is of the lineage `now`.
    ///
    /// A database that has lost its last commits may have lost terms. So the first term of a lineage gets a number that is a leap
    /// away, and no term that a node remembers from another lineage has the same number.
    #[must_use]
    pub fn next(self, last: Option<Lineage>, now: Lineage) -> Self {
        let leap = if last == Some(now) { 0 } else { now.0.rem_euclid(Self::STRIDE) };
        Self(self.0 + 1 + leap)
    }
}

/// Which history of commits the database continues. A failover, a restore, a copy or a crash of the server may take back the last
/// commits, or give transaction numbers out again, and begins a new lineage: a process that remembers what was committed before
/// must read it again. Two lineages are the same or different; neither is the older one. (SQLite's is always 0.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Lineage(pub i64);

/// What a node announces when it joins.
#[derive(Debug, Clone)]
pub struct Join {
    /// Chosen at random by the node for this life; a repeated join of the same one is recognised.
    pub incarnation: Incarnation,
    /// As configured. While another incarnation with it is not lost, the reply is [`Joined::Taken`].
    pub name: NodeName,
    /// The process: by it, other nodes can find out that it is gone.
    pub host: Host,
    /// Jobs it runs at a time.
    pub slots: u32,
    /// Jobs it may hold beyond its slots.
    pub queue_capacity: u32,
    /// Jobs it is given at once, at most; `None`: it names no bound.
    pub batch_size: Option<NonZeroU32>,
    /// Jobs of other queues are not assigned to it.
    pub queues: Serves,
    /// Jobs of other tasks are not assigned to it.
    pub tasks: BTreeSet<TaskName>,
    /// How long it is believed to live after this call, and after each beat.
    pub lease: Duration,
    /// The incarnation with the same name that this one takes the place of.
    pub replace: Option<Replace>,
}

/// An incarnation, and the end of its lease as the caller saw it: if that has changed since, the node has beaten and lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replace {
    /// The one to be marked lost.
    pub incarnation: Incarnation,
    /// Compared with its row: if they differ, nothing changes.
    pub lease_until: Timestamp,
}

/// What became of a [`Join`].
#[derive(Debug, Clone, PartialEq)]
pub enum Joined {
    /// The node is known, now or since an earlier call. `now`: the database's time.
    In { now: Timestamp },
    /// Nothing has changed: `by`, which is not lost, has the name.
    Taken { by: Box<Node>, now: Timestamp },
}

/// A node's sign of life, and whether it would lead.
#[derive(Debug, Clone)]
pub struct Beat {
    /// Whose lease is prolonged.
    pub node: Incarnation,
    /// How long the node is believed to live from now on; for the lead as well.
    pub lease: Duration,
    /// Slots from now on; zero while the node drains.
    pub slots: u32,
    /// Whether the node is ready to dispatch.
    pub lead: bool,
    /// The lead that this node has found to be over, as it saw it: if it was renewed since, its holder lives and keeps it.
    pub over: Option<Term>,
    /// Only read which node leads; write nothing.
    pub only_look: bool,
}

impl Beat {
    /// An ordinary beat: it prolongs the lease, and claims no lead to be over.
    pub fn new(node: Incarnation, lease: Duration, slots: u32, lead: bool) -> Self {
        Self { node, lease, slots, lead, over: None, only_look: false }
    }
}

/// A lead, and the end of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// The number of the term.
    pub epoch: Epoch,
    /// When its lease ends, by the database's clock.
    pub until: Timestamp,
}

/// The node that dispatches, as another node sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Leader {
    /// The term that it leads in: named in [`Beat::over`] once it is found to be over.
    pub term: Term,
    /// Its process: a node on the same machine can see whether it is gone.
    pub host: Host,
    /// How long it is believed to live after each beat.
    pub lease: Duration,
    /// What the store can see of its process.
    pub sight: Sight,
}

/// The reply to a [`Beat`].
#[derive(Debug, Clone, PartialEq)]
pub struct Pulse {
    /// The database's time.
    pub now: Timestamp,
    /// Another one than before: commits may have been taken back since.
    pub lineage: Lineage,
    /// `false`: the node is unknown or lost, and nothing was prolonged.
    pub alive: bool,
    /// Set when this node dispatches.
    pub epoch: Option<Epoch>,
    /// All living nodes, when this node dispatches.
    pub nodes: Vec<Node>,
    /// The node that dispatches, when this one asked for the lead and did not get it, or only looked.
    pub leader: Option<Leader>,
}

/// Which unfinished jobs to read.
#[derive(Debug, Clone)]
pub enum Load {
    /// At most `limit` jobs with greater ids than `id`, in id order; `None`: from the first on.
    After { id: Option<JobId>, limit: u32 },
    /// These, as far as they are there and unfinished.
    These(Vec<JobId>),
    /// What all nodes have in their hands, or one of them: no more than they may hold. The dispatcher counts its limits from
    /// this, so it reads it first.
    InHands(Option<Incarnation>),
    /// The same for one node by the jobs' rows alone, also jobs that none of its batches names. A crash may take back the end of a
    /// job after which the node has called its batch done. Reads every job, so it is for a node that has seen a new [`Lineage`].
    HeldBy(Incarnation),
}

/// The jobs that [`Store::load`] has read, in id order.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// The database's time.
    pub now: Timestamp,
    /// As they were at that time.
    pub jobs: Vec<JobHead>,
    /// Where the next page begins; `None` at the end, and for all but [`Load::After`].
    pub next: Option<JobId>,
}

/// How far the dispatcher has seen; only its store can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

/// From where on, and how much, a dispatcher wants to read of what is new.
#[derive(Debug, Clone)]
pub struct AskNews {
    /// From the last [`News`]; `None`: nothing is read, and the reply says where to begin.
    pub cursor: Option<Cursor>,
    /// Changes that the dispatcher of this epoch was notified of within its own process are left out.
    pub epoch: Epoch,
    /// The dispatcher is about to sleep: submitters shall ring.
    pub asleep: bool,
    /// New jobs, at most. Zero for a caller that looks far back and wants only the changes.
    pub new_jobs: u32,
}

/// What became visible since the cursor.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// The database's time.
    pub now: Timestamp,
    /// Where the next call begins. Until it is used, the same news can be read again with the old one.
    pub cursor: Cursor,
    /// New jobs, and finished ones that a person has run again, in the order of submission; at most [`AskNews::new_jobs`].
    pub jobs: Vec<JobHead>,
    /// Whether there may be more new jobs than were asked for. The cursor is beyond them: they are found by reading the backlog.
    pub more: bool,
    /// What others than the dispatcher's own process have done with jobs.
    pub changes: Vec<Change>,
    /// Whether a memo was written or deleted by others than the dispatcher: recall them.
    pub memos: bool,
    /// Which transactions have ended; a sealed queue waits for those that were open.
    pub writers: Writers,
}

/// How far the writing transactions have come, counted in the order in which they began to write. Both are zero in a store with one
/// writer at a time: there, no transaction is ever open whose changes the news could miss.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Writers {
    /// All transactions before this one have ended, and the news up to here contains what they wrote.
    pub over: u64,
    /// The one after the last that has ended. A transaction that began to write before something that is in the news has a lower
    /// number.
    pub next: u64,
}

/// A job that was settled elsewhere or changed by a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The job that was changed; one job may have several changes.
    pub id: JobId,
    /// How long it ran, if this was the end of a run.
    pub ran: Option<Duration>,
    /// Whether a run ended in an error: the job failed or got stuck then, whatever it is now. A person's decision does not count.
    pub failed: bool,
    /// Whether this ended it with success. A job that has ended with neither was cancelled, or ended by a person's decision.
    pub well: bool,
    /// What it is now; `None`: finished.
    pub head: Option<JobHead>,
}

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

/// What [`Store::settle`] is asked to write, in one transaction.
#[derive(Debug, Clone)]
pub struct Settle {
    /// Who decided, and in whose hands the jobs must be.
    pub author: Author,
    /// Answered in this order. Of two about one job the later was made knowing the earlier, and a store may write the later alone.
    pub settlements: Vec<Settlement>,
    /// Batches of which no job is left in the node's hands: their rows are removed.
    pub done: Vec<BatchId>,
}

/// Who settles.
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

    /// What the job no longer has afterwards. A job that has begun has no time any more by which it must begin.
    pub fn clears(&self) -> Clears {
        Clears { expiry: self.to.clears.expiry || self.started_at.is_some(), ..self.to.clears }
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
    /// Left alone, for [`Store::control`] waits for no lock: an open transaction holds the row. Decide again later.
    Locked,
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

/// Which job's story to read, and how much of its log.
#[derive(Debug, Clone)]
pub struct AskStory {
    /// Finished or not; for an unknown one the story is empty.
    pub job: JobId,
    /// Only lines after this one, without attempts, steps and related jobs: for a caller that follows a log.
    pub after: Option<LineAt>,
    /// At most so many lines: the first after `after`, else the last.
    pub lines: u32,
}

/// Which nodes the dispatcher declares lost, and how many jobs it takes from them.
#[derive(Debug, Clone)]
pub struct AskLost {
    /// The node that dispatches.
    pub holder: Incarnation,
    /// Its term; if another one leads, nothing is changed.
    pub epoch: Epoch,
    /// Which nodes are marked as lost by this call, besides those that already are.
    pub expire: Expire,
    /// Jobs in the reply, at most, of all lost nodes together.
    pub limit: u32,
}

/// Which silent nodes count as lost.
#[derive(Debug, Clone)]
pub enum Expire {
    /// None, for a dispatcher that may have been cut off itself, or whose database's clock was just changed.
    Nobody,
    /// Nodes whose lease is over by the database's clock, and also at the time `by`, which is the dispatcher's own estimate of
    /// that clock: so no node is lost because the clock was put forward. And the nodes in `silent`, which the dispatcher found
    /// silent, if the end of their lease has not changed since.
    Over { by: Timestamp, silent: Vec<Replace> },
}

impl Expire {
    /// By the database's clock alone.
    pub fn by_the_clock() -> Self {
        Self::Over { by: Timestamp::MAX, silent: Vec::new() }
    }
}

/// A node that is marked as lost, and what is still in its hands.
#[derive(Debug, Clone, PartialEq)]
pub struct LostNode {
    /// The node, as its row in the store is.
    pub node: Node,
    /// To be settled by the dispatcher, which decides where they go.
    pub jobs: Vec<LostJob>,
    /// Whether `jobs` are all that is left in its hands.
    pub complete: bool,
}

/// A job in a lost node's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostJob {
    /// The job that was lost with its node.
    pub id: JobId,
    /// Of the assignment that was lost: the settlement names it.
    pub fence: Fence,
    /// `Scheduled` or `Running`: core decides by it whether the loss counts as a crash of the job.
    pub state: JobState,
    /// As they were before the loss.
    pub counts: Counts,
    /// What follows a failure. `None`: as its task sets it.
    pub retry: Option<RetryPolicy>,
    /// Time limit, and another step if its retries run out; both optional.
    pub terms: Terms,
    /// A person has cancelled it: it ends as cancelled.
    pub cancel_requested: bool,
}

impl<'a> From<&'a LostJob> for JobFacts<'a> {
    fn from(held: &'a LostJob) -> Self {
        let LostJob { id: _, fence, state, counts, ref retry, ref terms, cancel_requested } = *held;
        let retry = retry.as_ref().unwrap_or(&RetryPolicy::DEFAULT);
        Self { state, counts, retry, terms, cancel_requested, fence }
    }
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
}

/// All given conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// One of these; empty: any.
    pub states: Vec<JobState>,
    /// This queue; `None`: any.
    pub queue: Option<String>,
    /// This group; `None`: any.
    pub group: Option<String>,
    /// This task; `None`: any.
    pub task: Option<String>,
    /// Submitted at this time or later, by the database's clock.
    pub since: Option<Timestamp>,
    /// Submitted before this time.
    pub until: Option<Timestamp>,
    /// With an id from the first to the second of these, both included.
    pub ids: Option<(JobId, JobId)>,
    /// A job that holds this unique key now, in whatever scope.
    pub unique: Option<String>,
    /// At most this many; `None` = 100.
    pub limit: Option<u32>,
}

impl Filter {
    /// How many jobs are read if no limit is given.
    pub const DEFAULT_LIMIT: u32 = 100;
    /// A greater limit counts as this one.
    pub const MAX_LIMIT: u32 = 1_000_000;

    /// The limit that counts: the given one or the default, never more than [`Filter::MAX_LIMIT`].
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(Self::DEFAULT_LIMIT).min(Self::MAX_LIMIT)
    }

    /// The first and the last id that are asked for.
    pub fn id_range(&self) -> (JobId, JobId) {
        self.ids.unwrap_or((JobId::from_uuid(Uuid::nil()), JobId::from_uuid(Uuid::max())))
    }

    /// Whether a job meets all conditions; whether it holds the unique key is for the store to find out.
    pub fn admits(&self, job: &Job) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let (first, last) = self.id_range();
        self.wants(job.state)
            && is(&self.queue, job.queue.as_str())
            && is(&self.group, job.group.as_str())
            && is(&self.task, job.task.as_str())
            && self.since.is_none_or(|since| job.submitted_at >= since)
            && self.until.is_none_or(|until| job.submitted_at < until)
            && (first..=last).contains(&job.id)
    }

    /// The wanted states, or all.
    pub fn wants(&self, state: JobState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}

/// All nodes, and when they were read.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// The database's time: a lease that ends before it is over.
    pub now: Timestamp,
    /// By name and joining time; lost ones too, until their jobs are settled.
    pub nodes: Vec<Node>,
}

/// What a memo is about; its name says which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoKind {
    /// Settings of the whole installation; one memo, whatever its name.
    Installation,
    /// Settings of a queue.
    Queue,
    /// Settings of a group.
    Group,
    /// Limits of a task.
    Task,
    /// Settings of a limit key.
    Key,
    /// What a group has used so far.
    Charge,
    /// By group: no more jobs are accepted. The value is the error text that a submitter gets.
    Full,
    /// A cursor: up to there, dispatchers have handled what must not be forgotten, such as pauses on errors. One memo.
    Seen,
    /// A schedule: what is submitted again and again, and when.
    Schedule,
    /// Which of a schedule's times are over, and the job of the last one.
    Fired,
}

impl MemoKind {
    /// Every kind, in the order of its code.
    pub const ALL: [MemoKind; 10] = [
        Self::Installation,
        Self::Queue,
        Self::Group,
        Self::Task,
        Self::Key,
        Self::Charge,
        Self::Full,
        Self::Seen,
        Self::Schedule,
        Self::Fired,
    ];

    /// Number in the database; never reuse one. In the order of the kinds: memos are sorted by it.
    pub fn code(self) -> i16 {
        match self {
            Self::Installation => 0,
            Self::Queue => 1,
            Self::Group => 2,
            Self::Task => 3,
            Self::Key => 4,
            Self::Charge => 5,
            Self::Full => 6,
            Self::Seen => 7,
            Self::Schedule => 8,
            Self::Fired => 9,
        }
    }

    /// The kind with this number; `None` if no kind has it.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// A named text in the store, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memo {
    /// What it is about.
    pub kind: MemoKind,
    /// Which one of its kind; a setting has the name of its queue, group, task or key.
    pub name: String,
    /// Mostly JSON; only core reads it.
    pub value: String,
    /// 1 when it is first written, one more with each write. A memo that was deleted and is written again may begin
    /// anew.
    pub version: i64,
}

/// A memo to be written or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMemo {
    /// What it is about.
    pub kind: MemoKind,
    /// Which one of its kind; in one call each is named once.
    pub name: String,
    /// `None`: delete it. One that is not there is deleted already.
    pub value: Option<String>,
    /// Write only if the memo still has this version; 0: only if it is not there.
    pub seen: Option<i64>,
}

impl NewMemo {
    /// Refuses a call that names a memo twice: there is no order to write them in, so this is a bug of the caller.
    pub fn check_named_once(memos: &[NewMemo]) -> Result<()> {
        let mut names: Vec<_> = memos.iter().map(|memo| (memo.kind, memo.name.as_str())).collect();
        names.sort_unstable();
        match names.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(StoreError::broken("remember", format!("{:?} is named twice in one call", pair[0]))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_memos_read_back_and_sort_like_their_codes() {
        assert!(MemoKind::ALL.into_iter().all(|kind| MemoKind::from_code(kind.code()) == Some(kind)));
        assert!(MemoKind::ALL.windows(2).all(|pair| pair[0] < pair[1] && pair[0].code() < pair[1].code()));
        assert_eq!(MemoKind::from_code(10), None);
    }
}
