//! What the scheduler knows, by index: names are kept once.

use std::{
    collections::{BTreeMap, VecDeque},
    hash::{BuildHasher, Hash},
    time::Duration,
};

use foldhash::quality::FixedState;

use super::{
    Scheduler,
    names::NameAt,
    trees::NOBODYS,
    turns::{Entered, GroupTurns},
};
use crate::{
    backlog::{Backlog, Place, Slot},
    chain::Chain,
    few::Few,
    find::Link,
    heap::Heap,
    job::{Class, JobId},
    lifecycle::ALONE_CRASHES,
    limits::Bucket,
    name::{GroupName, KeyName, QueueName, TaskName},
    node::Node,
    pool,
    settings::{Concurrency, GroupSettings, LimitSettings, QueueSettings, Rate, Weight},
    time::Timestamp,
    turn::{Account, Charge, Scheme},
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
    /// Of that, what is not used yet, as of when long runs were last charged: it may be given back.
    pub(super) unused: Duration,
}

/// Whose limits and accounts a job concerns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ties {
    pub(super) kind: Index,
    pub(super) queue: Index,
    pub(super) task: Index,
    pub(super) group: Index,
    pub(super) owner: Index,
    pub(super) key: Option<Index>,
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

impl KindClass {
    pub(super) fn runnable(&self) -> bool {
        self.able.iter().any(|able| *able)
    }
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
    pub(super) on_seat: Vec<u32>,
    pub(super) bucket: Option<Bucket>,
    pub(super) entered: bool,
    /// Where it takes its turn.
    pub(super) tree: Index,
}

impl Queue {
    pub(super) fn serial(&self) -> bool {
        self.settings.concurrency == Concurrency::Serial
    }

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

/// A group in a queue. There may be a million of them: see `a_group_takes_little_room`.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) queue: Index,
    pub(super) owner: Index,
    /// The same owner's group in another queue.
    pub(super) sibling: Link,
    pub(super) account: Account,
    pub(super) lanes: Few<Lane>,
    /// Classes of kinds it stands in line for, in ascending order.
    pub(super) entered: Few<Entered>,
    /// Picks so far, for the counting scheme.
    pub(super) count: u32,
    pub(super) in_flight: u32,
}

/// A group by its name, in all queues.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    pub(super) name: NameAt,
    /// The first of its groups; each names the next.
    pub(super) group: Link,
    /// What is set for it; most have nothing set, and there may be a million of them.
    pub(super) special: Option<Box<Special>>,
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
    pub(super) parked: BTreeMap<(Index, Index), Heap>,
}

/// Ready jobs of one kind and one rank in one group.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) kind: Index,
    pub(super) rank: Rank,
    pub(super) jobs: Chain,
}

/// What jobs of a group are compared within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    Stuck,
    Class(Class),
}

impl Rank {
    pub(super) fn of(backlog: &Backlog, slot: Slot) -> Self {
        if backlog.stuck(slot) { Self::Stuck } else { Self::Class(Class::of(backlog.priority(slot))) }
    }

    /// Whether one job comes before another of this rank.
    pub(super) fn before(self, backlog: &Backlog, a: Slot, b: Slot) -> bool {
        match self {
            Self::Stuck => backlog.by_due(a, b),
            Self::Class(_) => backlog.by_rank(a, b),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Seat {
    pub(super) node: Node,
    pub(super) alive: bool,
    /// Where its queues take their turns.
    pub(super) tree: Index,
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
                && self.load < pool::PREFETCH.saturating_mul(slots))
    }

    /// Jobs it is given in one batch, at most.
    pub(super) fn share(&self) -> usize {
        self.node.batch_size.map_or(usize::MAX, |jobs| jobs.get() as usize)
    }

    /// Counts a job that is already in flight here as running, if there is a slot for it; else it lies in the buffer.
    pub(super) fn board(&mut self, slot: Slot, number: u64) -> bool {
        let runs = self.running < self.node.slots;
        if runs {
            self.running += 1
        } else {
            self.buffer.push_back((slot, number))
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

    pub(super) fn ties(&self, slot: Slot) -> Ties {
        let (kind, group) = self.backlog.kind_and_group(slot);
        let &Kind { queue, task, .. } = &self.kinds[kind as usize];
        let owner = self.groups[group as usize].owner;
        Ties { kind, queue, task, group, owner, key: self.extras.get(&slot).and_then(|extra| extra.key) }
    }

    pub(super) fn crashes(&self, slot: Slot) -> u32 {
        self.extras.get(&slot).map_or(0, |extra| extra.crashes)
    }

    /// Whether the job has to run alone: while it is ready it is among the suspects, and nowhere else.
    pub(super) fn is_suspect(&self, slot: Slot) -> bool {
        self.crashes(slot) >= ALONE_CRASHES
    }

    pub(super) fn queue(&mut self, now: Timestamp, name: &QueueName) -> Index {
        // Jobs that come together are often of one queue and task.
        let last = self.kinds.get(self.last_kind as usize).map(|kind| kind.queue);
        if let Some(last) = last.filter(|&last| self.queues[last as usize].name == *name) {
            return last;
        }
        if let Some(&known) = self.queue_index.get(name) {
            return known;
        }
        let at = index(self.queues.len());
        let settings = self.settings.queues.get(name).cloned().unwrap_or_default();
        self.queues.push(Queue {
            name: name.clone(),
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
            tree: NOBODYS,
        });
        self.queues[at as usize].tree = self.tree_of(name);
        self.queue_index.insert(name.clone(), at);
        at
    }

    pub(super) fn task(&mut self, now: Timestamp, name: &TaskName) -> Index {
        let last = self.kinds.get(self.last_kind as usize).map(|kind| kind.task);
        if let Some(last) = last.filter(|&last| self.tasks[last as usize].name == *name) {
            return last;
        }
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
        let last = self.kinds.get(self.last_kind as usize);
        if last.is_some_and(|last| (last.queue, last.task) == (queue, task)) {
            return self.last_kind;
        }
        if let Some(&known) = self.kind_index.get(&(queue, task)) {
            self.last_kind = known;
            return known;
        }
        let at = index(self.kinds.len());
        assert!(at < 1 << 24, "more than sixteen million pairs of queue and task");
        let class = self.class_of(queue, task);
        let runnable = class.runnable();
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

    pub(super) fn owner_named(&self, name: &GroupName) -> Option<Index> {
        self.owner_hashed(name, hash(name.as_str().as_bytes()))
    }

    fn owner_hashed(&self, name: &GroupName, hash: u64) -> Option<Index> {
        let is = |at: Index| self.names.bytes(self.owners[at as usize].name) == name.as_str().as_bytes();
        self.owner_finder.find(hash, is)
    }

    pub(super) fn owner(&mut self, now: Timestamp, name: &GroupName) -> Index {
        let hashed = hash(name.as_str().as_bytes());
        if let Some(known) = self.owner_hashed(name, hashed) {
            return known;
        }
        let at = index(self.owners.len());
        let special = self.settings.groups.get(name).map(|settings| {
            let bucket = settings.rate.map(|rate| Bucket::new(rate, now));
            Box::new(Special { settings: settings.clone(), bucket })
        });
        let kept = self.names.add(name);
        self.owners.push(Owner { name: kept, group: Link::default(), special, in_flight: 0, jobs: 0 });
        let Self { owners, names, owner_finder, .. } = self;
        owner_finder.insert(at, hashed, |at| hash(names.bytes(owners[at as usize].name)));
        at
    }

    pub(super) fn group(&mut self, queue: Index, name: &GroupName, now: Timestamp) -> Index {
        let owner = self.owner(now, name);
        // Most owners have jobs in one queue only: those need not be found.
        let first = self.owners[owner as usize].group.get();
        if let Some(first) = first.filter(|&first| self.groups[first as usize].queue == queue) {
            return first;
        }
        let groups = &self.groups;
        let pair = |at: Index| (groups[at as usize].queue, groups[at as usize].owner);
        let hashed = first.map(|_| hash((queue, owner)));
        if let Some(known) = hashed.and_then(|hash| self.group_finder.find(hash, |at| pair(at) == (queue, owner))) {
            return known;
        }
        let at = index(self.groups.len());
        // Where it begins is seen when it first has something to run.
        let account = Account::default();
        let sibling = match first {
            Some(first) => std::mem::replace(&mut self.groups[first as usize].sibling, Link::to(at)),
            None => std::mem::replace(&mut self.owners[owner as usize].group, Link::to(at)),
        };
        self.groups.push(Group {
            queue,
            owner,
            sibling,
            account,
            lanes: Few::default(),
            entered: Few::default(),
            count: 0,
            in_flight: 0,
        });
        if let Some(hashed) = hashed {
            let groups = &self.groups;
            let pair = |at: Index| (groups[at as usize].queue, groups[at as usize].owner);
            self.group_finder.insert(at, hashed, |at| hash(pair(at)));
        }
        at
    }

    /// An owner's groups, one in each queue it has had jobs in.
    pub(super) fn groups_of(&self, owner: Index) -> impl Iterator<Item = Index> {
        let first = self.owners[owner as usize].group.get();
        std::iter::successors(first, |&group| self.groups[group as usize].sibling.get())
    }
}

fn hash(what: impl Hash) -> u64 {
    FixedState::default().hash_one(what)
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

impl Lane {
    pub(super) fn push(&mut self, backlog: &mut Backlog, slot: Slot) {
        self.jobs.push(backlog, slot, |backlog, a, b| self.rank.before(backlog, a, b));
    }

    pub(super) fn first(&self, backlog: &Backlog) -> Option<Slot> {
        self.jobs.first(backlog, |backlog, a, b| self.rank.before(backlog, a, b))
    }

    pub(super) fn pop(&mut self, backlog: &Backlog) -> Option<Slot> {
        self.jobs.pop(backlog, |backlog, a, b| self.rank.before(backlog, a, b))
    }

    pub(super) fn drop_dead(&mut self, backlog: &mut Backlog) {
        while let Some(slot) = self.first(backlog)
            && backlog.place(slot) == Place::Dead
        {
            self.pop(backlog);
            backlog.bury(slot);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept for each of a million groups, beside its name, four bytes for its place in line and six to find it.
    #[test]
    fn a_group_takes_little_room() {
        assert_eq!((size_of::<Group>(), size_of::<Owner>()), (80, 24));
    }
}
