//! Jobs that waited for others which did not end well: the store says how it stands, core what follows.

use turnwise_core::{
    Fence, JobId,
    after::{Awaits, Verdict},
    scheduler::{self, Input},
};
use turnwise_store::{Load, Settled, StoreError};

use super::{Dispatcher, end_of, held};

/// Rounds of consequences that follow one another, before everything else has its turn again.
const ROUNDS: u32 = 64;

impl Dispatcher<'_> {
    /// Ends those that are to end for another; the others wait or come into line again. One that ends here may be waited
    /// for itself, so there are rounds of it. `false`: the store does not answer.
    pub(super) async fn review(&mut self) -> Result<bool, StoreError> {
        let batch = self.life.shared.config.batch_size;
        for _ in 0..ROUNDS {
            let ids: Vec<JobId> = self.reviews.drain(..self.reviews.len().min(batch)).collect();
            if ids.is_empty() {
                break;
            }
            if !self.review_batch(&ids).await? {
                // No reply: whatever was written, the next look will tell.
                self.reviews.extend(ids);
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn review_batch(&mut self, ids: &[JobId]) -> Result<bool, StoreError> {
        let page = match self.life.store.load(Load::These(ids.to_vec())).await {
            Ok(page) => page,
            Err(error) if error.is_transient() => return Ok(false),
            Err(error) => return Err(error),
        };
        self.life.shared.clock.heard(page.now);
        let decided: Vec<_> = page
            .jobs
            .iter()
            .filter_map(|head| match head.awaits.as_deref().map(Awaits::verdict) {
                Some(Verdict::End(event)) => end_of(head, &event, page.now),
                _ => None,
            })
            .collect();
        self.trace_ends(&decided);
        let replies = match decided.is_empty() {
            true => Vec::new(),
            false => match self.life.store.control(decided.clone()).await {
                Ok(replies) => replies,
                Err(error) if error.is_transient() => return Ok(false),
                Err(error) => return Err(error),
            },
        };
        let locked = held::locked(&decided, &replies);
        self.hold_back(Vec::new(), locked.iter().copied().collect());
        let ended: Vec<JobId> = decided
            .iter()
            .zip(replies)
            .filter(|(_, reply)| *reply == Settled::Applied)
            .map(|(intervention, _)| intervention.job)
            .collect();
        // A page is in the order of ids, and so is what became of it.
        let is_left = |id: &JobId| ended.binary_search(id).is_err() && !locked.contains(id);
        let left: Vec<JobId> = ids.iter().copied().filter(is_left).collect();
        // What somebody has decided about meanwhile is read again, and so is what goes on waiting, or need not any more.
        if !left.is_empty() {
            self.read_again(left).await?;
        }
        let settled = |&id: &JobId| {
            // Nobody need be told of trouble: that was the other one's.
            scheduler::Settled { id, fence: Fence(i64::MAX), ran: None, rest: None, failed: false, well: false }
        };
        self.act(Input::Settled(ended.iter().map(settled).collect())).await?;
        Ok(true)
    }
}
