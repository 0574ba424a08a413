//! Gates: `Some` says what is closed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Scheduler, tables::*};
use crate::{
    backlog::Slot,
    calendar::{LastNext, Wish, blocked_until, next_block},
    name::QueueName,
    queue_state,
    settings::{Concurrency, Settings},
    time::Timestamp,
};

/// What the clock on the wall has to say, for the few queues that ask it.
#[derive(Debug, Clone, Default)]
pub(super) struct Hours {
    /// When windows next begin or end.
    turns: BTreeSet<(Timestamp, Index)>,
    /// Queues that are in a window.
    blocked: BTreeSet<Index>,
    /// Queues with jobs that are still due by an earlier schedule.
    stale: BTreeSet<Index>,
    schedules: BTreeMap<Index, LastNext>,
    pub(super) read_again: bool,
}

impl Hours {
    fn closed(&self, queue: Index) -> bool {
        self.blocked.contains(&queue) || self.stale.contains(&queue)
    }

    pub(super) fn stale(&self, queue: Index) -> bool {
        self.stale.contains(&queue)
    }

    pub(super) fn next_turn(&self) -> Option<Timestamp> {
        self.turns.first().map(|(at, _)| *at)
    }
}

impl Scheduler {
    /// Sealed, quiet and empty; not before the backlog is read.
    pub(super) fn finished(&self, at: Index) -> bool {
        let queue = &self.queues[at as usize];
        queue_state::is_finished(&queue.settings, queue.jobs > 0 || self.loading)
    }

    pub(super) fn is_finished(&self, name: &QueueName) -> bool {
        self.queue_index.get(name).is_some_and(|&queue| self.finished(queue))
    }

    /// The first queue that is not finished and that this one waits for.
    pub(super) fn waits_for(&self, at: Index) -> Option<&QueueName> {
        queue_state::waits_for(&self.queues[at as usize].settings, |name| self.is_finished(name))
    }

    pub(super) fn queue_gate(&self, now: Timestamp, at: Index) -> Option<Closed> {
        let queue = &self.queues[at as usize];
        if queue.settings.paused.is_some() {
            return Some(Closed::Paused);
        }
        if !queue.settings.after.is_empty() && self.waits_for(at).is_some() {
            return Some(Closed::Waiting);
        }
        if self.hours.closed(at) {
            return Some(Closed::Hours);
        }
        closed_by(queue.in_flight, self.queue_limit(at), queue.bucket.as_ref(), now)
    }

    /// How many of a queue may be in flight now.
    pub(super) fn queue_limit(&self, at: Index) -> Option<u32> {
        match self.queues[at as usize].settings.concurrency {
            Concurrency::Unlimited => None,
            Concurrency::AtMost(limit) => Some(limit),
            Concurrency::Serial if self.loading => Some(0),
            Concurrency::Serial => Some(1),
        }
    }

    pub(super) fn owner_gate(&self, now: Timestamp, at: Index) -> Option<Closed> {
        let owner = &self.owners[at as usize];
        let special = owner.special.as_ref()?;
        if special.settings.paused.is_some() {
            return Some(Closed::Paused);
        }
        closed_by(owner.in_flight, special.settings.concurrency, special.bucket.as_ref(), now)
    }

    pub(super) fn task_gate(&self, now: Timestamp, at: Index) -> Option<Closed> {
        let task = &self.tasks[at as usize];
        closed_by(task.in_flight, task.settings.concurrency, task.bucket.as_ref(), now)
    }

    pub(super) fn key_gate(&self, now: Timestamp, at: Index) -> Option<Closed> {
        let key = &self.keys[at as usize];
        closed_by(key.in_flight, key.settings.concurrency, key.bucket.as_ref(), now)
    }

    /// Whether this node may begin one of these kinds.
    pub(super) fn class_open(&self, now: Timestamp, class: Index, seat: Index) -> bool {
        let class = &self.classes[class as usize];
        class.able[seat as usize] && class.limited.is_none_or(|task| self.task_gate(now, task).is_none())
    }

    /// Whether this node may begin the head of a serial queue's line.
    pub(super) fn head_open(&self, now: Timestamp, slot: Slot, seat: Index) -> bool {
        let kind = &self.kinds[self.backlog.kind(slot) as usize];
        let owner = self.groups[self.backlog.group(slot) as usize].owner;
        let key = self.extras.get(&slot).and_then(|extra| extra.key);
        self.classes[kind.class as usize].able[seat as usize]
            && self.owner_gate(now, owner).is_none()
            && self.task_gate(now, kind.task).is_none()
            && key.is_none_or(|key| self.key_gate(now, key).is_none())
    }

    /// Whether any limit counts how many of these run. (A rate counts only how many begin.)
    pub(super) fn is_limited(&self, ties: Ties) -> bool {
        let queue = &self.queues[ties.queue as usize].settings;
        let owner = &self.owners[ties.owner as usize];
        queue.concurrency != Concurrency::Unlimited
            || queue.per_node.is_some()
            || owner.special.as_ref().is_some_and(|special| special.settings.concurrency.is_some())
            || self.tasks[ties.task as usize].settings.concurrency.is_some()
            || ties.key.is_some_and(|key| self.keys[key as usize].settings.concurrency.is_some())
    }

    /// When a job is due: at its own time, or by its queue's schedule if it has named none.
    pub(super) fn due_of(&mut self, at: Index, wish: Wish) -> Option<Timestamp> {
        let Some(schedule) = &self.queues[at as usize].settings.schedule else { return wish.due };
        self.hours.schedules.entry(at).or_default().due_by(schedule, wish).or(wish.due)
    }

    /// Opens and closes queues whose windows have ended or begun.
    pub(super) fn turn_windows(&mut self, now: Timestamp) {
        while let Some(&(_, at)) = self.hours.turns.first().filter(|(turn, _)| *turn <= now) {
            self.hours.turns.pop_first();
            self.watch_window(now, at);
        }
    }

    /// Windows may have been set or taken away.
    pub(super) fn watch_windows(&mut self, now: Timestamp) {
        self.hours.turns.clear();
        for at in 0..index(self.queues.len()) {
            if self.hours.blocked.contains(&at) || !self.queues[at as usize].settings.block.is_empty() {
                self.watch_window(now, at);
            }
        }
    }

    fn watch_window(&mut self, now: Timestamp, at: Index) {
        let windows = &self.queues[at as usize].settings.block;
        let until = blocked_until(windows, now);
        let turn = until.or_else(|| next_block(windows, now));
        self.hours.turns.extend(turn.map(|turn| (turn, at)));
        match until {
            Some(_) => self.hours.blocked.insert(at),
            None => self.hours.blocked.remove(&at),
        };
        self.refresh_queue(now, at);
    }

    /// A schedule that is changed concerns the jobs that wait already, and only the store knows when they were submitted.
    pub(super) fn note_schedules(&mut self, settings: &Settings) {
        for (at, queue) in (0..).zip(&self.queues) {
            let schedule = settings.queues.get(&queue.name).and_then(|queue| queue.schedule.as_ref());
            if queue.settings.schedule.as_ref() == schedule {
                continue;
            }
            self.hours.schedules.remove(&at);
            if queue.jobs > queue.in_flight {
                self.hours.stale.insert(at);
                self.hours.read_again = true;
            }
        }
    }

    /// Everything was read again: all jobs are due by the schedules of now.
    pub(super) fn trust_schedules(&mut self, now: Timestamp) {
        for at in std::mem::take(&mut self.hours.stale) {
            self.refresh_queue(now, at);
        }
    }
}
