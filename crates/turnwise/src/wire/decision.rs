//! What became of submits and of people's decisions.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;
use turnwise_core::{GroupName, Invalid, JobId, JobState, Priority, QueueName, TaskName, Timestamp, time::parse_span};

use super::{
    Job, Unreadable,
    object::{self, count, text, texts, truth},
};
use crate::{
    Cancelled, Duplicate, JobChange, ListCursor, ListFilter,
    filter::{JobFilter, Search},
    id::beginning_with,
};

/// What became of a submitted job.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Submitted {
    /// The job that stands for it: itself, or the one that holds its unique key.
    pub id: JobId,
    /// `false`: it was there already, or another job stands for it.
    pub new: bool,
    /// How another job stands for it: `kept`, `replaced`, `too_late` or `other_task`; `null`: none does.
    pub duplicate: Option<&'static str>,
}

impl Submitted {
    /// The store's answer.
    pub fn new(submitted: &crate::Submitted) -> Self {
        let word = |duplicate| match duplicate {
            Duplicate::Kept => "kept",
            Duplicate::Replaced => "replaced",
            Duplicate::TooLate => "too_late",
            Duplicate::OtherTask => "other_task",
        };
        Self { id: submitted.id, new: submitted.new, duplicate: submitted.duplicate.map(word) }
    }
}

/// What became of all jobs of a [`Batch`](super::Batch), in its order.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct SubmittedAll {
    /// One for each.
    pub jobs: Vec<Submitted>,
}

impl SubmittedAll {
    /// The store's answers.
    pub fn new(submitted: &[crate::Submitted]) -> Self {
        Self { jobs: submitted.iter().map(Submitted::new).collect() }
    }
}

/// A page of a listing of jobs, newest first.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Jobs<'a> {
    /// At most as many as were asked for.
    pub jobs: Vec<Job<'a>>,
    /// To be given as `cursor` for the next page, which may be empty; `null`: this is the last one.
    pub next: Option<String>,
    /// Set if the page is not full because enough jobs were looked at: all whose ids are of this time or later were looked at.
    pub reached: Option<Timestamp>,
}

impl<'a> Jobs<'a> {
    /// These jobs, and where the next page begins.
    pub fn new(jobs: Vec<Job<'a>>, next: Option<ListCursor>, reached: Option<Timestamp>) -> Self {
        Self { jobs, next: next.map(|next| next.to_string()), reached }
    }

    /// Reads the beginning of an id, of four digits or more: the first and the last id that begin so. [`Invalid`] for
    /// other text.
    pub fn read_beginning(text: &str) -> Result<(JobId, JobId), Invalid> {
        let whole = || text.parse().ok().map(|id| (id, id));
        let not = || crate::id::unreadable(text);
        whole().or_else(|| beginning_with(text)).ok_or_else(not)
    }
}

/// What a person's decision about one job came to.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Decided {
    /// The job.
    pub id: JobId,
    /// `cancelled`, `cancel_requested` (a node has it, and was asked to stop it), `waiting` (it runs again), `failed` or `changed`.
    pub decided: &'static str,
}

impl Decided {
    /// Of a cancel.
    pub fn cancelled(id: JobId, came_to: Cancelled) -> Self {
        let decided = match came_to {
            Cancelled::AtOnce => "cancelled",
            Cancelled::Requested => "cancel_requested",
        };
        Self { id, decided }
    }

    /// Of a retry or a rerun.
    pub fn again(id: JobId) -> Self {
        Self { id, decided: "waiting" }
    }

    /// Of a fail.
    pub fn failed(id: JobId) -> Self {
        Self { id, decided: "failed" }
    }

    /// Of a change of its priority, time or queue.
    pub fn changed(id: JobId) -> Self {
        Self { id, decided: "changed" }
    }
}

/// What is to be changed of a job that waits or is stuck; what is left out stays as it is.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct JobEdit {
    /// 1 (first) to 10 (last).
    pub priority: Option<Priority>,
    /// The queue that it is to wait in.
    pub queue: Option<QueueName>,
    /// Not before this moment.
    pub at: Option<Timestamp>,
    /// Not before this long; not together with `at`.
    pub r#in: Option<Duration>,
}

impl JobEdit {
    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or invalid.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        let mut edit = Self::default();
        object::read(json, ["priority", "queue", "at", "in"], |name, value| edit.put(name, value))?;
        if edit.at.is_some() && edit.r#in.is_some() {
            return Err(Invalid::new("in", "cannot be given together with at").into());
        }
        Ok(edit)
    }

    fn put(&mut self, name: &'static str, value: &RawValue) -> Result<(), Invalid> {
        match name {
            "priority" if !value.get().starts_with(['"', '{', '[']) => self.priority = Some(value.get().parse()?),
            "priority" => self.priority = Some(text(name, value)?.parse()?),
            "queue" => self.queue = Some(QueueName::new(text(name, value)?)?),
            "at" => self.at = Some(text(name, value)?.parse().map_err(|no: Invalid| Invalid::new(name, no.problem))?),
            _ => self.r#in = Some(parse_span(name, &text(name, value)?)?),
        }
        Ok(())
    }

    /// The same for [`Turnwise::change`](crate::Turnwise::change).
    pub fn change(&self) -> JobChange {
        let mut change = JobChange::new();
        if let Some(priority) = self.priority {
            change = change.priority(priority.get().into());
        }
        if let Some(queue) = &self.queue {
            change = change.queue(queue.as_str());
        }
        if let Some(at) = self.at {
            change = change.at(at);
        }
        if let Some(delay) = self.r#in {
            change = change.delay(delay);
        }
        change
    }
}

/// Which jobs a decision is about, and whether it is to be made or only shown.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Choice {
    /// In one of these states; empty: in any that the decision allows.
    pub states: Vec<JobState>,
    /// Of this queue.
    pub queue: Option<QueueName>,
    /// Of this group.
    pub group: Option<GroupName>,
    /// Of this task.
    pub task: Option<TaskName>,
    /// Submitted at this time or later.
    pub since: Option<Timestamp>,
    /// Submitted before this time.
    pub until: Option<Timestamp>,
    /// All of its conditions must hold, too.
    pub filter: JobFilter,
    /// At most so many, the newest first.
    pub limit: Option<u64>,
    /// Only show how many they are.
    pub dry_run: bool,
    /// The newest job that the preview named: younger ones are left alone.
    pub newest: Option<JobId>,
    /// Where to go on, if an answer said so.
    pub cursor: Option<ListCursor>,
}

impl Choice {
    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or invalid.
    pub fn read(json: &str) -> Result<Self, Unreadable> {
        const NAMES: [&str; 11] =
            ["state", "queue", "group", "task", "since", "until", "filter", "limit", "dry_run", "newest", "cursor"];
        let mut choice = Self::default();
        object::read(json, NAMES, |name, value| choice.put(name, value))?;
        Ok(choice)
    }

    fn put(&mut self, name: &'static str, value: &RawValue) -> Result<(), Invalid> {
        let time = || text(name, value)?.parse().map_err(|invalid: Invalid| Invalid::new(name, invalid.problem));
        match name {
            "cursor" => self.cursor = Some(text(name, value)?.parse()?),
            "state" => {
                self.states = texts(name, value)?.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
                if self.states.is_empty() {
                    return Err(Invalid::new(name, "must name at least one; leave it out for the usual ones"));
                }
            }
            "queue" => self.queue = Some(QueueName::new(text(name, value)?)?),
            "group" => self.group = Some(GroupName::new(text(name, value)?)?),
            "task" => self.task = Some(TaskName::new(text(name, value)?)?),
            "since" => self.since = Some(time()?),
            "until" => self.until = Some(time()?),
            "filter" => self.filter = text(name, value)?.parse::<JobFilter>()?,
            "limit" => self.limit = Some(count(name, value)?),
            "dry_run" => self.dry_run = truth(name, value)?,
            _ => {
                let id = text(name, value)?;
                let bad = |_| Invalid::new(name, format!("{id:?} is not a job id"));
                self.newest = Some(id.parse().map_err(bad)?);
            }
        }
        Ok(())
    }

    /// The same as a search, by which `since:2h` counts from this time on; without limit and without where it begins.
    pub fn search(&self, now: Timestamp) -> Search {
        let Self { states, queue, group, task, since, until, .. } = self.clone();
        self.filter.at(now).within(ListFilter {
            states: states.into_iter().collect(),
            queues: queue.map(|name| [name].into()),
            groups: group.map(|name| [name].into()),
            tasks: task.map(|name| [name].into()),
            since,
            until,
            ..ListFilter::default()
        })
    }

    /// Where the look for jobs begins: with the newest one that is meant, or where an earlier answer ended.
    pub fn begins(&self) -> Option<ListCursor> {
        self.newest.map(ListCursor::beginning_with).into_iter().chain(self.cursor).min()
    }
}

/// How many jobs a decision would be about.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Preview {
    /// So many that one call decides about.
    pub count: usize,
    /// Whether there may be more than one call decides about.
    pub more: bool,
    /// The newest of them, to be given back when the decision is made; `null`: there are none.
    pub newest: Option<JobId>,
    /// To be given as `cursor`, to count those that follow; `null`: there are no more.
    pub next: Option<String>,
    /// Set if enough jobs were looked at: all whose ids are of this time or later were looked at.
    pub reached: Option<Timestamp>,
}

impl Preview {
    /// Of so many jobs, the newest of them, and where the look for them has ended.
    pub fn new(count: usize, newest: Option<JobId>, next: Option<ListCursor>, reached: Option<Timestamp>) -> Self {
        Self { count, more: next.is_some(), newest, next: next.map(|next| next.to_string()), reached }
    }
}

/// What a decision about many jobs came to.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct DecidedAll {
    /// About so many it was made.
    pub decided: usize,
    /// So many are in nodes' hands, and the nodes were asked to stop them.
    pub requested: usize,
    /// These have changed meanwhile, or an open transaction holds them: look at them again.
    pub left: Vec<JobId>,
    /// Whether there may be more: call again, with `next`.
    pub more: bool,
    /// To be given as `cursor`, to decide about those that follow; `null`: there are no more.
    pub next: Option<String>,
    /// Set if enough jobs were looked at: all whose ids are of this time or later were looked at.
    pub reached: Option<Timestamp>,
}

impl DecidedAll {
    /// Notes where the look for jobs has ended.
    pub fn ended(&mut self, next: Option<ListCursor>, reached: Option<Timestamp>) {
        (self.more, self.next, self.reached) = (next.is_some(), next.map(|next| next.to_string()), reached);
    }
}

/// How many rows were deleted because their retention is over.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Pruned {
    /// Rows of finished jobs and of what was kept with them.
    pub deleted: u64,
    /// Whether there may be more: call again.
    pub more: bool,
}

impl Pruned {
    /// So many.
    pub fn new(deleted: u64, more: bool) -> Self {
        Self { deleted, more }
    }
}
