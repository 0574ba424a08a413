//! What a job names: a function from arguments to an outcome, with a context beside it.

use std::{any::TypeId, any::type_name, borrow::Cow, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use turnwise_core::{Failure, Invalid, Json, RetryPolicy, Step, TaskName, Terms, lifecycle, time::parse_span};

use crate::{ctx::Ctx, outcome::Outcome};

pub use crate::outcome::{BoxError, IntoOutcome, from_result};

type RunFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Begin<F> = Box<dyn Fn(Ctx, &Json) -> F + Send + Sync>;
type CleanUp = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task: usually written as `#[task("NAME")]` on a function, which makes a type of the function's name.
pub trait Task: Send + Sync + 'static {
    /// What the job's JSON is decoded to.
    type Args: Serialize + DeserializeOwned + Send + 'static;
    const NAME: &'static str;

    /// The policy of jobs made with this task; `None` = the installation's default.
    fn retry(&self) -> Option<&'static str> {
        None
    }

    /// How long a run may take, like `30s`; a job's own limit comes first.
    fn timeout(&self) -> Option<&'static str> {
        None
    }

    /// The task a job goes on as, with the same arguments, when its retries run out; a job's own word comes first.
    fn on_exhausted(&self) -> Option<&'static str> {
        None
    }

    /// State the task takes, checked when an executor starts.
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }

    fn run(&self, ctx: Ctx, args: Self::Args) -> impl Future<Output = Outcome> + Send;

    /// Called when a run was cancelled or has taken too long, once it has stopped or been dropped.
    fn clean_up(&self, ctx: Ctx, args: Self::Args) -> impl Future<Output = ()> + Send {
        drop((ctx, args));
        std::future::ready(())
    }
}

/// A type of shared state that a task takes.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
    pub(crate) otherwise: Option<&'static str>,
}

impl Need {
    pub fn of<T: ?Sized + 'static>() -> Self {
        Self { id: TypeId::of::<T>(), name: type_name::<T>(), otherwise: None }
    }

    /// State that comes with the database. `otherwise`: what to say to somebody whose database has none.
    #[doc(hidden)]
    pub fn of_database<T: 'static>(otherwise: &'static str) -> Self {
        Self { otherwise: Some(otherwise), ..Self::of::<T>() }
    }
}

/// A task with its types forgotten, as the registry holds it.
pub struct AnyTask {
    name: Cow<'static, str>,
    retry: Option<Cow<'static, str>>,
    timeout: Option<Cow<'static, str>>,
    on_exhausted: Option<Cow<'static, str>>,
    needs: Vec<Need>,
    run: Begin<RunFuture>,
    clean_up: Begin<CleanUp>,
}

impl AnyTask {
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
            retry: task.retry().map(Cow::from),
            timeout: task.timeout().map(Cow::from),
            on_exhausted: task.on_exhausted().map(Cow::from),
            needs: task.needs(),
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
            retry: None,
            timeout: None,
            on_exhausted: None,
            needs: Vec::new(),
            run: Box::new(run),
            clean_up: Box::new(|_, _| Box::pin(std::future::ready(()))),
        }
    }

    #[must_use]
    pub fn with_retry(mut self, policy: &RetryPolicy) -> Self {
        self.retry = Some(Cow::Owned(policy.to_string()));
        self
    }

    #[must_use]
    pub fn with_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(Cow::Owned(turnwise_core::time::print_span(limit)));
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn needs(&self) -> &[Need] {
        &self.needs
    }

    pub fn retry(&self) -> Result<Option<RetryPolicy>, Invalid> {
        self.retry.as_deref().map(str::parse).transpose()
    }

    pub fn timeout(&self) -> Result<Option<Duration>, Invalid> {
        self.timeout.as_deref().map(|span| parse_span("timeout", span)).transpose()
    }

    pub fn on_exhausted(&self) -> Result<Option<TaskName>, Invalid> {
        self.on_exhausted.as_deref().map(TaskName::new).transpose()
    }

    /// Everything that can be wrong with what a task says of itself.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        self.retry()?;
        self.on_exhausted()?;
        self.timeout()?.map_or(Ok(()), |limit| Terms::default().set_timeout(limit))
    }

    pub(crate) fn run(&self, ctx: Ctx, args: &Json) -> RunFuture {
        (self.run)(ctx, args)
    }

    pub(crate) fn clean_up(&self, ctx: Ctx, args: &Json) -> CleanUp {
        (self.clean_up)(ctx, args)
    }

    /// The step that follows when retries run out, for a job that has no word of its own.
    pub(crate) fn exhausted_step(&self, args: &Json, retry: RetryPolicy) -> Option<Step> {
        let task = self.on_exhausted().ok()??;
        Some(Step { task, args: args.clone(), retry, terms: Terms::default() })
    }
}

impl std::fmt::Debug for AnyTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyTask").field("name", &self.name).finish_non_exhaustive()
    }
}
