//! What a job names: a function from arguments to an outcome, with a context beside it.

use std::{
    any::{Any, TypeId, type_name},
    borrow::Cow,
    collections::BTreeSet,
    future::Future,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use serde::{Serialize, de::DeserializeOwned};
use turnwise_core::{
    Failure, Invalid, Json, RetryPolicy, TaskName, Terms, lifecycle,
    secret::{self, Pointer},
    time::parse_span,
};

use crate::{ctx::Ctx, outcome::Outcome};

pub use crate::outcome::{BoxError, IntoOutcome, from_result};

type RunFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Begin<F> = Box<dyn Fn(Ctx, &Json) -> F + Send + Sync>;
type CleanUp = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task: usually written as `#[task("NAME")]` on a function, which makes a type of the function's name.
pub trait Task: Send + Sync + 'static {
    /// What the job's JSON is decoded to.
    type Args: Serialize + DeserializeOwned + Send + 'static;
    /// What jobs name to be run by this task; unique within a program's registry.
    const NAME: &'static str;

    /// When a failed run is tried again, like `durations:10s,20s`; a job's own policy comes first. `None`: [`RetryPolicy::default`].
    fn retry(&self) -> Option<&'static str> {
        None
    }

    /// How long a run may take, like `30s`; a job's own limit comes first.
    fn timeout(&self) -> Option<&'static str> {
        None
    }

    /// The task a job goes on as, with the same arguments, when its retries run out; a job's own setting comes first.
    fn on_exhausted(&self) -> Option<&'static str> {
        None
    }

    /// Secret fields of its arguments, as JSON pointers like `/card/number`: people and programs that look at a job do not see them.
    fn secret(&self) -> &'static [&'static str] {
        &[]
    }

    /// State the task takes, checked when an executor starts.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    /// Runs the task once; the [`Outcome`] decides what becomes of the job. A panic is caught and counts as an error of this run.
    fn run(&self, ctx: Ctx, args: Self::Args) -> impl Future<Output = Outcome> + Send;

    /// Called when a run was cancelled or has taken too long, once it has stopped or been dropped.
    fn clean_up(&self, ctx: Ctx, args: Self::Args) -> impl Future<Output = ()> + Send {
        drop((ctx, args));
        std::future::ready(())
    }
}

/// What a run must have before it begins, such as a connection of its own; or the outcome that puts it back.
#[doc(hidden)]
pub type Admission = Pin<Box<dyn Future<Output = Result<Box<dyn Any + Send>, Outcome>> + Send>>;

/// A type of shared state that a task takes.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
    pub(crate) otherwise: Option<&'static str>,
    pub(crate) admit: Option<fn(Ctx) -> Admission>,
}

impl Need {
    pub fn of<T: ?Sized + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>(), otherwise: None, admit: None }
    }

    /// State that comes with the database. `otherwise`: the error text where the database has none.
    #[doc(hidden)]
    pub fn of_database<T: 'static>(otherwise: &'static str) -> Self {
        Self { otherwise: Some(otherwise), ..Self::of::<T>() }
    }

    /// A run waits for this before it begins: none of its time is spent on it. The task takes it with `Ctx::take_admission`.
    #[doc(hidden)]
    #[must_use]
    pub fn admitting(self, admit: fn(Ctx) -> Admission) -> Self {
        Self { admit: Some(admit), ..self }
    }
}

/// What a task sets for all its jobs; a job's own setting comes first.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    /// When a failed run is tried again; `None`: [`RetryPolicy::default`].
    pub retry: Option<RetryPolicy>,
    /// How long a run may take; `None`: as long as it needs.
    pub timeout: Option<Duration>,
    /// The task a job goes on as, with the same arguments, when its retries run out; `None`: the job fails.
    pub on_exhausted: Option<TaskName>,
    /// Secret fields of its arguments.
    pub secret: BTreeSet<Pointer>,
}

impl Policies {
    /// From their texts, as `#[task]` takes them; [`Invalid`] names the first that cannot be read.
    pub fn read(retry: Option<&str>, timeout: Option<&str>, on_exhausted: Option<&str>) -> Result<Self, Invalid> {
        let retry = retry.map(str::parse).transpose()?;
        let timeout = timeout.map(|span| parse_span("timeout", span)).transpose()?;
        let on_exhausted = on_exhausted.map(TaskName::new).transpose()?;
        let policies = Self { retry, timeout, on_exhausted, secret: BTreeSet::new() };
        policies.check()?;
        Ok(policies)
    }

    /// With these secret fields of the arguments, as JSON pointers; [`Invalid`] names the first that is none.
    pub fn secret<T: AsRef<str>>(self, pointers: impl IntoIterator<Item = T>) -> Result<Self, Invalid> {
        Ok(Self { secret: secret::pointers(pointers)?, ..self })
    }

    fn check(&self) -> Result<(), Invalid> {
        self.timeout.map_or(Ok(()), |limit| Terms::default().set_timeout(limit))
    }
}

/// A task with its types forgotten, as the registry holds it.
pub struct AnyTask {
    name: Cow<'static, str>,
    /// Read once; an error in them is returned when the task is registered.
    policies: Result<Policies, Invalid>,
    needs: Vec<Need>,
    /// The task that its jobs go on as when they are done, perhaps with the same arguments.
    next: Option<TaskName>,
    run: Begin<RunFuture>,
    clean_up: Begin<CleanUp>,
}

impl AnyTask {
    /// Forgets the types. If the task's policies cannot be read, [`Registry::add`](crate::Registry::add) returns that error.
    pub fn new<T: Task>(task: T) -> Self {
        let task = Arc::new(task);
        let cleaner = task.clone();
        let run = {
            let task = task.clone();
            move |ctx: Ctx, args: &Json| -> RunFuture {
                match args.decode::<T::Args>() {
                    Ok(args) => {
                        let task = task.clone();
                        Box::pin(async move { task.run(ctx, args).await })
                    }
                    // The same text will not decode next time either, unless other code runs: a person decides.
                    Err(error) => {
                        let outcome = lifecycle::Outcome::Fail(Failure::new(format!("args: {error}")));
                        Box::pin(std::future::ready(outcome.into()))
                    }
                }
            }
        };
        let clean_up = move |ctx: Ctx, args: &Json| -> CleanUp {
            match args.decode::<T::Args>() {
                Ok(args) => {
                    let task = cleaner.clone();
                    Box::pin(async move { task.clean_up(ctx, args).await })
                }
                Err(_) => Box::pin(std::future::ready(())),
            }
        };
        Self {
            name: T::NAME.into(),
            policies: Policies::read(task.retry(), task.timeout(), task.on_exhausted())
                .and_then(|policies| policies.secret(task.secret())),
            needs: task.needs(),
            next: None,
            run: Box::new(run),
            clean_up: Box::new(clean_up),
        }
    }

    /// A task that is only known when the program runs, such as a command from a settings file.
    pub fn from_fn(
        name: impl Into<String>,
        run: impl Fn(Ctx, &Json) -> Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: Cow::Owned(name.into()),
            policies: Ok(Policies::default()),
            needs: Vec::new(),
            next: None,
            run: Box::new(run),
            clean_up: Box::new(|_, _| Box::pin(std::future::ready(()))),
        }
    }

    /// Sets the policies in place of the task's own. If one is out of its bounds,
    /// [`Registry::add`](crate::Registry::add) returns that error.
    #[must_use]
    pub fn with_policies(mut self, policies: Policies) -> Self {
        self.policies = policies.check().map(|()| policies);
        self
    }

    /// Its jobs go on as this task when they are done.
    #[doc(hidden)]
    #[must_use]
    pub fn followed_by(mut self, next: Option<TaskName>) -> Self {
        self.next = next;
        self
    }

    /// The tasks that its jobs may go on as with the same arguments.
    pub(crate) fn hands_args_to(&self) -> impl Iterator<Item = &TaskName> {
        self.known().on_exhausted.iter().chain(&self.next)
    }

    /// What jobs name to be run by it. The registry checks it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The types of state it takes; an executor that lacks one of them cannot be built.
    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    /// What the task sets for all its jobs, or what is wrong with that.
    pub fn policies(&self) -> Result<&Policies, Invalid> {
        self.policies.as_ref().map_err(Clone::clone)
    }

    /// The policies of a registered task: the registry takes no task whose policies are wrong.
    pub(crate) fn known(&self) -> &Policies {
        self.policies.as_ref().expect("the registry takes no task whose policies cannot be read")
    }

    pub(crate) fn run(&self, ctx: Ctx, args: &Json) -> RunFuture {
        (self.run)(ctx, args)
    }

    pub(crate) fn clean_up(&self, ctx: Ctx, args: &Json) -> CleanUp {
        (self.clean_up)(ctx, args)
    }
}

impl std::fmt::Debug for AnyTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyTask").field("name", &self.name).finish_non_exhaustive()
    }
}
