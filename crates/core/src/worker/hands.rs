//! What a worker holds, compared with what is assigned to it: what it is to be given, and what it is to stop.

use std::{collections::BTreeSet, time::Duration};

use super::GRACE;
use crate::job::{AssignedJob, Fence, JobId};

/// Why a worker is to stop a job that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// A person wants it stopped.
    Cancelled,
    /// Its time and the grace are over, and the server has ended it.
    TimedOut,
    /// It is not in this worker's hands any more.
    Gone,
}

impl Stop {
    /// As the protocol says it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed_out",
            Self::Gone => "gone",
        }
    }
}

/// Of batches, each with the jobs of it that are in the worker's hands, those that need not be read again: the worker says that it holds
/// every job of them. An empty one is known, too: nothing can come of it.
pub fn known_batches<'a, B: Copy + 'a>(
    batches: impl IntoIterator<Item = (B, &'a BTreeSet<(JobId, Fence)>)>,
    held: &BTreeSet<(JobId, Fence)>,
) -> Vec<B> {
    batches.into_iter().filter(|(_, jobs)| jobs.is_subset(held)).map(|(batch, _)| batch).collect()
}

/// Of what was just read as assigned to the worker, the first `n` jobs that it does not hold. What it says that it holds under another
/// fence is another run: it is given this one.
pub fn to_give<'a>(
    assigned: impl IntoIterator<Item = &'a AssignedJob>,
    held: &BTreeSet<(JobId, Fence)>,
    n: usize,
) -> Vec<(JobId, Fence)> {
    let missing = assigned.into_iter().map(|job| (job.id, job.fence)).filter(|job| !held.contains(job));
    missing.take(n).collect()
}

/// Whether a run that has been held for so long is over its time for good.
pub fn is_over_time(held: Duration, timeout: Duration) -> bool {
    held > timeout.saturating_add(GRACE)
}
