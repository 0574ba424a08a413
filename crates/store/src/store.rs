//! The verbs. Each is one atomic step and safe to repeat after a lost reply. No policy lives here: a store writes what
//! `turnwise_core` decided, if the row still is what the decision was made for.

use std::{collections::BTreeSet, fmt, num::NonZeroU32, time::Duration};

use turnwise_core::{
    Fence, Incarnation, Job, JobHead, JobId, JobState, NewJob, Node, NodeName, Retention, RetryPolicy, Serves,
    TaskName, Terms, Timestamp,
    job::{AssignedJob, Counts},
    lead::Sight,
    lifecycle::{End, Standing, Target, Transition},
    node::Host,
    scheduler::Pick,
    story::{Finished, Line, LineAt, Progress, Story},
    unique::Replacing,
};
use uuid::Uuid;

use crate::{Bell, StoreError};

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
}

impl Default for Options {
    fn default() -> Self {
        Self { retention: None, log_lines: None, connections: 10, task_connections: None }
    }
}

/// The one trait. Enqueueing in the caller's own transaction is a method of each driver, not of this trait: the store
/// hands out neither connections nor transactions.
#[async_trait::async_trait]
pub trait Store: Send + Sync + fmt::Debug + 'static {
    /// Stores `jobs` in one transaction: all of them or none, in submission order. An id that is already there, waiting
    /// or finished, is left alone and told as such; so the same call may be repeated until it answers.
    ///
    /// A new job whose group has a [`MemoKind::Full`] memo refuses the whole call: [`StoreError::Refused`] with the
    /// memo's value as its text. The same for new jobs that wait for one another in a circle ([`check`](turnwise_core::after::check)
    /// says it), and for one that waits for an id that is neither there nor in this call:
    /// `after: there is no job …`. A job that is already there is never a reason to refuse.
    ///
    /// A job with a [unique key](turnwise_core::Unique) that another holds is not stored; the reply names the holder, and
    /// with [`OnDuplicate::Reject`](turnwise_core::unique::OnDuplicate) the whole call is [`StoreError::Duplicate`]. Of any
    /// number of submitters of one key at once, one gets it; who meets an open transaction waits for its end, and with
    /// [`StoreError::Transient`] not for ever.
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Submitted>>;

    /// Makes a node known. The same name alive in another incarnation is answered with [`Joined::Taken`]; nothing changes.
    /// With `replace`, that other one is marked lost in the same step and dispatches no more, if its lease still ends
    /// when the caller saw it end.
    /// Rings for the lead, so that the dispatcher sees the new node at once.
    async fn join(&self, join: Join) -> Result<Joined>;

    /// Prolongs the node's lease, and with `lead` takes or prolongs the dispatcher's, if it is free, over, or its own.
    /// Taking it raises the epoch; the holder that beats without `lead` gives it up at once. A lead that still is what
    /// [`Beat::over`] says is over. With [`Beat::only_look`] nothing is written: the pulse says who leads, and no more. A lead that was taken in
    /// another [`Lineage`] is over, for its holder too. A node that is unknown or lost gets `alive: false`, and nothing is prolonged.
    async fn beat(&self, beat: Beat) -> Result<Pulse>;

    /// Says good-bye: gives up dispatching at once, and removes the node with its mail. `true`: it is gone. `false`: jobs
    /// are still in its hands, perhaps unread, and the node stays as it is, to settle them and call again; if it does
    /// not, its lease runs out as any other's.
    async fn leave(&self, node: Incarnation) -> Result<bool>;

    /// Reads unfinished jobs for the scheduler: a page in id order, the named ones that are still there, or all that are in
    /// nodes' hands, by id.
    async fn load(&self, load: Load) -> Result<Page>;

    /// What has become visible since `cursor`: new jobs, and changes made by others than the dispatcher's own node.
    /// Without a cursor: none, only where to begin. No job is left out, whatever order transactions commit in.
    async fn news(&self, ask: AskNews) -> Result<News>;

    /// Gives picked jobs to nodes: `waiting | stuck → scheduled`, fence + 1, if holder and epoch still lead
    /// ([`StoreError::NotLeading`] otherwise, and nothing is changed). A pick whose row is not at the picked fence and
    /// at rest, or is locked by another transaction, or whose node has left, is answered and left alone. Repeated, it answers what the first call did.
    /// The answers come in the order of the picks.
    async fn assign(&self, assign: Assign) -> Result<Vec<(JobId, AssignReply)>>;

    /// The node's undelivered batches: those not in `known`, by id, each in the order of its picks. Kept until [`Settle::done`] names them.
    async fn assignments(&self, node: Incarnation, known: Vec<BatchId>) -> Result<Vec<Delivery>>;

    /// Writes decisions about assigned jobs, each guarded by its fence and its node, and removes the batches in `done`.
    /// A finished job leaves for history. Answers in the order of the settlements. A dispatcher that settles for a lost
    /// node raises the fence, so that the lost node's own late settle is [`Settled::Superseded`].
    async fn settle(&self, settle: Settle) -> Result<Vec<Settled>>;

    /// Writes what running jobs have to say, each guarded by its fence and its node: [`Settled::Applied`], or
    /// [`Settled::Superseded`] and nothing of that note is written. Repeated, it changes nothing: a line with its number
    /// is there once, and the first result of a step stands.
    async fn note(&self, node: Incarnation, notes: Vec<Note>) -> Result<Vec<Settled>>;

    /// Marks nodes as lost as [`AskLost::expire`] says: from then on their beats are refused. A node whose row an open transaction
    /// holds is not marked this time: it is beating, joining or leaving right now, and the dispatcher asks again. Tells all lost nodes
    /// with the jobs still in their hands, at most `limit` jobs in all. [`StoreError::NotLeading`] for anyone but the
    /// dispatcher.
    async fn lost_nodes(&self, ask: AskLost) -> Result<Vec<LostNode>>;

    /// Writes a person's decisions, each guarded by the state and fence the person saw. What another open transaction
    /// holds is [`Settled::Locked`].
    async fn control(&self, interventions: Vec<Intervention>) -> Result<Vec<Settled>>;

    /// Deletes what is not needed any more, at most `limit` rows of each kind: history that ended before the
    /// [edge](Retention::edge) of its retention, changes the dispatcher has seen, unique keys that no job can hold any more; with
    /// each job what it told. Tells how many rows went; `limit` or more means that there may be more.
    async fn prune(&self, seen: Option<Cursor>, limit: u32) -> Result<u64>;

    /// One job, finished or not.
    async fn job(&self, id: JobId) -> Result<Option<Job>>;

    /// Jobs, finished ones included, newest id first.
    async fn jobs(&self, filter: Filter) -> Result<Vec<Job>>;

    /// What is told of one job besides its row; empty for one that is not there.
    async fn story(&self, ask: AskStory) -> Result<Story>;

    /// All nodes, lost ones included, by name and joining time.
    async fn nodes(&self) -> Result<Fleet>;

    /// Small durable values of core's own making: settings by name, charges. The store neither reads nor judges them,
    /// except that it refuses jobs of a group that is [`MemoKind::Full`]. All memos of these kinds, by kind and name.
    async fn recall(&self, kinds: Vec<MemoKind>) -> Result<Vec<Memo>>;

    /// Writes memos in one transaction, each of them named once. With `lead`, only if that holder and epoch lead
    /// ([`StoreError::NotLeading`] otherwise, and nothing is changed). What is written without `lead` is news to the
    /// dispatcher, and rings.
    ///
    /// Answers in the order of the memos; `false`: the version was not [`NewMemo::seen`] any more, and this memo is left
    /// alone. Repeated, a memo with `seen` is `false` if the first call wrote it (read it again: the version moved on, by
    /// that very call), one without is written again, the same value under the next version.
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
    /// `false`: it was there already, or another one stands for it.
    pub new: bool,
    /// Set when another one stands for it.
    pub duplicate: Option<Duplicate>,
}

impl Submitted {
    /// The job itself, now or since an earlier call.
    pub fn itself(id: JobId, new: bool) -> Self {
        Self { id, new, duplicate: None }
    }

    /// Another one stands for it.
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
    /// A database that has forgotten its last commits may have forgotten terms. So the first term of a lineage is a leap
    /// away, and no term that a node remembers from another lineage has its number.
    #[must_use]
    pub fn next(self, last: Option<Lineage>, now: Lineage) -> Self {
        let leap = if last == Some(now) { 0 } else { now.0.rem_euclid(Self::STRIDE) };
        Self(self.0 + 1 + leap)
    }
}

/// Which history of commits the database goes on. A failover, a restore, a copy or a crash of the server may take back the
/// last commits, or give transaction numbers out again, and begins a new one: a process that remembers what was committed before must
/// read it again. Two are the same or different; neither is the older one. (SQLite's is always 0.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Lineage(pub i64);

#[derive(Debug, Clone)]
pub struct Join {
    pub incarnation: Incarnation,
    pub name: NodeName,
    pub host: Host,
    pub slots: u32,
    pub queue_capacity: u32,
    /// Jobs it is given at once, at most; `None`: it does not say.
    pub batch_size: Option<NonZeroU32>,
    pub queues: Serves,
    pub tasks: BTreeSet<TaskName>,
    pub lease: Duration,
    pub replace: Option<Replace>,
}

/// The incarnation to be replaced, and the end of its lease as the caller saw it: had it beaten since, it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replace {
    pub incarnation: Incarnation,
    pub lease_until: Timestamp,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Joined {
    In { now: Timestamp },
    Taken { by: Box<Node>, now: Timestamp },
}

#[derive(Debug, Clone)]
pub struct Beat {
    pub node: Incarnation,
    pub lease: Duration,
    /// Slots from now on; zero while the node drains.
    pub slots: u32,
    /// Whether the node is ready to dispatch.
    pub lead: bool,
    /// The lead that this node has found to be over, as it saw it: had it been renewed since, its holder lives.
    pub over: Option<Term>,
    /// Only tell who leads.
    pub only_look: bool,
}

impl Beat {
    /// Neither a look nor about a lead that is over.
    pub fn new(node: Incarnation, lease: Duration, slots: u32, lead: bool) -> Self {
        Self { node, lease, slots, lead, over: None, only_look: false }
    }
}

/// A lead, and the end of its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    pub epoch: Epoch,
    pub until: Timestamp,
}

/// Who dispatches, as another node sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Leader {
    pub term: Term,
    pub host: Host,
    pub lease: Duration,
    /// What the store can see of its process.
    pub sight: Sight,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pulse {
    pub now: Timestamp,
    pub lineage: Lineage,
    pub alive: bool,
    /// Set when this node dispatches.
    pub epoch: Option<Epoch>,
    /// All living nodes, when this node dispatches.
    pub nodes: Vec<Node>,
    /// The node that dispatches, when this one would and does not.
    pub leader: Option<Leader>,
}

#[derive(Debug, Clone)]
pub enum Load {
    After {
        id: Option<JobId>,
        limit: u32,
    },
    These(Vec<JobId>),
    /// What nodes have in their hands, or one of them: no more than they may hold. Limits are counted from it, so it is read
    /// first.
    InHands(Option<Incarnation>),
    /// The same of one node by the jobs' rows alone, also what none of its batches names: a crash may take back an end, and the
    /// node then call the batch done. Reads every job, so it is for a node that has heard of a new [`Lineage`].
    HeldBy(Incarnation),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    pub now: Timestamp,
    pub jobs: Vec<JobHead>,
    /// Where the next page begins; `None` at the end, and for all but [`Load::After`].
    pub next: Option<JobId>,
}

/// How far the dispatcher has seen; only its store can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

#[derive(Debug, Clone)]
pub struct AskNews {
    pub cursor: Option<Cursor>,
    /// Changes that were told in this process under this epoch are left out.
    pub epoch: Epoch,
    /// The dispatcher is about to sleep: submitters shall ring.
    pub asleep: bool,
    /// New jobs, at most. None: for those who look far back.
    pub new_jobs: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub struct News {
    pub now: Timestamp,
    pub cursor: Cursor,
    pub jobs: Vec<JobHead>,
    /// Whether there may be more new jobs than were asked for. The cursor is beyond them: they are found by reading the backlog.
    pub more: bool,
    pub changes: Vec<Change>,
    /// Whether a memo was written or deleted by others than the dispatcher: recall them.
    pub memos: bool,
    pub writers: Writers,
}

/// How far transactions have come that write, counted in the order in which they began to. Both zero where one at a time
/// writes: then nothing is ever under way that these news do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Writers {
    /// All before this one have ended, and what they brought has been told.
    pub over: u64,
    /// The one after the last that has ended: a transaction that began to write before something that has been told comes before this.
    pub next: u64,
}

/// A job that was settled elsewhere or changed by a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub id: JobId,
    /// How long it ran, if this was the end of a run.
    pub ran: Option<Duration>,
    /// Whether a run ended in an error: the job failed or got stuck then, whatever it is now. A person's decision does not count.
    pub failed: bool,
    /// Whether this ended it with success. What has ended without being either was cancelled, or ended by a decision.
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

#[derive(Debug, Clone)]
pub struct Assign {
    pub holder: Incarnation,
    pub epoch: Epoch,
    /// One delivery per node in the picks; the batch of a node is `(batch, node)`.
    pub batch: BatchId,
    pub picks: Vec<Pick>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum AssignReply {
    /// To the dispatcher's own node: it starts from here.
    Mine(Box<AssignedJob>),
    /// To another node, which reads it as a [`Delivery`].
    Theirs(Fence),
    Locked,
    Changed(JobHead),
    Gone,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    pub batch: BatchId,
    /// Jobs of the batch that are (still) in this node's hands.
    pub jobs: Vec<AssignedJob>,
    /// Jobs in this node's hands that shall stop.
    pub cancel: Vec<JobId>,
}

#[derive(Debug, Clone)]
pub struct Settle {
    pub author: Author,
    pub settlements: Vec<Settlement>,
    pub done: Vec<BatchId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Author {
    /// The node that has the jobs. `told`: the dispatcher of this epoch lives in the same process and is told there.
    Node { node: Incarnation, told: Option<Epoch> },
    /// The dispatcher, for a lost node. `bury`: remove the node and its assignments once nothing is left in its hands.
    Dispatcher { holder: Incarnation, epoch: Epoch, lost: Incarnation, bury: bool },
}

#[derive(Debug, Clone)]
pub struct Settlement {
    pub job: JobId,
    pub fence: Fence,
    /// Whether the decision knew of a cancel request; if one has come since, the job comes back unsettled.
    pub saw_cancel: bool,
    pub to: Transition,
    /// Whether notes or attempts of the job may be in the store: where nothing is kept, they go with it.
    pub noted: bool,
    /// Begin and end of the run, where there was one.
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

impl Settlement {
    /// How long the run took that this settles.
    pub fn ran(&self) -> Option<Duration> {
        Some(self.finished_at?.since(self.started_at?))
    }

    /// Whether the run ended in an error: the job has failed, or is stuck. By the time this is told the job may run again.
    pub fn failed(&self) -> bool {
        matches!(self.to.to, Target::Finish { end: End::Failed, .. } | Target::Stuck { .. })
    }

    /// Whether this ends the job with success.
    pub fn well(&self) -> bool {
        matches!(self.to.to, Target::Finish { end: End::Success, .. })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Written, now or by an earlier call whose reply was lost. (What raised the fence or was a person's decision is
    /// [`Settled::Superseded`] when it is repeated: the row moved on, by that very call.)
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

/// What a running job has to say.
#[derive(Debug, Clone)]
pub struct Note {
    pub job: JobId,
    pub fence: Fence,
    /// `Some` replaces what was said before.
    pub progress: Option<Progress>,
    pub lines: Vec<Line>,
    /// Whether to look if more lines are kept than may be. A look costs, so not every note asks for one.
    pub trim: bool,
    pub steps: Vec<Finished>,
}

#[derive(Debug, Clone)]
pub struct AskStory {
    pub job: JobId,
    /// Lines after this one only, and no attempts, steps and jobs it has to do with: for those who follow a log.
    pub after: Option<LineAt>,
    /// At most so many lines: the first after `after`, else the last.
    pub lines: u32,
}

#[derive(Debug, Clone)]
pub struct AskLost {
    pub holder: Incarnation,
    pub epoch: Epoch,
    pub expire: Expire,
    pub limit: u32,
}

/// Whose silence counts as loss.
#[derive(Debug, Clone)]
pub enum Expire {
    /// None, for a dispatcher that may have been cut off itself, or whose database's clock was just changed.
    Nobody,
    /// That of nodes whose lease is over by the database's clock, and was over at this time, which the dispatcher believes it to be:
    /// had the clock been put forward since, no node is lost by that. And of those the dispatcher found silent, if
    /// their lease still ends when it saw it end.
    Over { by: Timestamp, silent: Vec<Replace> },
}

impl Expire {
    /// By the database's clock alone.
    pub fn by_the_clock() -> Self {
        Self::Over { by: Timestamp::MAX, silent: Vec::new() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct LostNode {
    pub node: Node,
    pub jobs: Vec<Held>,
    /// Whether these are all that is left in its hands.
    pub complete: bool,
}

/// A job in a lost node's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub id: JobId,
    pub fence: Fence,
    pub state: JobState,
    pub counts: Counts,
    pub retry: RetryPolicy,
    pub terms: Terms,
    pub cancel_requested: bool,
}

impl<'a> From<&'a Held> for Standing<'a> {
    fn from(held: &'a Held) -> Self {
        let Held { id: _, fence, state, counts, ref retry, ref terms, cancel_requested } = *held;
        Self { state, counts, retry, terms, cancel_requested, fence }
    }
}

#[derive(Debug, Clone)]
pub struct Intervention {
    pub job: JobId,
    /// What the decision was made for; anything else is [`Settled::Superseded`].
    pub state: JobState,
    pub fence: Fence,
    pub to: Transition,
}

/// All given conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub states: Vec<JobState>,
    pub queue: Option<String>,
    pub group: Option<String>,
    pub task: Option<String>,
    /// At most this many; `None` = 100.
    pub limit: Option<u32>,
}

impl Filter {
    pub const DEFAULT_LIMIT: u32 = 100;
    pub const MAX_LIMIT: u32 = 1_000_000;

    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(Self::DEFAULT_LIMIT).min(Self::MAX_LIMIT)
    }

    /// The wanted states, or all.
    pub fn wants(&self, state: JobState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    pub now: Timestamp,
    pub nodes: Vec<Node>,
}

/// What a memo is about; its name says which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoKind {
    /// Settings of all of it; one memo, whatever its name.
    Installation,
    Queue,
    Group,
    Task,
    /// Settings of a limit key.
    Key,
    /// What a group has used so far.
    Charge,
    /// By group: no more jobs are taken. The value is the sentence a submitter is told.
    Full,
    /// How far the dispatcher has seen to what must not be forgotten: a cursor. One memo.
    Seen,
    /// What is submitted again and again.
    Schedule,
    /// Which of a schedule's times are over, and the job of the last one.
    Fired,
}

impl MemoKind {
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

    /// Number in the database; never reuse one. In the order of the kinds: memos are told by it.
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

    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memo {
    pub kind: MemoKind,
    pub name: String,
    pub value: String,
    /// 1 when it is first written, one more with each write. A memo that was deleted and is written again may begin
    /// anew.
    pub version: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMemo {
    pub kind: MemoKind,
    pub name: String,
    /// `None`: delete it. One that is not there is deleted already.
    pub value: Option<String>,
    /// Write only if the memo still has this version; 0: only if it is not there.
    pub seen: Option<i64>,
}

impl NewMemo {
    /// A call that names a memo twice has no order to write them in: it is a mistake of the program.
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
