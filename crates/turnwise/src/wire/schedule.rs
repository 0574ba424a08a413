//! A schedule, going out and coming in.

use std::borrow::Cow;

use serde::Serialize;
use turnwise_core::{
    GroupName, Invalid, JobId, Json, KeyName, Priority, QueueName, ScheduleName, TaskName, Timestamp,
    periodic::{CatchUp, Overlap, Periodic},
    secret::Secrets,
    settings::Pause,
    time::print_span,
};

use super::{
    Request, Unreadable,
    object::{self, text},
};
use crate::schedules::{LastTime, Recurring};

/// A job that is submitted again and again.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Schedule<'a> {
    /// The name it was set under.
    pub name: &'a ScheduleName,
    /// A cron pattern with its zone, or a span such as `every 1h`.
    pub when: String,
    /// The same for people: `at 02:00 every day`, by the clock of the zone.
    pub in_words: String,
    /// The task of its jobs.
    pub task: &'a TaskName,
    /// The queue that its jobs are submitted to.
    pub queue: &'a QueueName,
    /// The group that its jobs belong to.
    pub group: &'a GroupName,
    /// Whether a person has paused it: no jobs of it are submitted meanwhile.
    pub paused: bool,
    /// Since when, and why; `null`: it is not paused.
    pub pause: Option<&'a Pause>,
    /// The zone whose clock its times go by, such as `Europe/Berlin`.
    pub zone: String,
    /// Its next times, also while it is paused.
    pub next: Vec<Timestamp>,
    /// The arguments of its jobs, without secret fields.
    pub args: Cow<'a, Json>,
    /// The priority of its jobs: 1 (first) to 10 (last).
    pub priority: Priority,
    /// The key that its jobs share a limit by; `null`: none.
    pub key: Option<&'a KeyName>,
    /// The retry policy of its jobs, such as `exponential:10s,5`; `None` where their task decides.
    pub retry: Option<String>,
    /// How long a run of its jobs may take, such as `5m`; `null`: as their task sets it.
    pub timeout: Option<String>,
    /// The task that its jobs go on as when their retries run out; `null`: as their task sets it.
    pub on_exhausted: Option<&'a TaskName>,
    /// The task that its jobs go on as after a success; `null`: as their task sets it.
    pub next_task: Option<&'a TaskName>,
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

    /// The schedule as it is seen at this time. What [`Turnwise::secrets`](crate::Turnwise::secrets) names is not shown.
    pub fn new(
        name: &'a ScheduleName,
        periodic: &'a Periodic,
        last: Option<&LastTime>,
        now: Timestamp,
        secrets: &Secrets,
    ) -> Self {
        Self {
            name,
            when: periodic.when.to_string(),
            in_words: periodic.when.words(),
            task: &periodic.task,
            queue: &periodic.queue,
            group: &periodic.group,
            paused: periodic.paused.is_some(),
            pause: periodic.paused.as_ref(),
            zone: periodic.when.zone().name().to_owned(),
            next: periodic.when.following(now).take(Self::TIMES).collect(),
            args: secrets.mask(&periodic.task, &periodic.args).shown(&periodic.args),
            priority: periodic.priority,
            key: periodic.key.as_ref(),
            retry: periodic.retry.as_ref().map(ToString::to_string),
            timeout: periodic.terms.timeout().map(print_span),
            on_exhausted: periodic.terms.on_exhausted().map(|step| &step.task),
            next_task: periodic.terms.next(),
            overlap: periodic.overlap,
            catch_up: periodic.catch_up,
            last: last.map(|last| last.at),
            last_job: last.and_then(|last| last.job),
        }
    }
}

/// A schedule to set, as its caller wrote it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NewSchedule<'a> {
    /// The job to submit again and again.
    #[serde(flatten)]
    pub job: Request<'a>,
    /// Minute, hour, day, month and weekday; not together with `every`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cron: Option<Cow<'a, str>>,
    /// The time zone of the pattern. Default: UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Cow<'a, str>>,
    /// A span such as `10m`; not together with `cron`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Cow<'a, str>>,
    /// `skip`, `wait` or `allow`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Cow<'a, str>>,
    /// `skip`, `one` or `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up: Option<Cow<'a, str>>,
}

impl<'a> NewSchedule<'a> {
    const NAMES: [&'static str; 15] = [
        "task",
        "args",
        "queue",
        "group",
        "key",
        "priority",
        "retry",
        "timeout",
        "on_exhausted",
        "next",
        "cron",
        "zone",
        "every",
        "overlap",
        "catch_up",
    ];

    /// Reads one JSON object. [`Unreadable`] names the first field that is unknown, missing or of another kind. Values
    /// are checked by [`NewSchedule::to_recurring`].
    pub fn read(json: &'a str) -> Result<Self, Unreadable> {
        let mut schedule = Self::default();
        object::read(json, Self::NAMES, |name, value| {
            let place = match name {
                "cron" => &mut schedule.cron,
                "zone" => &mut schedule.zone,
                "every" => &mut schedule.every,
                "overlap" => &mut schedule.overlap,
                "catch_up" => &mut schedule.catch_up,
                _ => return schedule.job.put(name, value),
            };
            *place = Some(text(name, value)?);
            Ok(())
        })?;
        Ok(schedule)
    }

    /// What is to be set, or the first value that is invalid.
    pub fn to_recurring(&self) -> Result<Recurring, Invalid> {
        let job = self.job.to_request()?;
        let mut recurring = match (&self.cron, &self.every) {
            (Some(_), Some(_)) => return Err(Invalid::new("every", "cannot be given together with cron")),
            (Some(cron), None) => Recurring::cron_in(cron, self.zone.as_deref().unwrap_or("UTC"), job),
            (None, Some(_)) if self.zone.is_some() => return Err(Invalid::new("zone", "has no effect without cron")),
            (None, Some(every)) => Recurring::every(every, job),
            (None, None) => return Err(Invalid::new("cron", "is missing, and every as well: one of them is needed")),
        };
        if let Some(catch_up) = &self.catch_up {
            let catch_up = catch_up.parse()?;
            recurring = recurring.catch_up(catch_up);
            if catch_up == CatchUp::All {
                // To skip the times that overlap would leave only one job of them.
                recurring = recurring.overlap(Overlap::Wait);
            }
        }
        if let Some(overlap) = &self.overlap {
            recurring = recurring.overlap(overlap.parse()?);
        }
        Ok(recurring)
    }
}
