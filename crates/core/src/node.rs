//! Who runs jobs: an executor process, known by its configured name and a random incarnation.

use std::{collections::BTreeSet, fmt, num::NonZeroU32, time::Duration};

use uuid::Uuid;

use crate::{
    name::{NodeName, QueueName, TaskName},
    time::Timestamp,
};

/// One life of a node. A restart is a new incarnation, so nothing an old process still says can be taken for the new.
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

/// Where a process lives, exactly enough to tell whether it is gone: two equal hosts are one operating system.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Host {
    pub name: String,
    pub boot_id: String,
    pub pid_namespace: String,
    pub pid: u32,
    /// Start of the process in clock ticks since boot: a reused pid has another.
    pub started: u64,
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
    #[default]
    All,
    Only(BTreeSet<QueueName>),
    /// All that are not bound to another pool of its process.
    AllBut(BTreeSet<QueueName>),
}

impl Serves {
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
    pub incarnation: Incarnation,
    pub name: NodeName,
    pub host: Host,
    pub slots: u32,
    /// Jobs it may hold beyond its slots.
    pub queue_capacity: u32,
    /// Jobs it is given at once, at most; `None`: it did not say.
    pub batch_size: Option<NonZeroU32>,
    pub queues: Serves,
    pub tasks: BTreeSet<TaskName>,
    pub joined_at: Timestamp,
    /// How long it is believed to live after each beat.
    pub lease: Duration,
    pub lease_until: Timestamp,
    /// Declared lost: its beats are refused, and its settles once the dispatcher has taken its jobs.
    pub lost: bool,
    pub dispatcher: bool,
}

impl Node {
    pub fn alive(&self, now: Timestamp) -> bool {
        !self.lost && now <= self.lease_until
    }

    pub fn can_run(&self, queue: &QueueName, task: &TaskName) -> bool {
        self.tasks.contains(task) && self.queues.contains(queue)
    }
}
