//! Jobs: submit, read, list, wait, decide.

use std::{collections::BTreeSet, sync::Arc};

use axum::http::StatusCode;
use tokio::time::{Instant, timeout};
use turnwise::{
    Filter, Invalid, Job, JobId, JobRequest, Submitted, Timestamp,
    view::Gate,
    wire::{self, Batch},
};
use turnwise_core::access::Refusal;
use uuid::Uuid;

use crate::{
    call::{Call, Reply, text},
    limits::{
        ANSWER_TIME, BATCH_JOBS, KNOWN_FOR, LINES, LINES_MOST, LONG_BODY, LONGEST_WAIT, LOOKED_AT, PAGE, PAGE_BYTES,
        PAGE_MOST, READ_AT_ONCE,
    },
    problem::Problem,
};

pub(crate) async fn submit(call: Call) -> Result<Reply, Problem> {
    let mut batch = Batch::default();
    let request = call.read(wire::Request::read)?;
    batch.push(&request).map_err(|invalid| Problem::in_body(&invalid))?;
    let request = linked(batch, |_, field| format!("/{field}"))?;
    let submitted = store(&call, request, |_, field| format!("/{field}")).await?;
    let Some(submitted) = submitted.first() else { return Err(Problem::away("the store gave no answer")) };
    let reply = Reply::json(&wire::Submitted::new(submitted))?;
    Ok(if submitted.new { reply.created(format_args!("/api/v1/jobs/{}", submitted.id)) } else { reply })
}

pub(crate) async fn submit_all(call: Call) -> Result<Reply, Problem> {
    let path = |at, field: &str| format!("/jobs/{at}/{field}");
    let read = move |body: &[u8]| {
        let batch = Batch::read(text(body)?, BATCH_JOBS).map_err(|unreadable| Problem::unreadable(&unreadable))?;
        if batch.is_empty() {
            return Err(Problem::invalid("/jobs", "jobs: must not be empty"));
        }
        linked(batch, path)
    };
    let requests = if call.body.len() < LONG_BODY {
        read(&call.body)?
    } else {
        // On a thread of its own: other requests go on meanwhile.
        let body = call.body.clone();
        let read = tokio::task::spawn_blocking(move || read(&body)).await;
        read.map_err(|_| Problem::away("the body could not be read"))??
    };
    let submitted = store(&call, requests, path).await?;
    Ok(Reply::json(&wire::SubmittedAll::new(&submitted))?.status(StatusCode::CREATED))
}

fn linked(batch: Batch, path: impl Fn(usize, &str) -> String) -> Result<Vec<JobRequest>, Problem> {
    batch.link().map_err(|misfit| Problem::invalid(path(misfit.at, misfit.field), misfit.problem))
}

/// Submits the jobs if all of them are the caller's to submit, and all that they wait for is the caller's to see.
async fn store(
    call: &Call,
    requests: Vec<JobRequest>,
    path: impl Fn(usize, &str) -> String,
) -> Result<Vec<Submitted>, Problem> {
    call.service.door().take(&call.caller, requests.len())?;
    let requests = if call.grant.is_limited() { own(call, requests, path).await? } else { requests };
    call.turnwise().submit_each(requests).await.map_err(Problem::of_submit)
}

async fn own(
    call: &Call,
    requests: Vec<JobRequest>,
    path: impl Fn(usize, &str) -> String,
) -> Result<Vec<JobRequest>, Problem> {
    let mut new = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut jobs = Vec::with_capacity(requests.len());
    for request in &requests {
        let job = request.clone().into_job(Timestamp::MIN).map_err(|invalid| Problem::in_body(&invalid))?;
        call.grant.may_submit(&job).map_err(|refusal| match refusal {
            Refusal::NotFound => Problem::not_found("this token may not submit jobs of this queue, group or task"),
            other => other.into(),
        })?;
        new.insert(job.id);
        jobs.push(job);
    }
    for (at, job) in jobs.iter().enumerate() {
        for id in job.after.ids().iter().filter(|id| !new.contains(*id)) {
            if seen.insert(*id) && !sees(call, *id).await? {
                return Err(Problem::invalid(path(at, "after"), format!("after: there is no job {id}")));
            }
        }
    }
    Ok(requests.into_iter().map(|request| request.granted(Arc::clone(&call.grant))).collect())
}

/// Whether the job is there and the caller's to see.
async fn sees(call: &Call, id: JobId) -> Result<bool, Problem> {
    match call.turnwise().job(id).await {
        Ok(job) => Ok(call.covers(&job)),
        Err(turnwise::Error::NoSuchJob(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn list(call: Call) -> Result<Reply, Problem> {
    let query = &call.query;
    let limit = query.count("limit", PAGE_MOST)?.unwrap_or(PAGE);
    let filter = Filter {
        states: query.list("state")?,
        queue: query.name("queue")?,
        group: query.name("group")?,
        task: query.name("task")?,
        since: query.time("since")?,
        until: query.time("until")?,
        unique: query.name("unique")?,
        ..Filter::default()
    };
    let last = query.id("before")?.map(id_before);
    let found = match last {
        Some(None) => Found { jobs: Vec::new(), next: None },
        last => find(&call, &filter, last.flatten(), limit as usize).await?,
    };
    let turnwise = call.turnwise();
    let reasons = turnwise.reasons(&found.jobs).await?;
    let (set, schedules) = (turnwise.settings().await?, turnwise.schedules().await.unwrap_or_default());
    let jobs = found.jobs.iter().zip(&reasons).map(|(job, gates)| {
        let mut view = wire::Job::new(job, &set, gates, schedules.keys());
        if call.grant.is_limited() {
            view.waits_for = gates.iter().map(Gate::without_others).collect();
        }
        view
    });
    Reply::json(&wire::Jobs::new(jobs.collect(), found.next))
}

/// A part of a listing.
pub(crate) struct Found {
    pub(crate) jobs: Vec<Job>,
    /// The last job that was looked at, if there may be more.
    pub(crate) next: Option<JobId>,
}

/// The newest jobs up to `last` that the filter names and that are the caller's to see. Reads a few at a time, so that large arguments do
/// not fill the memory, and looks at a bounded number.
pub(crate) async fn find(call: &Call, filter: &Filter, last: Option<JobId>, limit: usize) -> Result<Found, Problem> {
    let (first, newest) = Filter::default().id_range();
    let mut last = last.unwrap_or(newest);
    let (mut jobs, mut looked, mut bytes) = (Vec::new(), 0, 0);
    loop {
        let left = u32::try_from(limit - jobs.len()).unwrap_or(READ_AT_ONCE);
        let count = if call.grant.is_limited() { READ_AT_ONCE } else { left.min(READ_AT_ONCE) };
        let part = Filter { ids: Some((first, last)), limit: Some(count), ..filter.clone() };
        let part = call.turnwise().jobs(part).await?;
        let more = part.len() == count as usize;
        for job in part {
            looked += 1;
            last = job.id;
            if call.covers(&job) {
                bytes += job.args.as_str().len() + job.result.as_ref().map_or(0, |result| result.as_str().len());
                jobs.push(job);
                if jobs.len() == limit {
                    return Ok(Found { jobs, next: Some(last) });
                }
            }
        }
        let Some(before) = id_before(last).filter(|_| more) else { return Ok(Found { jobs, next: None }) };
        if bytes > PAGE_BYTES || looked >= LOOKED_AT {
            return Ok(Found { jobs, next: Some(last) });
        }
        last = before;
    }
}

pub(crate) fn id_before(id: JobId) -> Option<JobId> {
    id.uuid().as_u128().checked_sub(1).map(|before| JobId::from_uuid(Uuid::from_u128(before)))
}

pub(crate) async fn show(call: Call) -> Result<Reply, Problem> {
    let wait = call.query.span("wait")?;
    if wait.is_some_and(|wait| wait > LONGEST_WAIT) {
        let most = Invalid::new("wait", format!("must not be longer than {} s", LONGEST_WAIT.as_secs()));
        return Err(Problem::in_parameter("wait", &most));
    }
    let mut job = call.job().await?;
    if let Some(wait) = wait.filter(|wait| !wait.is_zero() && !job.state.finished()) {
        let (service, until) = (&call.service, Instant::now() + wait);
        while !job.state.finished() && !service.is_stopping() && Instant::now() < until {
            // In parts: a token that is revoked meanwhile is noticed.
            let part = KNOWN_FOR.min(until - Instant::now());
            let waited = service.waits().wait(service.turnwise(), job.id, part, service.stops()).await;
            waited.map_err(|_| Problem::busy("too many callers wait for the end of a job"))?;
            call.again().await?;
            job = call.job().await?;
        }
    }
    let turnwise = call.turnwise();
    let mut story = turnwise.story(job.id, 0).await?;
    let gates = turnwise.reasons(std::slice::from_ref(&job)).await?.pop().unwrap_or_default();
    let (set, schedules) = (turnwise.settings().await?, turnwise.schedules().await.unwrap_or_default());
    let mut view = wire::Job::new(&job, &set, &gates, schedules.keys());
    if call.grant.is_limited() {
        view.waits_for = gates.iter().map(Gate::without_others).collect();
        // Others may wait for it: that they do is not the caller's to know.
        let mut visible = Vec::new();
        for id in std::mem::take(&mut story.awaited_by) {
            if sees(&call, id).await? {
                visible.push(id);
            }
        }
        story.awaited_by = visible;
    }
    Reply::json(&wire::JobInFull::new(view, &story))
}

pub(crate) async fn log(call: Call) -> Result<Reply, Problem> {
    let after = call.query.parse("after", wire::Log::read_after)?;
    let lines = call.query.count("limit", LINES_MOST)?.unwrap_or(LINES);
    let job = call.job().await?;
    let story = match after {
        Some(_) => call.turnwise().log_after(job.id, after, lines).await?,
        None => call.turnwise().story(job.id, lines).await?,
    };
    Reply::json(&wire::Log::new(&story, after))
}

pub(crate) async fn why(call: Call) -> Result<Reply, Problem> {
    let id = call.job().await?.id;
    let answer = in_background(&call, async move |turnwise| turnwise.why(id).await).await?;
    let mut why = wire::Why::new(&answer);
    if call.grant.is_limited() {
        let gates = answer.why.as_ref().map(|why| why.gates.as_slice()).unwrap_or_default();
        let texts: Vec<_> = gates.iter().map(Gate::without_others).collect();
        // The last words are the forecast, which is numbers alone.
        if texts.len() < why.words.len() {
            let forecast = why.words.split_off(texts.len());
            why.words = texts.iter().cloned().chain(forecast).collect();
        }
        for (gate, text) in why.gates.iter_mut().zip(texts) {
            gate.text = text;
        }
    }
    Reply::json(&why)
}

/// Runs what takes a processor for long on a thread of its own, one at a time.
pub(crate) async fn in_background<T: Send + 'static, F>(
    call: &Call,
    work: impl FnOnce(turnwise::Turnwise) -> F + Send + 'static,
) -> Result<T, Problem>
where
    F: Future<Output = Result<T, turnwise::Error>>,
{
    // A database that does not answer is noticed here, not by the one request that has the turn.
    call.turnwise().now().await?;
    let turn = call.service.heavy().await?;
    let (turnwise, runtime) = (call.turnwise().clone(), tokio::runtime::Handle::current());
    let done = tokio::task::spawn_blocking(move || {
        // The turn ends with the work, also if the caller has gone.
        let _turn = turn;
        runtime.block_on(timeout(ANSWER_TIME, work(turnwise)))
    });
    let done = done.await.map_err(|_| Problem::away("the answer could not be worked out"))?;
    Ok(done.map_err(|_| Problem::away("there was no answer in time; the database may be out of reach"))??)
}

pub(crate) async fn cancel(call: Call) -> Result<Reply, Problem> {
    let id = call.job().await?.id;
    Reply::json(&wire::Decided::cancelled(id, call.turnwise().cancel(id).await?))
}

pub(crate) async fn retry(call: Call) -> Result<Reply, Problem> {
    let id = call.job().await?.id;
    call.turnwise().retry(id).await?;
    Reply::json(&wire::Decided::again(id))
}

pub(crate) async fn rerun(call: Call) -> Result<Reply, Problem> {
    let id = call.job().await?.id;
    call.turnwise().rerun(id).await?;
    Reply::json(&wire::Decided::again(id))
}

pub(crate) async fn fail(call: Call) -> Result<Reply, Problem> {
    let id = call.job().await?.id;
    call.turnwise().fail(id).await?;
    Reply::json(&wire::Decided::failed(id))
}

pub(crate) async fn change(call: Call) -> Result<Reply, Problem> {
    let edit = call.read(wire::JobEdit::read)?;
    let job = call.job().await?;
    let queue = edit.queue.as_ref().unwrap_or(&job.queue);
    if !call.grant.covers(queue, &job.group, &job.task) {
        return Err(Problem::not_found("this token may not have jobs in this queue"));
    }
    call.turnwise().change(job.id, &edit.change()).await?;
    Reply::json(&wire::Decided::changed(job.id))
}
