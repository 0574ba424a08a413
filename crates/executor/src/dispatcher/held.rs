//! Jobs that the dispatcher is to end while somebody's open transaction holds them: they come again with a later poll.

use std::collections::HashSet;

use tokio::time::Instant;
use turnwise_core::JobId;
use turnwise_store::{Intervention, Settled};

use super::Dispatcher;

#[derive(Debug, Default)]
pub(super) struct Held {
    expired: Vec<JobId>,
    reviews: Vec<JobId>,
    /// When they are tried again, if there are any.
    again: Option<Instant>,
}

impl Held {
    pub(super) fn until(&self) -> Option<Instant> {
        self.again
    }
}

impl Dispatcher<'_> {
    /// Not at once: that transaction may stay open for long, and each try is a write.
    pub(super) fn hold_back(&mut self, expired: Vec<JobId>, reviews: Vec<JobId>) {
        if expired.is_empty() && reviews.is_empty() {
            return;
        }
        self.held.expired.extend(expired);
        self.held.reviews.extend(reviews);
        self.held.again.get_or_insert(Instant::now() + self.life.shared.config.poll_interval);
    }

    pub(super) fn try_held_again(&mut self) {
        if self.held.again.is_some_and(|again| again <= Instant::now()) {
            let held = std::mem::take(&mut self.held);
            self.expired.extend(held.expired);
            self.reviews.extend(held.reviews);
        }
    }
}

/// Those that were left alone because a transaction holds them.
pub(super) fn locked(decided: &[Intervention], replies: &[Settled]) -> HashSet<JobId> {
    let locked = decided.iter().zip(replies).filter(|(_, reply)| **reply == Settled::Locked);
    locked.map(|(intervention, _)| intervention.job).collect()
}
