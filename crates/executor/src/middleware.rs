//! What goes around every task: plain async functions of the run's [`Ctx`] and of what is [`Inner`].

use std::{future::Future, pin::Pin, sync::Arc};

use crate::{ctx::Ctx, outcome::Outcome, registry::Registry};

type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;
pub(crate) type Middleware = Arc<dyn Fn(Ctx, Inner) -> Running + Send + Sync>;

/// What a middleware goes around: the task, or the next middleware.
#[must_use = "run it, or the task does not run"]
pub struct Inner {
    around: Arc<[Middleware]>,
    /// How many of them the run has gone through.
    passed: usize,
}

impl Inner {
    /// Runs the next middleware, or the task, and returns its outcome. A panic in it passes through; the worker catches it.
    pub async fn run(self, ctx: Ctx) -> Outcome {
        self.begin(ctx).await
    }

    fn begin(self, ctx: Ctx) -> Running {
        let Self { around, passed } = self;
        match around.get(passed).cloned() {
            Some(next) => next(ctx, Inner { around, passed: passed + 1 }),
            None => task(&ctx.life.node.registry, ctx.clone()),
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inner")
    }
}

fn task(registry: &Registry, ctx: Ctx) -> Running {
    match registry.get(&ctx.job.task) {
        Some(task) => task.run(ctx.clone(), &ctx.job.args),
        // Looked up before the run began; a registry does not change.
        None => Box::pin(std::future::ready(Outcome::interrupted())),
    }
}

/// Begins the run of a job: through all that is around, in the order it was given.
pub(crate) fn begin(around: &Arc<[Middleware]>, ctx: Ctx) -> Running {
    Inner { around: around.clone(), passed: 0 }.begin(ctx)
}

/// A function as a middleware.
pub(crate) fn boxed<F, R>(function: F) -> Middleware
where
    F: Fn(Ctx, Inner) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send + 'static,
{
    Arc::new(move |ctx, inner| Box::pin(function(ctx, inner)))
}
