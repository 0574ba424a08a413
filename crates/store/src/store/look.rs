//! What people ask for: jobs by a filter, and the story of one.

use turnwise_core::{Job, JobId, JobState, Timestamp, story::LineAt};
use uuid::Uuid;

/// All given conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// One of these; empty: any.
    pub states: Vec<JobState>,
    /// This queue; `None`: any.
    pub queue: Option<String>,
    /// This group; `None`: any.
    pub group: Option<String>,
    /// This task; `None`: any.
    pub task: Option<String>,
    /// Submitted at this time or later, by the database's clock.
    pub since: Option<Timestamp>,
    /// Submitted before this time.
    pub until: Option<Timestamp>,
    /// With an id from the first to the second of these, both included.
    pub ids: Option<(JobId, JobId)>,
    /// A job that holds this unique key now, in whatever scope.
    pub unique: Option<String>,
    /// Only jobs that nodes have, found by what the nodes were given: the read takes no longer however many jobs wait. A job that no batch
    /// of its node names any more is left out, as in [`Load::InHands`](super::Load::InHands).
    pub in_hands: bool,
    /// At most this many; `None` = 100.
    pub limit: Option<u32>,
}

impl Filter {
    /// How many jobs are read if no limit is given.
    pub const DEFAULT_LIMIT: u32 = 100;
    /// A greater limit counts as this one.
    pub const MAX_LIMIT: u32 = 1_000_000;

    /// The limit that counts: the given one or the default, never more than [`Filter::MAX_LIMIT`].
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(Self::DEFAULT_LIMIT).min(Self::MAX_LIMIT)
    }

    /// The first and the last id that are asked for.
    pub fn id_range(&self) -> (JobId, JobId) {
        self.ids.unwrap_or((JobId::from_uuid(Uuid::nil()), JobId::from_uuid(Uuid::max())))
    }

    /// Whether unfinished jobs can be among those that are asked for, and whether finished ones can: a store reads neither table in vain.
    pub fn tables(&self) -> (bool, bool) {
        let any =
            |finished: bool| JobState::ALL.into_iter().any(|state| state.finished() == finished && self.wants(state));
        (any(false), any(true))
    }

    /// Whether a job meets all conditions; whether it holds the unique key, and is in a node's batch, is for the store to find out.
    pub fn admits(&self, job: &Job) -> bool {
        let is = |wanted: &Option<String>, value: &str| wanted.as_deref().is_none_or(|wanted| wanted == value);
        let (first, last) = self.id_range();
        self.wants(job.state)
            && is(&self.queue, job.queue.as_str())
            && is(&self.group, job.group.as_str())
            && is(&self.task, job.task.as_str())
            && self.since.is_none_or(|since| job.submitted_at >= since)
            && self.until.is_none_or(|until| job.submitted_at < until)
            && (first..=last).contains(&job.id)
    }

    /// The wanted states, or all.
    pub fn wants(&self, state: JobState) -> bool {
        self.states.is_empty() || self.states.contains(&state)
    }
}

/// Which job's story to read, and how much of its log.
#[derive(Debug, Clone)]
pub struct AskStory {
    /// Finished or not; for an unknown one the story is empty.
    pub job: JobId,
    /// Only lines after this one, without attempts, steps and related jobs: for a caller that follows a log.
    pub after: Option<LineAt>,
    /// At most so many lines: the first after `after`, else the last.
    pub lines: u32,
}
