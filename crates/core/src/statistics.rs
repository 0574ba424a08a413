//! What happened, added up by the minute: what the dispatcher counts, how rows are merged as they age, and how long they are kept.
//!
//! [`Counted`] what is counted → [`histogram`] how long it took → [`Sums`] the numbers, which can be added → [`Row`] of what they are
//! the sums → [`choice`] which groups, tasks and errors have rows of their own → [`age`] what becomes of old rows.
//!
//! Sums are only ever added: whichever rows are merged in whichever order, the result is the same, and what has no row of its own is
//! in the row of the others.

pub mod age;
pub mod choice;
pub mod histogram;
mod sums;

use std::collections::BTreeMap;

pub use self::{
    age::Span,
    histogram::{BOUNDS, BUCKETS, Histogram},
    sums::Sums,
};
use crate::{
    failure::Fingerprint,
    name::{GroupName, QueueName, TaskName},
    time::Timestamp,
};

/// Rows that are written in one batch, at most.
pub const BATCH_ROWS: usize = 5_000;
/// Groups of a queue with rows of their own: the busiest, those that waited longest, those furthest under their share.
pub const BUSIEST: usize = 100;
pub const LONGEST_WAITING: usize = 50;
pub const FURTHEST_UNDER: usize = 50;
/// Tasks of a queue with rows of their own.
pub const TASKS: usize = 100;
/// Queues and tasks with running totals of their own, which are kept for ever. Programs that make up names of tasks must not fill the table.
pub const TOTALS: usize = 10_000;
/// Errors with rows of their own, in a minute, an hour or a day.
pub const ERRORS: usize = 200;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Counted {
    /// A node has got it. Its time is how long the job had waited since it was due.
    Started,
    /// It ended with success. Its time, as of all that follow, is how long the run took.
    Success,
    /// It ended as failed.
    Failed,
    /// It ended as cancelled.
    Cancelled,
    /// A run ended in an error, and the job is stuck until a person decides.
    Stuck,
    /// A run ended in an error, and the job waits to run again.
    Retried,
    /// A run ended without an error, and the job waits again: a snooze, the next step, a node that stopped.
    Again,
}

impl Counted {
    /// Each kind, in the order of their numbers.
    pub const ALL: [Counted; 7] =
        [Self::Started, Self::Success, Self::Failed, Self::Cancelled, Self::Stuck, Self::Retried, Self::Again];

    /// As people and programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Stuck => "stuck",
            Self::Retried => "retried",
            Self::Again => "again",
        }
    }

    /// Reads a name; `None`: it is none of them.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|counted| counted.name() == name)
    }

    /// Its place in [`Counted::ALL`], and in stored sums: never changed.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Of what the sums of a row are, within its queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Of {
    /// One task.
    Task(TaskName),
    /// All tasks without a row of their own.
    OtherTasks,
    /// One group.
    Group(GroupName),
    /// All groups without a row of their own.
    OtherGroups,
}

/// What happened in a queue to the jobs of a task or a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The queue that the jobs were in.
    pub queue: QueueName,
    /// What it is about.
    pub of: Of,
    /// What was added up.
    pub sums: Sums,
}

/// How often an error was seen, in the runs of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorRow {
    /// The queue that the jobs were in.
    pub queue: QueueName,
    /// The task that ended so.
    pub task: TaskName,
    /// The kind of error.
    pub fingerprint: Fingerprint,
    /// How many runs ended with it.
    pub count: u64,
    /// When it was first seen.
    pub first: Timestamp,
    /// When it was last seen.
    pub last: Timestamp,
}

/// What happened in a minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Minute {
    /// When it began.
    pub at: Timestamp,
    pub rows: Vec<Row>,
    pub errors: Vec<ErrorRow>,
}

impl Minute {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.errors.is_empty()
    }
}

/// Running totals by queue and task, from the beginning of the installation. They only grow.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Up to the minutes that are over.
    over: BTreeMap<(QueueName, Of), Sums>,
    /// What was returned for the present minute: a task may be among the busiest at the beginning of it, and among the others at its end. Its
    /// own total stays as it was written.
    written: BTreeMap<(QueueName, Of), Sums>,
    present: Option<Timestamp>,
}

impl Totals {
    /// As they are stored.
    pub fn read(rows: Vec<Row>) -> Self {
        let over = rows.into_iter().map(|row| ((row.queue, row.of), row.sums)).collect();
        Self { over, ..Self::default() }
    }

    /// The totals that this minute has changed, with what it has come to so far. Beyond [`TOTALS`], new tasks are counted among the others of
    /// their queue.
    pub fn with(&mut self, minute: &Minute) -> Vec<Row> {
        if self.present != Some(minute.at) {
            self.over.append(&mut self.written);
            self.present = Some(minute.at);
        }
        let mut changed: BTreeMap<(QueueName, Of), Sums> = BTreeMap::new();
        let new = self.written.keys().filter(|name| !self.over.contains_key(name)).count();
        let mut room = TOTALS.saturating_sub(self.over.len() + new);
        for Row { queue, of, sums } in minute.rows.iter().filter(|row| matches!(row.of, Of::Task(_) | Of::OtherTasks)) {
            let mut name = (queue.clone(), of.clone());
            if !self.over.contains_key(&name) && !self.written.contains_key(&name) {
                if room == 0 {
                    name.1 = Of::OtherTasks;
                }
                room = room.saturating_sub(1);
            }
            changed.entry(name).or_default().add(sums);
        }
        for (name, sums) in &mut changed {
            if let Some(over) = self.over.get(name) {
                sums.add(over);
            }
        }
        self.written.extend(changed.iter().map(|(name, sums)| (name.clone(), sums.clone())));
        changed.into_iter().map(|((queue, of), sums)| Row { queue, of, sums }).collect()
    }

    /// The minute is over: nothing more is added to it.
    pub fn take_in(&mut self, minute: &Minute) {
        self.with(minute);
        self.over.append(&mut self.written);
        self.present = None;
    }
}

#[cfg(test)]
mod tests;
