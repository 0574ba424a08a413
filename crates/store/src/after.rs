//! Which jobs the jobs of a call wait for, once it is known which of the call are new.

use std::collections::{BTreeMap, BTreeSet};

use turnwise_core::{JobId, NewJob, OnFailure, after};

use crate::{Result, StoreError, Submitted};

/// What is to be written after the jobs of a call are stored.
#[derive(Debug, Default)]
pub struct Waiting {
    /// New jobs that wait, each with the jobs it waits for, in ascending order.
    pub jobs: Vec<(JobId, OnFailure, Vec<JobId>)>,
    /// Jobs that stand for others of the call, since they hold their unique keys. They may have ended and may be kept nowhere.
    pub stand_ins: BTreeSet<JobId>,
}

impl Waiting {
    /// A job that waits for a duplicate waits for the job that stands for it. A circle is [`StoreError::Refused`].
    pub fn of(jobs: &[NewJob], enqueued: &[Submitted]) -> Result<Self> {
        let stand_ins: BTreeMap<JobId, JobId> = jobs
            .iter()
            .zip(enqueued)
            .filter(|(_, reply)| reply.duplicate.is_some())
            .map(|(job, reply)| (job.id, reply.id))
            .collect();
        let mut waiting = Self { stand_ins: stand_ins.values().copied().collect(), ..Self::default() };
        for (job, _) in jobs.iter().zip(enqueued).filter(|(_, reply)| reply.new) {
            if let Some(on_failure) = job.after.on_failure() {
                let awaited = job.after.ids().iter().map(|id| *stand_ins.get(id).unwrap_or(id));
                waiting.jobs.push((job.id, on_failure, awaited.collect::<BTreeSet<_>>().into_iter().collect()));
            }
        }
        after::check(waiting.jobs.iter().map(|(job, _, awaited)| (*job, awaited.as_slice())))
            .map_err(|error| StoreError::Refused(error.to_string()))?;
        Ok(waiting)
    }

    /// All jobs that must be there, or come with the call, in ascending order.
    pub fn awaited(&self) -> BTreeSet<JobId> {
        let all = self.jobs.iter().flat_map(|(_, _, awaited)| awaited).copied();
        all.filter(|id| !self.stand_ins.contains(id)).collect()
    }

    /// The error for a job that waits for a job that is not there.
    pub fn missing(id: JobId) -> StoreError {
        StoreError::Refused(format!("after: there is no job {id}"))
    }
}
