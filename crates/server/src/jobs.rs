//! Jobs: submit, read, list, wait, decide.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::http::StatusCode;
use tokio::time::{Instant, timeout};
use turnwise::{
    BodyHash, GroupName, Invalid, JobId, JobPage, JobRequest, ListCursor, ListFilter, NodeName, Once, OnceKey,
    QueueName, Submitted, TaskName, Timestamp, TraceContext, UniqueKey,
    filter::{JobFilter, Search},
    store::{After, Load},
    view::{Asked, Gate},
    wire,
};
use turnwise_core::access::Refusal;

use crate::{
    call::{Call, ONCE_HEADER, Reply},
    form::Form,
    limits::{
        ANSWER_TIME, ENDED_TIES, GRAPH_JOBS, KNOWN_FOR, LINES, LINES_MOST, LONGEST_WAIT, PAGE, PAGE_BYTES, PAGE_MOST,
        READ_AT_ONCE, READ_FIRST,
    },
    problem::Problem,
    service::Turn,
};

pub(crate) async fn submit(call: Call) -> Result<Reply, Problem> {
    let status = |jobs: &[Submitted]| {
        if jobs.first().is_some_and(|submitted| submitted.new) { StatusCode::CREATED } else { StatusCode::OK }
    };
    let stored = store(&call, Form::One, status).await?;
    let Some(submitted) = stored.jobs.first() else { return Err(Problem::away("the store gave no answer")) };
    let reply = Reply::json(&wire::Submitted::new(submitted))?.repeated(stored.again);
    Ok(if submitted.new { reply.created(format_args!("/api/v1/jobs/{}", submitted.id)) } else { reply })
}

pub(crate) async fn submit_all(call: Call) -> Result<Reply, Problem> {
    let stored = store(&call, Form::Many, |_| StatusCode::CREATED).await?;
    let reply = Reply::json(&wire::SubmittedAll::new(&stored.jobs))?.repeated(stored.again);
    Ok(reply.status(StatusCode::CREATED))
}

/// What a submit came to.
struct Stored {
    jobs: Vec<Submitted>,
    /// Whether an earlier call with the same key did it.
    again: bool,
}

/// Submits the jobs, in a span of its own where spans are wanted; `status` is what a success is answered with.
async fn store(call: &Call, form: Form, status: impl Fn(&[Submitted]) -> StatusCode) -> Result<Stored, Problem> {
    let (caller, requests) = (trace_in_head(call), form.read(&call.body).await?);
    let Some(spans) = call.service.spans() else { return store_in(caller, call, requests, form).await };
    let (span, jobs) = (spans.submit(caller.as_ref()), requests.len());
    let stored = store_in(span.context().or(caller), call, requests, form).await;
    span.end(stored.as_ref().map_or_else(Problem::status, |stored| status(&stored.jobs).as_u16()), jobs);
    stored
}

/// Submits the jobs if all of them are the caller's to submit, and all that they wait for is the caller's to see. They belong to this trace,
/// unless they name one themselves.
async fn store_in(
    trace: Option<TraceContext>,
    call: &Call,
    requests: Vec<JobRequest>,
    form: Form,
) -> Result<Stored, Problem> {
    // A repeat is answered as the first call was, whatever the token may do now and whatever has become of the jobs that it names.
    if let Some(key) = &call.once
        && call.caller.is_held_back()
        && let Some(known) =
            call.turnwise().find_once(call.caller.token(), key.clone(), BodyHash::of(&call.body)).await?
    {
        return done_once(known);
    }
    let requests = match trace {
        Some(trace) => requests.into_iter().map(|request| request.trace_unless_given(trace.clone())).collect(),
        None => requests,
    };
    call.service.door().take(&call.caller, requests.len())?;
    let requests = if call.grant.is_limited() { own(call, requests, form).await? } else { requests };
    let Some(key) = &call.once else {
        return match call.turnwise().submit_each(requests).await {
            Ok(jobs) => Ok(Stored { jobs, again: false }),
            Err(error) => Err(form.refused(call, error).await),
        };
    };
    let (caller, body) = (call.caller.token(), BodyHash::of(&call.body));
    match call.turnwise().submit_once(caller, key.clone(), body, requests).await {
        Ok(once) => done_once(once),
        Err(error) => Err(form.refused(call, error).await),
    }
}

/// What a submit under a key is answered.
fn done_once(once: Once) -> Result<Stored, Problem> {
    match once {
        Once::Submitted(jobs) => Ok(Stored { jobs, again: false }),
        Once::Again(jobs) => Ok(Stored { jobs, again: true }),
        Once::OtherBody => {
            let problem = "this key was used within 24 hours with another body; use a key of its own for each request";
            Err(Problem::invalid(ONCE_HEADER, problem))
        }
        Once::UnderWay => {
            Err(Problem::conflict("another request with this key is not finished; ask again for its answer")
                .about(ONCE_HEADER, "is being worked on")
                .try_again())
        }
    }
}

/// The trace that the caller goes on with.
fn trace_in_head(call: &Call) -> Option<TraceContext> {
    let all = |name| call.headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>();
    TraceContext::from_headers(&all("traceparent"), all("tracestate"))
}

async fn own(call: &Call, requests: Vec<JobRequest>, form: Form) -> Result<Vec<JobRequest>, Problem> {
    let mut new = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut jobs = Vec::with_capacity(requests.len());
    for request in &requests {
        let job = request.clone().into_job(Timestamp::MIN).map_err(|invalid| Problem::in_body(&invalid))?;
        call.grant.may_submit(&job).map_err(|refusal| match refusal {
            Refusal::NotFound => Problem::not_to_submit(),
            other => other.into(),
        })?;
        if request.id_is_given() && is_anothers(call, job.id).await? {
            let problem = format!("id: {} cannot be used; choose another", job.id);
            return Err(Problem::invalid(form.path(jobs.len(), "id"), problem));
        }
        new.insert(job.id);
        jobs.push(job);
    }
    for (at, job) in jobs.iter().enumerate() {
        for id in job.after.ids().iter().filter(|id| !new.contains(*id)) {
            if seen.insert(*id) && !sees(call, *id).await? {
                return Err(Problem::invalid(form.path(at, "after"), format!("after: there is no job {id}")));
            }
        }
    }
    Ok(requests.into_iter().map(|request| request.granted(Arc::clone(&call.grant))).collect())
}

/// Whether a job with this id is there that the caller may not see: it must not pass for the caller's.
async fn is_anothers(call: &Call, id: JobId) -> Result<bool, Problem> {
    match call.turnwise().job(id).await {
        Ok(job) => Ok(!call.covers(&job)),
        Err(turnwise::Error::NoSuchJob(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether the job is there and the caller's to see.
async fn sees(call: &Call, id: JobId) -> Result<bool, Problem> {
    match call.turnwise().job(id).await {
        Ok(job) => Ok(call.covers(&job)),
        Err(turnwise::Error::NoSuchJob(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Those of these jobs that are there and the caller's to see. Those that have not ended are read at once; of the others, which are read
/// one by one, so many are looked at.
async fn visible(call: &Call, ids: &[JobId]) -> Result<Vec<JobId>, Problem> {
    let heads = call.turnwise().store().load(Load::These(ids.to_vec())).await.map_err(turnwise::Error::from)?.jobs;
    let unfinished: BTreeMap<JobId, bool> =
        heads.iter().map(|head| (head.id, call.grant.covers(&head.queue, &head.group, &head.task))).collect();
    let (mut visible, mut looked) = (Vec::new(), 0);
    for id in ids {
        let sees = match unfinished.get(id) {
            Some(covers) => *covers,
            None if looked < ENDED_TIES => {
                looked += 1;
                sees(call, *id).await?
            }
            None => false,
        };
        visible.extend(sees.then_some(*id));
    }
    Ok(visible)
}

pub(crate) async fn list(call: Call) -> Result<Reply, Problem> {
    let query = &call.query;
    let limit = query.count("limit", PAGE_MOST)?.unwrap_or(PAGE);
    let cursor = query.parse("cursor", str::parse::<ListCursor>)?;
    let filter = ListFilter {
        states: query.list("state")?.into_iter().collect(),
        queues: query.parse("queue", |text| QueueName::new(text))?.map(|name| [name].into()),
        groups: query.parse("group", |text| GroupName::new(text))?.map(|name| [name].into()),
        tasks: query.parse("task", |text| TaskName::new(text))?.map(|name| [name].into()),
        node: query.parse("node", |text| NodeName::new(text))?,
        since: query.time("since")?,
        until: query.time("until")?,
        fingerprint: query.snippet("fingerprint")?,
        unique: query.parse("unique", |text| UniqueKey::new(text))?,
        args: query.snippet("args_contain")?,
        ..ListFilter::default()
    };
    let ids = query.parse("id", wire::Jobs::read_beginning)?;
    let words = query.parse("filter", |text| Ok(text.parse::<JobFilter>()?))?.unwrap_or_default();
    let search = words.at(call.time_for(&words).await?).within(filter).with_ids(ids);
    let page = page(&call, search, cursor, limit).await?;
    let turnwise = call.turnwise();
    let reasons = turnwise.reasons(&page.jobs).await?;
    let (set, schedules) = (turnwise.settings().await?, turnwise.schedules().await.unwrap_or_default());
    let secrets = turnwise.secrets().await?;
    let jobs = page.jobs.iter().zip(&reasons).map(|(job, gates)| {
        let mut view = wire::Job::new(job, &set, gates, schedules.keys(), &secrets);
        if call.grant.is_limited() {
            view.waits_for = gates.iter().map(Gate::without_others).collect();
        }
        view
    });
    Reply::json(&wire::Jobs::new(jobs.collect(), page.next, page.reached))
}

/// A page of jobs that are the caller's to see. It is read a few at a time, so that large arguments do not fill the memory, and ends where
/// it is full, where it is large, or where the store has looked at enough rows.
async fn page(call: &Call, mut search: Search, mut cursor: Option<ListCursor>, limit: u32) -> Result<JobPage, Problem> {
    let mut page = JobPage::default();
    let list = &mut search.list;
    if !call.grant.narrow(&mut list.queues, &mut list.groups, &mut list.tasks) {
        return Ok(page);
    }
    let (mut bytes, mut last, mut reads) = (0, None, READ_FIRST);
    loop {
        let left = u32::try_from(limit as usize - page.jobs.len()).unwrap_or(READ_AT_ONCE);
        let left = if search.looks_closer() {
            left
        } else if search.list.checks_rows() {
            // The only read.
            left.min(READ_AT_ONCE)
        } else {
            left.min(reads)
        };
        let part = call.turnwise().search(&mut search, cursor, left).await?;
        let (before, count) = (bytes, part.jobs.len());
        for job in part.jobs {
            if bytes >= PAGE_BYTES {
                page.next = last.map(ListCursor::after);
                return Ok(page);
            }
            bytes += job.args.as_str().len() + job.result.as_ref().map_or(0, |result| result.as_str().len());
            last = Some(job.id);
            page.jobs.extend(Some(job).filter(|job| call.covers(job)));
        }
        (page.next, page.reached) = (part.next, part.reached);
        let full = page.jobs.len() >= limit as usize || bytes >= PAGE_BYTES;
        // Each call may have looked at as many rows as one request is to cost.
        if full || page.next.is_none() || page.reached.is_some() || search.list.checks_rows() {
            return Ok(page);
        }
        cursor = page.next;
        // As many as fit into the page, as large as they have been.
        let fit = (PAGE_BYTES - bytes) / ((bytes - before) / count.max(1)).max(1);
        reads = u32::try_from(fit).unwrap_or(READ_AT_ONCE).clamp(READ_FIRST, READ_AT_ONCE);
    }
}

pub(crate) async fn show(mut call: Call) -> Result<Reply, Problem> {
    let wait = call.query.span("wait")?;
    let whole = call.query.truth("gates")?;
    if wait.is_some_and(|wait| wait > LONGEST_WAIT) {
        let most = Invalid::new("wait", format!("must not be longer than {} s", LONGEST_WAIT.as_secs()));
        return Err(Problem::in_parameter("wait", &most));
    }
    let mut job = call.job().await?;
    if let Some(wait) = wait.filter(|wait| !wait.is_zero() && !job.state.finished()) {
        let (service, until) = (call.service.clone(), Instant::now() + wait);
        let (token, mut ended) = (call.caller.token(), false);
        // It waits for a job, not for the database.
        call.place = None;
        while !ended && !service.is_stopping() && Instant::now() < until {
            // In parts: a token that is revoked meanwhile is noticed. The job is read again when it has ended: a thousand callers that wait
            // cost no more than the one look for all of them.
            let part = KNOWN_FOR.min(until - Instant::now());
            let waited = service.waits().wait(service.turnwise(), job.id, token, part, service.stops()).await;
            ended = waited
                .map_err(|_| Problem::busy("too many callers wait for the end of a job, in all or with this token"))?;
            call.again().await?;
        }
        call.go_on().await?;
        job = call.job().await?;
    }
    let turnwise = call.turnwise();
    let mut story = turnwise.story(job.id, 0).await?;
    let gates = if whole {
        let (job, view) = (job.clone(), Arc::clone(call.service.view()));
        in_background(&call, Turn::Why, async move |_| view.gates_of(&job).await).await?.ok_or_else(being_built)?
    } else {
        turnwise.reasons(std::slice::from_ref(&job)).await?.pop().unwrap_or_default()
    };
    let (set, schedules) = (turnwise.settings().await?, turnwise.schedules().await.unwrap_or_default());
    let mut view = wire::Job::new(&job, &set, &gates, schedules.keys(), &turnwise.secrets().await?);
    if call.grant.is_limited() {
        view.waits_for = gates.iter().map(Gate::without_others).collect();
        // It may wait for others' jobs, and others for it: which ones is not the caller's to know.
        story.awaited_by = visible(&call, &story.awaited_by).await?;
        if let Some(on_failure) = story.after.on_failure() {
            let ids = visible(&call, story.after.ids()).await?;
            story.after = After::new(ids, on_failure).map_err(|invalid| Problem::in_body(&invalid))?;
        }
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
    let mask = call.turnwise().secrets().await?.mask(&job.task, &job.args);
    Reply::json(&wire::Log::new(&story, after, &mask))
}

pub(crate) async fn graph(call: Call) -> Result<Reply, Problem> {
    let id = call.job().await?.id;
    let mut graph = call.turnwise().graph(id, GRAPH_JOBS).await?;
    if call.grant.is_limited() {
        // A job that is kept no longer may have been another's.
        let visible = graph.jobs.iter().filter(|tied| tied.job.as_ref().is_some_and(|job| call.covers(job)));
        let visible: BTreeSet<JobId> = visible.map(|tied| tied.id).collect();
        graph.jobs.retain(|tied| visible.contains(&tied.id));
        graph.jobs.iter_mut().for_each(|tied| tied.after.retain(|id| visible.contains(id)));
    }
    Reply::json(&wire::Graph::new(&graph))
}

pub(crate) async fn why(call: Call) -> Result<Reply, Problem> {
    let id = call.job().await?.id;
    if call.service.view().is_being_built() {
        return Err(being_built());
    }
    let view = Arc::clone(call.service.view());
    let Asked::Answered(answer) = in_background(&call, Turn::Why, async move |_| view.why(id).await).await? else {
        return Err(being_built());
    };
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

fn being_built() -> Problem {
    Problem::busy("the scheduler's view is being built for another request; ask again in a few seconds")
}

/// Runs what takes a processor for a while on a thread of its own, when it has its turn.
pub(crate) async fn in_background<T: Send + 'static, F>(
    call: &Call,
    turn: Turn,
    work: impl FnOnce(turnwise::Turnwise) -> F + Send + 'static,
) -> Result<T, Problem>
where
    F: Future<Output = Result<T, turnwise::Error>>,
{
    // A database that does not answer is noticed here, not by the one request that has the turn.
    call.turnwise().now().await?;
    let turn = call.service.turn(turn).await?;
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
    Reply::json(&wire::Decided::cancelled(id, call.acting().cancel(id).await?))
}

pub(crate) async fn retry(call: Call) -> Result<Reply, Problem> {
    let id = call.job().await?.id;
    call.acting().retry(id).await?;
    Reply::json(&wire::Decided::again(id))
}

pub(crate) async fn rerun(call: Call) -> Result<Reply, Problem> {
    let id = call.job().await?.id;
    call.acting().rerun(id).await?;
    Reply::json(&wire::Decided::again(id))
}

pub(crate) async fn fail(call: Call) -> Result<Reply, Problem> {
    let id = call.job().await?.id;
    call.acting().fail(id).await?;
    Reply::json(&wire::Decided::failed(id))
}

/// The job as a person edits it, without its secrets.
pub(crate) async fn to_edit(call: Call) -> Result<Reply, Problem> {
    let job = call.job().await?;
    let args = call.turnwise().to_edit(&job).await?;
    Reply::json(&wire::ToEdit::new(&job, &args))
}

/// Submits the job again, with changes, as another one.
pub(crate) async fn resubmit(call: Call) -> Result<Reply, Problem> {
    let changes = call.read(wire::Resubmission::read)?;
    let job = call.job().await?;
    let caller = call.caller.token();
    let refused = |error| Problem::of_submit(error, |field| Form::One.path(0, field));
    // The same changes of another job are another request.
    let body = BodyHash::of(&[job.id.as_bytes(), &call.body[..]].concat());
    let stored = match &call.once {
        Some(key) => call.turnwise().find_once(caller, key.clone(), body).await?.map(done_once).transpose()?,
        None => None,
    };
    let stored = match stored {
        Some(stored) => stored,
        None => {
            call.service.door().take(&call.caller, 1)?;
            let request = call.turnwise().request_again(&job, &changes).await.map_err(refused)?;
            let request = match trace_in_head(&call) {
                Some(trace) => request.trace_unless_given(trace),
                None => request,
            };
            let mut own =
                if call.grant.is_limited() { own(&call, vec![request], Form::One).await? } else { vec![request] };
            let Some(request) = own.pop() else { return Err(Problem::away("there was nothing to submit")) };
            let key = match &call.once {
                Some(key) => key.clone(),
                None => once_of(&request)?,
            };
            let once = call.acting().submit_again(&job, caller, key, body, request).await;
            done_once(once.map_err(refused)?)?
        }
    };
    let Some(submitted) = stored.jobs.first() else { return Err(Problem::away("the store gave no answer")) };
    let reply = Reply::json(&wire::Submitted::new(submitted))?.repeated(stored.again);
    Ok(reply.created(format_args!("/api/v1/jobs/{}", submitted.id)))
}

/// A key that no other request has, where the caller gave none.
fn once_of(request: &JobRequest) -> Result<OnceKey, Problem> {
    let id = request.job_id().map_err(|invalid| Problem::in_body(&invalid))?;
    OnceKey::new(format!("again-{id}")).map_err(|invalid| Problem::in_body(&invalid))
}

pub(crate) async fn change(call: Call) -> Result<Reply, Problem> {
    let edit = call.read(wire::JobEdit::read)?;
    let job = call.job().await?;
    let queue = edit.queue.as_ref().unwrap_or(&job.queue);
    if !call.grant.covers(queue, &job.group, &job.task) {
        return Err(Problem::not_found("this token may not have jobs in this queue"));
    }
    let changed = call.acting().change(job.id, &edit.change()).await;
    changed.map_err(|error| match error {
        // No name of the body is wrong, but that it has none.
        turnwise::Error::Invalid(invalid) if invalid.field == "change" => Problem::invalid("", invalid.to_string()),
        other => other.into(),
    })?;
    Reply::json(&wire::Decided::changed(job.id))
}
