//! Jobs that must begin in time: one that has not begun by then is set aside and reported to the dispatcher.

use super::{Scheduler, rows::Extra};
use crate::{
    backlog::{Place, Slot},
    job::JobId,
    time::Timestamp,
};

impl Scheduler {
    /// Watches a job that is at rest, if it must begin by some time.
    pub(super) fn watch_expiry(&mut self, slot: Slot) {
        let Self { times, extras, backlog, .. } = self;
        let expires = |slot| extras.get(&slot).and_then(|extra| extra.expires);
        if let Some(at) = expires(slot) {
            times.watch_expiry(at, backlog.id(slot));
            times.forget_what_is_over(backlog.len(), |job| backlog.find(job).and_then(expires));
        }
    }

    /// The job has begun: it cannot expire any more.
    pub(super) fn has_begun(&mut self, slot: Slot) {
        if let Some(extra) = self.extras.get_mut(&slot) {
            extra.expires = None;
        }
    }

    /// The jobs whose time to begin is over. They stay known and counted, but are not picked any more: the store decides about
    /// them. A job in a node's hands may have begun; if it comes back without having begun, it is checked again.
    pub(super) fn expire(&mut self, now: Timestamp) -> Vec<JobId> {
        let mut expired = Vec::new();
        while let Some(id) = self.times.take_expiry(now) {
            let Some(slot) = self.backlog.find(id) else { continue };
            let due = self.extras.get(&slot).is_some_and(|extra| extra.expires.is_some_and(|expires| expires <= now));
            let at_rest = !matches!(self.backlog.place(slot), Place::Picked | Place::Assigned);
            if due && at_rest {
                self.set_aside(now, slot);
                expired.push(id);
            }
        }
        expired
    }

    /// Takes a job out of all lines. A slot cannot be taken out of the middle of a heap, so the job moves to another slot.
    fn set_aside(&mut self, now: Timestamp, slot: Slot) {
        let new = self.backlog.copy(slot);
        let extra = self.extras.get(&slot).copied();
        let (queue, owner) = (self.queue_of(slot), self.groups[self.backlog.group(slot)].owner);
        // Counted before the old slot goes: the queue must not look empty in between.
        self.count_job(queue, owner);
        self.drop_slot(now, slot);
        let slot = self.backlog.insert(new);
        self.backlog.set_place(slot, Place::Manual);
        self.extras.extend(extra.map(|extra| (slot, Extra { expires: None, ..extra })));
        self.count(slot, self.ties(slot));
    }
}
