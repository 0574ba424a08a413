//! What a decision needs to know of a job, and the decision itself: a value, ready to be written.

use super::Edit;
use crate::{
    failure::{Failure, Fingerprint},
    job::{AssignedJob, Counts, Fence, Job, JobState, Step},
    json::Json,
    retry::RetryPolicy,
    terms::Terms,
    time::Timestamp,
};

/// As much of a job as a decision needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobFacts<'a> {
    pub state: JobState,
    pub counts: Counts,
    /// That of the job, or else of its task. Where this is made from a job that names none, it is the default: before a run's end is
    /// decided, the executor puts the task's in.
    pub retry: &'a RetryPolicy,
    pub terms: &'a Terms,
    pub cancel_requested: bool,
    pub fence: Fence,
    /// Whether the task has begun. A job is stored as `running` only if it takes longer than a moment: the node that runs it knows earlier.
    pub begun: bool,
}

impl<'a> From<&'a AssignedJob> for JobFacts<'a> {
    fn from(job: &'a AssignedJob) -> Self {
        let AssignedJob { state, counts, retry, terms, cancel_requested, fence, .. } = job;
        let retry = retry.as_ref().unwrap_or(&RetryPolicy::DEFAULT);
        let begun = *state == JobState::Running;
        Self { state: *state, counts: *counts, retry, terms, cancel_requested: *cancel_requested, fence: *fence, begun }
    }
}

impl<'a> From<&'a Job> for JobFacts<'a> {
    fn from(job: &'a Job) -> Self {
        let Job { state, counts, retry, terms, cancel_requested, fence, .. } = job;
        let retry = retry.as_ref().unwrap_or(&RetryPolicy::DEFAULT);
        let begun = *state == JobState::Running;
        Self { state: *state, counts: *counts, retry, terms, cancel_requested: *cancel_requested, fence: *fence, begun }
    }
}

/// A decision, ready to be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    /// Where the job goes.
    pub to: Target,
    /// Its attempts, retries and crashes from now on.
    pub counts: Counts,
    /// `Some` replaces the job's last error.
    pub error: Option<Failure>,
    /// `Some`: the run that ended is written to the job's attempts, with the error.
    pub ending: Option<Ending>,
    /// What the job no longer has afterwards.
    pub clears: Clears,
}

impl Transition {
    /// The error's fingerprint, for statistics; none for a cancelled job.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        let cancelled = matches!(self.to, Target::Finish { end: End::Cancelled, .. });
        self.error.as_ref().filter(|_| !cancelled).map(Failure::print)
    }

    /// The state the job has afterwards, coming from `from`.
    pub fn state(&self, from: JobState) -> JobState {
        match &self.to {
            Target::Scheduled => JobState::Scheduled,
            Target::Running => JobState::Running,
            Target::Stuck { .. } => JobState::Stuck,
            Target::Waiting { .. } | Target::Next { .. } => JobState::Waiting,
            Target::Finish { end, .. } => end.state(),
            Target::CancelRequested | Target::Edited(_) => from,
        }
    }
}

/// Where a job goes.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// In a node's hands, not begun as far as the store knows.
    Scheduled,
    /// Its task has begun.
    Running,
    /// `due: None` = until a person decides.
    Stuck { due: Option<Timestamp> },
    /// It waits for its turn, from `due` on.
    Waiting { due: Timestamp },
    /// It waits to go on with another step.
    Next { step: Box<Step>, due: Timestamp },
    /// It has ended, and leaves for history where ends of this kind are kept.
    Finish { end: End, result: Option<Json> },
    /// It stays where it is; its node is asked to stop it.
    CancelRequested,
    /// It stays at rest, with these changes, and its fence is raised: a pick of it that is in flight is refused.
    Edited(Box<Edit>),
}

/// The three ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its task has done what was asked.
    Success,
    /// No retry is left, or the task said that it failed for good.
    Failed,
    /// It was stopped, or taken back before it began, because a person asked for it.
    Cancelled,
}

impl End {
    /// All three.
    pub const ALL: [End; 3] = [Self::Success, Self::Failed, Self::Cancelled];

    /// The state of a job that ended like this.
    pub fn state(self) -> JobState {
        match self {
            Self::Success => JobState::Success,
            Self::Failed => JobState::Failed,
            Self::Cancelled => JobState::Cancelled,
        }
    }
}

/// How a run ended that is kept in the job's record of attempts: all but the last, if that went well, which is in the
/// job's own row. A snooze, an interruption and a cancel are no attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It was a step; the job goes on as another task.
    Next,
    /// The task returned an error, and the job may be tried again.
    Error,
    /// The task panicked.
    Panic,
    /// It took longer than it may.
    TimedOut,
    /// The task said that the job failed for good.
    Fail,
    /// The lease of its node expired while it ran.
    NodeLost,
}

impl Ending {
    /// All of them.
    pub const ALL: [Ending; 6] = [Self::Next, Self::Error, Self::Panic, Self::TimedOut, Self::Fail, Self::NodeLost];

    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Next => "next",
            Self::Error => "error",
            Self::Panic => "panic",
            Self::TimedOut => "timed out",
            Self::Fail => "failed for good",
            Self::NodeLost => "node lost",
        }
    }

    /// Number in the database; never reuse one.
    pub fn code(self) -> i16 {
        match self {
            Self::Next => 0,
            Self::Error => 1,
            Self::Panic => 2,
            Self::TimedOut => 3,
            Self::Fail => 4,
            Self::NodeLost => 5,
        }
    }

    /// The ending with this number in the database; `None` for a number of a later version.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|ending| ending.code() == code)
    }
}

/// What a move takes from a job, beside what its target says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clears {
    /// The request to stop it: a job that waits again was not stopped by it.
    pub cancel: bool,
    /// The time by which it must have begun: it has begun, or a person runs it again, whatever that time was.
    pub expiry: bool,
    /// The jobs that it waits for: a person who runs a finished job again does not mean them.
    pub dependencies: bool,
}

impl Clears {
    pub(super) fn by(from: JobState, to: &Target, begun: bool) -> Self {
        let rerun = from.finished();
        let cancel = matches!(to, Target::Waiting { .. } | Target::Next { .. });
        Self { cancel, expiry: rerun || begun || *to == Target::Running, dependencies: rerun }
    }
}
