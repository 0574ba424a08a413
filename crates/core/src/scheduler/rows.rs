//! Queues, tasks and keys, data that only few jobs have, and which rows a job concerns.

use std::{collections::BTreeMap, time::Duration};

use super::{Scheduler, kinds::Kind, table::Index, totals::JobCount, turns::GroupTurns};
use crate::{
    backlog::Slot,
    heap::Heap,
    lifecycle::ALONE_CRASHES,
    limits::Bucket,
    name::{KeyName, QueueName},
    settings::{Concurrency, LimitSettings, QueueSettings, Rate},
    time::Timestamp,
    turn::{Account, Charge},
};

/// Data that only few jobs have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extra {
    pub(super) key: Option<Index>,
    pub(super) crashes: u32,
    pub(super) locked: u32,
    /// Must begin by then.
    pub(super) expires: Option<Timestamp>,
    /// Of its arguments, if they are long.
    pub(super) args_bytes: u32,
    /// The queue of its last run, if a person has edited the job before the end of that run was reported.
    pub(super) ran_in: Option<Index>,
}

/// The rows whose limits and accounts a job concerns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ties {
    pub(super) kind: Index,
    pub(super) queue: Index,
    pub(super) task: Index,
    pub(super) group: Index,
    pub(super) owner: Index,
    pub(super) key: Option<Index>,
}

#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) name: QueueName,
    pub(super) settings: QueueSettings,
    pub(super) account: Account,
    /// Virtual time among its groups.
    pub(super) now: Charge,
    /// Groups with something ready, by class of kinds.
    pub(super) turns: Vec<GroupTurns>,
    /// The line of a serial queue.
    pub(super) line: Heap,
    /// The job of a serial queue that has begun and holds the line.
    pub(super) begun: Option<Slot>,
    pub(super) in_flight: u32,
    /// The sum of what its flights are charged and have not used yet.
    pub(super) unused: Duration,
    /// All its unfinished jobs.
    pub(super) jobs: u32,
    /// Its flights by seat, as far as there were any.
    on_seat: Vec<u32>,
    pub(super) bucket: Option<Bucket>,
    pub(super) entered: bool,
    /// Where it takes its turn.
    pub(super) tree: Index,
}

impl Queue {
    fn new(name: QueueName, settings: QueueSettings, tree: Index, now: Timestamp) -> Self {
        Self {
            name,
            account: Account::default(),
            now: Charge::default(),
            turns: Vec::new(),
            line: Heap::default(),
            begun: None,
            in_flight: 0,
            unused: Duration::ZERO,
            jobs: 0,
            on_seat: Vec::new(),
            bucket: settings.rate.map(|rate| Bucket::new(rate, now)),
            settings,
            entered: false,
            tree,
        }
    }

    /// What it has really used: its charge without what its flights have not used yet.
    pub(super) fn used(&self) -> Charge {
        self.account.charge.minus(Charge::of(self.unused, self.settings.weight))
    }

    /// How many of it may be in flight.
    #[inline]
    pub(super) fn limit(&self) -> Option<u32> {
        match self.settings.concurrency {
            Concurrency::Unlimited => None,
            Concurrency::AtMost(limit) => Some(limit),
            Concurrency::Serial => Some(1),
        }
    }

    #[inline]
    pub(super) fn serial(&self) -> bool {
        self.settings.concurrency == Concurrency::Serial
    }

    #[inline]
    pub(super) fn full_on(&self, seat: Index) -> bool {
        self.settings.per_node.is_some_and(|cap| self.on_seat.get(seat as usize).copied().unwrap_or(0) >= cap)
    }

    pub(super) fn on_seat(&mut self, seat: Index) -> &mut u32 {
        let at = seat as usize;
        if self.on_seat.len() <= at {
            self.on_seat.resize(at + 1, 0);
        }
        &mut self.on_seat[at]
    }
}

/// A task or a key: something with a limit of its own.
#[derive(Debug, Clone)]
pub(super) struct Limited<N> {
    pub(super) name: N,
    pub(super) settings: LimitSettings,
    pub(super) in_flight: u32,
    /// Its unfinished jobs (keys only; those of a task are counted by kind).
    pub(super) count: JobCount,
    pub(super) bucket: Option<Bucket>,
    /// Jobs that wait for the limit, by lane (keys only).
    pub(super) parked: BTreeMap<(Index, Index), Heap>,
}

impl Scheduler {
    #[inline]
    pub(super) fn queue_of(&self, slot: Slot) -> Index {
        self.kinds[self.backlog.kind(slot)].queue
    }

    #[inline]
    pub(super) fn ties(&self, slot: Slot) -> Ties {
        let (kind, group) = self.backlog.kind_and_group(slot);
        let &Kind { queue, task, .. } = &self.kinds[kind];
        let owner = self.groups[group].owner;
        Ties { kind, queue, task, group, owner, key: self.key_of(slot) }
    }

    pub(super) fn crashes(&self, slot: Slot) -> u32 {
        self.extras.get(&slot).map_or(0, |extra| extra.crashes)
    }

    pub(super) fn args_bytes(&self, slot: Slot) -> u32 {
        self.extras.get(&slot).map_or(0, |extra| extra.args_bytes)
    }

    /// Whether the job has to run alone: while it is ready it is among the suspects, and nowhere else.
    pub(super) fn is_suspect(&self, slot: Slot) -> bool {
        self.crashes(slot) >= ALONE_CRASHES
    }

    pub(super) fn queue(&mut self, now: Timestamp, name: &QueueName) -> Index {
        let last = self.kinds.last().map(|kind| kind.queue);
        let last = last.filter(|&last| self.queues[last].name == *name);
        last.or_else(|| self.queues.find(name)).unwrap_or_else(|| {
            let settings = self.settings.queues.get(name).cloned().unwrap_or_default();
            let queue = Queue::new(name.clone(), settings, self.tree_of(name), now);
            self.queues.add(name.clone(), queue)
        })
    }

    pub(super) fn key(&mut self, now: Timestamp, name: &KeyName) -> Index {
        self.keys.find(name).unwrap_or_else(|| {
            let settings = self.settings.keys.get(name).copied().unwrap_or_default();
            self.keys.add(name.clone(), Limited::new(name.clone(), settings, now))
        })
    }

    #[inline]
    pub(super) fn key_of(&self, slot: Slot) -> Option<Index> {
        self.extras.get(&slot).and_then(|extra| extra.key)
    }
}

pub(super) fn set_bucket(bucket: &mut Option<Bucket>, rate: Option<Rate>, now: Timestamp) {
    match (bucket.as_mut(), rate) {
        (Some(bucket), Some(rate)) => bucket.change(rate, now),
        (None, Some(rate)) => *bucket = Some(Bucket::new(rate, now)),
        (_, None) => *bucket = None,
    }
}

impl<N> Limited<N> {
    pub(super) fn new(name: N, settings: LimitSettings, now: Timestamp) -> Self {
        let bucket = settings.rate.map(|rate| Bucket::new(rate, now));
        Self { name, settings, in_flight: 0, count: JobCount::default(), bucket, parked: BTreeMap::new() }
    }
}

/// Due times as the backlog keeps them.
pub(super) fn clamp(due: Timestamp) -> Timestamp {
    Timestamp::from_micros(due.micros().clamp(0, (1 << 56) - 1))
}
