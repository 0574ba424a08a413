//! The jobs of a request: how they are read from its body, and where in it the value is that a submit was refused for. The store knows jobs
//! by their ids and keys, and the caller by their places.

use std::sync::Arc;

use bytes::Bytes;
use turnwise::{
    Error, JobRequest, OnDuplicate, StoreError, Timestamp,
    store::NewJob,
    wire::{self, Batch, Unreadable},
};

use crate::{
    call::{Call, text},
    limits::{BATCH_JOBS, LONG_BODY},
    problem::Problem,
};

/// How jobs stand in a body.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// The body is a job.
    One,
    /// The body has a list of them.
    Many,
}

impl Form {
    /// A JSON pointer to a value of the job at this place.
    pub(crate) fn path(self, at: usize, field: &str) -> String {
        match self {
            Self::One => format!("/{field}"),
            Self::Many => format!("/jobs/{at}/{field}"),
        }
    }

    /// The jobs of a body, in its order.
    pub(crate) async fn read(self, body: &Bytes) -> Result<Vec<JobRequest>, Problem> {
        if body.len() < LONG_BODY {
            return self.read_here(body);
        }
        // On a thread of its own: other requests go on meanwhile.
        let body = body.clone();
        let read = tokio::task::spawn_blocking(move || self.read_here(&body)).await;
        read.map_err(|_| Problem::away("the body could not be read"))?
    }

    fn read_here(self, body: &[u8]) -> Result<Vec<JobRequest>, Problem> {
        let unreadable = |unreadable: Unreadable| Problem::unreadable(&unreadable);
        let batch = match self {
            Self::One => {
                let mut batch = Batch::default();
                let request = wire::Request::read(text(body)?).map_err(unreadable)?;
                batch.push(&request).map_err(|invalid| Problem::in_body(&invalid))?;
                batch
            }
            Self::Many => Batch::read(text(body)?, BATCH_JOBS).map_err(unreadable)?,
        };
        if batch.is_empty() {
            return Err(Problem::invalid("/jobs", "jobs: must not be empty"));
        }
        batch.link().map_err(|misfit| Problem::invalid(self.path(misfit.at, misfit.field), misfit.problem))
    }

    /// What a submit is answered that the store refused. The body is read once more for that: a submit that goes well pays nothing for it.
    pub(crate) async fn refused(self, call: &Call, error: Error) -> Problem {
        let at = match (self, &error) {
            (Self::One, _) => Some(0),
            (Self::Many, Error::Store(refused @ (StoreError::Refused(_) | StoreError::Duplicate { .. }))) => {
                let jobs = self.read(&call.body).await.unwrap_or_default();
                let limited = call.grant.is_limited();
                let granted = |job: JobRequest| if limited { job.granted(Arc::clone(&call.grant)) } else { job };
                blamed(jobs.into_iter().map(granted), refused)
            }
            (Self::Many, _) => None,
        };
        Problem::of_submit(error, |field| at.map_or_else(|| "/jobs".to_owned(), |at| self.path(at, field)))
    }
}

/// The place of the job that the store refused, if that can be told.
fn blamed(jobs: impl Iterator<Item = JobRequest>, refused: &StoreError) -> Option<usize> {
    let read = |(at, job): (usize, JobRequest)| Some((at, job.id_is_given(), job.into_job(Timestamp::MIN).ok()?));
    let mut jobs = jobs.enumerate().filter_map(read);
    match refused {
        StoreError::Refused(text) if text.starts_with("after: ") => {
            let is_named = |job: &NewJob| job.after.ids().iter().any(|id| text.ends_with(&id.to_string()));
            jobs.find(|(_, _, job)| is_named(job)).map(|(at, ..)| at)
        }
        // If any id is too far ahead, the newest one is.
        StoreError::Refused(text) if text.starts_with("id: ") => {
            jobs.filter(|(_, given, _)| *given).max_by_key(|(_, _, job)| job.id).map(|(at, ..)| at)
        }
        StoreError::Duplicate { holder, text } => {
            let is_refused = |job: &NewJob| {
                let unique = job.unique.as_deref().filter(|unique| unique.on_duplicate == OnDuplicate::Reject);
                unique.is_some_and(|unique| unique.refusal(job, *holder) == *text)
            };
            let mut refused = jobs.filter(|(_, _, job)| is_refused(job));
            // Of several with the same key, one may be the holder.
            refused.next().filter(|_| refused.next().is_none()).map(|(at, ..)| at)
        }
        _ => None,
    }
}
