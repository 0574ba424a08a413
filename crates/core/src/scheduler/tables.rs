//! What the scheduler knows, by index: names are kept once.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::Duration,
};

use super::{PREFETCH, Scheduler};
use crate::{
    backlog::{Backlog, Place, Slot},
    heap,
    job::{Class, JobId},
    limits::Bucket,
    name::{GroupName, KeyName, QueueName, TaskName},
    node::Node,
    settings::{Concurrency, GroupSettings, LimitSettings, QueueSettings, Rate, Weight},
    time::Timestamp,
    turn::{Account, Charge, Scheme, Turns},
};

/// Index into one of the scheduler's tables; names are kept once.
pub(super) type Index = u32;

/// What is known of few jobs only.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Extra {
    pub(super) key: Option<Index>,
    pub(super) crashes: u32,
    pub(super) locked: u32,
    /// Must begin by then.
    pub(super) expires: Option<Timestamp>,
}

/// A job in a node's hands, or picked for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flight {
    /// `None`: a node we do not know (lost, not yet settled).
    pub(super) seat: Option<Index>,
    /// Since when it runs, as far as can be told from here: a node runs what it is given in turn. `None`: it lies in the
    /// node's buffer.
    pub(super) runs_since: Option<Timestamp>,
    /// Tells this flight from others of the same slot.
    pub(super) number: u64,
    /// As added to its node's load.
    pub(super) cost: Duration,
    /// As charged to its group so far.
    pub(super) charged: Duration,
}

/// A queue and a task: what a node must serve and know.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) queue: Index,
    pub(super) task: Index,
    pub(super) cost: Option<Duration>,
    pub(super) class: Index,
    /// Jobs that no node can run are not waited for.
    pub(super) runnable: bool,
}

/// Kinds that the same nodes can run, and that share a task's limit if there is one: they are open or closed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KindClass {
    pub(super) able: Vec<bool>,
    pub(super) limited: Option<Index>,
}

#[derive(Debug, Clone)]
pub(super) struct Queue {
    pub(super) name: QueueName,
    pub(super) settings: QueueSettings,
    pub(super) account: Account,
    /// Virtual time among its groups.
    pub(super) now: Charge,
    /// Groups with something ready, by class of kinds.
    pub(super) turns: Vec<(Index, Turns)>,
    /// The line of a serial queue.
    pub(super) line: Vec<Slot>,
    /// The job of a serial queue that has begun and holds the line.
    pub(super) begun: Option<Slot>,
    pub(super) in_flight: u32,
    /// All its unfinished jobs.
    pub(super) jobs: u32,
    pub(super) on_seat: HashMap<Index, u32>,
    pub(super) bucket: Option<Bucket>,
    pub(super) entered: bool,
}

impl Queue {
    pub(super) fn serial(&self) -> bool {
        self.settings.concurrency == Concurrency::Serial
    }
}

/// A group in a queue.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) queue: Index,
    pub(super) owner: Index,
    pub(super) account: Account,
    pub(super) lanes: Vec<Lane>,
    /// Classes of kinds it stands in line for.
    pub(super) entered: Vec<Index>,
    /// Picks so far, for the counting scheme.
    pub(super) count: u32,
    pub(super) in_flight: u32,
}

/// A group by its name, in all queues.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    pub(super) name: GroupName,
    /// What is set for it; most have nothing set, and there may be a million of them.
    pub(super) special: Option<Box<Special>>,
    pub(super) groups: Vec<Index>,
    pub(super) in_flight: u32,
    /// All its unfinished jobs.
    pub(super) jobs: u32,
}

#[derive(Debug, Clone)]
pub(super) struct Special {
    pub(super) settings: GroupSettings,
    pub(super) bucket: Option<Bucket>,
}

impl Owner {
    pub(super) fn weight(&self) -> Weight {
        self.special.as_ref().map(|special| special.settings.weight).unwrap_or_default()
    }

    pub(super) fn scheme(&self) -> Option<Scheme> {
        self.special.as_ref().and_then(|special| special.settings.scheme)
    }

    pub(super) fn limited(&self) -> bool {
        self.special.as_ref().is_some_and(|special| special.settings.concurrency.is_some() || special.bucket.is_some())
    }
}

/// A task or a key: something with a limit of its own.
#[derive(Debug, Clone)]
pub(super) struct Limited<N> {
    pub(super) name: N,
    pub(super) settings: LimitSettings,
    pub(super) in_flight: u32,
    pub(super) bucket: Option<Bucket>,
    /// Jobs that wait for the limit, by lane (keys only).
    pub(super) parked: BTreeMap<(Index, Index), Vec<Slot>>,
}

/// Ready jobs of one kind in one group.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) kind: Index,
    pub(super) high: Vec<Slot>,
    pub(super) low: Vec<Slot>,
    pub(super) stuck: Vec<Slot>,
}

#[derive(Debug, Clone)]
pub(super) struct Seat {
    pub(super) node: Node,
    pub(super) alive: bool,
    pub(super) in_flight: u32,
    /// Of those in flight, the ones that run.
    pub(super) running: u32,
    /// The others, in turn; those that have left since are skipped when they come up.
    pub(super) buffer: VecDeque<(Slot, u64)>,
    pub(super) load: Duration,
    /// Some of its jobs have a cost nobody knows: nothing is prefetched beside them.
    pub(super) guesses: u32,
    /// A suspect runs here alone, or the node drains for it.
    pub(super) suspect: Option<JobId>,
}

impl Seat {
    pub(super) fn has_room(&self) -> bool {
        if !self.alive || self.suspect.is_some() {
            return false;
        }
        let slots = self.node.slots;
        self.in_flight < slots
            || (slots > 0
                && self.in_flight - slots < self.node.queue_capacity
                && self.guesses == 0
                && self.load < PREFETCH.saturating_mul(slots))
    }

    /// Counts a job that is already in flight here as running, if there is a slot for it; else it lies in the buffer.
    pub(super) fn board(&mut self, slot: Slot, number: u64) -> bool {
        let runs = self.running < self.node.slots;
        match runs {
            true => self.running += 1,
            false => self.buffer.push_back((slot, number)),
        }
        runs
    }

    /// Less is freer; compares nodes of different sizes.
    pub(super) fn fullness(&self) -> u64 {
        u64::from(self.in_flight) * 1_000 / u64::from(self.node.slots.max(1))
    }
}

/// Whose rate allows the next start at a known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    Queue(Index),
    Owner(Index),
    Task,
    Key(Index),
}

impl Scheduler {
    pub(super) fn queue_of(&self, slot: Slot) -> Index {
        self.kinds[self.backlog.kind(slot) as usize].queue
    }

    pub(super) fn crashes(&self, slot: Slot) -> u32 {
        self.extras.get(&slot).map_or(0, |extra| extra.crashes)
    }

    pub(super) fn queue(&mut self, now: Timestamp, name: &QueueName) -> Index {
        if let Some(&known) = self.queue_index.get(name) {
            return known;
        }
        let at = index(self.queues.len());
        let settings = self.settings.queues.get(name).cloned().unwrap_or_default();
        self.queues.push(Queue {
            name: name.clone(),
            account: Account { charge: self.virtual_now, served: 0 },
            now: Charge::default(),
            turns: Vec::new(),
            line: Vec::new(),
            begun: None,
            in_flight: 0,
            jobs: 0,
            on_seat: HashMap::new(),
            bucket: settings.rate.map(|rate| Bucket::new(rate, now)),
            settings,
            entered: false,
        });
        self.queue_index.insert(name.clone(), at);
        at
    }

    pub(super) fn task(&mut self, now: Timestamp, name: &TaskName) -> Index {
        if let Some(&known) = self.task_index.get(name) {
            return known;
        }
        let at = index(self.tasks.len());
        let settings = self.settings.tasks.get(name).copied().unwrap_or_default();
        self.tasks.push(Limited::new(name.clone(), settings, now));
        self.task_index.insert(name.clone(), at);
        at
    }

    pub(super) fn key(&mut self, now: Timestamp, name: &KeyName) -> Index {
        if let Some(&known) = self.key_index.get(name) {
            return known;
        }
        let at = index(self.keys.len());
        let settings = self.settings.keys.get(name).copied().unwrap_or_default();
        self.keys.push(Limited::new(name.clone(), settings, now));
        self.key_index.insert(name.clone(), at);
        at
    }

    pub(super) fn kind(&mut self, queue: Index, task: Index) -> Index {
        if let Some(&known) = self.kind_index.get(&(queue, task)) {
            return known;
        }
        let at = index(self.kinds.len());
        assert!(at < 1 << 24, "more than sixteen million pairs of queue and task");
        let class = self.class_of(queue, task);
        let runnable = class.able.iter().any(|able| *able);
        let to = match self.classes.iter().position(|known| *known == class) {
            Some(to) => to,
            None => {
                self.classes.push(class);
                self.classes.len() - 1
            }
        };
        self.kinds.push(Kind { queue, task, cost: None, class: index(to), runnable });
        self.kind_index.insert((queue, task), at);
        at
    }

    pub(super) fn owner(&mut self, now: Timestamp, name: &GroupName) -> Index {
        if let Some(&known) = self.owner_index.get(name) {
            return known;
        }
        let at = index(self.owners.len());
        let special = self.settings.groups.get(name).map(|settings| {
            let bucket = settings.rate.map(|rate| Bucket::new(rate, now));
            Box::new(Special { settings: settings.clone(), bucket })
        });
        self.owners.push(Owner { name: name.clone(), special, groups: Vec::new(), in_flight: 0, jobs: 0 });
        self.owner_index.insert(name.clone(), at);
        at
    }

    pub(super) fn group(&mut self, queue: Index, name: &GroupName, now: Timestamp) -> Index {
        let owner = self.owner(now, name);
        if let Some(&known) = self.group_index.get(&(queue, owner)) {
            return known;
        }
        let at = index(self.groups.len());
        let account = Account { charge: self.queues[queue as usize].now, served: 0 };
        self.groups.push(Group {
            queue,
            owner,
            account,
            lanes: Vec::new(),
            entered: Vec::new(),
            count: 0,
            in_flight: 0,
        });
        self.owners[owner as usize].groups.reserve_exact(1);
        self.owners[owner as usize].groups.push(at);
        self.group_index.insert((queue, owner), at);
        at
    }
}

/// Why a gate is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    Paused,
    /// It waits for another queue.
    Waiting,
    /// In a window, or its schedule was changed and its jobs are not read again yet.
    Hours,
    Limit,
    Rate(Timestamp),
}

pub(super) fn closed_by(in_flight: u32, limit: Option<u32>, bucket: Option<&Bucket>, now: Timestamp) -> Option<Closed> {
    if limit.is_some_and(|limit| in_flight >= limit) {
        return Some(Closed::Limit);
    }
    bucket.filter(|bucket| !bucket.allows(now)).map(|bucket| Closed::Rate(bucket.next()))
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
        Self { name, settings, in_flight: 0, bucket, parked: BTreeMap::new() }
    }
}

/// Whether one job comes before another.
type Before = fn(&Backlog, Slot, Slot) -> bool;

impl Lane {
    pub(super) fn is_empty(&self) -> bool {
        self.stuck.is_empty() && self.high.is_empty() && self.low.is_empty()
    }

    pub(super) fn drop_dead(&mut self, backlog: &mut Backlog) {
        let orders: [(&mut Vec<Slot>, Before); 3] =
            [(&mut self.stuck, Backlog::by_due), (&mut self.high, Backlog::by_rank), (&mut self.low, Backlog::by_rank)];
        for (heap, before) in orders {
            while let Some(&slot) = heap.first()
                && backlog.place(slot) == Place::Dead
            {
                heap::pop(heap, |a, b| before(backlog, a, b));
                backlog.bury(slot);
            }
        }
    }
}

impl Class {
    pub(super) fn other(self) -> Class {
        match self {
            Class::High => Class::Low,
            Class::Low => Class::High,
        }
    }
}

/// Due times as the backlog keeps them.
pub(super) fn clamp(due: Timestamp) -> Timestamp {
    Timestamp::from_micros(due.micros().clamp(0, (1 << 56) - 1))
}

pub(super) fn index(length: usize) -> Index {
    Index::try_from(length).expect("fewer than four billion names and nodes")
}
