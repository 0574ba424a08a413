//! The table: which event leads from which state to which, and why a person's decision is refused that is not in it.

use super::Trigger;
use crate::job::JobState;

/// One row of the table: in `state`, `event` leads to one of `to`, for the reason in `when`.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    pub state: JobState,
    pub event: Trigger,
    pub to: JobState,
    pub when: &'static str,
}

const fn row(state: JobState, event: Trigger, to: JobState, when: &'static str) -> Move {
    Move { state, event, to, when }
}

/// Every legal move. A run ends the same way whether or not `running` was written in time, so `Scheduled` and
/// `Running` share their rows.
pub const MOVES: &[Move] = {
    use {JobState::*, Trigger::*};
    &[
        row(Waiting, Assign, Scheduled, ""),
        row(Waiting, Cancel, Cancelled, ""),
        row(Waiting, Expire, Failed, "it has not begun in time"),
        row(Waiting, AwaitedFailed, Failed, "it is to fail then"),
        row(Waiting, AwaitedFailed, Cancelled, "it is to be cancelled then"),
        row(Waiting, Edit, Waiting, "with another priority, due time or queue"),
        row(Stuck, Assign, Scheduled, "once it is due"),
        row(Stuck, Cancel, Cancelled, ""),
        row(Stuck, Retry, Waiting, "now, with fresh retries"),
        row(Stuck, Rerun, Waiting, "now, with fresh retries"),
        row(Stuck, GiveUp, Failed, ""),
        row(Stuck, Edit, Stuck, "with another priority, due time or queue"),
        row(Scheduled, Start, Running, "if it is still going after a moment"),
        row(Scheduled, Done, Success, ""),
        row(Scheduled, Done, Cancelled, "a cancel was requested"),
        row(Scheduled, Next, Waiting, "now or at the time it names, with the next step's retries"),
        row(Scheduled, Next, Cancelled, "a cancel was requested"),
        row(Scheduled, Error, Stuck, "retries are left, or a person decides"),
        row(Scheduled, Error, Failed, "no retry is left"),
        row(Scheduled, Error, Waiting, "no retry is left, and another step is to follow then"),
        row(Scheduled, Error, Cancelled, "a cancel was requested"),
        row(Scheduled, Fail, Failed, ""),
        row(Scheduled, Fail, Cancelled, "a cancel was requested"),
        row(Scheduled, Snooze, Waiting, "after the time it asked for"),
        row(Scheduled, Snooze, Cancelled, "a cancel was requested"),
        row(Scheduled, Stopped, Cancelled, ""),
        row(Scheduled, Interrupted, Waiting, "now; no attempt is spent"),
        row(Scheduled, Interrupted, Cancelled, "a cancel was requested"),
        row(Scheduled, NodeLost, Waiting, "now; no attempt is spent"),
        row(Scheduled, NodeLost, Cancelled, "a cancel was requested"),
        row(Scheduled, Cancel, Scheduled, "its node is asked to stop it"),
        row(Running, Done, Success, ""),
        row(Running, Done, Cancelled, "a cancel was requested"),
        row(Running, Next, Waiting, "now or at the time it names, with the next step's retries"),
        row(Running, Next, Cancelled, "a cancel was requested"),
        row(Running, Error, Stuck, "retries are left, or a person decides"),
        row(Running, Error, Failed, "no retry is left"),
        row(Running, Error, Waiting, "no retry is left, and another step is to follow then"),
        row(Running, Error, Cancelled, "a cancel was requested"),
        row(Running, Fail, Failed, ""),
        row(Running, Fail, Cancelled, "a cancel was requested"),
        row(Running, Snooze, Waiting, "after the time it asked for"),
        row(Running, Snooze, Cancelled, "a cancel was requested"),
        row(Running, Stopped, Cancelled, ""),
        row(Running, Interrupted, Waiting, "now; no attempt is spent"),
        row(Running, Interrupted, Cancelled, "a cancel was requested"),
        row(Running, NodeLost, Waiting, "now; no attempt is spent"),
        row(Running, NodeLost, Failed, "the third node died under it: poison"),
        row(Running, NodeLost, Cancelled, "a cancel was requested"),
        row(Running, Cancel, Running, "its node is asked to stop it"),
        row(Success, Rerun, Waiting, "now, with fresh retries; a retry alone is refused"),
        row(Failed, Retry, Waiting, "now, with fresh retries"),
        row(Failed, Rerun, Waiting, "now, with fresh retries"),
        row(Cancelled, Retry, Waiting, "now, with fresh retries"),
        row(Cancelled, Rerun, Waiting, "now, with fresh retries"),
    ]
};

/// Whether the table has a move for this event in this state. A decision about one job may still be refused: its text of an edit,
/// for example, may name a queue that the job cannot be moved to.
pub fn allows(state: JobState, event: Trigger) -> bool {
    MOVES.iter().any(|row| row.state == state && row.event == event)
}

/// A move that the table does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the job cannot be {action}: {reason}")]
#[non_exhaustive]
pub struct Illegal {
    /// The state of the job, in which this cannot be done.
    pub state: JobState,
    pub(super) action: &'static str,
    pub(super) reason: &'static str,
}

impl Illegal {
    /// A job that keeps others with its unique key out of its queue stays there: in another queue it would keep them out of a queue
    /// that it is not in.
    #[doc(hidden)]
    pub fn holds_key_in_queue(state: JobState) -> Self {
        let reason = "it holds a unique key within its queue";
        Self { state, action: "moved to another queue", reason }
    }

    pub(super) fn begun_elsewhere(state: JobState) -> Self {
        Self { state, action: "moved to another queue", reason: "it has begun, and that queue is serial" }
    }
}

/// Why it cannot.
pub(super) fn reason(state: JobState, kind: Trigger) -> &'static str {
    match (state, kind) {
        (JobState::Waiting, Trigger::Retry | Trigger::Rerun) => "it has not run yet",
        (JobState::Waiting, Trigger::GiveUp) => "it has not run yet; cancel it instead",
        (JobState::Waiting, _) => "it is waiting",
        (JobState::Stuck, _) => "it is stuck",
        (JobState::Scheduled | JobState::Running, Trigger::GiveUp) => "it is running; cancel it instead",
        (JobState::Scheduled | JobState::Running, Trigger::Edit) => {
            "it is in a node's hands; only a job that is waiting or stuck can be changed"
        }
        (JobState::Scheduled | JobState::Running, _) => "it is running",
        (JobState::Success, Trigger::Retry) => "it has already succeeded (`retry --again` runs it once more)",
        (JobState::Success, _) => "it has already succeeded",
        (JobState::Failed, _) => "it has already failed",
        (JobState::Cancelled, _) => "it was already cancelled",
    }
}
