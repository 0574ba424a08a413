//! A job as it is submitted ([`NewJob`]), all that is known of it ([`Job`]), and the part that the scheduler needs ([`JobHead`]).

use std::{fmt, str::FromStr, time::Duration};

use uuid::Uuid;

use crate::{
    after::{After, Awaits},
    json::Json,
    name::{GroupName, Invalid, KeyName, NodeName, QueueName, TaskName},
    node::Incarnation,
    retry::RetryPolicy,
    terms::Terms,
    time::Timestamp,
    unique::{HeldKey, Unique},
};

/// Chosen by the submitter, so that a repeated submit is recognised. A UUIDv7: sorts by time.
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

    /// An id of a later moment than this after the database's time is refused. Ids are compared to tell new jobs from known ones
    /// at a glance: with one far in the future, every submit until then would have to look closer.
    pub const MAX_AHEAD: Duration = Duration::from_secs(60);

    /// The milliseconds since 1970 at which it was made, as it says itself.
    pub fn unix_millis(self) -> u64 {
        u64::try_from(self.0.as_u128() >> 80).expect("48 bits")
    }

    /// Refuses an id that is no UUIDv7: it would sort anywhere.
    pub fn check_version(self) -> Result<Self, Invalid> {
        if self.0.get_version_num() == 7 && self.0.get_variant() == uuid::Variant::RFC4122 {
            Ok(self)
        } else {
            let problem = format!("{self} is not a UUIDv7; make ids of that version, or let Turnwise make them");
            Err(Invalid::new("id", problem))
        }
    }

    /// Whether it is of a moment so much later than the database's time that it is refused.
    pub fn is_ahead(self, now: Timestamp) -> bool {
        i128::from(self.unix_millis()) * 1_000 > i128::from(now.plus(Self::MAX_AHEAD).micros())
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

/// Grows with every assignment, every node loss and every edit; a write that carries an older one is refused.
///
/// An assignment and a loss add one, an edit adds 10,000,000,000. So the number alone shows whether a job has ever been assigned,
/// and which run was its last, however often a person has edited it: no row needs a second counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, serde::Serialize)]
#[serde(transparent)]
pub struct Fence(pub i64);

impl Fence {
    /// What an edit adds: no job is assigned so often. A power of ten, so that people can read both counts in a log.
    const EDIT: i64 = 10_000_000_000;

    /// The fence after one more assignment or one more node loss.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The fence after one more edit.
    #[must_use]
    pub fn edited(self) -> Self {
        Self(self.0 + Self::EDIT)
    }

    /// How many assignments and node losses there were.
    pub fn assignments(self) -> i64 {
        self.0 % Self::EDIT
    }

    /// How many edits there were.
    pub fn edits(self) -> i64 {
        self.0 / Self::EDIT
    }

    /// Whether any node has ever had the job.
    pub fn was_assigned(self) -> bool {
        self.assignments() > 0
    }

    /// Whether nothing but edits has happened to a job at this fence since it was assigned with the fence `run`.
    pub fn only_edited_since(self, run: Self) -> bool {
        self >= run && self.assignments() == run.assignments()
    }
}

/// 1 (first) to 10 (last).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(transparent)]
pub struct Priority(u8);

impl Priority {
    /// 3: what `high` stands for.
    pub const HIGH: Priority = Priority(3);
    /// 8: what `low` stands for.
    pub const LOW: Priority = Priority(8);

    /// Refuses a number below 1 or above 10 with an [`Invalid`] that names `priority`.
    pub fn new(value: i64) -> Result<Self, Invalid> {
        match u8::try_from(value) {
            Ok(value @ 1..=10) => Ok(Self(value)),
            _ => Err(Invalid::new("priority", format!("must be 1 (first) to 10 (last), not {value}"))),
        }
    }

    /// The number, from 1 (first) to 10 (last).
    pub fn get(self) -> u8 {
        self.0
    }

    /// High for 1 to 5, low for 6 to 10: the counting scheme takes turns between the two.
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
    /// Priority 1 to 5.
    High,
    /// Priority 6 to 10.
    Low,
}

impl Class {
    /// That of a priority from 1 to 10.
    pub(crate) fn of(priority: u8) -> Self {
        if priority <= 5 { Self::High } else { Self::Low }
    }
}

/// Where a job is in its life. `docs/states.md` shows the moves between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// In no node's hands: it waits for its due time, for other jobs, for an open gate or for its turn.
    Waiting,
    /// Assigned to a node. A quick run may end from here, without having been written as `Running`.
    Scheduled,
    /// The task has begun. Written once a run has lasted for a moment, and before the start if a node died under the job.
    Running,
    /// Its last run failed: it waits for the time of its next retry, or for a person if it has no due time.
    Stuck,
    /// Ended: the task did what was asked.
    Success,
    /// Ended: no retry was left, the error was final, it expired, or a person gave it up.
    Failed,
    /// Ended: a person cancelled it, or it was to be cancelled with a job that it waited for.
    Cancelled,
}

impl JobState {
    /// Every state, in the order of its code.
    pub const ALL: [JobState; 7] = [
        JobState::Waiting,
        JobState::Scheduled,
        JobState::Running,
        JobState::Stuck,
        JobState::Success,
        JobState::Failed,
        JobState::Cancelled,
    ];

    /// In lower case, as it is printed and parsed.
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

    /// The state with this number; `None` if no state has it.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }

    /// In a node's hands: only a write with the current fence may touch it.
    pub fn assigned(self) -> bool {
        matches!(self, Self::Scheduled | Self::Running)
    }

    /// Unfinished, and in no node's hands.
    pub fn at_rest(self) -> bool {
        matches!(self, Self::Waiting | Self::Stuck)
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

/// What a job does now. Most jobs have one step all their life; [`Outcome::Next`](crate::lifecycle::Outcome) goes on to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The code that this step runs.
    pub task: TaskName,
    /// What the task gets, as JSON.
    pub args: Json,
    /// What follows when a run of this step fails; each step begins with all its retries. `None`: as its task sets it.
    pub retry: Option<RetryPolicy>,
    /// Time limit of its runs, and the step after it if its retries run out.
    pub terms: Terms,
}

/// A job as it is submitted. All parts were checked when they were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Chosen by the submitter; a repeated submit of the same id is recognised.
    pub id: JobId,
    /// The code that the job runs: only a node that knows this task gets it.
    pub task: TaskName,
    /// What the task gets, as JSON.
    pub args: Json,
    /// Its settings and limits count for the job, and only nodes that serve it get the job.
    pub queue: QueueName,
    /// Groups of a queue take turns; the job uses up its group's share.
    pub group: GroupName,
    /// Its place among the jobs of its group.
    pub priority: Priority,
    /// `None` = now, by the database's clock.
    pub due: Option<Timestamp>,
    /// What follows when a run fails. `None`: as its task sets it.
    pub retry: Option<RetryPolicy>,
    /// The limit key that the job counts against, besides its queue and group.
    pub key: Option<KeyName>,
    /// Time limit of a run, and another step if its retries run out; both optional.
    pub terms: Terms,
    /// If it has not begun by then, it ends as failed.
    pub expires: Option<Timestamp>,
    /// If set, the job is not stored while another one holds its key.
    pub unique: Option<Box<Unique>>,
    /// It begins when these have ended.
    pub after: After,
}

impl NewJob {
    /// In the default queue and group, due now, with default priority and its task's retries; change the fields for anything else.
    pub fn new(id: JobId, task: TaskName, args: Json) -> Self {
        Self {
            id,
            task,
            args,
            queue: QueueName::default(),
            group: GroupName::default(),
            priority: Priority::default(),
            due: None,
            retry: None,
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
    /// Chosen by the submitter; a repeated submit of the same id is recognised.
    pub id: JobId,
    /// The code that it runs, or ran last: a next step replaces it.
    pub task: TaskName,
    /// What the task gets, as JSON: a next step replaces them.
    pub args: Json,
    /// Its settings and limits count for the job.
    pub queue: QueueName,
    /// Groups of a queue take turns; the job uses up its group's share.
    pub group: GroupName,
    /// Its place among the jobs of its group.
    pub priority: Priority,
    /// What follows when a run fails. `None`: as its task sets it.
    pub retry: Option<RetryPolicy>,
    /// The limit key that it counts against, besides queue and group.
    pub key: Option<KeyName>,
    /// The unique key that it held when it was read: another submit with it would have found it held.
    pub unique: Option<HeldKey>,
    /// Time limit of a run, and another step if its retries run out; both optional.
    pub terms: Terms,
    /// Where it was in its life when it was read; it may have moved on since.
    pub state: JobState,
    /// Attempts, retries of the current policy, and crashes.
    pub counts: Counts,
    /// Raised with every assignment, node loss and edit; a write that names another fence is refused.
    pub fence: Fence,
    /// A person has cancelled it while a node has it: however the run goes, the job ends as cancelled.
    pub cancel_requested: bool,
    /// The node that has it, or had it at its end.
    pub node: Option<NodeName>,
    /// What the task returned; only a job that ended with success has one.
    pub result: Option<Json>,
    /// How the last run that failed, failed.
    pub error: Option<String>,
    /// Of that failure: the same for all failures of one kind.
    pub fingerprint: Option<String>,
    /// If it has not begun by then, it fails. Cleared once a run of it is recorded, or a person has a finished job run again.
    pub expires_at: Option<Timestamp>,
    /// When it was stored, by the database's clock.
    pub submitted_at: Timestamp,
    /// `None`: stuck until a person decides.
    pub due_at: Option<Timestamp>,
    /// When a node last got it, by the database's clock.
    pub assigned_at: Option<Timestamp>,
    /// Begin of the last run.
    pub started_at: Option<Timestamp>,
    /// End of the last run that has ended; of a job that ended without a run, when that was.
    pub finished_at: Option<Timestamp>,
}

impl Job {
    /// The number of the run a reader sees: one that is going on counts.
    pub fn attempt(&self) -> u32 {
        self.counts.attempt + u32::from(self.state == JobState::Running)
    }
}

/// Arguments up to this length are not counted: as many as a node may hold of them fit into its memory.
const SHORT_ARGS: usize = 16 * 1024;

/// The bytes of a job's arguments that count towards what a node is given ahead ([`pool::MOST_BYTES`](crate::pool::MOST_BYTES)); 0 for short ones.
pub fn long_args(bytes: usize) -> u32 {
    if bytes > SHORT_ARGS { u32::try_from(bytes).unwrap_or(u32::MAX) } else { 0 }
}

/// As much of an unfinished job as the scheduler needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobHead {
    /// Which job it is.
    pub id: JobId,
    /// Order of submission.
    pub seq: i64,
    /// What a node must know to get it.
    pub task: TaskName,
    /// What a node must serve to get it.
    pub queue: QueueName,
    /// The group that takes turns with the queue's other groups.
    pub group: GroupName,
    /// Its place among the jobs of its group.
    pub priority: Priority,
    /// Unfinished: at rest, or in a node's hands.
    pub state: JobState,
    /// Not picked before; `None`: stuck until a person decides.
    pub due: Option<Timestamp>,
    /// As it was read; a pick names it, and is refused if it has moved on.
    pub fence: Fence,
    /// Times the node died under it; from two on it runs alone on its node.
    pub crashes: u32,
    /// Which node has it; `None`: none has.
    pub node: Option<Incarnation>,
    /// The limit key that it counts against.
    pub key: Option<KeyName>,
    /// A job that is due at this very moment has named no time of its own.
    pub submitted_at: Timestamp,
    /// Set as long as it has not begun.
    pub expires: Option<Timestamp>,
    /// As [`long_args`] counts them.
    pub args_bytes: u32,
    /// The jobs it waits for: set as long as it waits and has never been in a node's hands.
    pub awaits: Option<Box<Awaits>>,
}

/// A job in the hands of a node: all it needs to run it and to decide what follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignedJob {
    /// Which job it is.
    pub id: JobId,
    /// Of this assignment: every write about the run names it.
    pub fence: Fence,
    /// The code to run.
    pub task: TaskName,
    /// What the task gets, as JSON.
    pub args: Json,
    /// Where it stood in line.
    pub queue: QueueName,
    /// The group whose turn it was.
    pub group: GroupName,
    /// Its place among the jobs of its group.
    pub priority: Priority,
    /// What follows when this run fails. `None`: as its task sets it.
    pub retry: Option<RetryPolicy>,
    /// Time limit of this run, and another step if its retries run out; both optional.
    pub terms: Terms,
    /// `Scheduled`, or `Running` where that is already written.
    pub state: JobState,
    /// As they were before this run.
    pub counts: Counts,
    /// A person has cancelled it already: the run ends as cancelled.
    pub cancel_requested: bool,
    /// When it was stored, by the database's clock.
    pub submitted_at: Timestamp,
    /// A limit counts it, or it stands in a serial line. A node that others may take for lost must stop such a job: otherwise one
    /// job more than allowed might run.
    pub limited: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_of_version_seven_and_not_of_the_future() {
        let now = Timestamp::from_micros(1_700_000_000_000_999);
        let id = |millis: u64| JobId::from_parts(1_700_000_000_000 + millis, [9; 10]);
        assert_eq!(id(7).unix_millis(), 1_700_000_000_007);
        assert!(!id(0).is_ahead(now) && !id(60_000).is_ahead(now) && id(60_001).is_ahead(now));
        assert!(JobId::from_uuid(Uuid::max()).is_ahead(Timestamp::MIN) && !JobId::from_parts(0, [0; 10]).is_ahead(now));
        assert_eq!(id(0).check_version(), Ok(id(0)));
        for other in [Uuid::nil(), Uuid::max(), Uuid::from_u128(id(0).uuid().as_u128() ^ (3 << 76))] {
            let refused = JobId::from_uuid(other).check_version().unwrap_err().to_string();
            assert!(refused.starts_with(&format!("id: {other} is not a UUIDv7")), "{refused}");
        }
    }

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

    #[test]
    fn an_edit_raises_the_fence_and_is_no_assignment() {
        let edited = Fence(0).edited();
        assert!(edited > Fence(0) && !edited.was_assigned() && edited.only_edited_since(Fence(0)));
        let run = edited.next();
        assert!(run > edited && run.was_assigned() && !run.only_edited_since(edited));
        let later = run.edited().edited();
        assert!(later.only_edited_since(run) && later.only_edited_since(later) && !run.only_edited_since(later));
        assert_eq!((later.assignments(), later.next().assignments(), later.edits()), (1, 2, 3));
    }
}
