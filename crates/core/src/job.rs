//! What is asked for ([`NewJob`]), what is known ([`Job`]), and how much of it the scheduler holds ([`JobHead`]).

use std::{fmt, str::FromStr};

use uuid::Uuid;

use crate::{
    after::{After, Awaits},
    json::Json,
    name::{GroupName, Invalid, KeyName, NodeName, QueueName, TaskName},
    node::Incarnation,
    retry::RetryPolicy,
    terms::Terms,
    time::Timestamp,
    unique::Unique,
};

/// Chosen by the caller who submits, so that a repeated submit is recognised. UUIDv7: sorts by time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

impl JobId {
    /// A UUIDv7 from its parts: the clock and the randomness are the caller's.
    pub fn from_parts(unix_millis: u64, random: [u8; 10]) -> Self {
        Self(uuid::Builder::from_unix_timestamp_millis(unix_millis, &random).into_uuid())
    }

    /// As the databases store it.
    #[doc(hidden)]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    #[doc(hidden)]
    pub const fn uuid(self) -> Uuid {
        self.0
    }

    /// Its sixteen bytes; ids sort as they do.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for JobId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Uuid::from_str(text).map(Self).map_err(|_| Invalid::new("id", format!("{text:?} is not a job id")))
    }
}

/// Grows by one with every assignment and every node loss; a write that carries an older one is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
#[serde(transparent)]
pub struct Fence(pub i64);

impl Fence {
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// 1 (first) to 10 (last).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct Priority(u8);

impl Priority {
    pub const HIGH: Priority = Priority(3);
    pub const LOW: Priority = Priority(8);

    pub fn new(value: i64) -> Result<Self, Invalid> {
        match u8::try_from(value) {
            Ok(value @ 1..=10) => Ok(Self(value)),
            _ => Err(Invalid::new("priority", format!("must be 1 (first) to 10 (last), not {value}"))),
        }
    }

    pub fn get(self) -> u8 {
        self.0
    }

    pub fn class(self) -> Class {
        Class::of(self.0)
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(5)
    }
}

impl FromStr for Priority {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "high" => Ok(Self::HIGH),
            "low" => Ok(Self::LOW),
            number => number
                .parse()
                .map_err(|_| Invalid::new("priority", format!("must be 1 to 10, high or low, not {number:?}")))
                .and_then(Self::new),
        }
    }
}

/// The two classes the counting scheme takes turns between: priority 1–5 and 6–10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    High,
    Low,
}

impl Class {
    /// That of a priority from 1 to 10.
    pub(crate) fn of(priority: u8) -> Self {
        if priority <= 5 { Self::High } else { Self::Low }
    }
}

/// Where a job is in its life. `docs/states.md` shows the moves between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    Waiting,
    Scheduled,
    Running,
    Stuck,
    Success,
    Failed,
    Cancelled,
}

impl JobState {
    pub const ALL: [JobState; 7] = [
        JobState::Waiting,
        JobState::Scheduled,
        JobState::Running,
        JobState::Stuck,
        JobState::Success,
        JobState::Failed,
        JobState::Cancelled,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Stuck => "stuck",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether a person may have a job run now, or again.
    pub fn can_be_retried(self) -> bool {
        matches!(self, Self::Stuck | Self::Failed | Self::Cancelled)
    }

    /// Number in the database; never reuse one.
    pub fn code(self) -> i16 {
        match self {
            Self::Waiting => 0,
            Self::Scheduled => 1,
            Self::Running => 2,
            Self::Stuck => 3,
            Self::Success => 4,
            Self::Failed => 5,
            Self::Cancelled => 6,
        }
    }

    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// In a node's hands: only a write with the current fence may touch it.
    pub fn assigned(self) -> bool {
        matches!(self, Self::Scheduled | Self::Running)
    }

    /// At its end: in `history`, no longer in `job`.
    pub fn finished(self) -> bool {
        matches!(self, Self::Success | Self::Failed | Self::Cancelled)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for JobState {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL.into_iter().find(|state| state.name() == text).ok_or_else(|| {
            let all: Vec<_> = Self::ALL.iter().map(|state| state.name()).collect();
            Invalid::new("state", format!("{text:?} is not one of {}", all.join(", ")))
        })
    }
}

/// What has been counted against a job so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Runs that ended by themselves. An interrupted run or a lost node spends none.
    pub attempt: u32,
    /// Retries used of the current policy.
    pub retry: u32,
    /// Times the node died under it.
    pub crashes: u32,
}

/// What a job does at a time: most have one step all their life; [`Outcome::Next`](crate::lifecycle::Outcome) goes on to
/// another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub task: TaskName,
    pub args: Json,
    pub retry: RetryPolicy,
    pub terms: Terms,
}

/// A job as it is submitted. All parts were checked when they were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    pub id: JobId,
    pub task: TaskName,
    pub args: Json,
    pub queue: QueueName,
    pub group: GroupName,
    pub priority: Priority,
    /// `None` = now, by the database's clock.
    pub due: Option<Timestamp>,
    pub retry: RetryPolicy,
    /// Whose limit the job counts against, besides those of its queue and group.
    pub key: Option<KeyName>,
    pub terms: Terms,
    /// If it has not begun by then, it ends as failed.
    pub expires: Option<Timestamp>,
    /// If set, the job is not stored while another one holds its key.
    pub unique: Option<Box<Unique>>,
    /// It begins when these have ended.
    pub after: After,
}

impl NewJob {
    pub fn new(id: JobId, task: TaskName, args: Json) -> Self {
        Self {
            id,
            task,
            args,
            queue: QueueName::default(),
            group: GroupName::default(),
            priority: Priority::default(),
            due: None,
            retry: RetryPolicy::default(),
            key: None,
            terms: Terms::default(),
            expires: None,
            unique: None,
            after: After::default(),
        }
    }
}

/// All that is known of a job, finished or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub task: TaskName,
    pub args: Json,
    pub queue: QueueName,
    pub group: GroupName,
    pub priority: Priority,
    pub retry: RetryPolicy,
    pub key: Option<KeyName>,
    pub terms: Terms,
    pub state: JobState,
    pub counts: Counts,
    pub fence: Fence,
    pub cancel_requested: bool,
    /// Whose hands it is in, or was in at its end.
    pub node: Option<NodeName>,
    pub result: Option<Json>,
    /// How the last run that failed, failed.
    pub error: Option<String>,
    /// The same for all failures of that kind.
    pub fingerprint: Option<String>,
    pub expires_at: Option<Timestamp>,
    pub submitted_at: Timestamp,
    /// `None`: stuck until a person decides.
    pub due_at: Option<Timestamp>,
    pub assigned_at: Option<Timestamp>,
    /// Begin and end of the last run.
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
}

impl Job {
    /// The number of the run a reader sees: one that is going on counts.
    pub fn attempt(&self) -> u32 {
        self.counts.attempt + u32::from(self.state == JobState::Running)
    }
}

/// As much of an unfinished job as the scheduler needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobHead {
    pub id: JobId,
    /// Order of submission.
    pub seq: i64,
    pub task: TaskName,
    pub queue: QueueName,
    pub group: GroupName,
    pub priority: Priority,
    pub state: JobState,
    pub due: Option<Timestamp>,
    pub fence: Fence,
    pub crashes: u32,
    pub node: Option<Incarnation>,
    pub key: Option<KeyName>,
    /// A job that is due no later than this has named no time of its own.
    pub submitted_at: Timestamp,
    /// Set as long as it has not begun.
    pub expires: Option<Timestamp>,
    /// Whom it waits for: told as long as it waits and has never been in a node's hands.
    pub awaits: Option<Box<Awaits>>,
}

/// A job in the hands of a node: all it needs to run it and to decide what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignedJob {
    pub id: JobId,
    pub fence: Fence,
    pub task: TaskName,
    pub args: Json,
    pub queue: QueueName,
    pub group: GroupName,
    pub priority: Priority,
    pub retry: RetryPolicy,
    pub terms: Terms,
    pub state: JobState,
    pub counts: Counts,
    pub cancel_requested: bool,
    pub submitted_at: Timestamp,
    /// It was given under a limit or in a serial line: a node that may be taken for dead must not run it on, or one more than
    /// may run would.
    pub limited: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_is_one_to_ten() {
        assert_eq!("high".parse::<Priority>().unwrap().get(), 3);
        assert_eq!("low".parse::<Priority>().unwrap().get(), 8);
        assert_eq!(Priority::default().class(), Class::High);
        assert_eq!(Priority::new(6).unwrap().class(), Class::Low);
        for text in ["0", "11", "-1", "x", "1.5", ""] {
            assert!(text.parse::<Priority>().unwrap_err().to_string().starts_with("priority: "), "{text}");
        }
    }

    #[test]
    fn state_codes_are_distinct_and_read_back() {
        for state in JobState::ALL {
            assert_eq!(JobState::from_code(state.code()), Some(state));
            assert_eq!(state.name().parse::<JobState>().unwrap(), state);
        }
        assert_eq!(JobState::from_code(7), None);
    }
}
