//! Several jobs that are submitted together and may name one another.

use std::collections::HashMap;

use turnwise_core::{Invalid, JobId, Timestamp};

use super::{Request, Unreadable, object};
use crate::JobRequest;

/// In `after`: all other jobs of the batch that do not have this themselves.
const ALL_OTHERS: &str = "*";

/// Jobs to submit together, in this order: `as` gives one a name, by which others wait for it (`after`).
#[derive(Debug, Default)]
pub struct Batch {
    jobs: Vec<(JobRequest, Vec<String>)>,
    names: HashMap<String, JobId>,
}

/// Which job of a batch is wrong, counted from 0, and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct Misfit {
    /// Its place.
    pub at: usize,
    /// The name of the value that it is about.
    pub field: &'static str,
    /// In one line, beginning with that name.
    pub problem: String,
}

impl Batch {
    /// Reads `{"jobs": [{"task": "…"}, …]}`, at most so many jobs. [`Unreadable`] names the job and the field
    /// that is unknown, missing or invalid.
    pub fn read(json: &str, most: usize) -> Result<Self, Unreadable> {
        let mut jobs = None;
        object::read(json, ["jobs"], |name, value| {
            jobs = Some(object::list(name, value)?);
            Ok(())
        })?;
        let jobs = jobs.ok_or_else(|| Invalid::new("jobs", "is missing"))?;
        if jobs.len() > most {
            return Err(Invalid::new("jobs", format!("are {}, at most {most} are allowed", jobs.len())).into());
        }
        let mut batch = Self::default();
        for (at, job) in jobs.into_iter().enumerate() {
            let pushed = Request::read(job.get()).and_then(|request| Ok(batch.push(&request)?));
            pushed.map_err(|unreadable| unreadable.within(at).within("jobs"))?;
        }
        Ok(batch)
    }

    /// How many jobs it has.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Adds a job; an error is the first thing that is wrong with it, and it is not added.
    pub fn push(&mut self, request: &Request<'_>) -> Result<(), Invalid> {
        let job = request.to_request()?;
        if let Some(name) = &request.r#as {
            let refuse = |problem: &str| Err(Invalid::new("as", format!("{name:?} {problem}")));
            if name == ALL_OTHERS || name.parse::<JobId>().is_ok() {
                return refuse("means something else in after");
            }
            if self.names.insert(name.to_string(), job.job_id()?).is_some() {
                return refuse("is the name of another one already");
            }
        }
        self.jobs.push((job, request.after.clone()));
        Ok(())
    }

    /// The jobs, each with those it waits for; an error names the first job for which that cannot be.
    pub fn link(self) -> Result<Vec<JobRequest>, Misfit> {
        let Self { jobs, names } = self;
        let waits_for_all = |after: &[String]| after == [ALL_OTHERS];
        let others = jobs.iter().filter(|(_, after)| !waits_for_all(after));
        let others: Vec<JobId> = others.filter_map(|(job, _)| job.job_id().ok()).collect();
        let find = |name: &String| match (names.get(name), name.parse()) {
            (Some(id), _) => Ok(*id),
            (None, Ok(id)) => Ok(id),
            (None, Err(_)) => {
                let problem = format!("{name:?} is neither a job id nor the name (as) of another one");
                Err(Invalid::new("after", problem))
            }
        };
        let link = |(at, (job, after)): (usize, (JobRequest, Vec<String>))| {
            let ids = if waits_for_all(&after) { Ok(others.clone()) } else { after.iter().map(find).collect() };
            let linked = ids.and_then(|ids| {
                let job = job.after_jobs(ids);
                job.clone().into_job(Timestamp::MIN)?;
                Ok(job)
            });
            linked.map_err(|invalid| Misfit { at, field: invalid.field, problem: invalid.to_string() })
        };
        jobs.into_iter().enumerate().map(link).collect()
    }
}
