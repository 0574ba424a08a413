//! Why a job does not run: every reason is a value.

use std::fmt;

use crate::{
    job::{Job, State},
    node::Node,
    time::Timestamp,
};

/// One thing that stands between a job and a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    NotDue(Timestamp),
    NeedsAPerson,
    NoLiveNode,
    UnknownTask,
    QueueNotServed,
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gate::NotDue(due) => write!(f, "not due before {due}"),
            Gate::NeedsAPerson => f.write_str("needs a decision: retry it or fail it"),
            Gate::NoLiveNode => f.write_str("no node is running"),
            Gate::UnknownTask => f.write_str("no live node knows this task"),
            Gate::QueueNotServed => f.write_str("no live node that knows this task serves this queue"),
        }
    }
}

/// All gates that are closed for `job` at `now`; none for a job that runs or has ended.
pub fn gates(job: &Job, nodes: &[Node], now: Timestamp) -> Vec<Gate> {
    if !matches!(job.state, State::Waiting | State::Stuck) {
        return Vec::new();
    }
    let mut gates = Vec::new();
    match job.due_at {
        Some(due) if due > now => gates.push(Gate::NotDue(due)),
        Some(_) => {}
        None => gates.push(Gate::NeedsAPerson),
    }
    let alive = || nodes.iter().filter(|node| node.alive(now));
    if alive().next().is_none() {
        gates.push(Gate::NoLiveNode);
    } else if !alive().any(|node| node.tasks.contains(&job.task)) {
        gates.push(Gate::UnknownTask);
    } else if !alive().any(|node| node.can_run(&job.queue, &job.task)) {
        gates.push(Gate::QueueNotServed);
    }
    gates
}
