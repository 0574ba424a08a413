//! What a task sees of its run: which job this is, the state it shares with others, whether it should stop, and how it reports.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::oneshot;
use turnwise_core::{
    Fence, GroupName, Incarnation, JobId, Json, NodeName, QueueName, Timestamp, TraceContext,
    job::AssignedJob,
    story::{Finished, Level, MAX_STEP_NAME_BYTES, Progress},
};
use turnwise_store::Closing;

use crate::{
    life::Life,
    outbox::{Outgoing, StepAnswer},
    outcome::{BoxError, CtxError, Outcome, TaskError},
    panics,
    run::{Notes, Room, Run},
    task::Need,
};

/// A sleep up to this long keeps its slot; a longer one gives it back.
const MOMENT: Duration = Duration::from_secs(1);

/// Names the user can choose, within the bounds of a database key.
fn step_name(name: &str) -> Result<String, TaskError> {
    match name {
        "" => Err(TaskError::new("a step needs a name")),
        name if name.len() > MAX_STEP_NAME_BYTES || name.contains('\0') => {
            Err(TaskError::new(format!("the name of a step has at most {MAX_STEP_NAME_BYTES} bytes and no NUL")))
        }
        name => Ok(name.to_owned()),
    }
}

/// Shared state, given to the executor once and to every task that asks for it.
#[derive(Debug)]
pub struct State<T: ?Sized>(pub Arc<T>);

impl<T: ?Sized> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> std::ops::Deref for State<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// All shared state of an executor, by type.
/// Each value is an `Arc<T>` inside: `T` may be a trait.
#[derive(Debug, Default, Clone)]
pub(crate) struct States(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl States {
    pub(crate) fn insert<T: Send + Sync + ?Sized + 'static>(&mut self, value: Arc<T>) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
    }

    pub(crate) fn has(&self, need: &Need) -> bool {
        self.0.contains_key(&need.id)
    }

    fn get<T: Send + Sync + ?Sized + 'static>(&self) -> Option<Arc<T>> {
        self.0.get(&TypeId::of::<T>())?.downcast_ref::<Arc<T>>().cloned()
    }
}

/// A run's surroundings. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ctx {
    pub(crate) job: Arc<AssignedJob>,
    pub(crate) life: Arc<Life>,
    pub(crate) run: Arc<Run>,
}

impl Ctx {
    /// The same in every run of the job, and after it went on as another task.
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

    /// The task's name.
    pub fn task(&self) -> &str {
        self.job.task.as_str()
    }

    /// The queue that the job was submitted to.
    pub fn queue(&self) -> &QueueName {
        &self.job.queue
    }

    /// The group that the job belongs to.
    pub fn group(&self) -> &GroupName {
        &self.job.group
    }

    /// The node this runs on.
    pub fn node(&self) -> &NodeName {
        &self.life.node.config.name
    }

    /// The trace of the job's submitter; `None`: it gave none.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.job.terms.trace()
    }

    /// The database's time.
    pub fn now(&self) -> Timestamp {
        self.life.node.clock.now()
    }

    /// Shared state. An executor does not start without the state its tasks need, so this fails only for a type the
    /// task did not name.
    pub fn state<T: Send + Sync + ?Sized + 'static>(&self) -> Option<State<T>> {
        self.life.node.states.get().map(State)
    }

    /// As [`Ctx::state`], with an error that names the type where it is not there.
    #[track_caller]
    pub fn need<T: Send + Sync + ?Sized + 'static>(&self) -> Result<State<T>, CtxError> {
        let missing = || {
            let name = std::any::type_name::<T>();
            TaskError::new(format!("no state of type {name} was given to the executor; give it with .state(…)"))
        };
        Ok(self.state().ok_or_else(missing)?)
    }

    /// Whether the task should stop: it was cancelled, has taken too long, or the node is about to interrupt it.
    pub fn is_cancelled(&self) -> bool {
        self.run.stop.is_up()
    }

    /// Waits until the task should stop.
    pub async fn cancelled(&self) {
        self.run.stop.wait().await;
    }

    /// Reports how far the run has come; `total` 0 where it is not known. Cheap: the latest report is written a few times a second.
    pub fn progress(&self, done: u64, total: u64, text: impl AsRef<str>) {
        self.run.notes().progress(Progress::new(done, total, text.as_ref()));
    }

    /// A line in the job's log, which people read with `turnwise logs ID`. Cheap: written in batches.
    pub fn log(&self, text: impl AsRef<str>) {
        self.log_at(Level::Info, text);
    }

    /// As [`Ctx::log`], at this level. Of lines that come faster than they can be written the oldest are dropped; the log says
    /// how many.
    pub fn log_at(&self, level: Level, text: impl AsRef<str>) {
        let config = &self.life.node.config;
        let room = Room::new(config.max_pool_size());
        self.run.notes().log(self.now(), self.job.fence, level, text.as_ref(), room);
    }

    /// Runs a step once and keeps its result: a retry, or another node, gets the result and does not run it again. The
    /// result is durable when this returns. Names are unique within the job's current task.
    ///
    /// Exactly once it is not: a node that dies between the end of the step and the write runs it again. A step that fails
    /// keeps nothing.
    pub async fn step<T, E>(&self, name: &str, run: impl Future<Output = Result<T, E>>) -> Result<T, CtxError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<BoxError>,
    {
        Ok(self.run_step(name, run).await?)
    }

    async fn run_step<T, E>(&self, name: &str, run: impl Future<Output = Result<T, E>>) -> Result<T, TaskError>
    where
        T: Serialize + DeserializeOwned,
        E: Into<BoxError>,
    {
        let name = step_name(name)?;
        if let Some(known) = self.known_step(&name).await? {
            return Ok(known.decode()?);
        }
        let value = run.await.map_err(|error| TaskError::boxed(error.into()))?;
        self.finish_step(name, Json::encode("result", &value)?).await?;
        Ok(value)
    }

    /// Sleeps. Longer than a moment, the run ends here and its slot is free for others; when the time has come the task
    /// starts from its beginning, finished steps are not run again, and this returns at once. So put what must not be
    /// done twice into steps.
    pub async fn sleep(&self, span: Duration) -> Result<(), CtxError> {
        Ok(self.sleep_or_suspend(span).await?)
    }

    async fn sleep_or_suspend(&self, span: Duration) -> Result<(), TaskError> {
        if span <= MOMENT {
            tokio::time::sleep(span).await;
            return Ok(());
        }
        let name = format!("sleep {}", self.run.notes().next_sleep());
        let wake = match self.known_step(&name).await? {
            Some(known) => known.decode()?,
            None => {
                let wake = self.now().plus(span);
                self.finish_step(name, Json::encode("result", &wake)?).await?;
                wake
            }
        };
        if wake <= self.now() {
            return Ok(());
        }
        self.run.suspend(wake);
        std::future::pending().await
    }

    /// The result of a step that an earlier run, or this one, has finished.
    async fn known_step(&self, name: &str) -> Result<Option<Json>, TaskError> {
        let notes = self.run.notes();
        if !notes.steps_are_read() {
            // In the first run there are none to read.
            let steps =
                if self.job.fence.assignments() > 1 { self.life.read_steps(self.job.id).await? } else { Vec::new() };
            notes.read_steps(steps);
        }
        Ok(notes.step(name))
    }

    async fn finish_step(&self, name: String, result: Json) -> Result<(), TaskError> {
        let notes = self.run.notes();
        notes.check_room()?;
        let finished = Finished { name, result };
        let (sender, answer) = oneshot::channel();
        self.life.outbox.send(Outgoing::Step { job: self.job.clone(), step: finished.clone(), answer: sender });
        match answer.await.unwrap_or(StepAnswer::Superseded) {
            StepAnswer::Written => {}
            StepAnswer::Broken(error) => {
                return Err(TaskError::new(format!(
                    "the result of step {:?} cannot be stored: {error}",
                    finished.name
                )));
            }
            StepAnswer::Superseded => {
                // The job is no longer in this node's hands: nothing more of this run counts, so it goes no further.
                self.run.stop.raise();
                std::future::pending::<()>().await;
            }
        }
        notes.finished(finished);
        Ok(())
    }

    /// Runs a blocking function on a thread where it may block. Used by `#[task]` for functions that are not async.
    pub async fn blocking(&self, run: impl FnOnce() -> Outcome + Send + 'static) -> Outcome {
        #[cfg(feature = "job-log")]
        let run = {
            let ctx = self.clone();
            move || crate::joblog::heard_here(ctx, run)
        };
        let span = tracing::Span::current();
        match tokio::task::spawn_blocking(move || span.in_scope(|| panics::carry(run))).await {
            Ok(outcome) => outcome,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Outcome::interrupted(),
        }
    }

    /// How long this run may take.
    pub fn timeout(&self) -> Option<Duration> {
        let of_task = || self.life.node.registry.get(&self.job.task)?.known().timeout;
        self.job.terms.timeout().or_else(of_task)
    }

    /// For the drivers: the node that has the job.
    #[doc(hidden)]
    pub fn incarnation(&self) -> Incarnation {
        self.life.incarnation
    }

    /// For the drivers: most runs of this node at a time.
    #[doc(hidden)]
    pub fn slots(&self) -> u32 {
        self.life.node.config.max_pool_size()
    }

    /// For the drivers: what the run had to have before it began ([`Need::admitting`](crate::task::Need)); `None`: it was taken already.
    #[doc(hidden)]
    pub fn take_admission<T: 'static>(&self) -> Option<T> {
        self.run.take_admission()?.downcast().ok().map(|admission| *admission)
    }

    /// For the drivers: what is committed together with the end of this run if it ends well, and rolled back if not.
    #[doc(hidden)]
    pub fn close_with(&self, closing: Box<dyn Closing>) {
        self.run.close_with(closing);
    }

    /// For the drivers: runs `work` on a thread that is not the task's, so that its panic keeps its place.
    #[doc(hidden)]
    pub fn elsewhere<T>(work: impl FnOnce() -> T) -> T {
        panics::carry(work)
    }

    /// For the drivers: what the run has said.
    #[doc(hidden)]
    pub fn notes(&self) -> &Notes {
        self.run.notes()
    }
}
