//! Jobs that wait for jobs.

use std::collections::BTreeSet;

use turnwise_core::{After, JobId, NewJob};

use super::Data;
use crate::{
    after::Waiting,
    store::{Result, Submitted},
};

impl Data {
    /// Which jobs the new ones among `jobs` wait for; an error if one of those is neither there nor in the call.
    pub(super) fn check_after(&self, jobs: &[NewJob], previews: &[Submitted]) -> Result<Waiting> {
        let mut ids = BTreeSet::new();
        let mut previews = previews.to_vec();
        // Of an id that is twice in the call, the first is stored.
        for reply in previews.iter_mut().filter(|reply| reply.new) {
            reply.new = ids.insert(reply.id);
        }
        let waiting = Waiting::of(jobs, &previews)?;
        match waiting.awaited().into_iter().find(|id| !self.is_known(*id) && !ids.contains(id)) {
            Some(id) => Err(Waiting::missing(id)),
            None => Ok(waiting),
        }
    }

    pub(super) fn wait_for(&mut self, waiting: Waiting) {
        for (job, on_failure, awaited) in waiting.jobs {
            let Some(row) = self.jobs.get_mut(&job) else { continue };
            row.on_failure = Some(on_failure);
            self.awaited.extend(awaited.iter().map(|awaited| ((*awaited, job), None)));
            self.after.insert(job, After::new(awaited, on_failure).expect("no more than were asked for"));
        }
    }

    pub(super) fn awaited_by(&self, id: JobId) -> impl Iterator<Item = JobId> {
        let first = (id, JobId::from_uuid(uuid::Uuid::nil()));
        self.awaited.range(first..).take_while(move |((awaited, _), _)| *awaited == id).map(|((_, waiter), _)| *waiter)
    }
}
