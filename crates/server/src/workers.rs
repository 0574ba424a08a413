//! Foreign workers: their protocol over HTTP (docs/workers.md). What is to be answered is the library's to say.

use std::time::Duration;

use axum::http::StatusCode;
use bytes::Bytes;
use tokio::time::sleep;
use turnwise::{
    Error,
    wire::{
        BeatWorker, BeatenWorker, EndsAnswered, LeaveWorker, NoteRuns, NotesAnswered, RegisterWorker, RegisteredWorker,
        SettleRuns, TakeJobs, TakenJobs, Unreadable, WorkerLeft,
    },
    workers::{Held, Taken, WorkerError, cut},
};
use turnwise_core::{Incarnation, access::Target};

use crate::{
    call::{Call, Reply},
    limits::ASK_AGAIN,
    problem::Problem,
};

impl From<WorkerError> for Problem {
    fn from(error: WorkerError) -> Self {
        match error {
            WorkerError::Invalid(invalid) => Self::in_body(&invalid),
            WorkerError::NameTaken { wait, .. } => {
                Self::conflict(error.to_string()).about("/name", error.to_string()).try_after(wait)
            }
            WorkerError::NotThere => Self::not_found(error.to_string()),
            WorkerError::Lost => Self::conflict(error.to_string()),
            WorkerError::Store(error) => Error::from(error).into(),
        }
    }
}

/// What the caller says, before anything is asked about the worker: a mistake in it is answered whoever the worker is. The bytes are not
/// kept while the request waits.
fn said<T>(call: &mut Call, read: impl FnOnce(&str) -> Result<T, Unreadable>) -> Result<T, Problem> {
    call.check(Target::Many)?;
    let said = call.read(read)?;
    call.body = Bytes::new();
    Ok(said)
}

/// The worker in the path.
fn worker(call: &Call) -> Result<Incarnation, Problem> {
    let id = call.name.parse().map(Incarnation);
    id.map_err(|_| Problem::not_found(format!("{:?} is not the id of a worker", call.name)))
}

pub(crate) async fn register(mut call: Call) -> Result<Reply, Problem> {
    let host = call.from.to_string();
    let mut said = said(&mut call, |json| RegisterWorker::read(json, &host))?.with_token(call.caller.token());
    if !cut(&mut said.register, &call.grant) {
        return Err(Problem::forbidden("this token may work on none of these queues and tasks"));
    }
    let protocol = said.register.worker.protocol;
    let registered = call.service.workers()?.register(said.register).await?;
    Ok(Reply::json(&RegisteredWorker::new(&registered, protocol))?.status(StatusCode::CREATED))
}

pub(crate) async fn take(mut call: Call) -> Result<Reply, Problem> {
    let ask = said(&mut call, TakeJobs::read)?.take;
    let (worker, token, workers) = (worker(&call)?, call.caller.token(), call.service.workers()?);
    let _waiting = call.service.worker_waits(token)?;
    // It waits for something else than the database.
    call.place = None;
    let taken = tokio::select! {
        taken = workers.take(worker, token, ask) => taken?,
        // Another server answers its next take.
        () = call.service.stops() => Taken::default(),
        problem = revoked(&call) => return Err(problem),
    };
    Reply::json(&TakenJobs::new(&taken))
}

/// Waits until the caller's token does not hold any more.
async fn revoked(call: &Call) -> Problem {
    loop {
        sleep(ASK_AGAIN).await;
        // Without an answer of the database it is not known.
        if let Err(problem) = call.again().await
            && problem.unauthorized_because().is_some()
        {
            return problem;
        }
    }
}

pub(crate) async fn beat(mut call: Call) -> Result<Reply, Problem> {
    let BeatWorker { slots, held, .. } = said(&mut call, BeatWorker::read)?;
    let (worker, token, workers) = (worker(&call)?, call.caller.token(), call.service.workers()?);
    // It waits for the beats of others.
    call.place = None;
    let (lease, stop) = workers.beat(worker, token, slots, held).await?;
    Reply::json(&BeatenWorker::new(lease, &stop))
}

pub(crate) async fn note(mut call: Call) -> Result<Reply, Problem> {
    let notes = said(&mut call, NoteRuns::read)?.notes;
    let worker = worker(&call)?;
    let jobs: Vec<Held> = notes.iter().map(|note| note.job).collect();
    let answers = call.service.workers()?.note(worker, call.caller.token(), notes).await?;
    Reply::json(&NotesAnswered::new(&jobs, &answers))
}

pub(crate) async fn settle(mut call: Call) -> Result<Reply, Problem> {
    let ends = said(&mut call, SettleRuns::read)?.ends;
    let worker = worker(&call)?;
    let jobs: Vec<Held> = ends.iter().map(|end| end.job).collect();
    let answers = call.service.workers()?.settle(worker, call.caller.token(), ends).await?;
    Reply::json(&EndsAnswered::new(&jobs, &answers))
}

pub(crate) async fn leave(mut call: Call) -> Result<Reply, Problem> {
    let LeaveWorker { back, held, .. } = said(&mut call, LeaveWorker::read)?;
    let worker = worker(&call)?;
    let left = call.service.workers()?.leave(worker, call.caller.token(), back, held).await?;
    Reply::json(&WorkerLeft::new(left))
}

/// How long a caller is asked to wait, in whole seconds.
pub(crate) fn seconds(wait: Duration) -> u32 {
    u32::try_from(wait.as_secs()).unwrap_or(u32::MAX).saturating_add(1)
}
