//! What is set, for queues, groups, tasks and keys, and the charges that an earlier dispatcher remembered.

use std::collections::HashMap;

use super::{Remembered, Scheduler, groups::Special, rows::set_bucket, table::Index, tally::Weighed};
use crate::{
    backlog::Place,
    settings::{GroupSettings, QueueSettings, Settings},
    time::Timestamp,
};

impl Scheduler {
    pub(super) fn see_settings(&mut self, now: Timestamp, settings: Settings) {
        // A rate counts from the moment it is set, not from the first job it concerns.
        settings.queues.keys().for_each(|name| _ = self.queue(now, name));
        let mut specials: HashMap<Index, GroupSettings> =
            settings.groups.iter().map(|(name, special)| (self.owner(now, name), special.clone())).collect();
        settings.tasks.keys().for_each(|name| _ = self.task(now, name));
        settings.keys.keys().for_each(|name| _ = self.key(now, name));
        self.settings = settings;
        for at in self.queues.indexes() {
            let settings = self.settings.queues.get(&self.queues[at].name).cloned().unwrap_or_default();
            self.set_queue(now, at, settings);
        }
        for at in self.owners.indexes() {
            let weight = specials.get(&at).map(|special| special.weight).unwrap_or_default();
            let other_weight = weight != self.owners[at].weight();
            if other_weight {
                self.weigh(at, Weighed::Out);
            }
            let owner = &mut self.owners[at];
            let mut bucket = owner.special.take().and_then(|special| special.bucket);
            owner.special = specials.remove(&at).map(|settings| {
                set_bucket(&mut bucket, settings.rate, now);
                Box::new(Special { settings, bucket })
            });
            if other_weight {
                self.weigh(at, Weighed::In);
            }
            self.refresh_owner(now, at);
        }
        for task in self.tasks.iter_mut() {
            task.settings = self.settings.tasks.get(&task.name).copied().unwrap_or_default();
            set_bucket(&mut task.bucket, task.settings.rate, now);
        }
        for at in self.keys.indexes() {
            let key = &mut self.keys[at];
            key.settings = self.settings.keys.get(&key.name).copied().unwrap_or_default();
            set_bucket(&mut key.bucket, key.settings.rate, now);
            self.unpark(now, at);
        }
        self.watch_rates(now);
        self.classify(now);
    }

    pub(super) fn set_queue(&mut self, now: Timestamp, at: Index, settings: QueueSettings) {
        let queue = &mut self.queues[at];
        set_bucket(&mut queue.bucket, settings.rate, now);
        let was_serial = queue.serial();
        queue.settings = settings;
        if queue.serial() == was_serial {
            return self.refresh_queue(now, at);
        }
        // From lanes to a line or back. This is rare, so every ready job of the queue is simply placed anew.
        let line = std::mem::take(&mut queue.line);
        // The job that holds the line is in no heap, unless it is among the suspects, where it stays.
        let begun = queue.begun.take();
        let begun = begun.filter(|&begun| self.backlog.place(begun) == Place::Ready && !self.is_suspect(begun));
        let mut ready = Vec::new();
        for slot in line.as_slice().iter().copied().chain(begun) {
            match self.backlog.place(slot) {
                Place::Ready => ready.push(slot),
                _ => self.backlog.bury(slot),
            }
        }
        for group in self.groups.indexes() {
            if self.groups[group].queue != at {
                continue;
            }
            self.leave_turns(group);
            for lane in std::mem::take(&mut self.groups[group].lanes) {
                // Collected first: a slot that is buried no longer names the next one of its lane.
                for slot in lane.slots(&self.backlog).collect::<Vec<_>>() {
                    match self.backlog.place(slot) {
                        Place::Ready => ready.push(slot),
                        _ => self.backlog.bury(slot),
                    }
                }
            }
        }
        let Self { keys, groups, backlog, .. } = self;
        for key in keys.iter_mut() {
            key.parked.retain(|(group, _), lane| {
                let moves = groups[*group].queue == at;
                for &slot in lane.as_slice().iter().filter(|_| moves) {
                    match backlog.place(slot) {
                        Place::Parked => ready.push(slot),
                        _ => backlog.bury(slot),
                    }
                }
                !moves
            });
        }
        for slot in ready {
            self.put_ready(now, slot);
        }
        self.refresh_queue(now, at);
    }

    /// Sets the charge that an earlier dispatcher stored: so far above the queue's virtual time.
    pub(super) fn recall(&mut self, now: Timestamp, remembered: Remembered) {
        let queue = self.queue(now, &remembered.queue);
        let group = self.group(queue, &remembered.group, now);
        self.groups[group].count = remembered.count;
        let charge = self.queues[queue].now.plus(remembered.ahead);
        if charge > self.groups[group].account.charge {
            self.leave_turns(group);
            self.groups[group].account.charge = charge;
            self.refresh_group(now, group);
        }
    }
}
