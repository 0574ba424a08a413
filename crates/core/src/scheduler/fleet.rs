//! Nodes and settings: who can run what, and what is allowed.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    time::Duration,
};

use super::{Remembered, Scheduler, tables::*, trees::NOBODYS};
use crate::{
    backlog::Place,
    node::Node,
    settings::{GroupSettings, QueueSettings, Settings},
    time::Timestamp,
};

impl Scheduler {
    pub(super) fn see_nodes(&mut self, now: Timestamp, nodes: Vec<Node>) {
        for seat in &mut self.seats {
            seat.alive = false;
        }
        for node in nodes {
            match self.seat_index.get(&node.incarnation) {
                Some(&at) => {
                    let seat = &mut self.seats[at as usize];
                    seat.alive = true;
                    seat.node = node;
                }
                None => {
                    self.seat_index.insert(node.incarnation, index(self.seats.len()));
                    self.seats.push(Seat {
                        node,
                        alive: true,
                        tree: NOBODYS,
                        in_flight: 0,
                        running: 0,
                        buffer: VecDeque::new(),
                        load: Duration::ZERO,
                        guesses: 0,
                        suspect: None,
                    });
                }
            }
        }
        let mut homeless = Vec::new();
        for at in 0..self.seats.len() {
            // It may have more slots than before.
            self.begin_next(now, index(at));
            let seat = &mut self.seats[at];
            if !seat.alive
                && let Some(slot) = seat.suspect.and_then(|id| self.backlog.find(id))
                && self.backlog.place(slot) == Place::Reserved
            {
                seat.suspect = None;
                homeless.push(slot);
            }
        }
        // A node that has left and holds nothing is nobody any more. Only the last seats go, so indexes stay true.
        while self.seats.last().is_some_and(|seat| !seat.alive && seat.in_flight == 0 && seat.suspect.is_none()) {
            let seat = self.seats.pop().expect("just seen");
            self.seat_index.remove(&seat.node.incarnation);
        }
        self.plant();
        self.classify(now);
        // A suspect that waited for a node that is gone waits for another.
        for slot in homeless {
            self.unreserve(now, slot);
            self.put_ready(now, slot);
        }
    }

    /// Sorts kinds into classes again; if that moves any kind, groups stand in line anew.
    pub(super) fn classify(&mut self, now: Timestamp) {
        let mut classes: Vec<KindClass> = Vec::new();
        let mut moved = false;
        for at in 0..self.kinds.len() {
            let class = self.class_of(self.kinds[at].queue, self.kinds[at].task);
            // Whoever waited for a node that can run it begins anew, without credit.
            moved |= self.kinds[at].runnable != class.runnable();
            self.kinds[at].runnable = class.runnable();
            let to = match classes.iter().position(|known| *known == class) {
                Some(to) => to,
                None => {
                    classes.push(class);
                    classes.len() - 1
                }
            };
            moved |= self.kinds[at].class != index(to);
            self.kinds[at].class = index(to);
        }
        self.classes = classes;
        if moved {
            for group in 0..self.groups.len() {
                self.leave_turns(index(group));
            }
            for queue in &mut self.queues {
                queue.turns.clear();
            }
            for group in 0..self.groups.len() {
                self.refresh_group(now, index(group));
            }
        }
        for queue in 0..self.queues.len() {
            self.refresh_queue(now, index(queue));
        }
    }

    pub(super) fn class_of(&self, queue: Index, task: Index) -> KindClass {
        let task_info = &self.tasks[task as usize];
        let limits = task_info.settings;
        KindClass {
            able: self
                .seats
                .iter()
                .map(|seat| seat.alive && seat.node.can_run(&self.queues[queue as usize].name, &task_info.name))
                .collect(),
            limited: (limits.concurrency.is_some() || limits.rate.is_some()).then_some(task),
        }
    }

    pub(super) fn see_settings(&mut self, now: Timestamp, settings: Settings) {
        // A rate counts from the moment it is set, not from the first job it concerns.
        settings.queues.keys().for_each(|name| _ = self.queue(now, name));
        let mut specials: HashMap<Index, GroupSettings> =
            settings.groups.iter().map(|(name, special)| (self.owner(now, name), special.clone())).collect();
        settings.tasks.keys().for_each(|name| _ = self.task(now, name));
        settings.keys.keys().for_each(|name| _ = self.key(now, name));
        self.settings = settings;
        for at in 0..self.queues.len() {
            let settings = self.settings.queues.get(&self.queues[at].name).cloned().unwrap_or_default();
            self.set_queue(now, index(at), settings);
        }
        for at in 0..self.owners.len() {
            let owner = &mut self.owners[at];
            let mut bucket = owner.special.take().and_then(|special| special.bucket);
            owner.special = specials.remove(&index(at)).map(|settings| {
                set_bucket(&mut bucket, settings.rate, now);
                Box::new(Special { settings, bucket })
            });
            self.refresh_owner(now, index(at));
        }
        for task in &mut self.tasks {
            task.settings = self.settings.tasks.get(&task.name).copied().unwrap_or_default();
            set_bucket(&mut task.bucket, task.settings.rate, now);
        }
        for at in 0..self.keys.len() {
            let key = &mut self.keys[at];
            key.settings = self.settings.keys.get(&key.name).copied().unwrap_or_default();
            set_bucket(&mut key.bucket, key.settings.rate, now);
            self.unpark(now, index(at));
        }
        self.watch_rates(now);
        self.classify(now);
    }

    /// A bucket that is empty wakes whoever waits for it when it no longer is: also one that was just made.
    fn watch_rates(&mut self, now: Timestamp) {
        let queues = (0..).zip(&self.queues).map(|(at, queue)| (queue.bucket, Alarm::Queue(at)));
        let owners = (0..)
            .zip(self.owners.iter())
            .map(|(at, owner)| (owner.special.as_ref().and_then(|s| s.bucket), Alarm::Owner(at)));
        let tasks = self.tasks.iter().map(|task| (task.bucket, Alarm::Task));
        let keys = (0..).zip(&self.keys).map(|(at, key)| (key.bucket, Alarm::Key(at)));
        let empty = queues.chain(owners).chain(tasks).chain(keys).filter_map(|(bucket, alarm)| {
            let bucket = bucket.filter(|bucket| !bucket.allows(now))?;
            Some(Reverse((bucket.next(), alarm)))
        });
        let empty: Vec<_> = empty.collect();
        self.alarms.extend(empty);
    }

    pub(super) fn set_queue(&mut self, now: Timestamp, at: Index, settings: QueueSettings) {
        let queue = &mut self.queues[at as usize];
        set_bucket(&mut queue.bucket, settings.rate, now);
        let was_serial = queue.serial();
        queue.settings = settings;
        if queue.serial() == was_serial {
            return self.refresh_queue(now, at);
        }
        // From lanes to a line or back: rare, so every ready job of the queue is placed anew.
        let line = std::mem::take(&mut queue.line);
        // The one that holds the line is in no heap, unless it is among the suspects, where it stays.
        let begun = queue.begun.take();
        let begun = begun.filter(|&begun| self.backlog.place(begun) == Place::Ready && !self.is_suspect(begun));
        let mut ready = Vec::new();
        for slot in line.as_slice().iter().copied().chain(begun) {
            match self.backlog.place(slot) {
                Place::Ready => ready.push(slot),
                _ => self.backlog.bury(slot),
            }
        }
        for group in 0..self.groups.len() {
            if self.groups[group].queue != at {
                continue;
            }
            self.leave_turns(index(group));
            for lane in std::mem::take(&mut self.groups[group].lanes) {
                // Whoever is buried names another one from then on.
                for slot in lane.jobs.slots(&self.backlog).collect::<Vec<_>>() {
                    match self.backlog.place(slot) {
                        Place::Ready => ready.push(slot),
                        _ => self.backlog.bury(slot),
                    }
                }
            }
        }
        let Self { keys, groups, backlog, .. } = self;
        for key in keys {
            key.parked.retain(|(group, _), lane| {
                let moves = groups[*group as usize].queue == at;
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

    /// A charge above the virtual time of a queue that has just begun to be known.
    pub(super) fn recall(&mut self, now: Timestamp, remembered: Remembered) {
        let queue = self.queue(now, &remembered.queue);
        let group = self.group(queue, &remembered.group, now);
        self.groups[group as usize].count = remembered.count;
        let charge = self.queues[queue as usize].now.plus(remembered.ahead);
        if charge > self.groups[group as usize].account.charge {
            self.leave_turns(group);
            self.groups[group as usize].account.charge = charge;
            self.refresh_group(now, group);
        }
    }
}
