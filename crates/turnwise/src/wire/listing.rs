//! Listings by name, each a page, and the overview.

use serde::Serialize;
use turnwise_core::{GroupName, KeyName, QueueName, ScheduleName, TaskName, Timestamp};

use super::{Group, Key, Node, Queue, Schedule, Task};
use crate::{Fleet, overview};

/// A page of queues, by name.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Queues<'a> {
    /// At most as many as were asked for.
    pub queues: Vec<Queue<'a>>,
    /// When the jobs were counted, by the database's clock: now, or the time of the dispatcher's last count.
    pub counted_at: Timestamp,
    /// To be given as `after` for the next page; `null`: this is the last one.
    pub next: Option<&'a QueueName>,
}

/// A page of groups, by name.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Groups<'a> {
    /// At most as many as were asked for.
    pub groups: Vec<Group<'a>>,
    /// When the jobs were counted, by the database's clock: now, or the time of the dispatcher's last count.
    pub counted_at: Timestamp,
    /// Whether not all jobs were counted: each number is the least that there are.
    pub at_least: bool,
    /// To be given as `after` for the next page; `null`: this is the last one.
    pub next: Option<&'a GroupName>,
}

/// A page of tasks, by name.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Tasks<'a> {
    /// At most as many as were asked for.
    pub tasks: Vec<Task<'a>>,
    /// When the jobs were counted, by the database's clock: now, or the time of the dispatcher's last count.
    pub counted_at: Timestamp,
    /// Whether not all jobs were counted: each number is the least that there are.
    pub at_least: bool,
    /// To be given as `after` for the next page; `null`: this is the last one.
    pub next: Option<&'a TaskName>,
}

/// A page of keys, by name.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Keys<'a> {
    /// At most as many as were asked for.
    pub keys: Vec<Key<'a>>,
    /// When the jobs were counted, by the database's clock: now, or the time of the dispatcher's last count.
    pub counted_at: Timestamp,
    /// Whether not all jobs were counted: each number is the least that there are.
    pub at_least: bool,
    /// To be given as `after` for the next page; `null`: this is the last one.
    pub next: Option<&'a KeyName>,
}

impl<'a> Queues<'a> {
    /// These queues of the overview, and where the next page begins.
    pub fn new(queues: Vec<Queue<'a>>, overview: &overview::Overview, next: Option<&'a QueueName>) -> Self {
        Self { queues, counted_at: overview.counted_at, next }
    }
}

impl<'a> Groups<'a> {
    /// These groups of the overview, and where the next page begins.
    pub fn new(groups: Vec<Group<'a>>, overview: &overview::Overview, next: Option<&'a GroupName>) -> Self {
        Self { groups, counted_at: overview.counted_at, at_least: overview.more, next }
    }
}

impl<'a> Tasks<'a> {
    /// These tasks of the overview, and where the next page begins.
    pub fn new(tasks: Vec<Task<'a>>, overview: &overview::Overview, next: Option<&'a TaskName>) -> Self {
        Self { tasks, counted_at: overview.counted_at, at_least: overview.more, next }
    }
}

impl<'a> Keys<'a> {
    /// These keys of the overview, and where the next page begins.
    pub fn new(keys: Vec<Key<'a>>, overview: &overview::Overview, next: Option<&'a KeyName>) -> Self {
        Self { keys, counted_at: overview.counted_at, at_least: overview.more, next }
    }
}

/// All schedules, by name.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Schedules<'a> {
    /// A page of them.
    pub schedules: Vec<Schedule<'a>>,
    /// To be given as `after` for the next page; `null`: this is the last one.
    pub next: Option<&'a ScheduleName>,
}

impl<'a> Schedules<'a> {
    /// These schedules, and where the next page begins.
    pub fn new(schedules: Vec<Schedule<'a>>, next: Option<&'a ScheduleName>) -> Self {
        Self { schedules, next }
    }
}

/// All nodes, lost ones included, by name and joining time.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Nodes<'a> {
    /// The database's time of the answer.
    pub now: Timestamp,
    /// All of them, and those that were lost within the last day.
    pub nodes: Vec<Node<'a>>,
}

impl<'a> Nodes<'a> {
    /// The fleet.
    pub fn new(fleet: &'a Fleet) -> Self {
        Self { now: fleet.now, nodes: Node::all(fleet) }
    }
}

/// How much there is, and who works on it.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Overview {
    /// The database's time of the answer.
    pub now: Timestamp,
    /// When the jobs were counted: now, or the time of the dispatcher's last count, which it makes every second while it is asked.
    pub counted_at: Timestamp,
    /// Jobs that wait for their time, their turn or other jobs.
    pub waiting: usize,
    /// Jobs in a node's hands that have not begun.
    pub scheduled: usize,
    /// Jobs that a node runs.
    pub running: usize,
    /// Jobs that failed and wait for their next attempt, or for a decision.
    pub stuck: usize,
    /// Whether not all jobs were counted: each of these numbers is the least that there are.
    pub at_least: bool,
    /// Queues that have jobs, or something set.
    pub queues: usize,
    /// Groups that have jobs, something set, or a charge.
    pub groups: usize,
    /// Nodes that live; `null`: not told to a caller that is limited to some jobs.
    pub nodes: Option<usize>,
    /// Their slots; `null` as `nodes`.
    pub slots: Option<u64>,
    /// Whether one of them dispatches; `null` as `nodes`.
    pub dispatcher: Option<bool>,
}

impl Overview {
    /// Of this count and this fleet; `None`: the caller is not told of nodes.
    pub fn new(overview: &overview::Overview, fleet: Option<&Fleet>) -> Self {
        let all = overview.all;
        let living = fleet.map(|fleet| fleet.nodes.iter().filter(|node| node.alive(fleet.now)).collect::<Vec<_>>());
        let living = living.as_deref();
        Self {
            now: overview.now,
            counted_at: overview.counted_at,
            waiting: all.waiting,
            scheduled: all.scheduled,
            running: all.running,
            stuck: all.stuck,
            at_least: overview.more,
            queues: overview.queues.len(),
            groups: overview.groups_in_all,
            nodes: living.map(<[_]>::len),
            slots: living.map(|nodes| nodes.iter().map(|node| u64::from(node.slots)).sum()),
            dispatcher: living.map(|nodes| nodes.iter().any(|node| node.dispatcher)),
        }
    }
}
