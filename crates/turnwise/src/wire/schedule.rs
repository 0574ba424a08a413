//! A schedule.

use serde::Serialize;
use turnwise_core::{GroupName, QueueName, ScheduleName, TaskName, Timestamp, periodic::Periodic};

/// A job that is submitted again and again.
#[derive(Debug, Serialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are those of the schedule")]
pub struct Schedule<'a> {
    pub name: &'a ScheduleName,
    pub when: String,
    pub task: &'a TaskName,
    pub queue: &'a QueueName,
    pub group: &'a GroupName,
    pub paused: bool,
    /// Its next times, also while it is paused.
    pub next: Vec<Timestamp>,
}

impl<'a> Schedule<'a> {
    /// Times that are told of each.
    pub const TIMES: usize = 5;

    /// The schedule as it is seen at this time.
    pub fn new(name: &'a ScheduleName, periodic: &'a Periodic, now: Timestamp) -> Self {
        Self {
            name,
            when: periodic.when.to_string(),
            task: &periodic.task,
            queue: &periodic.queue,
            group: &periodic.group,
            paused: periodic.paused.is_some(),
            next: periodic.when.following(now).take(Self::TIMES).collect(),
        }
    }
}
