//! Jobs whose task no living node knows: nothing fails, and nothing starts. So the log says it.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;
use turnwise_core::{JobId, QueueName, TaskName};

use super::Dispatcher;
use crate::logs::Kind;

/// Between two looks: a look may walk the backlog, and a node that knows the task may be about to join.
const LOOK: Duration = Duration::from_secs(2);

/// What the log has said of it. Each is said once, until it is over.
#[derive(Debug)]
pub(super) struct Unknown {
    next: Instant,
    tasks: BTreeSet<TaskName>,
    lines: BTreeSet<(QueueName, JobId)>,
}

impl Unknown {
    pub(super) fn new() -> Self {
        Self { next: Instant::now(), tasks: BTreeSet::new(), lines: BTreeSet::new() }
    }
}

impl Dispatcher<'_> {
    /// Before the backlog is read, the first of a line is not known.
    pub(super) fn log_unknown_tasks(&mut self) {
        if !self.backlog.is_read() || Instant::now() < self.unknown.next {
            return;
        }
        self.unknown.next = Instant::now() + LOOK;
        let logs = &self.life.node.logs;
        let held = self.scheduler.held_lines();
        self.unknown.lines.retain(|(queue, job)| held.iter().any(|(held, first, _)| (held, first) == (queue, job)));
        for (queue, job, task) in held {
            if self.unknown.lines.insert((queue.clone(), job)) && logs.may(Kind::HeldLine) {
                tracing::warn!(%queue, %job, %task, "a serial queue is held by its first job: no live node knows its task; start one that does, or cancel the job");
            }
        }
        let unknown = self.scheduler.unknown_tasks();
        self.unknown.tasks.retain(|task| unknown.contains_key(task));
        for (task, jobs) in unknown {
            if self.unknown.tasks.insert(task.clone()) && logs.may(Kind::UnknownTask) {
                tracing::warn!(%task, jobs, "jobs wait for a task that no live node knows");
            }
        }
    }
}
