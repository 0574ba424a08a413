//! A schedule.

use serde::Serialize;
use turnwise_core::{
    GroupName, JobId, Json, KeyName, Priority, QueueName, ScheduleName, TaskName, Timestamp,
    periodic::{CatchUp, Overlap, Periodic},
    time::print_span,
};

use crate::schedules::LastTime;

/// A job that is submitted again and again.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Schedule<'a> {
    /// The name it was set under.
    pub name: &'a ScheduleName,
    /// A cron pattern with its zone, or a span such as `every 1h`.
    pub when: String,
    /// The task of its jobs.
    pub task: &'a TaskName,
    /// The queue that its jobs are submitted to.
    pub queue: &'a QueueName,
    /// The group that its jobs belong to.
    pub group: &'a GroupName,
    /// Whether a person has paused it: no jobs of it are submitted meanwhile.
    pub paused: bool,
    /// Its next times, also while it is paused.
    pub next: Vec<Timestamp>,
    /// The arguments of its jobs.
    pub args: &'a Json,
    /// The priority of its jobs: 1 (first) to 10 (last).
    pub priority: Priority,
    /// The key that its jobs share a limit by; `null`: none.
    pub key: Option<&'a KeyName>,
    /// The retry policy of its jobs, such as `exponential:10s,5`; `None` where their task decides.
    pub retry: Option<String>,
    /// How long a run of its jobs may take, such as `5m`; `null`: as their task sets it.
    pub timeout: Option<String>,
    /// What becomes of a time that comes while an earlier job has not ended: `skip`, `wait` or `allow`.
    pub overlap: Overlap,
    /// What becomes of times that passed while no node ran: `skip`, `one` or `all`.
    pub catch_up: CatchUp,
    /// The last time that is over, whether a job was submitted for it or it was skipped; `null`: none is.
    pub last: Option<Timestamp>,
    /// The last job that it submitted at one of its times; `null`: none.
    pub last_job: Option<JobId>,
}

impl<'a> Schedule<'a> {
    /// How many next times are listed of each.
    pub const TIMES: usize = 5;

    /// The schedule as it is seen at this time.
    pub fn new(name: &'a ScheduleName, periodic: &'a Periodic, last: Option<&LastTime>, now: Timestamp) -> Self {
        Self {
            name,
            when: periodic.when.to_string(),
            task: &periodic.task,
            queue: &periodic.queue,
            group: &periodic.group,
            paused: periodic.paused.is_some(),
            next: periodic.when.following(now).take(Self::TIMES).collect(),
            args: &periodic.args,
            priority: periodic.priority,
            key: periodic.key.as_ref(),
            retry: periodic.retry.as_ref().map(ToString::to_string),
            timeout: periodic.terms.timeout().map(print_span),
            overlap: periodic.overlap,
            catch_up: periodic.catch_up,
            last: last.map(|last| last.at),
            last_job: last.and_then(|last| last.job),
        }
    }
}
