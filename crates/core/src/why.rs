//! Why a job does not run: every reason is a value, given by the scheduler that would start the job.

use std::{fmt, time::Duration};

use crate::{
    after::{Awaits, Verdict},
    calendar::{GivenTime, Schedule, Window, blocked_until},
    job::{Job, JobId},
    name::{GroupName, KeyName, NodeName, QueueName, TaskName},
    node::Node,
    queue_state::{is_finished, waits_for},
    settings::{GroupSettings, Pause, QueueSettings, Settings},
    time::Timestamp,
};

/// Whose limit or rate it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Whose {
    /// The job's queue.
    Queue(QueueName),
    /// The job's group, in all queues.
    Group(GroupName),
    /// The job's task.
    Task(TaskName),
    /// The job's limit key.
    Key(KeyName),
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Queue(name) => write!(f, "queue {name}"),
            Whose::Group(name) => write!(f, "group {name}"),
            Whose::Task(name) => write!(f, "task {name}"),
            Whose::Key(name) => write!(f, "key {name}"),
        }
    }
}

/// One thing that stands between a job and a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gate {
    /// It may not start before this time: its own, or that of its retry or snooze.
    NotDue(Timestamp),
    /// It names no time of its own, and its queue has a schedule.
    Scheduled { queue: QueueName, schedule: Schedule, due: Timestamp },
    /// It is stuck without a due time: a person retries it or fails it.
    NeedsAPerson,
    /// No node has a lease that is not over.
    NoLiveNode,
    /// Nodes live, but none of them knows its task.
    UnknownTask,
    /// Nodes that know its task live, but none of them serves its queue.
    QueueNotServed,
    /// Its queue or group starts nothing until a person resumes it.
    Paused { whose: Whose, pause: Pause },
    /// Its queue waits until the other is finished.
    WaitsFor { queue: QueueName, other: QueueName },
    /// It waits for this job, and for so many others that have not ended either.
    Awaits { job: JobId, others: usize },
    /// This job, which it waited for, has not ended well: so it is about to end too.
    AwaitedFailed { job: JobId },
    /// Its queue starts nothing in this window.
    Window { queue: QueueName, window: Window, until: Timestamp },
    /// As many jobs are in nodes' hands as the limit allows; one of them must end first.
    AtLimit { whose: Whose, used: u32, limit: u32 },
    /// The rate has no start left; it allows the next one at `until`.
    Rate { whose: Whose, until: Timestamp },
    /// In a serial queue another job is first.
    Line { queue: QueueName, first: JobId },
    /// In a serial queue another job is first, and no live node knows its task: it holds the line.
    HeldLine { queue: QueueName, first: JobId, task: TaskName },
    /// The backlog is still being read.
    Loading,
    /// Another transaction holds the row.
    Locked,
    /// Two nodes died under it: it runs alone, and waits for a node without other jobs.
    Alone,
    /// Every node that could run it and has a free slot runs as many of this queue as one node may.
    FullOnNodes { queue: QueueName, limit: u32 },
    /// All slots that could run it are busy.
    SlotsBusy { slots: u32 },
    /// A node has it whose lease is over.
    NodeLost { node: NodeName },
}

impl Gate {
    /// The word for it, as programs read it.
    pub fn name(&self) -> &'static str {
        match self {
            Gate::NotDue(_) => "not_due",
            Gate::Scheduled { .. } => "scheduled",
            Gate::NeedsAPerson => "needs_a_person",
            Gate::NoLiveNode => "no_live_node",
            Gate::UnknownTask => "unknown_task",
            Gate::QueueNotServed => "queue_not_served",
            Gate::Paused { .. } => "paused",
            Gate::WaitsFor { .. } => "waits_for_queue",
            Gate::Awaits { .. } => "waits_for_jobs",
            Gate::AwaitedFailed { .. } => "awaited_failed",
            Gate::Window { .. } => "blocked",
            Gate::AtLimit { .. } => "at_limit",
            Gate::Rate { .. } => "rate",
            Gate::Line { .. } => "line",
            Gate::HeldLine { .. } => "held_line",
            Gate::Loading => "loading",
            Gate::Locked => "locked",
            Gate::Alone => "alone",
            Gate::FullOnNodes { .. } => "full_on_nodes",
            Gate::SlotsBusy { .. } => "slots_busy",
            Gate::NodeLost { .. } => "node_lost",
        }
    }

    /// A sentence that names neither other jobs nor other queues: for a caller that may not see them.
    pub fn without_others(&self) -> String {
        let text = match self {
            Gate::Awaits { others, .. } => return format!("waits for {} of the jobs that it comes after", others + 1),
            Gate::AwaitedFailed { .. } => "a job that it waited for has not ended well: it is about to end too",
            Gate::WaitsFor { .. } => "its queue waits for another queue",
            Gate::Line { .. } => "another job of its serial queue is first",
            Gate::HeldLine { .. } => "another job of its serial queue is first, and no live node knows its task",
            // Written out: a new gate that names another job or queue must not be passed on unnoticed.
            Gate::NotDue(_)
            | Gate::Scheduled { .. }
            | Gate::NeedsAPerson
            | Gate::NoLiveNode
            | Gate::UnknownTask
            | Gate::QueueNotServed
            | Gate::Paused { .. }
            | Gate::Window { .. }
            | Gate::AtLimit { .. }
            | Gate::Rate { .. }
            | Gate::Loading
            | Gate::Locked
            | Gate::Alone
            | Gate::FullOnNodes { .. }
            | Gate::SlotsBusy { .. }
            | Gate::NodeLost { .. } => return self.to_string(),
        };
        text.to_owned()
    }

    /// When it opens, where that is known.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Gate::NotDue(due) | Gate::Scheduled { due, .. } => Some(*due),
            Gate::Window { until, .. } | Gate::Rate { until, .. } => Some(*until),
            // Written out: a new gate says here whether it opens by itself.
            Gate::NeedsAPerson
            | Gate::NoLiveNode
            | Gate::UnknownTask
            | Gate::QueueNotServed
            | Gate::Paused { .. }
            | Gate::WaitsFor { .. }
            | Gate::Awaits { .. }
            | Gate::AwaitedFailed { .. }
            | Gate::AtLimit { .. }
            | Gate::Line { .. }
            | Gate::HeldLine { .. }
            | Gate::Loading
            | Gate::Locked
            | Gate::Alone
            | Gate::FullOnNodes { .. }
            | Gate::SlotsBusy { .. }
            | Gate::NodeLost { .. } => None,
        }
    }

    /// The jobs that a job waits for.
    pub(crate) fn of_awaits(awaits: &Awaits) -> Option<Self> {
        match (awaits.verdict(), awaits.ended_badly, awaits.open.first()) {
            (Verdict::End(_), Some((job, _)), _) => Some(Self::AwaitedFailed { job }),
            (Verdict::Wait, _, Some(&job)) => Some(Self::Awaits { job, others: awaits.open.len() - 1 }),
            _ => None,
        }
    }

    /// The node that has the job, where it is none of the living ones.
    pub fn node_lost<'a>(job: &Job, mut living: impl Iterator<Item = &'a NodeName>) -> Option<Self> {
        let node = job.node.as_ref().filter(|_| job.state.assigned())?;
        (!living.any(|living| living == node)).then(|| Self::NodeLost { node: node.clone() })
    }

    /// The window the queue is in.
    pub(crate) fn window(queue: &QueueName, set: &QueueSettings, now: Timestamp) -> Option<Self> {
        let until = blocked_until(&set.block, now)?;
        let window = set.block.iter().find(|window| window.contains(now))?.clone();
        Some(Self::Window { queue: queue.clone(), window, until })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gate::NotDue(due) => write!(f, "not due before {due}"),
            Gate::Scheduled { queue, schedule, due } => {
                write!(f, "not due before {due} (schedule {schedule} of queue {queue})")
            }
            Gate::NeedsAPerson => f.write_str("needs a decision: retry it or fail it"),
            Gate::NoLiveNode => f.write_str("no node is running"),
            Gate::UnknownTask => f.write_str("no live node knows this task"),
            Gate::QueueNotServed => f.write_str("no live node that knows this task serves this queue"),
            Gate::Paused { whose, pause } => {
                write!(f, "{whose} is paused since {}", pause.since)?;
                pause.reason.as_ref().map_or(Ok(()), |reason| write!(f, " ({reason})"))
            }
            Gate::WaitsFor { queue, other } => {
                write!(
                    f,
                    "queue {queue} waits until queue {other} is finished: sealed and empty, with no transaction open from before"
                )
            }
            Gate::Awaits { job, others: 0 } => write!(f, "waits for job {job}"),
            Gate::Awaits { job, others: 1 } => write!(f, "waits for job {job} and one other"),
            Gate::Awaits { job, others } => write!(f, "waits for job {job} and {others} others"),
            Gate::AwaitedFailed { job } => {
                write!(f, "is about to end: job {job}, which it waited for, has not ended well")
            }
            Gate::Window { queue, window, until } => write!(f, "queue {queue} is blocked until {until} ({window})"),
            Gate::AtLimit { whose, used, limit } => write!(f, "{used} of {limit} slots of {whose} are busy"),
            Gate::Rate { whose, until } => write!(f, "the rate of {whose} allows the next start at {until}"),
            Gate::Line { queue, first } => write!(f, "in the serial queue {queue} job {first} is first"),
            Gate::HeldLine { queue, first, task } => write!(
                f,
                "the serial queue {queue} is held by its first job {first}: no live node knows the task {task}; start one that does, \
                 or cancel that job"
            ),
            Gate::Loading => f.write_str("the backlog is still being read"),
            Gate::Locked => f.write_str("another transaction holds its row"),
            Gate::Alone => f.write_str("two nodes died under it: it waits for a node of its own"),
            Gate::FullOnNodes { queue, limit } => {
                write!(f, "every node with a free slot runs {limit} of queue {queue}, the most that one node may")
            }
            Gate::SlotsBusy { slots } => write!(f, "all {slots} slots that could run it are busy"),
            Gate::NodeLost { node } => write!(
                f,
                "node {node} has it, but shows no sign of life: the dispatcher takes the job back; if no node is alive, start one"
            ),
        }
    }
}

/// All that is known about why a job does not run yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Why {
    /// What is closed; empty for a job that is about to start or runs.
    pub gates: Vec<Gate>,
    /// How many jobs are expected to start before it, and when it will; `None` where only a person or a new node
    /// would help, or where it lies too far ahead.
    pub forecast: Option<Forecast>,
}

impl Why {
    /// With these closed gates.
    pub fn new(gates: Vec<Gate>, forecast: Option<Forecast>) -> Self {
        Self { gates, forecast }
    }
}

/// When a job is expected to start, if runs take as long as usual and nothing new is submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forecast {
    /// How many other jobs are expected to start before it.
    pub before: usize,
    /// How long it is until then.
    pub starts_in: Duration,
}

impl Forecast {
    /// After so many other starts, and so much time.
    pub fn new(before: usize, starts_in: Duration) -> Self {
        Self { before, starts_in }
    }
}

/// The gates that follow from one job, the settings and the fleet alone, without the backlog: for listings. They come in the order
/// in which the scheduler names its own. `awaits`: the jobs that it waits for, as far as the caller has read them.
pub fn gates(job: &Job, awaits: Option<&Awaits>, set: &Settings, nodes: &[Node], now: Timestamp) -> Vec<Gate> {
    let alive = || nodes.iter().filter(|node| node.alive(now));
    if !job.state.at_rest() {
        return Gate::node_lost(job, alive().map(|node| &node.name)).into_iter().collect();
    }
    let mut gates = Vec::new();
    gates.extend(awaits.and_then(Gate::of_awaits));
    let queue = set.queues.get(&job.queue);
    let schedule = queue.and_then(|set| set.schedule.as_ref());
    let by_schedule = schedule.and_then(|schedule| Some((schedule, GivenTime::from(job).due_by(schedule)?)));
    match by_schedule {
        Some((schedule, due)) if due > now => {
            gates.push(Gate::Scheduled { queue: job.queue.clone(), schedule: schedule.clone(), due });
        }
        Some(_) => {}
        None => match job.due_at {
            Some(due) if due > now => gates.push(Gate::NotDue(due)),
            Some(_) => {}
            None => gates.push(Gate::NeedsAPerson),
        },
    }
    gates.extend(queue.into_iter().flat_map(|queue| gates_of_queue(&job.queue, queue, set, now)));
    gates.extend(set.groups.get(&job.group).and_then(|group| gate_of_group(&job.group, group)));
    if alive().next().is_none() {
        gates.push(Gate::NoLiveNode);
    } else if !alive().any(|node| node.tasks.contains(&job.task)) {
        gates.push(Gate::UnknownTask);
    } else if !alive().any(|node| node.can_run(&job.queue, &job.task)) {
        gates.push(Gate::QueueNotServed);
    }
    gates
}

/// All settings are named here, so that a new one cannot be forgotten.
fn gates_of_queue(name: &QueueName, queue: &QueueSettings, set: &Settings, now: Timestamp) -> Vec<Gate> {
    let QueueSettings {
        paused,
        after: _,
        block: _,
        // The due time, above.
        schedule: _,
        // These depend on other jobs.
        concurrency: _,
        per_node: _,
        rate: _,
        weight: _,
        fairness: _,
        scheme: _,
        on_error: _,
        sealed: _,
        quiet: _,
    } = queue;
    let whose = || Whose::Queue(name.clone());
    let paused = paused.as_ref().map(|pause| Gate::Paused { whose: whose(), pause: pause.clone() });
    // As if no job were left in the other queue: that is not read here.
    let finished = |other: &QueueName| set.queues.get(other).is_some_and(|other| is_finished(other, false));
    let other = waits_for(queue, finished);
    let waits = other.map(|other| Gate::WaitsFor { queue: name.clone(), other: other.clone() });
    [paused, waits, Gate::window(name, queue, now)].into_iter().flatten().collect()
}

fn gate_of_group(name: &GroupName, group: &GroupSettings) -> Option<Gate> {
    let GroupSettings { paused, weight: _, concurrency: _, rate: _, scheme: _, max_waiting: _ } = group;
    paused.as_ref().map(|pause| Gate::Paused { whose: Whose::Group(name.clone()), pause: pause.clone() })
}
