//! A kit for testing tasks: jobs in memory, and time that passes when the test says so.
//!
//! ```
//! use std::time::Duration;
//! use turnwise::{Registry, State, TaskError, Turnwise, JobState, task, testing::Kit};
//!
//! #[task("order", retry = "durations:10s", register = false)]
//! async fn order(article: String, turnwise: State<Turnwise>) -> Result<u32, TaskError> {
//!     if article == "tea" {
//!         return Err(TaskError::new("sold out"));
//!     }
//!     turnwise.submit(ship.job(article)).await?;
//!     Ok(7)
//! }
//!
//! #[task("ship", register = false)]
//! async fn ship(_article: String) {}
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut tasks = Registry::new();
//! tasks.register(order)?.register(ship)?;
//! let kit = Kit::new(tasks).await?;
//!
//! let ran = kit.run(order.job("coffee".to_owned())).await?;
//! assert_eq!((ran.state, ran.result::<u32>()?), (JobState::Success, Some(7)));
//! kit.assert_submitted(ship, |article| article == "coffee").await;
//!
//! let ran = kit.run(order.job("tea".to_owned())).await?;
//! assert_eq!((ran.state, ran.error.as_deref()), (JobState::Stuck, Some("sold out")));
//! kit.drain().await?; // ships the coffee; the tea is not due
//! kit.advance(Duration::from_secs(10));
//! kit.drain().await?; // now it is
//! assert_eq!(kit.look(ran.id).await?.state, JobState::Failed);
//! # Ok(())
//! # }
//! ```
//!
//! A run is the real thing: arguments, state, middleware, [`Ctx`](crate::Ctx), steps, timeout, cancel, retries, the store. There is
//! no scheduler: weights, limits and pauses hold no job up here; [`Turnwise::why`] and `turnwise simulate` are for those. A
//! transactional task needs its database: test it there, with an executor and [`Executor::drained`](crate::Executor::drained).
//!
//! Nothing here waits for a clock or starts a thread, so it works in a plain `#[tokio::test]`. A task that itself calls
//! `tokio::time::sleep`, and a timeout that is waited for, take the runtime's time: `#[tokio::test(start_paused = true)]` makes
//! that pass at once.

use std::{
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use serde::de::DeserializeOwned;
use turnwise_core::{
    Invalid, Job, JobHead, JobId, JobState, NodeName, TaskName, Timestamp, lifecycle::Event, story::Story,
};
use turnwise_executor::{
    Config, Registry, Task,
    executor::{Builder, StartError},
    inline::Inline,
};
use turnwise_store::{Filter, Load, MemoryStore, Options, memory::Clock};

use crate::{Error, JobRequest, Turnwise};

/// Runs of one [`Kit::drain`]; more are taken for a loop.
const MANY: usize = 10_000;
/// Lines of a log that are looked at.
const LINES: u32 = 10_000;

/// Tasks, and a database in memory for them.
#[derive(Debug)]
pub struct Kit {
    turnwise: Turnwise,
    clock: Arc<AtomicI64>,
    node: Inline,
    tasks: Vec<TaskName>,
}

impl Kit {
    /// A kit for these tasks; [`Registry::annotated`] has all of the program. A task that takes `State<Turnwise>` gets the
    /// kit's own. [`StartError`] as for an executor.
    pub async fn new(tasks: Registry) -> Result<Self, StartError> {
        Self::with(tasks, |node| node).await
    }

    /// A kit whose tasks have state and middleware, given as to an executor:
    /// `Kit::with(tasks, |node| node.state(Mailer::default()).middleware(timed))`. [`StartError`] as for an executor.
    pub async fn with(tasks: Registry, set_up: impl FnOnce(Builder) -> Builder) -> Result<Self, StartError> {
        let clock = Arc::new(AtomicI64::new(Clock::system().now().micros()));
        let time = clock.clone();
        let time = Clock::new(move || Timestamp::from_micros(time.load(Ordering::SeqCst)));
        let store = MemoryStore::new(Options::default(), time);
        let turnwise = Turnwise::on(Arc::new(store.clone())).with_operators(Arc::new(store));
        let names = tasks.names().cloned().collect();
        let config = Config::new(NodeName::new("kit")?);
        let builder = turnwise.executor_with(config).registry(tasks).state(turnwise.clone());
        let node = Inline::new(set_up(builder)).await?;
        Ok(Self { turnwise, clock, node, tasks: names })
    }

    /// The kit's database, to submit, look and decide as ever.
    pub fn turnwise(&self) -> &Turnwise {
        &self.turnwise
    }

    /// The time, which stands still.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.load(Ordering::SeqCst))
    }

    /// Lets time pass. What becomes due by that runs with the next [`Kit::drain`].
    pub fn advance(&self, by: Duration) {
        self.set_time(self.now().plus(by));
    }

    /// Sets the time, also back.
    pub fn set_time(&self, to: Timestamp) {
        self.clock.store(to.micros(), Ordering::SeqCst);
    }

    /// Lets time pass until the next job is due that waits for its time. `false`: none does. Its store is in memory and does not fail.
    pub async fn advance_to_next(&self) -> Result<bool, Error> {
        let now = self.now();
        let next = self.at_rest().await?.iter().filter_map(|head| head.due).filter(|due| *due > now).min();
        if let Some(next) = next {
            self.set_time(next);
        }
        Ok(next.is_some())
    }

    /// Submits a job and runs it once, now, whenever it is due. A failed run is not repeated: it is `Stuck`, and due
    /// when its retry policy says.
    pub async fn run(&self, request: JobRequest) -> Result<Ran, Error> {
        let id = self.turnwise.submit(request).await?;
        self.run_again(id).await
    }

    /// Runs a job that is there once more, now, whenever it is due. [`Error::Invalid`] for a job of another task and for one that has
    /// ended, [`Error::NoSuchJob`] if it is not there.
    pub async fn run_again(&self, id: JobId) -> Result<Ran, Error> {
        let job = self.turnwise.job(id).await?;
        if !self.tasks.contains(&job.task) {
            return Err(Invalid::new("task", format!("{:?} is not among the kit's tasks", job.task.as_str())).into());
        }
        if !self.node.run(id).await? {
            let problem = format!("job {id} is {} and cannot run; retry it first", job.state);
            return Err(Invalid::new("job", problem).into());
        }
        self.look(id).await
    }

    /// Runs all that is due, and what these runs submit, until nothing is left that could run now. Returns what was run, in
    /// that order: due stuck jobs first, then by priority, due time and submission. A job that was not begun in its time
    /// fails.
    pub async fn drain(&self) -> Result<Vec<JobId>, Error> {
        let mut ran = Vec::new();
        while let Some(head) = self.next().await? {
            match head.expires {
                Some(expires) if expires <= self.now() => drop(self.turnwise.decide(head.id, &Event::Expire).await?),
                _ => {
                    self.node.run(head.id).await?;
                    ran.push(head.id);
                }
            }
            assert!(ran.len() < MANY, "{MANY} jobs have run and more are due: does a task submit itself?");
        }
        Ok(ran)
    }

    async fn next(&self) -> Result<Option<JobHead>, Error> {
        let now = self.now();
        let mut heads = self.at_rest().await?;
        heads.retain(|head| head.due.is_some_and(|due| due <= now) && self.tasks.contains(&head.task));
        Ok(heads.into_iter().min_by_key(|head| (head.state != JobState::Stuck, head.priority, head.due, head.seq)))
    }

    /// Jobs that wait or are stuck.
    async fn at_rest(&self) -> Result<Vec<JobHead>, Error> {
        let mut heads = self.turnwise.store().load(Load::After { id: None, limit: u32::MAX }).await?.jobs;
        heads.retain(|head| head.state.at_rest());
        Ok(heads)
    }

    /// What has become of a job so far. [`Error::NoSuchJob`] if it is not there.
    pub async fn look(&self, id: JobId) -> Result<Ran, Error> {
        Ok(Ran { job: self.turnwise.job(id).await?, story: self.turnwise.story(id, LINES).await? })
    }

    /// The arguments of all jobs of this task that were ever submitted, in that order: `kit.submitted(ship)`. [`Error::Invalid`] if
    /// one's arguments are of another type.
    pub async fn submitted<T: Task>(&self, _task: T) -> Result<Vec<T::Args>, Error> {
        let jobs = self.jobs_of(T::NAME).await?;
        jobs.iter().map(|job| decode("args", &job.args)).collect()
    }

    /// Panics unless a job of this task was submitted for whose arguments `such` returns `true`; returns the first of them.
    pub async fn assert_submitted<T: Task>(&self, _task: T, such: impl Fn(&T::Args) -> bool) -> Job {
        let jobs = match self.jobs_of(T::NAME).await {
            Ok(jobs) => jobs,
            Err(error) => panic!("the kit cannot be read: {error}"),
        };
        let is_such = |job: &&Job| job.args.decode().is_ok_and(|args| such(&args));
        match jobs.iter().find(is_such) {
            Some(job) => job.clone(),
            None => {
                let there: Vec<_> = jobs.iter().map(|job| job.args.as_str()).collect();
                panic!("no such job of task {:?} was submitted; there are {there:?}", T::NAME)
            }
        }
    }

    /// Panics if any job of this task was submitted.
    pub async fn assert_none_submitted<T: Task>(&self, _task: T) {
        match self.jobs_of(T::NAME).await {
            Ok(jobs) if jobs.is_empty() => {}
            Ok(jobs) => panic!("{} jobs of task {:?} were submitted: {jobs:?}", jobs.len(), T::NAME),
            Err(error) => panic!("the kit cannot be read: {error}"),
        }
    }

    async fn jobs_of(&self, task: &str) -> Result<Vec<Job>, Error> {
        let filter = Filter { task: Some(task.to_owned()), limit: Some(Filter::MAX_LIMIT), ..Filter::default() };
        let mut jobs = self.turnwise.jobs(filter).await?;
        jobs.reverse();
        Ok(jobs)
    }
}

fn decode<T: DeserializeOwned>(what: &'static str, json: &turnwise_core::Json) -> Result<T, Error> {
    json.decode().map_err(|error| Invalid::new(what, format!("{} is something else: {error}", json.as_str())).into())
}

/// A job after its run, and what it reported: a [`Job`] with more to it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ran {
    /// Its row.
    pub job: Job,
    /// Attempts, the log, progress and steps.
    pub story: Story,
}

impl Ran {
    /// The job's result, if it has one. [`Error::Invalid`] if it is of another type.
    pub fn result<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.job.result.as_ref().map(|result| decode("result", result)).transpose()
    }

    /// The lines of its log.
    pub fn log(&self) -> Vec<&str> {
        self.story.lines.iter().map(|line| line.text.as_str()).collect()
    }
}

impl Deref for Ran {
    type Target = Job;

    fn deref(&self) -> &Job {
        &self.job
    }
}
