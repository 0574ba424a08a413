//! Nodes: how they join, beat, lead, and are lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    time::Duration,
};

use turnwise_core::{
    Fence, Incarnation, JobId, JobState, Node, NodeName, RetryPolicy, Serves, TaskName, Terms, Timestamp, job::Counts,
    lead::Sight, lifecycle::JobFacts, node::Host, worker::Worker,
};

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
    /// Its tasks run in another program: what that says about them. It is kept as it is until the node is gone.
    pub worker: Option<Worker>,
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
pub struct BeatReply {
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
    /// Whether a person wants this node to take no more jobs: the memo [`Drained`](super::MemoKind::Drained) of its name has its incarnation.
    pub drained: bool,
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
    NoNode,
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
        Self { state, counts, retry, terms, cancel_requested, fence, begun: state == JobState::Running }
    }
}

/// All nodes, and when they were read.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// The database's time: a lease that ends before it is over.
    pub now: Timestamp,
    /// By name and joining time; lost ones too, until their jobs are settled.
    pub nodes: Vec<Node>,
    /// Nodes that were lost within the last day ([`Loss::KEPT`]), the last one first: at most [`Loss::SHOWN`] of them. A node whose
    /// jobs are not settled yet is in both lists.
    pub losses: Vec<Loss>,
    /// Those of the nodes that are foreign workers, lost ones included.
    pub workers: BTreeMap<Incarnation, Worker>,
    /// Those that take no more jobs since a person wants that. A store leaves it empty: the library fills it in from the memos.
    pub drained: BTreeSet<Incarnation>,
}

/// That a node was lost: for people, who see it after its jobs are settled, too. Nothing decides by it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// As it was when the dispatcher found it lost.
    pub node: Node,
    /// When that was, by the database's clock. (Of a node that no dispatcher has found lost yet, the library says when its lease was over.)
    pub lost_at: Timestamp,
    /// How many jobs were in its hands then.
    pub held: u64,
    /// The first [`Loss::JOBS`] of these, by id.
    pub jobs: Vec<JobId>,
}

impl Loss {
    /// How long it is kept.
    pub const KEPT: Duration = Duration::from_secs(24 * 60 * 60);
    /// How many are returned at most.
    pub const SHOWN: usize = 1_000;
    /// How many jobs it names at most.
    pub const JOBS: usize = 10;

    /// Losses before this time are deleted, and not shown.
    pub fn edge(now: Timestamp) -> Timestamp {
        now.minus(Self::KEPT)
    }
}
