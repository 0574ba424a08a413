//! Watching: the news for readers that are not the dispatcher.

use std::fmt;

use turnwise_core::{
    Fence, GroupName, JobHead, JobId, JobState, NodeName, QueueName, TaskName, Timestamp, story::Progress,
};

use crate::store::Change;

/// How far a watcher has seen: any process on the same database can go on from it. Its text has digits and `/ : , .` only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchCursor(pub String);

/// Longer ones are foreign. PostgreSQL's name the transactions that were open, at most some ten bytes each.
const LONGEST_CURSOR: usize = 32 * 1024;

impl WatchCursor {
    /// Of this run of the database and this time; `place` is what the store goes on by.
    pub fn new(lineage: i64, at: Timestamp, place: impl fmt::Display) -> Self {
        Self(format!("{lineage}/{}/{place}", at.micros()))
    }

    /// Lineage, time and place. `None`: it comes from elsewhere, for callers may send any text.
    pub fn parts(&self) -> Option<(i64, Timestamp, &str)> {
        let text = Some(self.0.as_str()).filter(|text| text.len() <= LONGEST_CURSOR)?;
        let mut parts = text.splitn(3, '/');
        let lineage = parts.next()?.parse().ok()?;
        let at = Timestamp::from_micros(parts.next()?.parse().ok()?);
        Some((lineage, at, parts.next()?))
    }
}

impl fmt::Display for WatchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// From where on, and how much, a watcher wants to read.
#[derive(Debug, Clone)]
pub struct AskWatch {
    /// From the last [`Watched`]; `None`: nothing is read, and the reply says where to begin.
    pub cursor: Option<WatchCursor>,
    /// New jobs, and changed jobs, at most.
    pub most: u32,
    /// Whether [`Watched::ended`] is wanted.
    pub ends: bool,
}

/// What became visible since the cursor.
#[derive(Debug, Clone, PartialEq)]
pub struct Watched {
    /// The database's time.
    pub now: Timestamp,
    /// When the cursor was read that was asked from; without one, or after a reset, now.
    pub since: Timestamp,
    /// Where the next call begins.
    pub cursor: WatchCursor,
    /// What happened since the cursor is not known any more, or never was: the cursor is older than what is kept (at least
    /// [`KEEP_CHANGES`](turnwise_core::watch::KEEP_CHANGES)), of another database or of another [lineage](crate::Lineage). The
    /// reply has nothing else; read everything again, and go on from the new cursor.
    pub reset: bool,
    /// New jobs, and finished ones that a person has run again, in the order of submission. Those that have ended meanwhile are in
    /// `ended`.
    pub jobs: Vec<JobHead>,
    /// Changes of jobs: ends, retries, decisions.
    pub changes: Vec<Change>,
    /// Those of the changed jobs that have ended, as far as history has them; only if they were asked for.
    pub ended: Vec<EndedJob>,
    /// Whether a memo was written or deleted.
    pub memos: bool,
    /// Whether there may be more jobs or changes than were asked for. The cursor is beyond them.
    pub more: bool,
}

impl Watched {
    /// Nothing happened, or nothing that is known.
    pub fn nothing(now: Timestamp, cursor: WatchCursor, reset: bool) -> Self {
        let (jobs, changes, ended) = (Vec::new(), Vec::new(), Vec::new());
        Self { now, since: now, cursor, reset, jobs, changes, ended, memos: false, more: false }
    }
}

/// A finished job, without what may be long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedJob {
    /// The job.
    pub id: JobId,
    /// The task that it ran last.
    pub task: TaskName,
    /// The queue that it was in.
    pub queue: QueueName,
    /// The group that it belongs to.
    pub group: GroupName,
    /// How it ended.
    pub state: JobState,
    /// How many runs have ended by themselves.
    pub attempt: u32,
    /// Where it ran last.
    pub node: Option<NodeName>,
    /// When it was stored.
    pub submitted_at: Timestamp,
    /// When its last run began.
    pub started_at: Option<Timestamp>,
    /// When its last run ended, or the job itself where it has never run.
    pub finished_at: Option<Timestamp>,
    /// What kind of error it ended with.
    pub fingerprint: Option<String>,
}

/// What nodes have in their hands.
#[derive(Debug, Clone, PartialEq)]
pub struct InHands {
    /// The database's time.
    pub now: Timestamp,
    /// By id.
    pub jobs: Vec<HeldJob>,
    /// Whether there may be more than were asked for.
    pub more: bool,
}

/// A job in a node's hands, without what may be long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldJob {
    /// The job.
    pub id: JobId,
    /// The task that it runs.
    pub task: TaskName,
    /// The queue that it is in.
    pub queue: QueueName,
    /// The group that it belongs to.
    pub group: GroupName,
    /// Scheduled, or running: that is written for a job that takes longer than a moment.
    pub state: JobState,
    /// How many runs have ended by themselves.
    pub attempt: u32,
    /// Another one with each time that the job is given to a node.
    pub fence: Fence,
    /// The node that has it.
    pub node: NodeName,
    /// When it was stored.
    pub submitted_at: Timestamp,
    /// When its last run began; of a job that runs, this one.
    pub started_at: Option<Timestamp>,
    /// How far it has come, if its task said so; of a retried job, at first how far the last run came.
    pub progress: Option<Progress>,
}

/// A place in a store whose jobs and changes have numbers without gaps, in the order of their commits: the next ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextNumbers {
    /// Of the next new job.
    pub job: i64,
    /// Of the next change.
    pub change: i64,
}

impl NextNumbers {
    /// Reads it from a cursor.
    pub fn parse(place: &str) -> Option<Self> {
        let (job, change) = place.split_once('.')?;
        Some(Self { job: job.parse().ok()?, change: change.parse().ok()? })
    }

    /// Whether everything from here to `now` is still there. `first`: the oldest change that is kept.
    pub fn can_go_on(self, now: Self, first: Option<i64>) -> bool {
        self.job <= now.job && self.change <= now.change && first.unwrap_or(now.change) <= self.change
    }
}

impl fmt::Display for NextNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.job, self.change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written_and_nothing_else_is_one() {
        let at = Timestamp::from_micros(-7);
        for place in ["3.4", "10:20:11,12", ""] {
            assert_eq!(WatchCursor::new(9, at, place).parts(), Some((9, at, place)));
        }
        let long = format!("1/2/{}", "3".repeat(LONGEST_CURSOR));
        for other in ["", "1", "1/2", "x/2/3", "1/x/3", "99999999999999999999/2/3", &long] {
            assert_eq!(WatchCursor(other.to_owned()).parts(), None, "{other:.40}");
        }
    }

    #[test]
    fn numbers_go_on_if_nothing_after_them_was_deleted() {
        let next = |job, change| NextNumbers { job, change };
        let now = next(50, 20);
        assert!(next(50, 20).can_go_on(now, None), "nothing has happened since");
        assert!(next(10, 15).can_go_on(now, Some(15)));
        assert!(next(10, 15).can_go_on(now, Some(3)));
        assert!(!next(10, 14).can_go_on(now, Some(15)), "14 was deleted");
        assert!(!next(10, 19).can_go_on(now, None), "all were deleted");
        assert!(!next(51, 20).can_go_on(now, Some(3)) && !next(50, 21).can_go_on(now, Some(3)), "not of this database");
        assert_eq!(NextNumbers::parse(&now.to_string()), Some(now));
        assert!(["", "1", "1.", "1.2.3", "a.b"].iter().all(|text| NextNumbers::parse(text).is_none()));
    }
}
