//! What simulated jobs do: their arguments say how long each run takes and how it ends.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use turnwise_core::{Fence, JobId};
use turnwise_executor::{Ctx, Outcome, Registry, Task, registry::RegistryError};

use super::network::{Process, locked};

pub(crate) const TASKS: [&str; 3] = ["work", "chore", "toil"];

/// One run of a job; the last one is repeated.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) millis: u64,
    pub(crate) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    Done,
    Result,
    Error,
    Panic,
    Fail,
    Snooze(u64),
    /// Done, but stops when it is asked to.
    Heeds,
}

/// How often each job has begun, on any node, and which jobs run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    begun: BTreeMap<JobId, usize>,
    /// In which process, and how often that had been stopped when the run began.
    running: BTreeMap<(JobId, Fence), (Arc<Process>, u64)>,
}

impl Runs {
    fn begin(&self, job: JobId) -> usize {
        let run = &mut locked(&self.0).begun;
        let run = run.entry(job).or_default();
        *run += 1;
        *run - 1
    }

    /// Whether it runs in a process that was never stopped meanwhile. A stopped process cannot be blamed for the run.
    pub(crate) fn going_on(&self, job: JobId, fence: Fence) -> bool {
        locked(&self.0).running.get(&(job, fence)).is_some_and(|(process, turns)| process.turns() == *turns)
    }
}

/// What the tasks of one node share.
#[derive(Debug, Clone)]
pub(crate) struct Here {
    pub(crate) runs: Runs,
    pub(crate) process: Arc<Process>,
}

/// A run, until it ends or is dropped.
struct Going(Runs, JobId, Fence);

impl Going {
    fn on(here: &Here, ctx: &Ctx) -> Self {
        let running = (here.process.clone(), here.process.turns());
        locked(&here.runs.0).running.insert((ctx.id(), ctx.fence()), running);
        Self(here.runs.clone(), ctx.id(), ctx.fence())
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        locked(&self.0.0).running.remove(&(self.1, self.2));
    }
}

struct Work<const N: usize>;

impl<const N: usize> Task for Work<N> {
    type Args = Vec<Step>;
    const NAME: &'static str = TASKS[N];

    async fn run(&self, ctx: Ctx, steps: Vec<Step>) -> Outcome {
        let Some(here) = ctx.state::<Here>() else { return Outcome::fail("the state that counts the runs is missing") };
        let _going = Going::on(&here, &ctx);
        let Some(step) = steps.get(here.runs.begin(ctx.id())).or(steps.last()) else { return Outcome::done() };
        let pass = tokio::time::sleep(Duration::from_millis(step.millis));
        match step.end {
            End::Heeds => tokio::select! {
                biased;
                () = ctx.cancelled() => return Outcome::cancelled(),
                () = pass => {}
            },
            _ => pass.await,
        }
        match step.end {
            End::Done | End::Heeds => Outcome::done(),
            End::Result => Outcome::done_with(&step.millis),
            End::Error => Outcome::error("simulated error"),
            // As a panic unwinds, without the hook that would print it.
            End::Panic => std::panic::resume_unwind(Box::new("simulated panic")),
            End::Fail => Outcome::fail("simulated failure"),
            End::Snooze(millis) => Outcome::snooze(Duration::from_millis(millis)),
        }
    }
}

/// The first `count` tasks.
pub(crate) fn registry(count: usize) -> Result<Registry, RegistryError> {
    let mut registry = Registry::new();
    registry.register(Work::<0>)?;
    if count > 1 {
        registry.register(Work::<1>)?;
    }
    if count > 2 {
        registry.register(Work::<2>)?;
    }
    Ok(registry)
}
