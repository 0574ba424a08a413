//! What a job names: a function from arguments to an outcome, with a context beside it.

use std::{
    any::{Any, TypeId, type_name},
    collections::HashMap,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::Notify;
use turnwise_core::{
    Fence, GroupName, Invalid, JobId, Json, NodeName, QueueName, RetryPolicy, job::AssignedJob, lifecycle,
};

use crate::shared::Shared;

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Run = Box<dyn Fn(Ctx, &Json) -> RunFuture + Send + Sync>;
type RunFuture = Pin<Box<dyn Future<Output = lifecycle::Outcome> + Send>>;

/// A task: usually written as `#[task("NAME")]` on a function, which makes a type of the function's name.
pub trait Task: Send + Sync + 'static {
    /// What the job's JSON is decoded to.
    type Args: Serialize + DeserializeOwned + Send + 'static;
    const NAME: &'static str;

    /// The policy of jobs made with this task; `None` = the installation's default.
    fn retry(&self) -> Option<&'static str> {
        None
    }

    /// State the task takes, checked when an executor starts.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    fn run(&self, ctx: Ctx, args: Self::Args) -> impl Future<Output = Outcome> + Send;
}

/// A type of shared state that a task takes.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
}

impl Need {
    pub fn of<T: 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>() }
    }
}

/// A task with its types forgotten, as the registry holds it.
pub struct AnyTask {
    name: &'static str,
    retry: Option<&'static str>,
    needs: Vec<Need>,
    run: Run,
}

impl AnyTask {
    pub fn new<T: Task>(task: T) -> Self {
        let (retry, needs) = (task.retry(), task.needs());
        let task = Arc::new(task);
        let run = move |ctx: Ctx, args: &Json| -> RunFuture {
            match args.decode::<T::Args>() {
                Ok(args) => {
                    let task = task.clone();
                    Box::pin(async move { task.run(ctx, args).await.0 })
                }
                // The same text will not decode next time either, unless other code runs: a person decides.
                Err(error) => {
                    let outcome = lifecycle::Outcome::Fail(format!("args: {error}"));
                    Box::pin(std::future::ready(outcome))
                }
            }
        };
        Self { name: T::NAME, retry, needs, run: Box::new(run) }
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    pub fn retry(&self) -> Result<Option<RetryPolicy>, Invalid> {
        self.retry.map(str::parse).transpose()
    }

    pub(crate) fn run(&self, ctx: Ctx, args: &Json) -> RunFuture {
        (self.run)(ctx, args)
    }
}

impl std::fmt::Debug for AnyTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyTask").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How a task ends, when it says so itself. Plain values and `Result`s convert to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome(pub(crate) lifecycle::Outcome);

impl Outcome {
    pub fn done() -> Self {
        Self(lifecycle::Outcome::Done { result: None })
    }

    /// Done, with a value that is kept with the job.
    pub fn done_with(result: &impl Serialize) -> Self {
        match Json::encode("result", result) {
            Ok(json) if json == Json::null() => Self::done(),
            Ok(json) => Self(lifecycle::Outcome::Done { result: Some(json) }),
            Err(error) => Self(lifecycle::Outcome::Fail(error.to_string())),
        }
    }

    /// It failed and may be tried again, by the job's policy.
    pub fn error(error: impl Into<BoxError>) -> Self {
        Self(lifecycle::Outcome::Error(chain(&*error.into())))
    }

    /// It failed for good.
    pub fn fail(error: impl Into<BoxError>) -> Self {
        Self(lifecycle::Outcome::Fail(chain(&*error.into())))
    }

    /// Again after this long; spends no attempt.
    pub fn snooze(wait: Duration) -> Self {
        Self(lifecycle::Outcome::Snooze { wait })
    }

    pub fn cancelled() -> Self {
        Self(lifecycle::Outcome::Cancelled)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let line = source.to_string();
        // Many errors repeat their source in their own text.
        if !text.ends_with(&line) {
            text.push_str(": ");
            text.push_str(&line);
        }
        next = source.source();
    }
    text
}

/// What a task may return: an [`Outcome`], any serialisable value, or a `Result` of these with any error.
pub trait IntoOutcome {
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl<T: Serialize> IntoOutcome for T {
    fn into_outcome(self) -> Outcome {
        Outcome::done_with(&self)
    }
}

/// Used by `#[task]` for functions that return a `Result`.
pub fn from_result<T: IntoOutcome, E: Into<BoxError>>(result: Result<T, E>) -> Outcome {
    match result {
        Ok(value) => value.into_outcome(),
        Err(error) => Outcome::error(error),
    }
}

/// Shared state, given to the executor once and to every task that asks for it.
#[derive(Debug, Clone)]
pub struct State<T>(pub Arc<T>);

impl<T> std::ops::Deref for State<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// All shared state of an executor, by type.
#[derive(Debug, Default, Clone)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(crate) fn insert<T: Send + Sync + 'static>(&mut self, value: Arc<T>) {
        self.0.insert(TypeId::of::<T>(), value);
    }

    pub(crate) fn has(&self, need: &Need) -> bool {
        self.0.contains_key(&need.id)
    }

    fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>()).cloned().and_then(|value| value.downcast().ok())
    }
}

/// A run's surroundings: which job this is, what it shares with others, and whether it should stop.
#[derive(Debug, Clone)]
pub struct Ctx {
    pub(crate) job: Arc<AssignedJob>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) stop: Arc<StopSign>,
}

impl Ctx {
    pub fn id(&self) -> JobId {
        self.job.id
    }

    /// The number of this run, from 1.
    pub fn attempt(&self) -> u32 {
        self.job.counts.attempt + 1
    }

    /// Grows with every assignment of the job. Hand it to outside systems that can refuse an older one.
    pub fn fence(&self) -> Fence {
        self.job.fence
    }

    pub fn queue(&self) -> &QueueName {
        &self.job.queue
    }

    pub fn group(&self) -> &GroupName {
        &self.job.group
    }

    /// The node this runs on.
    pub fn node(&self) -> &NodeName {
        &self.shared.config.name
    }

    /// Shared state. An executor does not start without the state its tasks need, so this fails only for a type the
    /// task did not name.
    pub fn state<T: Send + Sync + 'static>(&self) -> Option<State<T>> {
        self.shared.states.get().map(State)
    }

    /// Whether the task should stop: it was cancelled, or the node is about to interrupt it.
    pub fn is_cancelled(&self) -> bool {
        self.stop.is_up()
    }

    /// Waits until the task should stop.
    pub async fn cancelled(&self) {
        self.stop.wait().await;
    }

    /// Runs a blocking function on a thread where it may block. Used by `#[task]` for functions that are not async.
    pub async fn blocking(&self, run: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
        match tokio::task::spawn_blocking(run).await {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Outcome(lifecycle::Outcome::Interrupted),
        }
    }
}

/// Goes up once and stays up.
#[derive(Debug, Default)]
pub(crate) struct StopSign {
    up: AtomicBool,
    raised: Notify,
}

impl StopSign {
    pub(crate) fn raise(&self) {
        self.up.store(true, Ordering::Release);
        self.raised.notify_waiters();
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    pub(crate) async fn wait(&self) {
        let raised = self.raised.notified();
        tokio::pin!(raised);
        // Listening before looking: a sign raised in between is not missed.
        raised.as_mut().enable();
        if !self.is_up() {
            raised.await;
        }
    }
}
