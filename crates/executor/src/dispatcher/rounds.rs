//! The rounds of the dispatcher's loop: what they have come to, and what makes the next one begin.

use std::time::Duration;

use turnwise_core::Timestamp;

use crate::idle::Empty;

/// A pause that is longer has let the dispatcher rest.
const REST: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// Jobs that were given out.
    given: u64,
    /// Rounds since the dispatcher last rested.
    busy: u32,
    /// When the scheduler wants to be asked again, whatever happens.
    wake_at: Option<Timestamp>,
    /// The scheduler has got replies, and was not asked yet what to do.
    unasked: bool,
    fleet_changed: bool,
    /// When nothing was in this process's hands, and the news have been looked at since.
    looked: Option<Empty>,
}

impl Rounds {
    pub(super) fn begin(&mut self) {
        self.busy = self.busy.saturating_add(1);
    }

    /// The round has ended with a pause of this length.
    pub(super) fn rested(&mut self, pause: Duration) {
        if pause > REST {
            self.busy = 0;
        }
    }

    /// Rounds since the dispatcher last rested.
    pub(super) fn busy(&self) -> u32 {
        self.busy
    }

    pub(super) fn give(&mut self, picks: usize) {
        self.given += picks as u64;
    }

    /// Jobs that were given out since the term began.
    pub(super) fn given(&self) -> u64 {
        self.given
    }

    /// The scheduler is asked now.
    pub(super) fn ask(&mut self) {
        (self.wake_at, self.unasked) = (None, false);
    }

    /// The scheduler has got replies, and is to be asked what to do.
    pub(super) fn ask_later(&mut self) {
        self.unasked = true;
    }

    pub(super) fn is_unasked(&self) -> bool {
        self.unasked
    }

    pub(super) fn set_wake(&mut self, at: Timestamp) {
        self.wake_at = Some(at);
    }

    pub(super) fn wake_at(&self) -> Option<Timestamp> {
        self.wake_at
    }

    /// The fleet is another one than the scheduler knows, if `changed`.
    pub(super) fn fleet_changed(&mut self, changed: bool) {
        self.fleet_changed |= changed;
    }

    /// Whether the fleet has changed since the last call.
    pub(super) fn take_fleet_changed(&mut self) -> bool {
        std::mem::take(&mut self.fleet_changed)
    }

    /// Whether the news have been looked at since this moment.
    pub(super) fn has_looked(&self, empty: &Empty) -> bool {
        self.looked.as_ref() == Some(empty)
    }

    /// The news have been looked at since this moment; `None`: they could not be.
    pub(super) fn looked(&mut self, empty: Option<Empty>) {
        self.looked = empty;
    }
}
