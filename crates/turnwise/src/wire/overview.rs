//! Queues, groups, tasks and keys: what is set for them, and how much there is.

use serde::Serialize;
use turnwise_core::{
    GroupName, JobId, KeyName, QueueName, TaskName, Timestamp,
    calendar::{Schedule, Window, blocked_until},
    settings::{Concurrency, Fairness, GroupSettings, LimitSettings, OnError, Pause, QueueSettings, Rate, Weight},
    turn::Scheme,
};

use crate::overview::{GroupOverview, LimitOverview, Overview, QueueOverview, Tally};

/// A queue.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Queue<'a> {
    /// As jobs and settings name it.
    pub name: &'a QueueName,
    /// `active`, `paused`, `waiting` for another, `finished` and the like.
    pub state: &'static str,
    /// In a serial queue: its first job, if no live node knows that job's task. Nothing behind it starts.
    pub held_by: Option<HeldBy<'a>>,
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
    /// Since when the waiting job has been due that has waited longest, of those that were counted; `null`: none is due.
    pub oldest: Option<Timestamp>,
    /// Its share beside other queues.
    pub weight: Weight,
    /// What a turn costs a group: `time` or `turns`.
    pub fairness: Fairness,
    /// How many of its jobs nodes have at a time, at most: a number, `serial` or `unlimited`.
    pub concurrency: Concurrency,
    /// How many of them one node has, at most; `null`: no limit.
    pub per_node: Option<u32>,
    /// How many may start in a time, such as `10/1m,10`; `null`: no limit.
    pub rate: Option<Rate>,
    /// How high and low priority take turns; `null`: as set for the group or the installation.
    pub scheme: Option<Scheme>,
    /// What a failed job does to the queue: `block`, `skip` or `pause`.
    pub on_error: OnError,
    /// The queues that must be finished before it starts anything.
    pub after: &'a [QueueName],
    /// When jobs are due that name no time of their own.
    pub schedule: Option<&'a Schedule>,
    /// Windows of time in which nothing of it is started.
    pub block: &'a [Window],
    /// The end of the window it is in.
    pub blocked_until: Option<Timestamp>,
    /// Since when no more jobs are to come; once it is empty it is finished.
    pub sealed: Option<Timestamp>,
    /// Since when it is paused, and why; `null`: it is not.
    pub paused: Option<&'a Pause>,
}

/// The first job of a serial queue, whose task no live node knows.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct HeldBy<'a> {
    /// Start a node that knows its task, or cancel it.
    pub job: JobId,
    /// The task that no live node knows.
    pub task: &'a TaskName,
}

impl<'a> Queue<'a> {
    /// The queue as it is seen in the overview.
    pub fn new(name: &'a QueueName, queue: &'a QueueOverview, overview: &Overview) -> Self {
        let QueueOverview { settings, jobs, held_by, oldest } = queue;
        let &Tally { waiting, scheduled, running, stuck, .. } = jobs;
        // The cursor of a seal is the dispatcher's own.
        let QueueSettings {
            weight,
            fairness,
            concurrency,
            per_node,
            rate,
            scheme,
            on_error,
            paused,
            sealed,
            quiet: _,
            after,
            schedule,
            block,
        } = settings;
        Self {
            name,
            state: overview.state(name).name(),
            held_by: held_by.as_ref().map(|(job, task)| HeldBy { job: *job, task }),
            waiting,
            scheduled,
            running,
            stuck,
            at_least: overview.more,
            oldest: *oldest,
            weight: *weight,
            fairness: *fairness,
            concurrency: *concurrency,
            per_node: *per_node,
            rate: *rate,
            scheme: *scheme,
            on_error: *on_error,
            after,
            schedule: schedule.as_ref(),
            block,
            blocked_until: blocked_until(block, overview.now),
            sealed: *sealed,
            paused: paused.as_ref(),
        }
    }
}

/// A group.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Group<'a> {
    /// As jobs and settings name it.
    pub name: &'a GroupName,
    /// `active` or `paused`.
    pub state: &'static str,
    /// Jobs that wait for their time, their turn or other jobs, in all queues.
    pub waiting: usize,
    /// Of these, at least so many cannot start now, whatever is free: they are not due, wait for other jobs, or a gate of the queue or
    /// the group is shut.
    pub later: usize,
    /// Jobs in a node's hands that have not begun.
    pub scheduled: usize,
    /// Jobs that a node runs.
    pub running: usize,
    /// Jobs that failed and wait for their next attempt, or for a decision.
    pub stuck: usize,
    /// Whether not all jobs were counted: each of these numbers is the least that there are.
    pub at_least: bool,
    /// Since when the waiting job has been due that has waited longest, of those that were counted one by one; `null`: none is due.
    pub oldest: Option<Timestamp>,
    /// Its share beside other groups of a queue.
    pub weight: Weight,
    /// How many of its jobs nodes have at a time, at most; `null`: no limit.
    pub concurrency: Option<u32>,
    /// How many may start in a time, such as `10/1m,10`; `null`: no limit.
    pub rate: Option<Rate>,
    /// How high and low priority take turns; `null`: as set for the queue or the installation.
    pub scheme: Option<Scheme>,
    /// A submit is refused while so many of its jobs wait; `null`: none is.
    pub max_waiting: Option<u32>,
    /// Weighted seconds it has used beyond its turn.
    pub ahead: f64,
    /// Since when it is paused, and why; `null`: it is not.
    pub paused: Option<&'a Pause>,
}

impl<'a> Group<'a> {
    /// The group as it is seen in the overview.
    pub fn new(name: &'a GroupName, group: &'a GroupOverview, overview: &Overview) -> Self {
        let GroupOverview { settings, jobs, later, oldest, ahead, at_least } = group;
        let &Tally { waiting, scheduled, running, stuck, .. } = jobs;
        let GroupSettings { weight, concurrency, rate, scheme, max_waiting, paused } = settings;
        Self {
            name,
            state: if paused.is_some() { "paused" } else { "active" },
            waiting,
            later: *later,
            scheduled,
            running,
            stuck,
            at_least: overview.more || *at_least,
            oldest: *oldest,
            weight: *weight,
            concurrency: *concurrency,
            rate: *rate,
            scheme: *scheme,
            max_waiting: *max_waiting,
            ahead: ahead.seconds(),
            paused: paused.as_ref(),
        }
    }
}

/// A task: what is set for it across all queues and groups, and how much there is.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Task<'a> {
    /// As jobs and settings name it.
    pub name: &'a TaskName,
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
    /// How many of its jobs nodes have at a time, at most; `null`: no limit.
    pub concurrency: Option<u32>,
    /// How many may start in a time, such as `10/1m,10`; `null`: no limit.
    pub rate: Option<Rate>,
    /// Living nodes that know it.
    pub nodes: usize,
}

impl<'a> Task<'a> {
    /// The task as it is seen in the overview.
    pub fn new(name: &'a TaskName, task: &'a LimitOverview, overview: &Overview) -> Self {
        let LimitOverview { settings, jobs, nodes } = task;
        let &Tally { waiting, scheduled, running, stuck, .. } = jobs;
        let LimitSettings { concurrency, rate } = *settings;
        Self { name, waiting, scheduled, running, stuck, at_least: overview.more, concurrency, rate, nodes: *nodes }
    }
}

/// A key that jobs share a limit by.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Key<'a> {
    /// As jobs and settings name it.
    pub name: &'a KeyName,
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
    /// How many of its jobs nodes have at a time, at most; `null`: no limit.
    pub concurrency: Option<u32>,
    /// How many may start in a time, such as `10/1m,10`; `null`: no limit.
    pub rate: Option<Rate>,
}

impl<'a> Key<'a> {
    /// The key as it is seen in the overview.
    pub fn new(name: &'a KeyName, key: &'a LimitOverview, overview: &Overview) -> Self {
        let LimitOverview { settings, jobs, nodes: _ } = key;
        let &Tally { waiting, scheduled, running, stuck, .. } = jobs;
        let LimitSettings { concurrency, rate } = *settings;
        Self { name, waiting, scheduled, running, stuck, at_least: overview.more, concurrency, rate }
    }
}
