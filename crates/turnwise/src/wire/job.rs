//! A job, and what it told.

use std::collections::BTreeMap;

use serde::Serialize;
use turnwise_core::{
    GroupName, JobId, JobState, Json, KeyName, NodeName, OnFailure, Priority, QueueName, TaskName, Timestamp,
    settings::Settings, story, time::print_span, why::gates,
};
use turnwise_store::Fleet;

/// A job.
#[derive(Debug, Serialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are those of the job")]
pub struct Job<'a> {
    pub id: JobId,
    pub task: &'a TaskName,
    pub queue: &'a QueueName,
    pub group: &'a GroupName,
    pub key: Option<&'a KeyName>,
    pub priority: Priority,
    pub state: JobState,
    pub attempt: u32,
    /// `null` where a person decides.
    pub retries_left: Option<u32>,
    pub args: &'a Json,
    pub result: Option<&'a Json>,
    pub error: Option<&'a str>,
    pub node: Option<&'a NodeName>,
    pub submitted_at: Timestamp,
    /// By its queue's schedule, where that says when it is due.
    pub due_at: Option<Timestamp>,
    pub assigned_at: Option<Timestamp>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    pub retry: String,
    pub timeout: Option<String>,
    pub on_exhausted: Option<&'a TaskName>,
    pub expires_at: Option<Timestamp>,
    /// The same for all failures of that kind.
    pub fingerprint: Option<&'a str>,
    pub cancel_requested: bool,
    /// What holds it up as far as its row, its queue's settings and the fleet tell, each as a sentence; [`Why`](super::Why) tells all.
    pub waits_for: Vec<String>,
}

impl<'a> Job<'a> {
    /// The job as it is seen at the fleet's time.
    pub fn new(job: &'a crate::Job, set: &Settings, fleet: &Fleet) -> Self {
        let set = set.queues.get(&job.queue);
        let by_schedule = set.filter(|_| job.state == JobState::Waiting).and_then(|set| set.due_by_schedule(job));
        Self {
            id: job.id,
            task: &job.task,
            queue: &job.queue,
            group: &job.group,
            key: job.key.as_ref(),
            priority: job.priority,
            state: job.state,
            attempt: job.attempt(),
            retries_left: job.retry.left(job.counts.retry),
            args: &job.args,
            result: job.result.as_ref(),
            error: job.error.as_deref(),
            node: job.node.as_ref(),
            submitted_at: job.submitted_at,
            due_at: by_schedule.or(job.due_at),
            assigned_at: job.assigned_at,
            started_at: job.started_at,
            finished_at: job.finished_at,
            retry: job.retry.to_string(),
            timeout: job.terms.timeout().map(print_span),
            on_exhausted: job.terms.on_exhausted().map(|step| &step.task),
            expires_at: job.expires_at,
            fingerprint: job.fingerprint.as_deref(),
            cancel_requested: job.cancel_requested,
            waits_for: gates(job, set, &fleet.nodes, fleet.now).iter().map(ToString::to_string).collect(),
        }
    }
}

/// A job together with what it told.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct JobInFull<'a> {
    /// Its names stand beside those of the story.
    #[serde(flatten)]
    pub job: Job<'a>,
    /// What it told.
    #[serde(flatten)]
    pub story: Story<'a>,
}

impl<'a> JobInFull<'a> {
    /// Both of the same job.
    pub fn new(job: Job<'a>, story: &'a story::Story) -> Self {
        Self { job, story: Story::new(story) }
    }
}

/// What a job told, but for its log.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Story<'a> {
    /// How far its last run has come.
    pub progress: Option<Progress<'a>>,
    /// Results of the steps that are done, by name.
    pub steps: BTreeMap<&'a str, &'a Json>,
    /// Which jobs it waits or waited for.
    pub after: &'a [JobId],
    /// What becomes of it if one of these fails.
    pub on_failure: Option<&'static str>,
    /// Which jobs wait or waited for it; the first of them.
    pub awaited_by: &'a [JobId],
    /// Runs that did not end well.
    pub attempts: Vec<Attempt<'a>>,
}

impl<'a> Story<'a> {
    /// As it is kept.
    pub fn new(story: &'a story::Story) -> Self {
        Self {
            progress: story.progress.as_ref().map(Progress::new),
            steps: story.steps.iter().map(|step| (step.name.as_str(), &step.result)).collect(),
            after: story.after.ids(),
            on_failure: story.after.on_failure().map(OnFailure::name),
            awaited_by: &story.awaited_by,
            attempts: story.attempts.iter().map(Attempt::new).collect(),
        }
    }
}

/// How far a run has come.
#[derive(Debug, Serialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are those of the progress")]
pub struct Progress<'a> {
    pub done: u64,
    pub total: u64,
    pub text: &'a str,
}

impl<'a> Progress<'a> {
    /// As the task said it.
    pub fn new(progress: &'a story::Progress) -> Self {
        Self { done: progress.done, total: progress.total, text: &progress.text }
    }
}

/// A run that did not end well.
#[derive(Debug, Serialize)]
#[non_exhaustive]
#[allow(missing_docs, reason = "they are those of the attempt")]
pub struct Attempt<'a> {
    pub number: u32,
    pub task: &'a TaskName,
    pub ending: &'static str,
    pub node: Option<&'a NodeName>,
    pub started_at: Option<Timestamp>,
    pub finished_at: Option<Timestamp>,
    /// What went wrong, then each cause.
    pub error: Option<&'a [String]>,
    pub place: Option<&'a str>,
    pub fingerprint: Option<String>,
}

impl<'a> Attempt<'a> {
    /// As it is kept.
    pub fn new(attempt: &'a story::Attempt) -> Self {
        Self {
            number: attempt.number,
            task: &attempt.task,
            ending: attempt.ending.name(),
            node: attempt.node.as_ref(),
            started_at: attempt.started_at,
            finished_at: attempt.finished_at,
            error: attempt.failure.as_ref().map(|failure| failure.chain.as_slice()),
            place: attempt.failure.as_ref().and_then(|failure| failure.place.as_deref()),
            fingerprint: attempt.failure.as_ref().map(|failure| failure.fingerprint()),
        }
    }
}
