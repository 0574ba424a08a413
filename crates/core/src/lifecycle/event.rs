//! What can happen to a job.

use std::time::Duration;

use super::Edit;
use crate::{
    failure::Failure,
    job::{JobId, JobState, Step},
    json::Json,
    name::TaskName,
    terms::Terms,
    time::Timestamp,
};

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It did what was asked.
    Done { result: Option<Json> },
    /// The same job goes on as another task, with that task's own retries; at once, or at the time given.
    Next { step: Box<Step>, due: Option<Timestamp> },
    /// It failed and may be tried again.
    Error(Failure),
    /// The task panicked; tried again like any other error.
    Panic(Failure),
    /// It took longer than this; tried again like any other error.
    TimedOut { limit: Duration },
    /// It failed for good.
    Fail(Failure),
    /// Not now: again after this long. Spends no attempt.
    Snooze { wait: Duration },
    /// It stopped because it was asked to.
    Cancelled,
    /// The node is stopping, or has held the job too long without starting it. Spends no attempt.
    Interrupted,
}

impl Outcome {
    /// The same, of a job that is to go on as this task after a success: with the result as its arguments, or with its own if there is no
    /// result. An outcome of another kind stays as it is, and so does one that names what follows.
    #[must_use]
    pub fn then(self, next: Option<&TaskName>, args: &Json) -> Self {
        match (self, next) {
            (Self::Done { result }, Some(task)) => {
                let args = result.unwrap_or_else(|| args.clone());
                let step = Step { task: task.clone(), args, retry: None, terms: Terms::default() };
                Self::Next { step: Box::new(step), due: None }
            }
            (outcome, _) => outcome,
        }
    }
}

/// What happened to a job.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The dispatcher gave it to a node.
    Assign,
    /// The task has begun.
    Start,
    /// The run ended.
    Ended(Outcome),
    /// The node that had it is lost.
    NodeLost,
    /// The time to begin is over.
    Expire,
    /// A job that it waits for has ended like this; `cancel`: it is to be cancelled then, else it fails.
    AwaitedFailed { job: JobId, state: JobState, cancel: bool },
    /// A person wants it stopped.
    Cancel,
    /// A person wants it run (again), now.
    Retry,
    /// A person wants it run once more, whatever it has come to.
    Rerun,
    /// A person gives it up.
    GiveUp,
    /// A person gives it another priority, time or queue.
    Edit(Box<Edit>),
}

/// The kinds of events, as rows of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    Assign,
    Start,
    Done,
    Next,
    Error,
    Fail,
    Snooze,
    Stopped,
    Interrupted,
    NodeLost,
    Expire,
    AwaitedFailed,
    Cancel,
    Retry,
    Rerun,
    GiveUp,
    Edit,
}

impl Trigger {
    pub const ALL: [Trigger; 17] = [
        Trigger::Assign,
        Trigger::Start,
        Trigger::Done,
        Trigger::Next,
        Trigger::Error,
        Trigger::Fail,
        Trigger::Snooze,
        Trigger::Stopped,
        Trigger::Interrupted,
        Trigger::NodeLost,
        Trigger::Expire,
        Trigger::AwaitedFailed,
        Trigger::Cancel,
        Trigger::Retry,
        Trigger::Rerun,
        Trigger::GiveUp,
        Trigger::Edit,
    ];

    /// The text on an arrow of the diagram.
    pub fn label(self) -> &'static str {
        match self {
            Trigger::Assign => "assign",
            Trigger::Start => "start",
            Trigger::Done => "done",
            Trigger::Next => "next step",
            Trigger::Error => "error",
            Trigger::Fail => "fail for good",
            Trigger::Snooze => "snooze",
            Trigger::Stopped => "stopped on request",
            Trigger::Interrupted => "interrupted",
            Trigger::NodeLost => "node lost",
            Trigger::Expire => "expired",
            Trigger::AwaitedFailed => "an awaited job failed",
            Trigger::Cancel => "cancel (person)",
            Trigger::Retry => "retry (person)",
            Trigger::Rerun => "retry --again (person)",
            Trigger::GiveUp => "fail (person)",
            Trigger::Edit => "change (person)",
        }
    }

    pub(super) fn action(self) -> &'static str {
        match self {
            Trigger::Assign => "assigned",
            Trigger::Start => "started",
            Trigger::Done
            | Trigger::Next
            | Trigger::Error
            | Trigger::Fail
            | Trigger::Snooze
            | Trigger::Stopped
            | Trigger::Interrupted => "settled",
            Trigger::NodeLost => "lost with its node",
            Trigger::Expire => "expired",
            Trigger::AwaitedFailed => "ended for a job it waits for",
            Trigger::Cancel => "cancelled",
            Trigger::Retry => "retried",
            Trigger::Rerun => "run again",
            Trigger::GiveUp => "failed",
            Trigger::Edit => "changed",
        }
    }
}

impl Event {
    pub fn kind(&self) -> Trigger {
        match self {
            Event::Assign => Trigger::Assign,
            Event::Start => Trigger::Start,
            Event::Ended(Outcome::Done { .. }) => Trigger::Done,
            Event::Ended(Outcome::Next { .. }) => Trigger::Next,
            // Whatever the error was, the same follows.
            Event::Ended(Outcome::Error(_) | Outcome::Panic(_) | Outcome::TimedOut { .. }) => Trigger::Error,
            Event::Ended(Outcome::Fail(_)) => Trigger::Fail,
            Event::Ended(Outcome::Snooze { .. }) => Trigger::Snooze,
            Event::Ended(Outcome::Cancelled) => Trigger::Stopped,
            Event::Ended(Outcome::Interrupted) => Trigger::Interrupted,
            Event::NodeLost => Trigger::NodeLost,
            Event::Expire => Trigger::Expire,
            Event::AwaitedFailed { .. } => Trigger::AwaitedFailed,
            Event::Cancel => Trigger::Cancel,
            Event::Retry => Trigger::Retry,
            Event::Rerun => Trigger::Rerun,
            Event::GiveUp => Trigger::GiveUp,
            Event::Edit(_) => Trigger::Edit,
        }
    }
}
