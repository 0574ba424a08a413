//! How much there is, as the dispatcher writes it.

use turnwise_core::{Incarnation, Timestamp, totals::Totals};

use super::{Data, MemoryStore};
use crate::{
    operators::{FoundTotals, WrittenTotals, asked_until},
    store::{Epoch, Result},
};

pub(super) fn ask_totals(store: &MemoryStore) -> Result<FoundTotals> {
    let now = store.clock.now();
    let mut data = store.data();
    let was_asked = data.asked(now).is_some();
    if let Some(until) = asked_until(now, data.totals_asked.unwrap_or(Timestamp::MIN)) {
        data.totals_asked = Some(until);
    }
    let last = data.totals.clone();
    drop(data);
    if !was_asked {
        store.bell.ring_news();
    }
    Ok(FoundTotals { now, last })
}

pub(super) fn write_totals(
    store: &MemoryStore,
    (holder, epoch): (Incarnation, Epoch),
    totals: Totals,
) -> Result<Option<Timestamp>> {
    let now = store.clock.now();
    let mut data = store.data();
    data.check_leading(holder, epoch)?;
    data.totals = Some(WrittenTotals { at: now, totals });
    Ok(data.asked(now))
}

impl Data {
    /// Until when totals are asked for, if they are.
    pub(super) fn asked(&self, now: Timestamp) -> Option<Timestamp> {
        self.totals_asked.filter(|until| *until > now)
    }
}
