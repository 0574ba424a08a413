//! Submitting a job again, with changes: as another job. The one that is there stays as it is.

use turnwise_core::{
    Invalid, Job, JobId, Json, NewJob, OnceKey, TaskName,
    access::TokenId,
    audit::NewAuditLine,
    secret::{restore, to_edit},
};
use turnwise_store::{BodyHash, Once, SubmitOnce};

use crate::{Error, JobRequest, Turnwise, id, wire::Resubmission};

impl Turnwise {
    /// Submits a job like this one: with its task, arguments, queue, group, priority, limit key, retries, timeout and what it goes on as,
    /// unless `changes` says otherwise. It is another job: it waits for no others, does not expire, and holds no unique key.
    ///
    /// Where `changes` has arguments, a marker in them stands for the stored value of a secret field ([`Turnwise::to_edit`]). If this handle
    /// [acts for an actor](Turnwise::acting_as), the audit log says which job was made of which.
    ///
    /// [`Error::NoSuchJob`] if the job is not there or kept no longer; [`Error::Invalid`] if a value cannot be used, or if a secret field
    /// would be shown as a field of another task; otherwise as [`Turnwise::submit`].
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), turnwise::Error> {
    /// use turnwise::{JobRequest, Turnwise, wire::Resubmission};
    ///
    /// let turnwise = Turnwise::open("memory:").await?;
    /// let id = turnwise.submit(JobRequest::from_json("mail", r#"{"to":"amn"}"#).group("acme")).await?;
    /// let changes = Resubmission::read(r#"{"args":{"to":"ann"}}"#).expect("it is one");
    /// let again = turnwise.job(turnwise.resubmit(id, &changes).await?).await?;
    /// assert_eq!((again.args.as_str(), again.group.as_str()), (r#"{"to":"ann"}"#, "acme"));
    /// # Ok(()) }
    /// ```
    pub async fn resubmit(&self, id: JobId, changes: &Resubmission) -> Result<JobId, Error> {
        let job = self.job(id).await?;
        let request = self.request_again(&job, changes).await?;
        let key = OnceKey::new(format!("again-{}", id::next()))?;
        match self.submit_again(&job, None, key, BodyHash::of(b""), request).await? {
            Once::Submitted(jobs) | Once::Again(jobs) if !jobs.is_empty() => Ok(jobs[0].id),
            // Its key is its own.
            _ => Err(Error::Conflict(id)),
        }
    }

    /// What [`Turnwise::resubmit`] submits: for callers that check it before, and submit it under a key with [`Turnwise::submit_again`].
    pub async fn request_again(&self, job: &Job, changes: &Resubmission) -> Result<JobRequest, Error> {
        let task = changes.task.as_ref().unwrap_or(&job.task);
        let args = self.args_again(job, task, changes.args.as_ref()).await?;
        let mut new = NewJob::new(id::next(), task.clone(), args);
        new.queue = changes.queue.as_ref().unwrap_or(&job.queue).clone();
        new.group = changes.group.as_ref().unwrap_or(&job.group).clone();
        new.priority = changes.priority.unwrap_or(job.priority);
        new.retry.clone_from(&job.retry);
        new.key.clone_from(&job.key);
        new.terms = job.terms.clone().without_trace();
        new.due = changes.at;
        let request = JobRequest::like(new);
        Ok(changes.r#in.map_or(request.clone(), |delay| request.delay(delay)))
    }

    async fn args_again(&self, job: &Job, task: &TaskName, edited: Option<&Json>) -> Result<Json, Error> {
        if edited.is_none() && *task == job.task {
            return Ok(job.args.clone());
        }
        let (secrets, none) = (self.secrets().await?, Default::default());
        let (before, then) = (secrets.of(&job.task).unwrap_or(&none), secrets.of(task).unwrap_or(&none));
        match edited {
            Some(edited) => Ok(restore(&job.args, before, then, edited)?),
            // To be stored for another task to the letter, but for what is secret only for this one.
            None => restore(&job.args, before, then, &to_edit(before, &job.args)).map_err(|_| {
                let problem = format!("task {} would show what is secret for {}; give it arguments", task, job.task);
                Invalid::new("args", problem).into()
            }),
        }
    }

    /// The arguments of a job for a person who may not see its secret fields, and edits the rest: each secret is replaced by a marker,
    /// `"[secret /card/number]"`, which stands for the stored value when they come back with [`Turnwise::resubmit`].
    pub async fn to_edit(&self, job: &Job) -> Result<Json, Error> {
        let secrets = self.secrets().await?;
        Ok(secrets.of(&job.task).map_or_else(|| job.args.clone(), |pointers| to_edit(pointers, &job.args)))
    }

    /// Submits what [`Turnwise::request_again`] made of this job, unless a call with the same key was done before
    /// ([`Turnwise::submit_once`]). The audit log gets its line together with the job.
    pub async fn submit_again(
        &self,
        job: &Job,
        caller: Option<TokenId>,
        key: OnceKey,
        body: BodyHash,
        request: JobRequest,
    ) -> Result<Once, Error> {
        // One line, however often the call is repeated.
        let by = self.by();
        self.send_once([request], |jobs| {
            let line = by.zip(jobs.first()).map(|(by, new)| Box::new(NewAuditLine::of_resubmit(by, job, new)));
            SubmitOnce { caller, key: key.clone(), body, jobs, line }
        })
        .await
    }
}
