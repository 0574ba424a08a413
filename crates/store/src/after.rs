//! Whom the jobs of a call wait for, once it is known which of them came in.

use std::collections::{BTreeMap, BTreeSet};

use turnwise_core::{JobId, NewJob, OnFailure, after};

use crate::{Result, StoreError, Submitted};

/// What is to be written down after the jobs of a call are stored.
#[derive(Debug, Default)]
pub struct Waiting {
    /// New jobs that wait, each with those it waits for, in ascending order.
    pub jobs: Vec<(JobId, OnFailure, Vec<JobId>)>,
    /// Of those that are waited for, the ones that stand for others of the call: they may have ended and gone.
    pub stand_ins: BTreeSet<JobId>,
}

impl Waiting {
    /// Whoever waits for a job that another one stands for waits for that one. A circle is [`StoreError::Refused`].
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

    /// All that must be there, or come with the call, in ascending order.
    pub fn awaited(&self) -> BTreeSet<JobId> {
        let all = self.jobs.iter().flat_map(|(_, _, awaited)| awaited).copied();
        all.filter(|id| !self.stand_ins.contains(id)).collect()
    }

    /// What one is told who waits for a job that is not there.
    pub fn missing(id: JobId) -> StoreError {
        StoreError::Refused(format!("after: there is no job {id}"))
    }
}
