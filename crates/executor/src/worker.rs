//! Running jobs: a worker per slot takes the next job, runs its task guarded, and passes on how it ended.

use std::{panic::AssertUnwindSafe, sync::Arc, task::Poll, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::{sync::oneshot, task::JoinSet, time::Instant};
use tracing::{Instrument, Span, field::Empty};
use turnwise_core::{
    Failure, JobState,
    job::AssignedJob,
    lifecycle::{Outcome, WATCHED_CRASHES},
    secret::Mask,
};
use turnwise_store::Closing;

use crate::{
    closing, contain,
    ctx::Ctx,
    event::{Event, JobEvent},
    life::Life,
    middleware,
    outbox::{Ended, Outgoing, PanickedWrites},
    panics,
    run::Run,
    task::AnyTask,
    trace::Record,
};

/// Jobs a worker runs before it lets others have the thread, should none of its jobs ever wait.
const JOBS_PER_TURN: u32 = 64;

/// Where tasks run.
#[derive(Debug, Clone)]
pub(crate) enum Floor {
    /// On the runtime that user code runs on.
    User(tokio::runtime::Handle),
    /// Within the node's own future, so that the simulator, which polls it, controls the whole node.
    Here,
}

/// Runs the workers until the life is over.
pub(crate) async fn work_until_over(life: &Arc<Life>, floor: &Floor) {
    let workers = (0..life.node.config.max_pool_size()).map(|_| work(life.clone()));
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
    while let Some((job, run)) = life.next_job().await {
        let began = Instant::now();
        if let Err(panic) = contain::caught(self::run(&life, job.clone(), run.clone())).await {
            // Not the task's panic, but it is its job that has to end.
            let outcome = panicked(&*panic);
            contain::panicked(&life, "work", &*panic);
            let at = Some(life.node.clock.now());
            let ended = Ended {
                job,
                run: Some(run),
                outcome,
                started_at: at,
                finished_at: at,
                panicked: PanickedWrites::default(),
            };
            if life.desk.has_not_ended(&ended.job) {
                life.ended(ended);
            }
        }
        life.desk.slot_is_free(began.elapsed());
        jobs += 1;
        if jobs % JOBS_PER_TURN == 0 {
            tokio::task::yield_now().await;
        }
    }
}

pub(crate) async fn run(life: &Arc<Life>, job: Arc<AssignedJob>, run: Arc<Run>) {
    let Some(task) = life.node.registry.get(&job.task) else {
        // No task of this name is registered here: the job goes back and waits, it does not fail.
        return life.ended(Ended::unbegun(job));
    };
    if run.stop.is_up() {
        // Cancelled, or to be handed back, before it began: it does not begin.
        return life.ended(Ended::unbegun(job));
    }
    if !life.node.secrets.is_empty() {
        run.hide(life.node.secrets.mask(&job.task, &job.args));
    }
    let ctx = Ctx { job: job.clone(), life: life.clone(), run: run.clone() };
    if let Err(outcome) = admitted(&ctx, task).await {
        let outcome = outcome.resolve(&life.node.registry, life.node.clock.now());
        return life.ended(Ended { outcome, run: Some(run), ..Ended::unbegun(job) });
    }
    let watched = job.counts.crashes >= WATCHED_CRASHES && job.state != JobState::Running;
    if watched && !may_start(life, &job).await {
        return;
    }
    let started_at = life.node.clock.now();
    let limit = job.terms.timeout().or(task.known().timeout);
    life.desk.begun(&job, started_at, limit);
    life.node.idle.busy();
    life.trace(|| Record::Start { job: job.id, fence: job.fence.0, task: job.task.to_string() });
    if life.node.hub.listened_to() {
        life.node.hub.tell(Event::Started(job_event(&job, job.counts.attempt + 1, None)));
    }
    let Ran { outcome, closing } = guarded(&ctx, task, limit).await;
    let outcome = hidden(run.mask(), outcome);
    let finished_at = life.node.clock.now().max(started_at);
    life.trace(|| match outcome {
        Outcome::Interrupted => Record::Interrupt { job: job.id, fence: job.fence.0 },
        Outcome::Done { .. }
        | Outcome::Next { .. }
        | Outcome::Error(_)
        | Outcome::Panic(_)
        | Outcome::TimedOut { .. }
        | Outcome::Fail(_)
        | Outcome::Snooze { .. }
        | Outcome::Cancelled => Record::Effect { job: job.id, fence: job.fence.0 },
    });
    let (started_at, finished_at) = (Some(started_at), Some(finished_at));
    let ended = Ended { job, run: Some(run), outcome, started_at, finished_at, panicked: PanickedWrites::default() };
    match closing {
        Some(closing) => closing::close(life, closing, ended).await,
        None => life.ended(ended),
    }
}

/// Waits for what a run of the task must have before it begins. An error: it does not begin.
async fn admitted(ctx: &Ctx, task: &AnyTask) -> Result<(), crate::outcome::Outcome> {
    for admit in task.needs().iter().filter_map(|need| need.admit) {
        tokio::select! {
            biased;
            () = ctx.run.stop.wait() => return Err(Outcome::Interrupted.into()),
            admission = admit(ctx.clone()) => ctx.run.admit(admission?),
        }
    }
    Ok(())
}

/// Lets the task run, and cleans up after a run that was cut short.
async fn guarded(ctx: &Ctx, task: &AnyTask, limit: Option<Duration>) -> Ran {
    let span = span(ctx);
    let (outcome, cut) = run_until_cut(ctx, limit, &span).await;
    // The word alone: what a task returns, and why it failed, may be secret.
    span.record("outcome", word(&outcome));
    drop(span);
    // Where the task did not take it.
    drop(ctx.run.take_admission());
    if cut {
        clean_up(ctx, task).await;
    }
    Ran { outcome, closing: ctx.run.take_closing() }
}

/// What a run came to.
struct Ran {
    outcome: Outcome,
    /// A transaction that is committed together with the end.
    closing: Option<Box<dyn Closing>>,
}

/// Runs the task until it ends, is asked to stop or has taken too long; then for as long as it may take to stop. Also returns
/// whether it was cut short, by a cancel or by its limit; then it has been dropped.
async fn run_until_cut(ctx: &Ctx, limit: Option<Duration>, span: &Span) -> (Outcome, bool) {
    let (life, run, job) = (&ctx.life, &ctx.run, &ctx.job);
    // The call itself may panic too, before there is a future.
    let running =
        match std::panic::catch_unwind(AssertUnwindSafe(|| middleware::begin(&life.node.middleware, ctx.clone()))) {
            Ok(running) => running,
            Err(panic) => return (panicked(&*panic), false),
        };
    #[cfg(feature = "job-log")]
    let running = crate::joblog::heard(ctx, running);
    let running = AssertUnwindSafe(running.instrument(span.clone())).catch_unwind();
    tokio::pin!(running);
    if run.stop.is_up() && !life.desk.cancel_wanted(job.id) {
        return (Outcome::Interrupted, false);
    }
    let said = |ended: std::thread::Result<crate::outcome::Outcome>| match ended {
        Ok(outcome) => outcome.resolve(&life.node.registry, life.node.clock.now()),
        Err(panic) => panicked(&*panic),
    };
    if let Poll::Ready(ended) = futures_util::poll!(running.as_mut()) {
        return (said(ended), false);
    }
    tokio::select! {
        // The sign comes first: a task that returns because of it must not be taken for one that is done.
        biased;
        () = run.stop.wait() => {}
        ended = &mut running => return (said(ended), false),
        limit = over(limit) => {
            // A blocking task sees the sign; any other is dropped here.
            life.desk.stopping(job);
            run.stop.raise();
            return (Outcome::TimedOut { limit }, true);
        }
    }
    match run.suspended() {
        Some(wake) => (Outcome::Snooze { wait: wake.since(life.node.clock.now()) }, false),
        None if life.desk.cancel_wanted(job.id) => {
            life.desk.stopping(job);
            let ended = tokio::select! {
                biased;
                () = in_doubt(life, job) => None,
                ended = tokio::time::timeout(life.node.config.cancel_grace, running) => ended.ok(),
            };
            (ended.map_or(Outcome::Cancelled, said), true)
        }
        // The node stops or was declared lost, and there is no time left.
        None => (Outcome::Interrupted, false),
    }
}

/// Waits until a job that a limit counts may soon run on another node, for the database does not answer this one: then its run gets
/// no more time to stop.
async fn in_doubt(life: &Life, job: &AssignedJob) {
    if !job.limited {
        return std::future::pending().await;
    }
    while life.contact.doubt_at() > tokio::time::Instant::now() {
        tokio::time::sleep_until(life.contact.doubt_at()).await;
    }
}

async fn over(limit: Option<Duration>) -> Duration {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit
        }
        None => std::future::pending().await,
    }
}

/// The task's own routine for a run that was cut short. It has the time a task has to stop, and its panic is its own.
async fn clean_up(ctx: &Ctx, task: &AnyTask) {
    let routine = AssertUnwindSafe(async { task.clean_up(ctx.clone(), &ctx.job.args).await }).catch_unwind();
    let routine = tokio::time::timeout(ctx.life.node.config.cancel_grace, routine);
    let ended = tokio::select! {
        biased;
        () = in_doubt(&ctx.life, &ctx.job) => return,
        ended = routine => ended,
    };
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => {
            let (text, _) = panics::told(&*panic);
            let text = ctx.run.mask().map_or_else(|| text.clone(), |mask| mask.text(&text).into_owned());
            tracing::error!(job = %ctx.job.id, "the clean-up of task {} panicked: {text}", ctx.job.task);
        }
        Err(_) => tracing::error!(job = %ctx.job.id, "the clean-up of task {} took too long", ctx.job.task),
    }
}

/// What a task logs belongs to the trace of its job. A job without one has its span on a level that nothing asks for as a rule: then it costs
/// nothing.
fn span(ctx: &Ctx) -> Span {
    match ctx.trace() {
        Some(trace) => tracing::info_span!(
            "run",
            job = %ctx.id(),
            task = ctx.task(),
            trace_id = trace.trace_id(),
            parent_id = trace.parent_id(),
            sampled = trace.is_sampled(),
            outcome = Empty,
        ),
        None => tracing::debug_span!("run", job = %ctx.id(), task = ctx.task(), outcome = Empty),
    }
}

/// As a program of a command task names it, where it can.
fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Done { .. } => "done",
        Outcome::Next { .. } => "next",
        Outcome::Error(_) => "error",
        Outcome::Panic(_) => "panic",
        Outcome::TimedOut { .. } => "timeout",
        Outcome::Fail(_) => "fail",
        Outcome::Snooze { .. } => "snooze",
        Outcome::Cancelled => "cancelled",
        Outcome::Interrupted => "interrupted",
    }
}

/// How the run ended, without what its task's arguments have to hide: errors are stored, logged and shown. Each outcome is named, so that
/// a new one that carries a failure cannot be stored unmasked.
pub(crate) fn hidden(mask: Option<&Mask>, outcome: Outcome) -> Outcome {
    let Some(mask) = mask else { return outcome };
    match outcome {
        Outcome::Error(failure) => Outcome::Error(mask.failure(failure)),
        Outcome::Panic(failure) => Outcome::Panic(mask.failure(failure)),
        Outcome::Fail(failure) => Outcome::Fail(mask.failure(failure)),
        Outcome::Done { .. }
        | Outcome::Next { .. }
        | Outcome::TimedOut { .. }
        | Outcome::Snooze { .. }
        | Outcome::Cancelled
        | Outcome::Interrupted => outcome,
    }
}

pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Outcome {
    let (text, place) = panics::told(panic);
    let failure = Failure::new(format!("panic: {text}"));
    Outcome::Panic(match place {
        Some(place) => failure.at(place),
        None => failure,
    })
}

/// A job under which a node has died is written down as running before it starts.
async fn may_start(life: &Life, job: &Arc<AssignedJob>) -> bool {
    let (may_start, answer) = oneshot::channel();
    life.outbox.send(Outgoing::Begin { job: job.clone(), may_start });
    answer.await.unwrap_or(false)
}

pub(crate) fn job_event(job: &AssignedJob, attempt: u32, error: Option<String>) -> JobEvent {
    JobEvent { id: job.id, task: job.task.clone(), group: job.group.clone(), attempt, error }
}
