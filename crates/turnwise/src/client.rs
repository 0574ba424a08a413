//! A database with jobs in it: open, submit, look, decide.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use tokio::time::Instant;
use turnwise_core::{
    After, Fence, Invalid, Job, JobId, NewJob, Timestamp,
    lifecycle::{self, Event, Illegal, JobFacts, Target, Transition},
    story::{LineAt, Story},
};
use turnwise_executor::{
    Config, Registry,
    executor::{Builder, Connect, StartError},
};
use turnwise_store::{
    AskJobs, AskStory, Filter, Fleet, Intervention, JobPage, Load, OperatorStore, Options, Settled, Store, StoreError,
    Submitted,
};

use crate::{
    JobRequest,
    backend::Backend,
    id::{self, Maker},
};

/// Times a decision is made anew because the job moved on meanwhile.
const DECIDE_AGAIN: usize = 20;

/// First and longest pause between two looks for the end of a job.
const WAIT_FIRST: Duration = Duration::from_millis(2);
const WAIT_LONGEST: Duration = Duration::from_millis(250);

/// How long a person's decision waits before it asks again for a job that an open transaction holds.
const LOCKED_PAUSE: Duration = Duration::from_millis(500);
/// Jobs that are named where an id was written too short.
const NAMED_IDS: u32 = 5;
/// How long a submit is repeated after its reply was lost, unless the handle says otherwise; the first and the longest wait between.
const REPEAT_SUBMITS_FOR: Duration = Duration::from_secs(1);
const SUBMIT_WAIT: Duration = Duration::from_millis(50);
const SUBMIT_WAIT_LONGEST: Duration = Duration::from_secs(1);

/// Why a call did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database's answer, or that there was none: [`StoreError::is_transient`] says whether asking again may help.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Input that was refused; nothing was stored.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The job's state does not allow it; nothing was changed.
    #[error(transparent)]
    Illegal(#[from] Illegal),
    /// No job has this id: none ever had, or what was kept of it is gone.
    #[error("there is no job {0}")]
    NoSuchJob(JobId),
    /// The job changed again and again between the look at it and the decision; nothing was decided.
    #[error("job {0} keeps changing; look at it again")]
    Conflict(JobId),
    /// Other callers change the same settings all the time; the change that was asked for may or may not have been written.
    #[error("the settings of {0} keep changing; look at them again")]
    Contested(String),
}

/// What a cancel came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It had not begun and never will.
    AtOnce,
    /// It is in the hands of a node, which is notified to stop it. It will not end as `success`.
    Requested,
}

/// A handle on a database with jobs; clones share it.
#[derive(Clone)]
pub struct Turnwise {
    backend: Backend,
    repeat_submits_for: Duration,
    /// For jobs whose first id was refused.
    ids: Arc<Maker>,
}

impl fmt::Debug for Turnwise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Turnwise({:?})", self.backend)
    }
}

impl Turnwise {
    /// Opens `sqlite:jobs.db`, `postgres://user@host/database` or `memory:`.
    ///
    /// In a SQLite file the schema is made where there is none, and brought up to date. On PostgreSQL that is done by
    /// `turnwise migrate`, or here if [`Options::schema`] says so; without it, [`StoreError::Refused`] says what to run.
    ///
    /// [`Error::Invalid`] for another address, or one whose [feature](crate#features) is off; [`Error::Store`] if the database
    /// cannot be reached or used, and its text says what to do.
    pub async fn open(url: &str) -> Result<Self, Error> {
        Self::open_with(url, Options::default()).await
    }

    /// As [`Turnwise::open`], with settings of this handle's own.
    pub async fn open_with(url: &str, options: Options) -> Result<Self, Error> {
        Ok(Self::with(Backend::open(url, options).await?))
    }

    /// Jobs in a store of the caller's own. **Unstable**, as [`store`](crate::store) is.
    pub fn on(store: Arc<dyn Store>) -> Self {
        Self::with(Backend::Other { store, operators: None })
    }

    /// With this as the [side for operators](Turnwise::operators) of a store of the caller's own. **Unstable**, as
    /// [`store`](crate::store) is. A database has its own already, and keeps it.
    #[must_use]
    pub fn with_operators(mut self, operators: Arc<dyn OperatorStore>) -> Self {
        self.backend.set_operators(operators);
        self
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }

    fn with(backend: Backend) -> Self {
        Self { backend, repeat_submits_for: REPEAT_SUBMITS_FOR, ids: Arc::new(Maker::new()) }
    }

    /// How long this handle repeats a submit after its reply was lost, counted from then; at first after 50 ms, then after twice as
    /// long, up to a second. Default: a second. Zero: it is not repeated.
    ///
    /// A submit that still has no answer then is an error that [is transient](StoreError::is_transient), and the job may or may not be
    /// stored. A caller that repeats it with the same [id](JobRequest::id) stores it once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), turnwise::Error> {
    /// let patient = turnwise::Turnwise::open("memory:").await?.repeat_submits_for(Duration::from_secs(30));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn repeat_submits_for(mut self, budget: Duration) -> Self {
        self.repeat_submits_for = budget;
        self
    }

    /// The version of the schema that this library works with; `None`: the store has none, as in memory.
    ///
    /// The database has this one or a newer one, which only added to it: an older schema is brought up to date or refused when the database is
    /// opened, as [`Options::schema`] says, and so is one that this library is too old for.
    pub fn schema_version(&self) -> Option<u32> {
        self.backend.schema_version()
    }

    /// What a submit that was answered survives: the database's settings about it, by their own names. On SQLite `journal_mode` and
    /// `synchronous`; on PostgreSQL `fsync`, `full_page_writes`, `synchronous_commit` and `synchronous_standby_names`, as they are set for
    /// this connection; empty for a store in memory.
    pub async fn durability(&self) -> Result<BTreeMap<String, String>, Error> {
        self.backend.durability().await
    }

    /// The store, for what this handle has no method for. **Unstable**, as [`store`](crate::store) is.
    pub fn store(&self) -> Arc<dyn Store> {
        self.backend.store()
    }

    /// Submits a job in a transaction of its own and returns its id once it is durable.
    ///
    /// Repeated after a lost reply ([for how long](Turnwise::repeat_submits_for)), so a submit that is answered was stored exactly once. A group that takes no more jobs
    /// answers with [`StoreError::Refused`], whose text says why; nothing is stored then. Where another job holds its
    /// [unique key](JobRequest::unique), the id is that one's; [`Turnwise::submit_each`] distinguishes the two.
    pub async fn submit(&self, request: JobRequest) -> Result<JobId, Error> {
        let ids = self.submit_all([request]).await?;
        Ok(ids[0])
    }

    /// Submits all of the jobs or none, in this order.
    pub async fn submit_all(&self, requests: impl IntoIterator<Item = JobRequest>) -> Result<Vec<JobId>, Error> {
        Ok(self.submit_each(requests).await?.into_iter().map(|enqueued| enqueued.id).collect())
    }

    /// As [`Turnwise::submit_all`], and returns for each job whether it was stored or which other job stands for it.
    pub async fn submit_each(&self, requests: impl IntoIterator<Item = JobRequest>) -> Result<Vec<Submitted>, Error> {
        let requests: Vec<_> = requests.into_iter().collect();
        let now = if requests.iter().any(JobRequest::is_relative) { self.now().await? } else { Timestamp::MIN };
        let ours: BTreeSet<JobId> = requests
            .iter()
            .filter(|request| !request.id_is_given())
            .filter_map(|request| request.job_id().ok())
            .collect();
        let jobs = requests.into_iter().map(|request| request.into_job(now)).collect::<Result<Vec<_>, _>>()?;
        self.store_jobs(jobs, &ours).await
    }

    /// Submits the jobs of a batch and one that begins when all of them have ended, all or none; their ids in this order.
    ///
    /// Fan-out and fan-in with other shapes: [`JobRequest::after_jobs`] with the ids that requests have before they are
    /// submitted ([`JobRequest::job_id`]), and [`Turnwise::submit_all`].
    pub async fn submit_batch(
        &self,
        requests: impl IntoIterator<Item = JobRequest>,
        then: JobRequest,
    ) -> Result<Vec<JobId>, Error> {
        let mut requests: Vec<_> = requests.into_iter().collect();
        requests.push(then.after_all(&requests));
        self.submit_all(requests).await
    }

    /// `ours`: the ids that the caller did not choose.
    pub(crate) async fn store_jobs(
        &self,
        mut jobs: Vec<NewJob>,
        ours: &BTreeSet<JobId>,
    ) -> Result<Vec<Submitted>, Error> {
        let store = self.store();
        let mut wait = SUBMIT_WAIT;
        // From the first lost reply, not from the submit: to learn that it is lost may take longer than the budget.
        let mut until = None;
        let mut renewed = false;
        loop {
            let lost = match store.enqueue(jobs.clone()).await {
                Ok(enqueued) => return Ok(enqueued),
                Err(error) if error.is_transient() => error,
                // Perhaps because of ids that were made by a clock which is ahead of the database's.
                Err(StoreError::Refused(_)) if !renewed && self.renew_ids(&mut jobs, ours).await? => {
                    renewed = true;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let now = Instant::now();
            let until = *until.get_or_insert_with(|| now.checked_add(self.repeat_submits_for));
            if until.is_some_and(|until| now + wait > until) {
                return Err(lost.into());
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(SUBMIT_WAIT_LONGEST);
        }
    }

    /// Gives other ids to those of `ours` that are too far ahead of the database's time; whether there are any.
    async fn renew_ids(&self, jobs: &mut [NewJob], ours: &BTreeSet<JobId>) -> Result<bool, Error> {
        let now = self.now().await?;
        let ahead = jobs.iter().map(|job| job.id).filter(|id| ours.contains(id) && id.is_ahead(now));
        let others: BTreeMap<JobId, JobId> = ahead.map(|id| (id, self.ids.next(now))).collect();
        if others.is_empty() {
            return Ok(false);
        }
        let other = |id: &JobId| others.get(id).copied().unwrap_or(*id);
        for job in jobs {
            job.id = other(&job.id);
            if let Some(on_failure) = job.after.on_failure() {
                job.after = After::new(job.after.ids().iter().map(other), on_failure)?;
            }
        }
        Ok(true)
    }

    /// The database's time.
    pub async fn now(&self) -> Result<Timestamp, Error> {
        let now = self.store().load(Load::These(Vec::new())).await?.now;
        self.backend.learn_time(now);
        Ok(now)
    }

    /// A job by its id, finished or not; [`Error::NoSuchJob`] if it is not there.
    pub async fn job(&self, id: JobId) -> Result<Job, Error> {
        self.store().job(id).await?.ok_or(Error::NoSuchJob(id))
    }

    /// The id that a person means: written in full, or the beginning of one, of four digits or more, if only one job's id begins so.
    /// A full id is not looked up. [`Error::Invalid`] says which jobs have ids that begin so, if there are several.
    pub async fn find_id(&self, text: &str) -> Result<JobId, Error> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let ids = id::beginning_with(text).ok_or_else(|| Invalid::new("id", format!("{text:?} is not a job id")))?;
        let limit = Some(NAMED_IDS + 1);
        let found = self.jobs(Filter { ids: Some(ids), limit, ..Filter::default() }).await?;
        match found.as_slice() {
            [] => Err(Invalid::new("id", format!("no job has an id that begins with {text:?}")).into()),
            [job] => Ok(job.id),
            jobs => {
                let some: Vec<_> = jobs.iter().take(NAMED_IDS as usize).map(|job| job.id.to_string()).collect();
                let more = if jobs.len() > some.len() { " and more" } else { "" };
                let problem = format!("the ids of several jobs begin with {text:?}: {}{more}", some.join(", "));
                Err(Invalid::new("id", problem).into())
            }
        }
    }

    /// Jobs, finished ones included, newest first.
    pub async fn jobs(&self, filter: Filter) -> Result<Vec<Job>, Error> {
        Ok(self.store().jobs(filter).await?)
    }

    /// A page of jobs, newest first; [`JobPage::next`] is where the next one begins. Bounded in rows looked at, unlike
    /// [`Turnwise::jobs`]: for programs that read on and on, or for many readers.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators).
    pub async fn list(&self, ask: AskJobs) -> Result<JobPage, Error> {
        Ok(self.operators()?.list_jobs(ask).await?)
    }

    /// What is kept of the job besides its row: attempts, progress, steps, and the last `lines` of its log.
    pub async fn story(&self, id: JobId, lines: u32) -> Result<Story, Error> {
        Ok(self.store().story(AskStory { job: id, after: None, lines }).await?)
    }

    /// The lines of its log after this one, the first `lines` of them; progress with them, attempts and steps not.
    pub async fn log_after(&self, id: JobId, after: Option<LineAt>, lines: u32) -> Result<Story, Error> {
        let before_all = LineAt { fence: Fence(i64::MIN), number: 0 };
        Ok(self.store().story(AskStory { job: id, after: Some(after.unwrap_or(before_all)), lines }).await?)
    }

    /// Waits for the end of a job, and returns the job as it ended. Looks again and again, at first after milliseconds and at last
    /// four times a second; goes on looking while the database cannot be reached.
    ///
    /// [`Error::NoSuchJob`] if it is not there: also if it has ended meanwhile and nothing is kept of jobs that end so.
    pub async fn wait(&self, id: JobId) -> Result<Job, Error> {
        let mut pause = WAIT_FIRST;
        loop {
            match self.job(id).await {
                Ok(job) if job.state.finished() => return Ok(job),
                Ok(_) => {}
                Err(Error::Store(error)) if error.is_transient() => {}
                Err(error) => return Err(error),
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(WAIT_LONGEST);
        }
    }

    /// Those of these jobs that have not ended; one read for all of them, so that a caller can wait for many at once.
    pub async fn unfinished(&self, ids: Vec<JobId>) -> Result<Vec<JobId>, Error> {
        Ok(self.store().load(Load::These(ids)).await?.jobs.into_iter().map(|head| head.id).collect())
    }

    /// Deletes finished jobs that are kept no longer, and what was kept with them, at most `limit` rows of each kind: the dispatcher
    /// does it regularly, this does it now. Returns how many rows were deleted; `limit` or more means that there may be more.
    pub async fn prune(&self, limit: u32) -> Result<u64, Error> {
        // The installation's settings say how long jobs are kept.
        self.hear_of_installation().await?;
        // Without a cursor no changes are deleted: only the dispatcher knows which ones it has seen.
        Ok(self.store().prune(None, limit).await?)
    }

    /// All nodes, lost ones included, by name and joining time.
    pub async fn nodes(&self) -> Result<Fleet, Error> {
        Ok(self.store().nodes().await?)
    }

    /// Stops a job: at once if no node has it, else by notifying the node that has it.
    pub async fn cancel(&self, id: JobId) -> Result<Cancelled, Error> {
        Ok(match self.decide(id, &Event::Cancel).await? {
            Target::CancelRequested => Cancelled::Requested,
            _ => Cancelled::AtOnce,
        })
    }

    /// Runs a stuck job now, or a failed or cancelled one again, with fresh retries.
    pub async fn retry(&self, id: JobId) -> Result<(), Error> {
        self.decide(id, &Event::Retry).await.map(drop)
    }

    /// As [`Turnwise::retry`], and a job that has succeeded runs once more, too: what its task did is done again.
    pub async fn rerun(&self, id: JobId) -> Result<(), Error> {
        self.decide(id, &Event::Rerun).await.map(drop)
    }

    /// Marks a stuck job as failed.
    pub async fn fail(&self, id: JobId) -> Result<(), Error> {
        self.decide(id, &Event::GiveUp).await.map(drop)
    }

    pub(crate) async fn decide(&self, id: JobId, event: &Event) -> Result<Target, Error> {
        self.decide_by(id, |job, now| lifecycle::decide(&JobFacts::from(job), event, now, 0.0)).await
    }

    /// Reads, asks core, writes if the job is still what was read; else again.
    pub(crate) async fn decide_by(
        &self,
        id: JobId,
        decide: impl Fn(&Job, Timestamp) -> Result<Transition, Illegal>,
    ) -> Result<Target, Error> {
        let store = self.store();
        let mut locked = false;
        // The installation's settings say whether a job that ends by this is kept.
        self.hear_of_installation().await?;
        for _ in 0..DECIDE_AGAIN {
            let job = self.job(id).await?;
            let to = decide(&job, self.now().await?)?;
            let target = to.to.clone();
            let intervention = Intervention { job: id, state: job.state, fence: job.fence, to };
            match store.control(vec![intervention]).await?.first() {
                Some(Settled::Applied) => return Ok(target),
                Some(Settled::Gone) => return Err(Error::NoSuchJob(id)),
                Some(Settled::KeyHeld) => return Err(Illegal::holds_key_in_queue(job.state).into()),
                Some(Settled::Locked) => {
                    locked = true;
                    tokio::time::sleep(LOCKED_PAUSE).await;
                }
                _ => {}
            }
        }
        if locked {
            Err(StoreError::transient("decide about a job", format!("an open transaction holds job {id}")).into())
        } else {
            Err(Error::Conflict(id))
        }
    }

    /// A node on this database, named after the host, knowing every task annotated with `#[task]` in this program.
    pub fn executor(&self) -> Result<Builder, StartError> {
        Ok(self.executor_with(Config::for_this_host()?).registry(Registry::annotated()?))
    }

    /// A node set up by hand; it knows no task yet.
    pub fn executor_with(&self, config: Config) -> Builder {
        let backend = self.backend.clone();
        let connect: Connect = Arc::new(move || {
            let backend = backend.clone();
            Box::pin(async move { Ok(backend.for_control()) })
        });
        let builder = self.backend.equip(Builder::new(connect, config));
        #[cfg(unix)]
        let builder = builder.state(crate::wire::ANSWER_FORMAT);
        builder
    }
}
