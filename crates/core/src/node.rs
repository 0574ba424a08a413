//! What runs jobs: a pool of an executor process, known by its configured name and a random incarnation.

use std::{collections::BTreeSet, fmt, num::NonZeroU32, time::Duration};

use uuid::Uuid;

use crate::{
    name::{NodeName, QueueName, TaskName},
    time::Timestamp,
};

/// One life of a node. A restart is a new incarnation, so that no late write of the old process is taken for one of the new.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct Incarnation(pub Uuid);

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.8}", self.0.simple())
    }
}

/// Which process it is on which machine: enough to find out whether that process is gone.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Host {
    /// Of the machine, for people.
    pub name: String,
    /// Another one after each boot of the machine. Empty where it cannot be read: then no other host counts as the same machine.
    pub boot_id: String,
    /// In another namespace (a container, say) the same pid is another process.
    pub pid_namespace: String,
    /// Process id within the namespace.
    pub pid: u32,
    /// Start of the process in clock ticks since boot: a reused pid has another.
    pub started: u64,
    /// Of the program that it runs, for people; `None`: it is of an earlier version, which does not say.
    #[serde(default)]
    pub version: Option<String>,
}

impl Host {
    /// Whether a process table that shows `self` would show `other` too.
    pub fn shares_process_table_with(&self, other: &Host) -> bool {
        !self.boot_id.is_empty() && self.boot_id == other.boot_id && self.pid_namespace == other.pid_namespace
    }
}

/// The queues a node serves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Serves {
    /// Every queue, also those that come later.
    #[default]
    All,
    /// These and no others.
    Only(BTreeSet<QueueName>),
    /// All that are not bound to another pool of its process.
    AllBut(BTreeSet<QueueName>),
}

impl Serves {
    /// Whether jobs of this queue may go to the node.
    pub fn contains(&self, queue: &QueueName) -> bool {
        match self {
            Serves::All => true,
            Serves::Only(queues) => queues.contains(queue),
            Serves::AllBut(queues) => !queues.contains(queue),
        }
    }

    /// Whether there can be a queue that both serve.
    pub fn meets(&self, other: &Serves) -> bool {
        match (self, other) {
            (Serves::Only(queues), other) | (other, Serves::Only(queues)) => {
                queues.iter().any(|queue| other.contains(queue))
            }
            // There is always one more queue.
            (Serves::All | Serves::AllBut(_), Serves::All | Serves::AllBut(_)) => true,
        }
    }

    /// As the stores keep it: names, and whether these are the ones it does not serve.
    pub fn from_parts(names: Option<BTreeSet<QueueName>>, all_but: bool) -> Self {
        match names {
            None => Serves::All,
            Some(names) if all_but => Serves::AllBut(names),
            Some(names) => Serves::Only(names),
        }
    }

    /// What [`Serves::from_parts`] makes the same value of.
    pub fn parts(&self) -> (Option<&BTreeSet<QueueName>>, bool) {
        match self {
            Serves::All => (None, false),
            Serves::Only(names) => (Some(names), false),
            Serves::AllBut(names) => (Some(names), true),
        }
    }
}

/// A node as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// This life of the node; a restart is another one.
    pub incarnation: Incarnation,
    /// As configured; at most one incarnation that is not lost has it.
    pub name: NodeName,
    /// The process it lives in.
    pub host: Host,
    /// Jobs it runs at a time; zero while it drains.
    pub slots: u32,
    /// Jobs it may hold beyond its slots.
    pub queue_capacity: u32,
    /// Jobs it is given at once, at most; `None`: it named no bound.
    pub batch_size: Option<NonZeroU32>,
    /// Jobs of other queues are not assigned to it.
    pub queues: Serves,
    /// Jobs of other tasks are not assigned to it.
    pub tasks: BTreeSet<TaskName>,
    /// By the database's clock.
    pub joined_at: Timestamp,
    /// How long it is believed to live after each beat.
    pub lease: Duration,
    /// Each beat moves it on. Once it has passed, the dispatcher may declare the node lost.
    pub lease_until: Timestamp,
    /// Declared lost: its beats are refused, and its settles once the dispatcher has taken its jobs.
    pub lost: bool,
    /// Whether it holds the lead.
    pub dispatcher: bool,
}

/// What a node is doing, as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// It beats, and takes jobs.
    Alive,
    /// It beats, takes no more jobs, and leaves once those that it has are done.
    Stopping,
    /// It beats, and takes no more jobs since a person wants that.
    Drained,
    /// It was declared lost, or its lease is over.
    Lost,
}

impl NodeState {
    /// The word for it, as it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Stopping => "stopping",
            Self::Drained => "drained",
            Self::Lost => "lost",
        }
    }
}

impl Node {
    /// What it is doing at `now`, a time of the database's clock. Only a node that drains has no slots; whether a person wants that, its row does
    /// not say.
    pub fn state(&self, now: Timestamp) -> NodeState {
        match (self.alive(now), self.slots) {
            (false, _) => NodeState::Lost,
            (true, 0) => NodeState::Stopping,
            (true, _) => NodeState::Alive,
        }
    }

    /// Whether it is not declared lost and its lease is not over at `now`, a time of the database's clock.
    pub fn alive(&self, now: Timestamp) -> bool {
        !self.lost && now <= self.lease_until
    }

    /// Whether it knows the task and serves the queue.
    pub fn can_run(&self, queue: &QueueName, task: &TaskName) -> bool {
        self.tasks.contains(task) && self.queues.contains(queue)
    }
}
