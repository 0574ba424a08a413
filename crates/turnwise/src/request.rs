//! What is submitted: a task, its arguments, and options in any order.

use std::{sync::Arc, time::Duration};

use turnwise_core::{
    After, GroupName, Invalid, JobId, Json, KeyName, NewJob, OnFailure, Priority, QueueName, RetryPolicy, Step,
    TaskName, Timestamp, TraceContext, Unique, UniqueKey,
    access::Grant,
    unique::{Hold, OnDuplicate, Scope, key_of},
};
use turnwise_executor::{Next, Task};

use crate::id;

/// A job to be submitted. Invalid values are reported by `submit`, the first of them.
#[derive(Debug, Clone)]
#[must_use = "submit it"]
pub struct JobRequest {
    job: Result<NewJob, Invalid>,
    delay: Option<Duration>,
    begin_within: Option<Duration>,
    after: Vec<JobId>,
    on_failure: OnFailure,
    unique: UniqueOptions,
    /// Its id is the caller's.
    id_given: bool,
    granted: Option<Arc<Grant>>,
}

/// What the caller set about uniqueness, in whatever order.
#[derive(Debug, Clone, Default)]
struct UniqueOptions {
    key: Option<KeyOption>,
    scope: Option<Scope>,
    hold: Option<Hold>,
    on_duplicate: Option<OnDuplicate>,
}

#[derive(Debug, Clone)]
enum KeyOption {
    Given(UniqueKey),
    ByArgs,
}

impl UniqueOptions {
    fn of(self, job: &NewJob) -> Result<Option<Box<Unique>>, Invalid> {
        let key = match self.key {
            Some(KeyOption::Given(key)) => key,
            Some(KeyOption::ByArgs) => key_of(&job.task, &job.args),
            None if self.scope.is_none() && self.hold.is_none() && self.on_duplicate.is_none() => return Ok(None),
            None => return Err(Invalid::new("unique", "is missing: the other options of uniqueness need a key")),
        };
        Ok(Some(Box::new(Unique {
            key,
            scope: self.scope.unwrap_or_default(),
            hold: self.hold.unwrap_or_default().check()?,
            on_duplicate: self.on_duplicate.unwrap_or_default(),
        })))
    }
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
        match task.retry().map(str::parse).transpose() {
            Ok(Some(policy)) => request.retry(policy),
            Ok(None) => request,
            Err(invalid) => Self::made(Err(invalid)),
        }
    }

    fn made(parts: Result<(TaskName, Json), Invalid>) -> Self {
        let job = parts.map(|(task, args)| NewJob::new(id::next(), task, args));
        Self {
            job,
            delay: None,
            begin_within: None,
            after: Vec::new(),
            on_failure: OnFailure::default(),
            unique: UniqueOptions::default(),
            id_given: false,
            granted: None,
        }
    }

    /// A job that was made already.
    pub(crate) fn like(job: NewJob) -> Self {
        Self { job: Ok(job), ..Self::made(Err(Invalid::new("task", "is missing"))) }
    }

    fn set<T>(mut self, value: Result<T, Invalid>, put: impl FnOnce(&mut NewJob, T)) -> Self {
        match (&mut self.job, value) {
            (Ok(job), Ok(value)) => put(job, value),
            (Ok(_), Err(invalid)) => self.job = Err(invalid),
            // The first mistake is the one that is reported.
            (Err(_), _) => {}
        }
        self
    }

    /// The group that the job belongs to; fairness is between groups. Default: `default`.
    pub fn group(self, group: impl AsRef<str>) -> Self {
        self.set(GroupName::new(group), |job, group| job.group = group)
    }

    /// The queue that the job waits in. Default: `default`.
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

    /// Not before this moment, by the database's clock. Default: at once.
    pub fn at(self, due: Timestamp) -> Self {
        self.set(Ok(Some(due)), |job, due| job.due = due)
    }

    /// Not before this much time has passed, by the database's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// How often and when it runs again after a failed run. Default: its task's policy, where it is run; else
    /// [`RetryPolicy::default`].
    pub fn retry(self, policy: RetryPolicy) -> Self {
        self.set(Ok(policy), |job, retry| job.retry = Some(retry))
    }

    /// How long a run may take; default: as its task sets it. A run that takes longer has failed, and is tried again by the
    /// retry policy.
    pub fn timeout(mut self, limit: Duration) -> Self {
        if let Ok(job) = &mut self.job
            && let Err(invalid) = job.terms.set_timeout(limit)
        {
            self.job = Err(invalid);
        }
        self
    }

    /// The trace of its submitter: the task sees it ([`Ctx::trace`](crate::Ctx::trace)), and a step that follows belongs to it, too.
    ///
    /// ```
    /// # use turnwise::{JobRequest, TraceContext};
    /// let trace = TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None)?;
    /// let job = JobRequest::new("mail", &7).trace(trace);
    /// # Ok::<(), turnwise::Invalid>(())
    /// ```
    pub fn trace(self, trace: TraceContext) -> Self {
        self.set(Ok(trace), |job, trace| job.terms.set_trace(trace))
    }

    /// As [`JobRequest::trace`], unless it has one already.
    pub fn trace_unless_given(self, trace: TraceContext) -> Self {
        match &self.job {
            Ok(job) if job.terms.trace().is_none() => self.trace(trace),
            _ => self,
        }
    }

    /// If it has not begun by then, it fails without having run.
    pub fn expires(self, moment: Timestamp) -> Self {
        self.set(Ok(moment), |job, moment| job.expires = Some(moment))
    }

    /// If it has not begun after this long, by the database's clock, it fails without having run.
    pub fn begin_within(mut self, span: Duration) -> Self {
        self.begin_within = Some(span);
        self
    }

    /// When its retries run out, the job goes on as this one's task, with this one's arguments, retries and timeout,
    /// instead of ending as failed.
    pub fn on_exhausted(mut self, next: JobRequest) -> Self {
        match (&mut self.job, next.job) {
            (Ok(job), Ok(next)) => {
                let step = Step { task: next.task, args: next.args, retry: next.retry, terms: next.terms };
                if let Err(invalid) = job.terms.set_on_exhausted(step) {
                    self.job = Err(invalid);
                }
            }
            (Ok(_), Err(invalid)) => self.job = Err(invalid),
            // The first mistake is the one that is reported.
            (Err(_), _) => {}
        }
        self
    }

    /// After a success the job goes on as this task, with its result as the arguments, or with its own if it has no result; its task's own
    /// [outcome](crate::Outcome::next) comes first. [`Turnwise::submit`](crate::Turnwise::submit) refuses a bad name.
    pub fn next(mut self, task: impl AsRef<str>) -> Self {
        if let Ok(job) = &mut self.job {
            match TaskName::new(task) {
                Ok(task) => job.terms.set_next(task),
                Err(invalid) => self.job = Err(Invalid::new("next", invalid.problem)),
            }
        }
        self
    }

    /// At most one job with this key at a time: while another one holds it, that one stands for this. By default a key is held
    /// within the task, until the job has ended, and a duplicate is no error; [`Turnwise::submit`](crate::Turnwise::submit)
    /// then returns the id of the other.
    ///
    /// ```
    /// # use turnwise::{JobRequest, Turnwise};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), turnwise::Error> {
    /// # let turnwise = Turnwise::open("memory:").await?;
    /// let sync = || JobRequest::new("sync", &7).unique("account-7");
    /// let first = turnwise.submit(sync()).await?;
    /// assert_eq!(turnwise.submit(sync()).await?, first);
    /// # Ok(()) }
    /// ```
    pub fn unique(mut self, key: impl AsRef<str>) -> Self {
        match UniqueKey::new(key) {
            Ok(key) => self.unique.key = Some(KeyOption::Given(key)),
            Err(invalid) => return self.set(Err(invalid), |_, ()| ()),
        }
        self
    }

    /// As [`JobRequest::unique`], with a key made from the task and its arguments: the order of an object's members and white
    /// space do not count, the digits of numbers do.
    pub fn unique_by_args(mut self) -> Self {
        self.unique.key = Some(KeyOption::ByArgs);
        self
    }

    /// What the key is unique within. Default: the task.
    pub fn unique_within(mut self, scope: Scope) -> Self {
        self.unique.scope = Some(scope);
        self
    }

    /// Holds the key for this long from the submit, whether the job has ended or not.
    pub fn unique_for(mut self, period: Duration) -> Self {
        self.unique.hold = Some(Hold::For(period));
        self
    }

    /// Holds the key until the job has ended, and for at least this long from the submit.
    pub fn unique_at_least(mut self, period: Duration) -> Self {
        self.unique.hold = Some(Hold::AtLeast(period));
        self
    }

    /// What becomes of this job if another one holds its key. Default: the other one is kept and stands for it.
    pub fn on_duplicate(mut self, policy: OnDuplicate) -> Self {
        self.unique.on_duplicate = Some(policy);
        self
    }

    /// It begins when these jobs have ended. They must be there, finished or not, or be submitted in the same call; at most
    /// [`MAX_AFTER`](turnwise_core::after::MAX_AFTER) of them. What follows when one of them does not end well is set by
    /// [`JobRequest::on_failure`].
    pub fn after_jobs(mut self, jobs: impl IntoIterator<Item = JobId>) -> Self {
        self.after.extend(jobs);
        self
    }

    /// It begins when all of these have ended: the last of a batch. Submit them together, with
    /// [`Turnwise::submit_batch`](crate::Turnwise::submit_batch) or in one transaction.
    pub fn after_all<'a>(self, requests: impl IntoIterator<Item = &'a JobRequest>) -> Self {
        // A request that is invalid has no id here: its own submit reports what is wrong with it.
        let ids: Vec<_> = requests.into_iter().filter_map(|request| Some(request.job.as_ref().ok()?.id)).collect();
        self.after_jobs(ids)
    }

    /// What becomes of it when a job that it waits for has failed or was cancelled. Default: it fails, too.
    pub fn on_failure(mut self, what: OnFailure) -> Self {
        self.on_failure = what;
        self
    }

    /// Submitted with a token: its unique key is compared only with those of jobs within what the token is limited to. Whether the token
    /// may submit the job at all, the caller has asked before ([`Grant::may_submit`]).
    pub fn granted(mut self, grant: Arc<Grant>) -> Self {
        self.granted = Some(grant);
        self
    }

    /// The id that the job will have: for others that are to wait for it, before it is submitted.
    ///
    /// Unless this machine's clock is more than a minute ahead of the database's, and that was not known yet when the request was made:
    /// then the submit gives it another id, and answers with that.
    ///
    /// [`Invalid`] names the first invalid value of the request, if there is one.
    pub fn job_id(&self) -> Result<JobId, Invalid> {
        self.job.as_ref().map(|job| job.id).map_err(Clone::clone)
    }

    /// Chosen by the caller, so that a submit that is repeated after a restart is recognised too.
    ///
    /// A UUIDv7, of a time that is at most a minute ahead of the database's; any other is refused by the submit.
    pub fn id(self, id: JobId) -> Self {
        let request = self.set(id.check_version(), |job, id| job.id = id);
        Self { id_given: true, ..request }
    }

    /// Whether the caller chose its id.
    pub fn id_is_given(&self) -> bool {
        self.id_given
    }

    /// Whether [`JobRequest::into_job`] needs the database's time.
    pub fn is_relative(&self) -> bool {
        self.delay.is_some() || self.begin_within.is_some()
    }

    /// The job, or the first value of the request that is invalid. `now` is the database's time.
    pub fn into_job(self, now: Timestamp) -> Result<NewJob, Invalid> {
        let mut job = self.job?;
        if let Some(delay) = self.delay {
            job.due = Some(now.plus(delay));
        }
        if let Some(span) = self.begin_within {
            job.expires = Some(now.plus(span));
        }
        job.unique = self.unique.of(&job)?;
        if let Some(grant) = &self.granted {
            grant.narrow_unique(&mut job);
        }
        job.after = After::new(self.after, self.on_failure)?;
        Ok(job)
    }
}

/// `Outcome::next(send.job(args).delay(…))`: task, arguments, time, retries and timeout are the request's; queue, group,
/// priority and key stay the job's own.
impl From<JobRequest> for Next {
    fn from(request: JobRequest) -> Self {
        let due = request.job.as_ref().ok().and_then(|job| job.due);
        let retry = request.job.as_ref().ok().and_then(|job| job.retry.clone());
        Self { step: request.job.map(|job| (job.task, job.args, job.terms)), retry, due, delay: request.delay }
    }
}
