//! Submitting a job again, with changes.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use turnwise_core::{GroupName, Invalid, Json, Priority, QueueName, TaskName, Timestamp, time::parse_span};

use super::{
    Unreadable,
    object::{self, text},
};

/// What is to be different of a job that is submitted again; what is left out is as it was, and it is due at once.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Resubmission {
    /// The task's name.
    pub task: Option<TaskName>,
    /// The arguments; a marker in them stands for the stored value of a secret field.
    pub args: Option<Json>,
    /// The queue that it is to wait in.
    pub queue: Option<QueueName>,
    /// The group that it is to belong to.
    pub group: Option<GroupName>,
    /// 1 (first) to 10 (last).
    pub priority: Option<Priority>,
    /// Not before this moment.
    pub at: Option<Timestamp>,
    /// Not before this long; not together with `at`.
    pub r#in: Option<Duration>,
}

impl Resubmission {
    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown or invalid.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let mut again = Self::default();
        let names = ["task", "args", "queue", "group", "priority", "at", "in"];
        // `null` is an argument like others.
        object::read_with_nulls(json, names, |name, value| match (name, value.get()) {
            ("args", _) => {
                again.args = Some(Json::parse("args", value.get())?);
                Ok(())
            }
            (_, "null") => Ok(()),
            _ => again.put(name, value),
        })?;
        if again.at.is_some() && again.r#in.is_some() {
            return Err(Invalid::new("in", "cannot be given together with at").into());
        }
        Ok(again)
    }

    fn put(&mut self, name: &'static str, value: &RawValue) -> Result<(), Invalid> {
        match name {
            "priority" if !value.get().starts_with(['"', '{', '[']) => self.priority = Some(value.get().parse()?),
            "priority" => self.priority = Some(text(name, value)?.parse()?),
            "task" => self.task = Some(TaskName::new(text(name, value)?)?),
            "queue" => self.queue = Some(QueueName::new(text(name, value)?)?),
            "group" => self.group = Some(GroupName::new(text(name, value)?)?),
            "at" => self.at = Some(text(name, value)?.parse().map_err(|no: Invalid| Invalid::new(name, no.problem))?),
            _ => self.r#in = Some(parse_span(name, &text(name, value)?)?),
        }
        Ok(())
    }
}

/// A job as a person edits it before it is submitted again: what [`Resubmission`] may change.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct ToEdit<'a> {
    /// The task's name.
    pub task: &'a str,
    /// The arguments, with a marker in the place of each secret field: it stands for the stored value.
    pub args: &'a Json,
    /// The queue that it is, or was, in.
    pub queue: &'a str,
    /// The group that it belongs to.
    pub group: &'a str,
    /// 1 (first) to 10 (last).
    pub priority: u8,
}

impl<'a> ToEdit<'a> {
    /// Of this job; `args` are those of [`Turnwise::to_edit`](crate::Turnwise::to_edit).
    pub fn new(job: &'a crate::Job, args: &'a Json) -> Self {
        let (task, queue, group) = (job.task.as_str(), job.queue.as_str(), job.group.as_str());
        Self { task, args, queue, group, priority: job.priority.get() }
    }
}
