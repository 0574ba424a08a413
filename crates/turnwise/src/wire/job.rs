//! A job, and what is kept of it besides its row.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Serialize;
use turnwise_core::{
    GroupName, Invalid, JobId, JobState, Json, KeyName, NodeName, OnFailure, Priority, QueueName, ScheduleName,
    TaskName, Timestamp, TraceContext, UniqueKey,
    periodic::schedule_of,
    secret::{Mask, Secrets},
    settings::Settings,
    story,
    time::print_span,
    why::Gate,
};

use super::{Unreadable, object};

/// A job.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Job<'a> {
    /// Chosen by the submitter: a UUID of version 7, unless the caller named one.
    pub id: JobId,
    /// The task that it runs, or ran last: a next step replaces it.
    pub task: &'a TaskName,
    /// The queue that it is in.
    pub queue: &'a QueueName,
    /// The group that it belongs to.
    pub group: &'a GroupName,
    /// The key that it shares a limit by; `null`: none.
    pub key: Option<&'a KeyName>,
    /// The unique key that it holds now; `null`: none, or it holds it no longer.
    pub unique: Option<&'a UniqueKey>,
    /// Among which jobs that key is unique, with its name: `task:mail`, `queue:slow`, `group:acme` or `scope:docs`.
    pub unique_scope: Option<&'a str>,
    /// When that key is free although the job has not ended; `null`: when it ends.
    pub unique_until: Option<Timestamp>,
    /// 1 (first) to 10 (last).
    pub priority: Priority,
    /// `waiting`, `scheduled`, `running`, `stuck`, `success`, `failed` or `cancelled`.
    pub state: JobState,
    /// How many runs have ended by themselves; one that is going on counts.
    pub attempt: u32,
    /// Of its retry policy; `null` where a person decides, and where the policy is its task's own: only a node that knows the task
    /// can say.
    pub retries_left: Option<u32>,
    /// What the task gets, without its secret fields: a next step replaces them.
    pub args: Cow<'a, Json>,
    /// What the task returned; `null` before that, and where it returned nothing.
    pub result: Option<Cow<'a, Json>>,
    /// How the last run that failed, failed.
    pub error: Option<Cow<'a, str>>,
    /// The node that has it, or had it at its end.
    pub node: Option<&'a NodeName>,
    /// When it was stored, by the database's clock.
    pub submitted_at: Timestamp,
    /// By its queue's schedule, where that sets when it is due; `null`: stuck until a person decides.
    pub due_at: Option<Timestamp>,
    /// When it was last given to a node.
    pub assigned_at: Option<Timestamp>,
    /// When its last run began.
    pub started_at: Option<Timestamp>,
    /// When its last run ended, or the job itself where it has never run.
    pub finished_at: Option<Timestamp>,
    /// Its retry policy, such as `exponential:10s,5`; `null`: as its task sets it.
    pub retry: Option<String>,
    /// How long a run may take, such as `5m`; `null`: as its task sets it.
    pub timeout: Option<String>,
    /// The task it goes on as when its retries run out; `null`: as its task sets it.
    pub on_exhausted: Option<&'a TaskName>,
    /// The task it goes on as after a success; `null`: as its task sets it.
    pub next: Option<&'a TaskName>,
    /// If it has not begun by then, it fails without having run.
    pub expires_at: Option<Timestamp>,
    /// The same for all failures of that kind.
    pub fingerprint: Option<&'a str>,
    /// Whether the node that has it was asked to stop it.
    pub cancel_requested: bool,
    /// What holds it up, each as a sentence. In a listing: as far as its row, the settings and the nodes show; a job that is shown
    /// alone has all of it, as [`Why`](super::Why).
    pub waits_for: Vec<String>,
    /// The schedule that submitted it at one of its times; `null`: none, or one that is there no longer.
    pub schedule: Option<&'a ScheduleName>,
    /// The trace that it belongs to, as its submitter gave it; `null`: none.
    pub traceparent: Option<&'a str>,
    /// Hides what else is said of the job.
    #[serde(skip)]
    pub(super) mask: Mask,
}

impl<'a> Job<'a> {
    /// The job, with what holds it up: [`Turnwise::reasons`](crate::Turnwise::reasons) of a listing, or the gates of
    /// [`Turnwise::why`](crate::Turnwise::why). What [`Turnwise::secrets`](crate::Turnwise::secrets) names is not shown.
    pub fn new(
        job: &'a crate::Job,
        set: &Settings,
        gates: &[Gate],
        schedules: impl IntoIterator<Item = &'a ScheduleName>,
        secrets: &Secrets,
    ) -> Self {
        let mask = secrets.mask(&job.task, &job.args);
        let set = set.queues.get(&job.queue);
        let by_schedule = set.filter(|_| job.state == JobState::Waiting).and_then(|set| set.due_by_schedule(job));
        Self {
            id: job.id,
            task: &job.task,
            queue: &job.queue,
            group: &job.group,
            key: job.key.as_ref(),
            unique: job.unique.as_ref().map(|held| &held.key),
            unique_scope: job.unique.as_ref().map(|held| held.scope.as_str()),
            unique_until: job.unique.as_ref().and_then(|held| held.until),
            priority: job.priority,
            state: job.state,
            attempt: job.attempt(),
            retries_left: job.retry.as_ref().and_then(|retry| retry.left(job.counts.retry)),
            args: mask.shown(&job.args),
            result: job.result.as_ref().map(|result| mask.json(result)),
            error: job.error.as_deref().map(|error| mask.text(error)),
            node: job.node.as_ref(),
            submitted_at: job.submitted_at,
            due_at: by_schedule.or(job.due_at),
            assigned_at: job.assigned_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
            retry: job.retry.as_ref().map(ToString::to_string),
            timeout: job.terms.timeout().map(print_span),
            on_exhausted: job.terms.on_exhausted().map(|step| &step.task),
            next: job.terms.next(),
            expires_at: job.expires_at,
            fingerprint: job.fingerprint.as_deref(),
            cancel_requested: job.cancel_requested,
            waits_for: gates.iter().map(ToString::to_string).collect(),
            schedule: schedule_of(schedules, job.id),
            traceparent: job.terms.trace().map(TraceContext::traceparent),
            mask,
        }
    }
}

/// A job together with what is kept of it besides its row.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct JobInFull<'a> {
    /// Its names stand beside those of the story.
    #[serde(flatten)]
    pub job: Job<'a>,
    /// Progress, steps, attempts, and which jobs wait for which.
    #[serde(flatten)]
    pub story: Story<'a>,
}

impl<'a> JobInFull<'a> {
    /// Both of the same job.
    pub fn new(job: Job<'a>, story: &'a story::Story) -> Self {
        let story = Story::new(story, &job.mask);
        Self { job, story }
    }
}

/// What is kept of a job besides its row, but for its log.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Story<'a> {
    /// How far its last run has come.
    pub progress: Option<Progress<'a>>,
    /// Results of the steps that are done, by name.
    pub steps: BTreeMap<&'a str, Cow<'a, Json>>,
    /// Which jobs it waits or waited for.
    pub after: &'a [JobId],
    /// What becomes of it if one of these fails.
    pub on_failure: Option<&'static str>,
    /// Which jobs wait or waited for it; the first of them.
    pub awaited_by: &'a [JobId],
    /// Runs that did not end well, or after which the job went on as another task.
    pub attempts: Vec<Attempt<'a>>,
}

impl<'a> Story<'a> {
    /// As it is kept, without the job's secrets.
    pub fn new(story: &'a story::Story, mask: &Mask) -> Self {
        Self {
            progress: story.progress.as_ref().map(|progress| Progress::new(progress, mask)),
            steps: story.steps.iter().map(|step| (step.name.as_str(), mask.json(&step.result))).collect(),
            after: story.after.ids(),
            on_failure: story.after.on_failure().map(OnFailure::name),
            awaited_by: &story.awaited_by,
            attempts: story.attempts.iter().map(|attempt| Attempt::new(attempt, mask)).collect(),
        }
    }
}

/// How far a run has come.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// How much of `total` is done, in units of the task's own.
    pub done: u64,
    /// How much there is to do; 0 where that is not known.
    pub total: u64,
    /// The task's own words for it.
    pub text: Cow<'a, str>,
}

impl<'a> Progress<'a> {
    /// As the task reported it, without the job's secrets.
    pub fn new(progress: &'a story::Progress, mask: &Mask) -> Self {
        Self { done: progress.done, total: progress.total, text: mask.text(&progress.text) }
    }
}

impl Progress<'_> {
    /// Reads one JSON object, as a program that runs a job reports it; `done` is not to be left out. [`Unreadable`] names
    /// the first field that is unknown, missing or invalid.
    pub fn read(json: &str) -> Result<story::Progress, Unreadable> {
        let (mut done, mut total, mut text) = (None, 0, Cow::Borrowed(""));
        object::read(json, ["done", "total", "text"], |name, value| {
            match name {
                "done" => done = Some(object::count(name, value)?),
                "total" => total = object::count(name, value)?,
                _ => text = object::text(name, value)?,
            }
            Ok(())
        })?;
        let done = done.ok_or_else(|| Invalid::new("done", "is missing"))?;
        Ok(story::Progress::new(done, total, &text))
    }
}

/// A run that did not end well, or after which the job went on as another task.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Attempt<'a> {
    /// The number of the run, from 1.
    pub number: u32,
    /// The task that ran: a job with several steps has several.
    pub task: &'a TaskName,
    /// `next`, `error`, `panic`, `timed out`, `failed for good` or `node lost`.
    pub ending: &'static str,
    /// Where it ran; `null` if the node was not known any more when the end was written.
    pub node: Option<&'a NodeName>,
    /// When the task began, if that is known.
    pub started_at: Option<Timestamp>,
    /// When the task ended; `null` where its node was lost.
    pub finished_at: Option<Timestamp>,
    /// What went wrong, then each cause.
    pub error: Option<Vec<Cow<'a, str>>>,
    /// The file, line and column where the error was met, if that is known.
    pub place: Option<&'a str>,
    /// The same for all failures of that kind; `null` where nothing went wrong.
    pub fingerprint: Option<String>,
}

impl<'a> Attempt<'a> {
    /// As it is kept, without the job's secrets.
    pub fn new(attempt: &'a story::Attempt, mask: &Mask) -> Self {
        Self {
            number: attempt.number,
            task: &attempt.task,
            ending: attempt.ending.name(),
            node: attempt.node.as_ref(),
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            error: attempt.failure.as_ref().map(|failure| failure.chain.iter().map(|text| mask.text(text)).collect()),
            place: attempt.failure.as_ref().and_then(|failure| failure.place.as_deref()),
            fingerprint: attempt.failure.as_ref().map(|failure| failure.fingerprint()),
        }
    }
}
