//! Gates: what must be open before a job may begin.
//!
//! A queue, an owner, a task and a key each keep gates of their own. [`Scheduler::walk`] is the one list of them. All code that
//! asks about gates walks it, and decides for each [`Closed`] what follows.

use std::ops::ControlFlow;

use super::{Scheduler, rows::Ties, table::Index};
use crate::{
    backlog::Slot,
    limits::Bucket,
    name::QueueName,
    queue_state,
    settings::{GroupSettings, LimitSettings, QueueSettings},
    time::Timestamp,
};

/// Whose gate it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keeper {
    Queue(Index),
    Owner(Index),
    Task(Index),
    Key(Index),
}

impl Ties {
    /// All keepers whose gates must be open for the job.
    #[inline]
    pub(super) fn keepers(self) -> impl Iterator<Item = Keeper> {
        let key = self.key.map(Keeper::Key);
        [Keeper::Queue(self.queue), Keeper::Owner(self.owner), Keeper::Task(self.task)].into_iter().chain(key)
    }
}

/// Why a gate is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    Paused,
    /// It waits for another queue.
    Waiting,
    /// It starts nothing in a window.
    Window,
    /// Not all its jobs are read, and it must know them all: it is serial, or its schedule was changed.
    Reading,
    Limit,
    Rate(Timestamp),
}

impl Closed {
    /// Whether it stays closed even if jobs end and time passes for the rates.
    #[inline]
    pub(super) fn holds(self) -> bool {
        match self {
            Self::Paused | Self::Waiting | Self::Window | Self::Reading => true,
            Self::Limit | Self::Rate(_) => false,
        }
    }
}

impl Scheduler {
    /// Sealed, quiet and empty; not before the backlog is read.
    pub(super) fn finished(&self, at: Index) -> bool {
        let queue = &self.queues[at];
        queue_state::is_finished(&queue.settings, queue.jobs > 0 || self.loading)
    }

    pub(super) fn is_finished(&self, name: &QueueName) -> bool {
        self.queues.find(name).is_some_and(|queue| self.finished(queue))
    }

    /// The first queue that is not finished and that this one waits for.
    pub(super) fn waits_for(&self, at: Index) -> Option<&QueueName> {
        queue_state::waits_for(&self.queues[at].settings, |name| self.is_finished(name))
    }

    /// Walks the gates of a keeper that are closed. This is the one list of gates: choosing stops at the first, `why` shows them
    /// all. All settings are named here, so that a new one cannot be forgotten.
    #[inline]
    fn walk<B>(&self, now: Timestamp, keeper: Keeper, mut see: impl FnMut(Closed) -> ControlFlow<B>) -> ControlFlow<B> {
        match keeper {
            Keeper::Queue(at) => {
                let queue = &self.queues[at];
                let QueueSettings {
                    paused,
                    after,
                    // `Hours` keeps them.
                    block: _,
                    schedule: _,
                    // Below.
                    concurrency: _,
                    rate: _,
                    // Of one node: `Queue::full_on`.
                    per_node: _,
                    weight: _,
                    fairness: _,
                    scheme: _,
                    on_error: _,
                    sealed: _,
                    quiet: _,
                } = &queue.settings;
                if paused.is_some() {
                    see(Closed::Paused)?;
                }
                if !after.is_empty() && self.waits_for(at).is_some() {
                    see(Closed::Waiting)?;
                }
                if self.hours.blocked(at) {
                    see(Closed::Window)?;
                }
                if self.hours.stale(at) || (queue.serial() && self.loading) {
                    see(Closed::Reading)?;
                }
            }
            Keeper::Owner(at) => {
                if let Some(special) = &self.owners[at].special {
                    // How many may wait is asked when a job is submitted.
                    let GroupSettings { paused, concurrency: _, rate: _, weight: _, scheme: _, max_waiting: _ } =
                        &special.settings;
                    if paused.is_some() {
                        see(Closed::Paused)?;
                    }
                }
            }
            Keeper::Task(at) => {
                let LimitSettings { concurrency: _, rate: _ } = self.tasks[at].settings;
            }
            Keeper::Key(at) => {
                let LimitSettings { concurrency: _, rate: _ } = self.keys[at].settings;
            }
        }
        let (in_flight, limit) = self.limit(keeper);
        if limit.is_some_and(|limit| in_flight >= limit) {
            see(Closed::Limit)?;
        }
        match self.bucket(keeper) {
            Some(bucket) if !bucket.allows(now) => see(Closed::Rate(bucket.next())),
            _ => ControlFlow::Continue(()),
        }
    }

    /// The first closed gate of a keeper.
    #[inline]
    pub(super) fn gate(&self, now: Timestamp, keeper: Keeper) -> Option<Closed> {
        self.walk(now, keeper, ControlFlow::Break).break_value()
    }

    /// All closed gates of a keeper.
    pub(super) fn closed_gates(&self, now: Timestamp, keeper: Keeper) -> Vec<Closed> {
        let mut closed = Vec::new();
        let _ = self.walk(now, keeper, |gate| {
            closed.push(gate);
            ControlFlow::<()>::Continue(())
        });
        closed
    }

    /// Whether a gate is closed that neither ends of jobs nor a rate will open.
    pub(super) fn is_held(&self, now: Timestamp, keeper: Keeper) -> bool {
        let held = |gate: Closed| if gate.holds() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        self.walk(now, keeper, held).is_break()
    }

    /// How many of a keeper's jobs are in flight, and how many may be.
    #[inline]
    pub(super) fn limit(&self, keeper: Keeper) -> (u32, Option<u32>) {
        match keeper {
            Keeper::Queue(at) => (self.queues[at].in_flight, self.queues[at].limit()),
            Keeper::Owner(at) => (self.owners[at].in_flight, self.owners[at].concurrency()),
            Keeper::Task(at) => (self.tasks[at].in_flight, self.tasks[at].settings.concurrency),
            Keeper::Key(at) => (self.keys[at].in_flight, self.keys[at].settings.concurrency),
        }
    }

    #[inline]
    pub(super) fn bucket(&self, keeper: Keeper) -> Option<&Bucket> {
        match keeper {
            Keeper::Queue(at) => self.queues[at].bucket.as_ref(),
            Keeper::Owner(at) => self.owners[at].bucket(),
            Keeper::Task(at) => self.tasks[at].bucket.as_ref(),
            Keeper::Key(at) => self.keys[at].bucket.as_ref(),
        }
    }

    fn bucket_mut(&mut self, keeper: Keeper) -> Option<&mut Bucket> {
        match keeper {
            Keeper::Queue(at) => self.queues[at].bucket.as_mut(),
            Keeper::Owner(at) => self.owners[at].special.as_mut().and_then(|special| special.bucket.as_mut()),
            Keeper::Task(at) => self.tasks[at].bucket.as_mut(),
            Keeper::Key(at) => self.keys[at].bucket.as_mut(),
        }
    }

    /// A job begins: it is counted by every rate that concerns it.
    pub(super) fn take_tokens(&mut self, now: Timestamp, ties: Ties) {
        for keeper in ties.keepers() {
            if let Some(bucket) = self.bucket_mut(keeper) {
                bucket.take(now);
                let bucket = *bucket;
                self.times.wake_for(&bucket, keeper, now);
            }
        }
    }

    /// Takes all tokens out of all buckets.
    pub(super) fn empty_buckets(&mut self, now: Timestamp) {
        for keeper in self.keepers() {
            if let Some(bucket) = self.bucket_mut(keeper) {
                bucket.empty(now);
            }
        }
    }

    fn keepers(&self) -> impl Iterator<Item = Keeper> + use<> {
        let queues = self.queues.indexes().map(Keeper::Queue);
        let owners = self.owners.indexes().map(Keeper::Owner);
        let tasks = self.tasks.indexes().map(Keeper::Task);
        let keys = self.keys.indexes().map(Keeper::Key);
        queues.chain(owners).chain(tasks).chain(keys)
    }

    /// Sets an alarm for every bucket that is empty, also for one that was just made: when it has a token again, its keeper is
    /// woken.
    pub(super) fn watch_rates(&mut self, now: Timestamp) {
        for keeper in self.keepers() {
            if let Some(&bucket) = self.bucket(keeper) {
                self.times.wake_for(&bucket, keeper, now);
            }
        }
    }

    /// Whether this node may begin one of these kinds.
    #[inline]
    pub(super) fn class_open(&self, now: Timestamp, class: Index, seat: Index) -> bool {
        let class = self.kinds.class(class);
        class.able(seat) && class.limited().is_none_or(|task| self.gate(now, Keeper::Task(task)).is_none())
    }

    /// Whether this node may begin the head of a serial queue's line, whose own gates are open.
    pub(super) fn head_open(&self, now: Timestamp, slot: Slot, seat: Index) -> bool {
        let ties = self.ties(slot);
        let mut others = ties.keepers().filter(|keeper| *keeper != Keeper::Queue(ties.queue));
        self.kinds.class(self.kinds[ties.kind].class()).able(seat)
            && others.all(|keeper| self.gate(now, keeper).is_none())
    }

    /// Whether any limit counts how many of these run. (A rate counts only how many begin.)
    #[inline]
    pub(super) fn is_limited(&self, ties: Ties) -> bool {
        self.queues[ties.queue].settings.per_node.is_some()
            || ties.keepers().any(|keeper| self.limit(keeper).1.is_some())
    }
}
