//! The calendar of queues: windows in which they start nothing, and schedules by which their jobs are due.

use std::collections::{BTreeMap, BTreeSet};

use super::{Scheduler, table::Index};
use crate::{
    calendar::{GivenTime, LastNext, blocked_until, next_block},
    settings::Settings,
    time::Timestamp,
};

/// Windows and schedules of the few queues that have any.
#[derive(Debug, Clone, Default)]
pub(super) struct Hours {
    /// When windows next begin or end.
    turns: BTreeSet<(Timestamp, Index)>,
    /// Queues that are in a window.
    blocked: BTreeSet<Index>,
    /// Queues with jobs that are still due by an earlier schedule.
    stale: BTreeSet<Index>,
    schedules: BTreeMap<Index, LastNext>,
    read_again: bool,
}

impl Hours {
    /// Whether the queue is in a window.
    pub(super) fn blocked(&self, queue: Index) -> bool {
        self.blocked.contains(&queue)
    }

    /// Whether jobs of the queue are still due by an earlier schedule.
    pub(super) fn stale(&self, queue: Index) -> bool {
        self.stale.contains(&queue)
    }

    /// Whether the backlog must be read again; `true` once for each change of a schedule.
    pub(super) fn take_read_again(&mut self) -> bool {
        std::mem::take(&mut self.read_again)
    }

    pub(super) fn next_turn(&self) -> Option<Timestamp> {
        self.turns.first().map(|(at, _)| *at)
    }
}

impl Scheduler {
    /// When a job is due: at its own time, or by its queue's schedule if it has named none.
    pub(super) fn due_of(&mut self, at: Index, given: GivenTime) -> Option<Timestamp> {
        let Some(schedule) = &self.queues[at].settings.schedule else { return given.due };
        self.hours.schedules.entry(at).or_default().due_by(schedule, given).or(given.due)
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
        for at in self.queues.indexes() {
            if self.hours.blocked.contains(&at) || !self.queues[at].settings.block.is_empty() {
                self.watch_window(now, at);
            }
        }
    }

    fn watch_window(&mut self, now: Timestamp, at: Index) {
        let windows = &self.queues[at].settings.block;
        let until = blocked_until(windows, now);
        let turn = until.or_else(|| next_block(windows, now));
        self.hours.turns.extend(turn.map(|turn| (turn, at)));
        match until {
            Some(_) => self.hours.blocked.insert(at),
            None => self.hours.blocked.remove(&at),
        };
        self.refresh_queue(now, at);
    }

    /// A changed schedule concerns jobs that wait already too, and only the store knows when they were submitted.
    pub(super) fn note_schedules(&mut self, settings: &Settings) {
        for (at, queue) in (0..).zip(self.queues.iter()) {
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

    /// The backlog was read again: all jobs are due by the current schedules.
    pub(super) fn trust_schedules(&mut self, now: Timestamp) {
        for at in std::mem::take(&mut self.hours.stale) {
            self.refresh_queue(now, at);
        }
    }
}
