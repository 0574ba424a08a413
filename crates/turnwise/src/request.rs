//! What is submitted, said in the order it comes to mind.

use std::time::Duration;

use turnwise_core::{
    GroupName, Invalid, JobId, Json, KeyName, NewJob, Priority, QueueName, RetryPolicy, TaskName, Timestamp,
};
use turnwise_executor::{Task, task::AnyTask};

use crate::id;

/// A job to be submitted. Wrong values are kept until the submit, which names the first of them.
#[derive(Debug, Clone)]
#[must_use = "submit it"]
pub struct JobRequest {
    job: Result<NewJob, Invalid>,
    delay: Option<Duration>,
}

impl JobRequest {
    /// A job by its task's name and arguments that serialise to JSON.
    pub fn new(task: impl AsRef<str>, args: &impl serde::Serialize) -> Self {
        Self::made(TaskName::new(task).and_then(|task| Ok((task, Json::encode("args", args)?))))
    }

    /// A job by its task's name and arguments that are JSON text already.
    pub fn from_json(task: impl AsRef<str>, args: &str) -> Self {
        Self::made(TaskName::new(task).and_then(|task| Ok((task, Json::parse("args", args)?))))
    }

    /// A job of a task of this program, with the task's own retry policy. `#[task]` gives each task a method `job`
    /// that calls this.
    pub fn of<T: Task>(task: T, args: &T::Args) -> Self {
        let request = Self::new(T::NAME, args);
        match AnyTask::new(task).retry() {
            Ok(Some(policy)) => request.retry(policy),
            Ok(None) => request,
            Err(invalid) => Self { job: Err(invalid), delay: None },
        }
    }

    fn made(parts: Result<(TaskName, Json), Invalid>) -> Self {
        Self { job: parts.map(|(task, args)| NewJob::new(id::next(), task, args)), delay: None }
    }

    fn set<T>(mut self, value: Result<T, Invalid>, put: impl FnOnce(&mut NewJob, T)) -> Self {
        match (&mut self.job, value) {
            (Ok(job), Ok(value)) => put(job, value),
            (Ok(_), Err(invalid)) => self.job = Err(invalid),
            // The first mistake is the one that is told.
            (Err(_), _) => {}
        }
        self
    }

    /// Whom the job belongs to; fairness is between groups. Default: `default`.
    pub fn group(self, group: impl AsRef<str>) -> Self {
        self.set(GroupName::new(group), |job, group| job.group = group)
    }

    /// Default: `default`.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.set(QueueName::new(queue), |job, queue| job.queue = queue)
    }

    /// Something jobs share that there is only so much of, such as a service: jobs with the same key have one limit in
    /// common, whatever their groups and queues. Default: none.
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.set(KeyName::new(key), |job, key| job.key = Some(key))
    }

    /// 1 (first) to 10 (last). Default: 5.
    pub fn priority(self, priority: i64) -> Self {
        self.set(Priority::new(priority), |job, priority| job.priority = priority)
    }

    pub fn at(self, due: Timestamp) -> Self {
        self.set(Ok(Some(due)), |job, due| job.due = due)
    }

    /// Not before this much time has passed, by the database's clock.
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.set(Ok(policy), |job, retry| job.retry = retry)
    }

    /// Chosen by the caller, so that a submit that is repeated after a restart is recognised too.
    pub fn id(self, id: JobId) -> Self {
        self.set(Ok(id), |job, id| job.id = id)
    }

    /// Whether [`JobRequest::into_job`] needs the database's time.
    pub fn is_relative(&self) -> bool {
        self.delay.is_some()
    }

    /// The job, or what is wrong with it. `now` is the database's time.
    pub fn into_job(self, now: Timestamp) -> Result<NewJob, Invalid> {
        let mut job = self.job?;
        if let Some(delay) = self.delay {
            job.due = Some(now.plus(delay));
        }
        Ok(job)
    }
}
