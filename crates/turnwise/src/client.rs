//! A database with jobs in it: open, submit, look, decide.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use turnwise_core::{
    Fence, Invalid, Job, JobId, Node, Timestamp,
    lifecycle::{self, Event, Illegal, JobFacts, Target, Transition},
    log_bound::Bound,
    secret::Secrets,
    story::{LineAt, Story},
};
use turnwise_executor::{
    Config, Registry,
    executor::{Builder, Connect, StartError},
};
use turnwise_store::{
    AskJobs, AskStory, Filter, Fleet, Intervention, JobPage, Load, Loss, OperatorStore, Options, Settled, Store,
    StoreError,
};

use crate::{
    audit::{Actor, AuditVerb, NewAuditLine},
    backend::Backend,
    id::{self, Maker},
    overview::Silence,
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
/// How long a submit is repeated after its reply was lost, unless the handle says otherwise.
const REPEAT_SUBMITS_FOR: Duration = Duration::from_secs(1);

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
    /// No job has an id that begins so.
    #[error("no job has an id that begins with {0:?}")]
    NoJobBegins(String),
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
    pub(crate) repeat_submits_for: Duration,
    /// For jobs whose first id was refused.
    pub(crate) ids: Arc<Maker>,
    /// Whose changes they are, if they are to be written down.
    pub(crate) actor: Option<Actor>,
    /// Whether the dispatcher writes totals when it is asked to.
    pub(crate) silence: Arc<Silence>,
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
    ///
    /// Fails as [`Turnwise::open`] does. A repeat is safe: opening changes nothing but the schema, and that once.
    pub async fn open_with(url: &str, options: Options) -> Result<Self, Error> {
        Ok(Self::with(Backend::open(url, options).await?))
    }

    /// Refuses an address that [`Turnwise::open`] cannot read, or that names files which cannot be read. Opens nothing.
    pub fn check_url(url: &str) -> Result<(), Invalid> {
        Backend::check_url(url)
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
        Self {
            backend,
            repeat_submits_for: REPEAT_SUBMITS_FOR,
            ids: Arc::new(Maker::new()),
            actor: None,
            silence: Arc::default(),
        }
    }

    /// How long this handle repeats a submit after its reply was lost, counted from then; at first after 50 ms, then after twice as
    /// long, up to a second. Default: a second. Zero: it is not repeated.
    ///
    /// A submit that still has no answer then is an error that [is transient](StoreError::is_transient), and the job may or may not be
    /// stored. A caller that repeats it with the same [id](crate::JobRequest::id) stores it once.
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
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn durability(&self) -> Result<BTreeMap<String, String>, Error> {
        self.backend.durability().await
    }

    /// The store, for what this handle has no method for. **Unstable**, as [`store`](crate::store) is.
    pub fn store(&self) -> Arc<dyn Store> {
        self.backend.store()
    }

    /// The database's time.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn now(&self) -> Result<Timestamp, Error> {
        let now = self.store().load(Load::These(Vec::new())).await?.now;
        self.backend.learn_time(now);
        Ok(now)
    }

    /// A job by its id, finished or not; [`Error::NoSuchJob`] if it is not there, [`Error::Store`] if the database does not answer.
    pub async fn job(&self, id: JobId) -> Result<Job, Error> {
        self.store().job(id).await?.ok_or(Error::NoSuchJob(id))
    }

    /// The id that a person means: written in full, or the beginning of one, of four digits or more, if only one job's id begins so.
    /// A full id is not looked up. [`Error::NoJobBegins`] if no job has an id that begins so; [`Error::Invalid`] for a text that is no
    /// beginning of an id, and if there are several such jobs: then it names them.
    pub async fn find_id(&self, text: &str) -> Result<JobId, Error> {
        if let Ok(id) = text.parse() {
            return Ok(id);
        }
        let ids = id::beginning_with(text).ok_or_else(|| id::unreadable(text))?;
        let limit = Some(NAMED_IDS + 1);
        let found = self.jobs(Filter { ids: Some(ids), limit, ..Filter::default() }).await?;
        match found.as_slice() {
            [] => Err(Error::NoJobBegins(text.to_owned())),
            [job] => Ok(job.id),
            jobs => {
                let some: Vec<_> = jobs.iter().take(NAMED_IDS as usize).map(|job| job.id.to_string()).collect();
                let more = if jobs.len() > some.len() { " and more" } else { "" };
                let problem = format!("the ids of several jobs begin with {text:?}: {}{more}", some.join(", "));
                Err(Invalid::new("id", problem).into())
            }
        }
    }

    /// Jobs, finished ones included, newest first: 100 of them unless [`Filter::limit`] names another number, and never more than
    /// [`Filter::MAX_LIMIT`].
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn jobs(&self, filter: Filter) -> Result<Vec<Job>, Error> {
        Ok(self.store().jobs(filter).await?)
    }

    /// A page of jobs, newest first; [`JobPage::next`] is where the next one begins. Bounded in rows looked at, unlike
    /// [`Turnwise::jobs`]: for programs that read on and on, or for many readers.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators); [`Error::Store`] if the database does not answer.
    ///
    /// Text in arguments is looked for in what may be shown of them ([`Turnwise::secrets`]): a page may have fewer jobs than were asked
    /// for, or none, and still a next one.
    pub async fn list(&self, mut ask: AskJobs) -> Result<JobPage, Error> {
        let operators = self.operators()?;
        let Some(text) = ask.filter.args.clone() else { return Ok(operators.list_jobs(ask).await?) };
        let secrets = operators.secrets().await?;
        ask.filter.masked = secrets.tasks().cloned().collect();
        let mut page = operators.list_jobs(ask).await?;
        page.jobs.retain(|job| secrets.mask(&job.task, &job.args).shown(&job.args).as_str().contains(&text));
        Ok(page)
    }

    /// The secret fields of tasks, as nodes noted them when they started: to hide them where jobs are shown, as
    /// [`wire`](crate::wire) does. None on a store without a [side for operators](Turnwise::operators).
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn secrets(&self) -> Result<Secrets, Error> {
        match self.backend.operators() {
            Some(operators) => Ok(operators.secrets().await?),
            None => Ok(Secrets::default()),
        }
    }

    /// What is kept of the job besides its row: attempts, progress, steps, and the last `lines` of its log. Of a job that does not exist
    /// nothing is kept: that is no error.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn story(&self, id: JobId, lines: u32) -> Result<Story, Error> {
        Ok(self.store().story(AskStory { job: id, after: None, lines }).await?)
    }

    /// The lines of its log after this one, the first `lines` of them; progress with them, attempts and steps not.
    ///
    /// Fails as [`Turnwise::story`] does.
    pub async fn log_after(&self, id: JobId, after: Option<LineAt>, lines: u32) -> Result<Story, Error> {
        let before_all = LineAt { fence: Fence(i64::MIN), number: 0 };
        Ok(self.store().story(AskStory { job: id, after: Some(after.unwrap_or(before_all)), lines }).await?)
    }

    /// Waits for the end of a job, and returns the job as it ended. Looks again and again, at first after milliseconds and at last
    /// four times a second; goes on looking while the database cannot be reached.
    ///
    /// [`Error::NoSuchJob`] if it is not there: also if it has ended meanwhile and nothing is kept of jobs that end so.
    ///
    /// A call that is dropped leaves nothing behind; a repeat is safe. [`Error::Store`] only if the database refuses the read.
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

    /// Those of these jobs that have not ended; one read for all of them, so that a caller can wait for many at once. A job that does not
    /// exist is not among them.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn unfinished(&self, ids: Vec<JobId>) -> Result<Vec<JobId>, Error> {
        Ok(self.store().load(Load::These(ids)).await?.jobs.into_iter().map(|head| head.id).collect())
    }

    /// Deletes finished jobs whose retention is over, and what was kept with them, at most `limit` rows of each kind: the dispatcher
    /// does it regularly, this does it now. Returns how many rows were deleted; `limit` or more means that there may be more.
    ///
    /// [`Error::Store`] if the database does not answer: the rows may or may not be deleted. A repeat is safe, and returns only
    /// what it deleted itself.
    pub async fn prune(&self, limit: u32) -> Result<u64, Error> {
        // The installation's settings say how long jobs are kept.
        self.hear_of_installation().await?;
        self.prune_once(limit, self.by().map(NewAuditLine::of_prune)).await
    }

    /// As [`Turnwise::prune`], again and again until nothing more is to be deleted, at most `rounds` times: how many rows, and whether
    /// there may be more. To the audit log it is one change.
    ///
    /// Fails as [`Turnwise::prune`] does; what earlier rounds deleted stays deleted.
    pub async fn prune_all(&self, limit: u32, rounds: usize) -> Result<(u64, bool), Error> {
        self.hear_of_installation().await?;
        let line = self.by().map(NewAuditLine::of_prune);
        let mut deleted = 0;
        for _ in 0..rounds {
            let rows = self.prune_once(limit, line.clone()).await?;
            deleted += rows;
            if rows < u64::from(limit) {
                return Ok((deleted, false));
            }
        }
        Ok((deleted, true))
    }

    /// Without a cursor no changes are deleted: only the dispatcher knows which ones it has seen.
    async fn prune_once(&self, limit: u32, line: Option<NewAuditLine>) -> Result<u64, Error> {
        Ok(match (line, self.backend.operators()) {
            (Some(line), Some(operators)) => operators.prune_audited(limit, line).await?,
            // A store without a side for operators has no audit log.
            _ => self.store().prune(None, limit).await?,
        })
    }

    /// All nodes, lost ones included, by name and joining time. For a node whose lease is over, its jobs are listed also if no
    /// other node has declared it lost yet.
    ///
    /// [`Error::Store`] if the database does not answer. Nothing is changed: a repeat is safe.
    pub async fn nodes(&self) -> Result<Fleet, Error> {
        let mut fleet = self.store().nodes().await?;
        let found = |node: &Node| fleet.losses.iter().any(|loss| loss.node.incarnation == node.incarnation);
        let silent: Vec<Node> =
            fleet.nodes.iter().filter(|node| !node.alive(fleet.now) && !found(node)).cloned().collect();
        if !silent.is_empty() {
            let in_hands = self.store().load(Load::InHands(None)).await?.jobs;
            fleet.losses.extend(silent.into_iter().map(|node| {
                let held = in_hands.iter().filter(|head| head.node == Some(node.incarnation));
                let mut jobs: Vec<_> = held.map(|head| head.id).collect();
                jobs.sort_unstable();
                let held = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
                jobs.truncate(Loss::JOBS);
                Loss { lost_at: node.lease_until, node, held, jobs }
            }));
        }
        self.note_drained(&mut fleet).await?;
        Ok(fleet)
    }

    /// Stops a job: at once if no node has it, else by notifying the node that has it.
    ///
    /// - [`Error::NoSuchJob`] if there is no such job: also if it has ended and nothing is kept of it.
    /// - [`Error::Illegal`] if it has ended already; the text says how.
    /// - [`Error::Conflict`] if it changed again and again between the read and the write. Nothing was changed; repeat the call.
    /// - [`Error::Store`] if the database does not answer, or an open transaction holds the job for ten seconds. If it
    ///   [is transient](StoreError::is_transient) the decision may or may not be written.
    ///
    /// A repeat is safe. If the first call was done, it is answered with [`Error::Illegal`] for a job that was cancelled at once, and with
    /// [`Cancelled::Requested`] again for one that a node still has.
    pub async fn cancel(&self, id: JobId) -> Result<Cancelled, Error> {
        Ok(match self.decide(id, &Event::Cancel).await? {
            Target::CancelRequested => Cancelled::Requested,
            _ => Cancelled::AtOnce,
        })
    }

    /// Runs a stuck job now, or a failed or cancelled one again, with fresh retries.
    ///
    /// Fails as [`Turnwise::cancel`] does: [`Error::Illegal`] for a job that waits, runs or has succeeded. After a transient error look at
    /// the job first: if the first call was done, a repeat is refused while the job waits or runs, but runs it once more if it has failed again
    /// meanwhile.
    pub async fn retry(&self, id: JobId) -> Result<(), Error> {
        self.decide(id, &Event::Retry).await.map(drop)
    }

    /// As [`Turnwise::retry`], and a job that has succeeded runs once more, too: what its task did is done again.
    ///
    /// Fails as [`Turnwise::cancel`] does: [`Error::Illegal`] for a job that waits or runs. A repeat is **not** safe after a transient error:
    /// the first call may be done and the job may have succeeded again. [`Turnwise::job`] shows its attempts and when it last began.
    pub async fn rerun(&self, id: JobId) -> Result<(), Error> {
        self.decide(id, &Event::Rerun).await.map(drop)
    }

    /// Marks a stuck job as failed.
    ///
    /// Fails as [`Turnwise::cancel`] does: [`Error::Illegal`] for a job that is not stuck. A repeat is safe: if the first call was done, it is
    /// answered with [`Error::Illegal`], whose text says that the job has already failed.
    pub async fn fail(&self, id: JobId) -> Result<(), Error> {
        let event = Event::GiveUp;
        let decide = |job: &Job, now| lifecycle::decide(&JobFacts::from(job), &event, now, 0.0);
        let (job, _) = self.decide_about(id, AuditVerb::of(&event), decide).await?;
        log_given_up(&job);
        Ok(())
    }

    pub(crate) async fn decide(&self, id: JobId, event: &Event) -> Result<Target, Error> {
        let decide = |job: &Job, now| lifecycle::decide(&JobFacts::from(job), event, now, 0.0);
        self.decide_by(id, AuditVerb::of(event), decide).await
    }

    /// Reads the job, decides, and writes if the job is unchanged; otherwise starts again.
    pub(crate) async fn decide_by(
        &self,
        id: JobId,
        verb: Option<AuditVerb>,
        decide: impl Fn(&Job, Timestamp) -> Result<Transition, Illegal>,
    ) -> Result<Target, Error> {
        Ok(self.decide_about(id, verb, decide).await?.1)
    }

    /// Reads, asks core, writes if the job is still what was read; else again. Returns the job as it was before.
    async fn decide_about(
        &self,
        id: JobId,
        verb: Option<AuditVerb>,
        decide: impl Fn(&Job, Timestamp) -> Result<Transition, Illegal>,
    ) -> Result<(Job, Target), Error> {
        let store = self.store();
        let mut locked = false;
        // The installation's settings say whether a job that ends by this is kept.
        self.hear_of_installation().await?;
        for _ in 0..DECIDE_AGAIN {
            let job = self.job(id).await?;
            let to = decide(&job, self.now().await?)?;
            let target = to.to.clone();
            let intervention = self.intervention(&job, verb, to);
            match store.control(vec![intervention]).await?.first() {
                Some(Settled::Applied) => return Ok((job, target)),
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

    /// With a line for the audit log, if this handle acts for an actor and the decision changes something.
    pub(crate) fn intervention(&self, job: &Job, verb: Option<AuditVerb>, to: Transition) -> Intervention {
        let line = self.by().zip(verb).and_then(|(by, verb)| NewAuditLine::of_job(by, verb, job, &to));
        Intervention { job: job.id, state: job.state, fence: job.fence, to, line: line.map(Box::new) }
    }

    /// A node on this database, named after the host, knowing every task annotated with `#[task]` in this program.
    ///
    /// [`StartError`] if the host has no name that can be a node's, or if two tasks of this program have the same name or one of them
    /// cannot be used. Nothing is read or written before [`Executor::start`](crate::Executor::start).
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
        let builder = self.backend.equip(Builder::new(connect, config)).operators(self.backend.operators());
        #[cfg(unix)]
        let builder = builder.state(crate::wire::ANSWER_FORMAT);
        builder
    }
}

/// Lines about jobs that people give up, by the thousand maybe: bounded in this whole process, as its log is one.
static GIVEN_UP: Mutex<Option<(Instant, Bound)>> = Mutex::new(None);

/// A person's decision is in the log of the process that carries it out.
pub(crate) fn log_given_up(job: &Job) {
    let (left_out, admitted) = {
        let mut bound = GIVEN_UP.lock().unwrap_or_else(PoisonError::into_inner);
        let (begun, bound) = bound.get_or_insert_with(|| (Instant::now(), Bound::default()));
        let at = begun.elapsed();
        (bound.take_left_out(at), bound.admits(at))
    };
    tell_given_up(left_out);
    if admitted {
        let Job { id, task, group, counts, error, .. } = job;
        let (attempt, error) = (counts.attempt, error.as_deref().unwrap_or_default());
        tracing::warn!(job = %id, %task, %group, attempt, error, "a job failed for good: a person has given it up");
    }
}

/// How many were not named, once many were given up.
pub(crate) fn log_rest_given_up() {
    let left_out = {
        let mut bound = GIVEN_UP.lock().unwrap_or_else(PoisonError::into_inner);
        bound.as_mut().and_then(|(begun, bound)| bound.take_rest(begun.elapsed()))
    };
    tell_given_up(left_out);
}

fn tell_given_up(left_out: Option<(u64, Duration)>) {
    if let Some((lines, over)) = left_out {
        let over = over.as_secs();
        tracing::warn!("and {lines} more in the last {over} s: jobs failed for good that people have given up");
    }
}
