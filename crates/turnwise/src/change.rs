//! A person's change of a job that is in no node's hands: another priority, time or queue.

use std::time::Duration;

use turnwise_core::{
    Invalid, Job, JobId, Priority, QueueName, Timestamp,
    audit::AuditVerb,
    lifecycle::{self, EditRequest, Illegal, Transition},
    settings::QueueSettings,
};
use turnwise_store::Filter;

use crate::{ChangedAll, Decision, Error, Turnwise};

/// What to change of a job; what is not named stays as it is. Invalid values are reported by [`Turnwise::change`], the first of them.
///
/// - **Priority**: as for a submit.
/// - **Time** ([`at`](JobChange::at), [`delay`](JobChange::delay), [`now`](JobChange::now)): counts as a time that the submitter named,
///   also if it is past. A stuck job stays stuck until then, and then runs again; it keeps its count of retries, where
///   [`Turnwise::retry`] begins a new one. The time by which it must have begun, if it has one, stays as it is.
/// - **Queue**: from now on the limits, the pause and the other settings of that queue count for the job. A job that named no time and
///   has never been given to a node becomes due at the next time of that queue's schedule from now on; where it has no schedule, at
///   once. In a serial queue it takes its place by the order of submission; a job that was given to a node before cannot be moved
///   there. Nor can a job be moved that holds a [unique key within its queue](crate::Scope::Queue).
///
/// A job that waits for others goes on waiting for them. A group that takes no more jobs has no say: the job is there already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "give it to Turnwise::change"]
pub struct JobChange {
    priority: Option<Priority>,
    queue: Option<QueueName>,
    time: Option<Time>,
    invalid: Option<Invalid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    At(Timestamp),
    In(Duration),
}

impl JobChange {
    /// Names nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn set<T>(mut self, value: Result<T, Invalid>, put: impl FnOnce(&mut Self, T)) -> Self {
        match value {
            Ok(value) => put(&mut self, value),
            // The first mistake is the one that is reported.
            Err(invalid) => self.invalid = self.invalid.or(Some(invalid)),
        }
        self
    }

    /// 1 (first) to 10 (last).
    pub fn priority(self, priority: i64) -> Self {
        self.set(Priority::new(priority), |change, priority| change.priority = Some(priority))
    }

    /// The queue that the job is to wait in.
    pub fn queue(self, queue: impl AsRef<str>) -> Self {
        self.set(QueueName::new(queue), |change, queue| change.queue = Some(queue))
    }

    /// Not before this moment, by the database's clock. Of several times the last counts.
    pub fn at(mut self, due: Timestamp) -> Self {
        self.time = Some(Time::At(due));
        self
    }

    /// Not before this much time has passed, by the database's clock. Of several times the last counts.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.time = Some(Time::In(delay));
        self
    }

    /// Due at once, by the database's clock. Of several times the last counts.
    pub fn now(self) -> Self {
        self.delay(Duration::ZERO)
    }

    /// `now` is the database's time.
    fn request(&self, now: Timestamp) -> EditRequest {
        let due = self.time.map(|time| match time {
            Time::At(due) => due,
            Time::In(delay) => now.plus(delay),
        });
        EditRequest { priority: self.priority, queue: self.queue.clone(), due }
    }

    fn check(&self) -> Result<(), Invalid> {
        if let Some(invalid) = &self.invalid {
            return Err(invalid.clone());
        }
        if self.priority.is_none() && self.queue.is_none() && self.time.is_none() {
            return Err(Invalid::new("change", "needs a change: add a priority, a queue or a time"));
        }
        Ok(())
    }
}

impl Turnwise {
    /// Changes the priority, the time or the queue of a job that is waiting or stuck ([`JobChange`] says what each means).
    ///
    /// [`Error::Invalid`] if the change names nothing or a value is invalid; [`Error::Illegal`] for a job in a node's hands, one that has
    /// ended, and one that cannot be moved to that queue; [`Error::NoSuchJob`] and [`Error::Conflict`] as for [`Turnwise::cancel`]. Nothing
    /// is changed then. The dispatcher uses the change at once: if an assignment is in flight, either it wins and this call is refused, or
    /// the job is chosen anew.
    ///
    /// After an error that [is transient](crate::StoreError::is_transient) the change may or may not be written. A repeat is safe, but a
    /// [`delay`](JobChange::delay) counts from the last call.
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), turnwise::Error> {
    /// use std::time::Duration;
    /// use turnwise::{JobChange, JobRequest, Turnwise};
    ///
    /// let turnwise = Turnwise::open("memory:").await?;
    /// let id = turnwise.submit(JobRequest::new("mail", &1)).await?;
    /// turnwise.change(id, &JobChange::new().priority(1).queue("slow").delay(Duration::from_secs(600))).await?;
    /// let job = turnwise.job(id).await?;
    /// assert_eq!((job.priority.get(), job.queue.as_str()), (1, "slow"));
    /// # Ok(()) }
    /// ```
    pub async fn change(&self, id: JobId, change: &JobChange) -> Result<(), Error> {
        let change = self.ready_change(change).await?;
        self.decide_by(id, Some(AuditVerb::Change), |job, now| change.of(job, now)).await.map(drop)
    }

    /// Changes the waiting and stuck jobs that `filter` names, as [`Turnwise::change`] does; otherwise as [`Turnwise::cancel_all`],
    /// also when it fails. [`Error::Invalid`] if the change names nothing or a value is invalid: then nothing is changed.
    pub async fn change_all(&self, filter: Filter, change: &JobChange) -> Result<ChangedAll, Error> {
        let (jobs, more) = self.named_by(filter, Decision::Change).await?;
        Ok(ChangedAll { more, ..self.change_these(&jobs, change).await? })
    }

    /// As [`Turnwise::change_all`], of jobs that were read before. One that has changed since is left alone.
    ///
    /// Fails as [`Turnwise::change_all`] does; a repeat is safe: jobs that the first call changed are named in
    /// [`ChangedAll::left`].
    pub async fn change_these(&self, jobs: &[Job], change: &JobChange) -> Result<ChangedAll, Error> {
        let change = self.ready_change(change).await?;
        let mut changed = ChangedAll::default();
        for (job, decided) in self.decide_all_by(jobs, Some(AuditVerb::Change), |job, now| change.of(job, now)).await? {
            match decided {
                Some(_) => changed.changed += 1,
                None => changed.left.push(job),
            }
        }
        Ok(changed)
    }

    async fn ready_change<'a>(&self, change: &'a JobChange) -> Result<ReadyChange<'a>, Error> {
        change.check()?;
        let target = match &change.queue {
            Some(queue) => self.settings().await?.queues.remove(queue),
            None => None,
        };
        Ok(ReadyChange { change, target: target.unwrap_or_default() })
    }
}

/// A change, with what it depends on.
struct ReadyChange<'a> {
    change: &'a JobChange,
    /// What is set for the queue that the job is to be in.
    target: QueueSettings,
}

impl ReadyChange<'_> {
    fn of(&self, job: &Job, now: Timestamp) -> Result<Transition, Illegal> {
        lifecycle::edit(job, &self.change.request(now), &self.target, now)
    }
}
