//! Running jobs: a worker per slot takes the next job, runs its task guarded, and passes on how it ended.

use std::{panic::AssertUnwindSafe, sync::Arc, task::Poll};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{sync::oneshot, task::JoinSet};
use turnwise_core::{
    State,
    job::AssignedJob,
    lifecycle::{Outcome, WATCHED_CRASHES},
};

use crate::{
    event::{Event, JobEvent},
    shared::{Ended, Life, Outgoing, fence_number},
    task::{Ctx, StopSign},
    trace::Record,
};

/// Jobs a worker runs before it lets others have the thread, should none of its jobs ever wait.
const JOBS_PER_TURN: u32 = 64;

/// Where tasks run.
#[derive(Debug, Clone)]
pub(crate) enum Floor {
    /// On the runtime that user code runs on.
    User(tokio::runtime::Handle),
    /// Within the node's own future, so that whoever polls it holds all of the node in one hand.
    Here,
}

/// Runs the workers until the life is over.
pub(crate) async fn work_until_over(life: &Arc<Life>, floor: &Floor) {
    let workers = (0..life.shared.config.slots).map(|_| work(life.clone()));
    match floor {
        Floor::User(user) => {
            let mut spawned = JoinSet::new();
            workers.for_each(|worker| drop(spawned.spawn_on(worker, user)));
            while spawned.join_next().await.is_some() {}
        }
        Floor::Here => {
            let mut here: FuturesUnordered<_> = workers.collect();
            while here.next().await.is_some() {}
        }
    }
}

async fn work(life: Arc<Life>) {
    let mut jobs = 0;
    while let Some((job, stop)) = life.next_job().await {
        run(&life, job, stop).await;
        jobs += 1;
        if jobs % JOBS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
}

async fn run(life: &Arc<Life>, job: Arc<AssignedJob>, stop: Arc<StopSign>) {
    let Some(task) = life.shared.registry.get(&job.task) else {
        // Nobody here knows it: back it goes, visible, never failed.
        return life.ended(Ended { job, outcome: Outcome::Interrupted, started_at: None, finished_at: None });
    };
    if stop.is_up() {
        // Cancelled, or to be handed back, before it began: it does not begin.
        return life.ended(Ended { job, outcome: Outcome::Interrupted, started_at: None, finished_at: None });
    }
    let watched = job.counts.crashes >= WATCHED_CRASHES && job.state != State::Running;
    if watched && !may_start(life, &job).await {
        return;
    }
    let started_at = life.shared.clock.now();
    life.begun(&job, started_at);
    life.trace(|| Record::Start { job: job.id, fence: fence_number(job.fence), task: job.task.to_string() });
    if life.shared.hub.listened_to() {
        life.shared.hub.tell(Event::Started(job_event(&job, job.counts.attempt + 1, None)));
    }
    let ctx = Ctx { job: job.clone(), shared: life.shared.clone(), stop: stop.clone() };
    // The call itself may panic too, before there is a future.
    let outcome = match std::panic::catch_unwind(AssertUnwindSafe(|| task.run(ctx, &job.args))) {
        Ok(running) => guarded(life, &job, AssertUnwindSafe(running).catch_unwind(), &stop).await,
        Err(panic) => panicked(&*panic),
    };
    let finished_at = life.shared.clock.now().max(started_at);
    if outcome != Outcome::Interrupted {
        life.trace(|| Record::Effect { job: job.id, fence: fence_number(job.fence) });
    }
    life.ended(Ended { job, outcome, started_at: Some(started_at), finished_at: Some(finished_at) });
}

/// Lets the task run until it ends or is asked to stop; then for as long as it may take for that.
async fn guarded(
    life: &Life,
    job: &AssignedJob,
    running: impl Future<Output = std::thread::Result<Outcome>>,
    stop: &StopSign,
) -> Outcome {
    tokio::pin!(running);
    if stop.is_up() && !life.cancel_wanted(job.id) {
        return Outcome::Interrupted;
    }
    let ended = match futures_util::poll!(running.as_mut()) {
        Poll::Ready(ended) => Some(ended),
        // The sign comes first: a task that returns because of it must not be taken for one that is done.
        Poll::Pending => tokio::select! {
            biased;
            () = stop.wait() => None,
            ended = &mut running => Some(ended),
        },
    };
    let ended = match ended {
        Some(ended) => ended,
        None if life.cancel_wanted(job.id) => {
            match tokio::time::timeout(life.shared.config.cancel_grace, running).await {
                Ok(ended) => ended,
                Err(_) => return Outcome::Cancelled,
            }
        }
        // The node stops or was declared lost, and there is no time left.
        None => return Outcome::Interrupted,
    };
    ended.unwrap_or_else(|panic| panicked(&*panic))
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Outcome::Error(format!("panic: {}", text.unwrap_or("(no text)")))
}

/// A job under which a node has died is written down as running before it starts.
async fn may_start(life: &Life, job: &Arc<AssignedJob>) -> bool {
    let (may_start, answer) = oneshot::channel();
    life.send(Outgoing::Begin { job: job.clone(), may_start });
    answer.await.unwrap_or(false)
}

pub(crate) fn job_event(job: &AssignedJob, attempt: u32, error: Option<String>) -> JobEvent {
    JobEvent { id: job.id, task: job.task.clone(), group: job.group.clone(), attempt, error }
}
