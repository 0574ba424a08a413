//! Groups, one for each queue that an owner has jobs in, and owners: a group by its name, in all queues. There may be a million
//! of each.

use std::{
    hash::{BuildHasher, Hash},
    ops::{self, Range},
    time::Duration,
};

use foldhash::quality::FixedState;

use super::{
    Scheduler,
    lanes::Lane,
    names::{NameAt, Names},
    table::{Index, index},
    turns::Entered,
};
use crate::{
    chunks::Chunks,
    find::{Finder, Link},
    limits::Bucket,
    name::GroupName,
    settings::{GroupSettings, Weight},
    small_list::SmallList,
    time::Timestamp,
    turn::{Account, Charge, Scheme},
};

/// A group in a queue: see `a_group_takes_little_room`.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) queue: Index,
    pub(super) owner: Index,
    /// The same owner's group in another queue.
    sibling: Link,
    pub(super) account: Account,
    pub(super) lanes: SmallList<Lane>,
    /// Classes of kinds it stands in line for, in ascending order.
    pub(super) entered: SmallList<Entered>,
    /// Picks so far, for the counting scheme.
    pub(super) count: u32,
    pub(super) in_flight: u32,
    /// What its jobs in flight have been charged and not used yet, in nanoseconds.
    unused: u64,
}

impl Group {
    /// Its charge is set when it first has something to run.
    pub(super) fn new(queue: Index, owner: Index) -> Self {
        Self {
            queue,
            owner,
            sibling: Link::default(),
            account: Account::default(),
            lanes: SmallList::default(),
            entered: SmallList::default(),
            count: 0,
            in_flight: 0,
            unused: 0,
        }
    }

    /// One more job is in flight, which has used nothing of its charge yet.
    pub(super) fn advance(&mut self, unused: Duration) {
        self.unused = self.unused.saturating_add(nanos(unused));
    }

    /// So much of the charge is used now, or will not be used.
    pub(super) fn give_back(&mut self, unused: Duration) {
        self.unused = self.unused.saturating_sub(nanos(unused));
    }

    /// What it has really used: its charge without the unused part of its jobs in flight.
    pub(super) fn used(&self, weight: Weight) -> Charge {
        match self.unused {
            0 => self.account.charge,
            unused => self.account.charge.minus(Charge::of(Duration::from_nanos(unused), weight)),
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Groups by index, and by queue and owner.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    rows: Chunks<Group>,
    /// Finds groups that are not the first of their owner.
    finder: Finder,
}

impl Groups {
    #[inline]
    pub(super) fn indexes(&self) -> Range<Index> {
        0..index(self.rows.len())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Group> {
        self.rows.iter()
    }

    pub(super) fn add(&mut self, group: Group) -> Index {
        let at = index(self.rows.len());
        self.rows.push(group);
        at
    }

    fn pair(&self, at: Index) -> (Index, Index) {
        (self[at].queue, self[at].owner)
    }

    /// Finds the group of an owner whose `first` one is in another queue, or adds it after the first.
    fn find_or_add(&mut self, first: Index, queue: Index, owner: Index) -> Index {
        let hashed = hash((queue, owner));
        if let Some(known) = self.finder.find(hashed, |at| self.pair(at) == (queue, owner)) {
            return known;
        }
        let at = index(self.rows.len());
        let sibling = std::mem::replace(&mut self[first].sibling, Link::to(at));
        self.add(Group { sibling, ..Group::new(queue, owner) });
        let rows = &self.rows;
        self.finder.insert(at, hashed, |at| hash((rows[at as usize].queue, rows[at as usize].owner)));
        at
    }
}

impl ops::Index<Index> for Groups {
    type Output = Group;

    #[inline]
    fn index(&self, at: Index) -> &Group {
        &self.rows[at as usize]
    }
}

impl ops::IndexMut<Index> for Groups {
    #[inline]
    fn index_mut(&mut self, at: Index) -> &mut Group {
        &mut self.rows[at as usize]
    }
}

/// A group by its name, in all queues.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    name: NameAt,
    /// The first of its groups; each names the next.
    group: Link,
    /// What is set for it; most have nothing set.
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
    #[inline]
    pub(super) fn weight(&self) -> Weight {
        self.special.as_ref().map(|special| special.settings.weight).unwrap_or_default()
    }

    #[inline]
    pub(super) fn scheme(&self) -> Option<Scheme> {
        self.special.as_ref().and_then(|special| special.settings.scheme)
    }

    #[inline]
    pub(super) fn concurrency(&self) -> Option<u32> {
        self.special.as_ref().and_then(|special| special.settings.concurrency)
    }

    #[inline]
    pub(super) fn bucket(&self) -> Option<&Bucket> {
        self.special.as_ref().and_then(|special| special.bucket.as_ref())
    }

    /// Whether an end, or time that passes, may open a gate of it. All settings are named here, so that a new one cannot be forgotten.
    #[inline]
    pub(super) fn limited(&self) -> bool {
        let Some(special) = &self.special else { return false };
        let GroupSettings { concurrency, rate, paused: _, weight: _, scheme: _, max_waiting: _ } = &special.settings;
        concurrency.is_some() || rate.is_some()
    }
}

/// Owners by index and by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Owners {
    rows: Chunks<Owner>,
    finder: Finder,
    names: Names,
}

impl Owners {
    pub(super) fn indexes(&self) -> Range<Index> {
        0..index(self.rows.len())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Owner> {
        self.rows.iter()
    }

    pub(super) fn name(&self, owner: &Owner) -> GroupName {
        self.names.get(owner.name)
    }

    pub(super) fn find(&self, name: &GroupName) -> Option<Index> {
        self.find_hashed(name, hash(name.as_str().as_bytes()))
    }

    fn find_hashed(&self, name: &GroupName, hash: u64) -> Option<Index> {
        self.finder.find(hash, |at| self.names.bytes(self[at].name) == name.as_str().as_bytes())
    }

    fn find_or_add(&mut self, name: &GroupName, special: impl FnOnce() -> Option<Box<Special>>) -> Index {
        let hashed = hash(name.as_str().as_bytes());
        if let Some(known) = self.find_hashed(name, hashed) {
            return known;
        }
        let at = index(self.rows.len());
        let kept = self.names.add(name);
        self.rows.push(Owner { name: kept, group: Link::default(), special: special(), in_flight: 0, jobs: 0 });
        let Self { rows, names, finder } = self;
        finder.insert(at, hashed, |at| hash(names.bytes(rows[at as usize].name)));
        at
    }
}

impl ops::Index<Index> for Owners {
    type Output = Owner;

    #[inline]
    fn index(&self, at: Index) -> &Owner {
        &self.rows[at as usize]
    }
}

impl ops::IndexMut<Index> for Owners {
    #[inline]
    fn index_mut(&mut self, at: Index) -> &mut Owner {
        &mut self.rows[at as usize]
    }
}

fn hash(what: impl Hash) -> u64 {
    FixedState::default().hash_one(what)
}

impl Scheduler {
    pub(super) fn owner(&mut self, now: Timestamp, name: &GroupName) -> Index {
        let set = &self.settings.groups;
        self.owners.find_or_add(name, || {
            let settings = set.get(name)?.clone();
            let bucket = settings.rate.map(|rate| Bucket::new(rate, now));
            Some(Box::new(Special { settings, bucket }))
        })
    }

    pub(super) fn group(&mut self, queue: Index, name: &GroupName, now: Timestamp) -> Index {
        let owner = self.owner(now, name);
        // Most owners have jobs in one queue only: their group needs no lookup.
        match self.owners[owner].group.get() {
            Some(first) if self.groups[first].queue == queue => first,
            Some(first) => self.groups.find_or_add(first, queue, owner),
            None => {
                let at = self.groups.add(Group::new(queue, owner));
                self.owners[owner].group = Link::to(at);
                at
            }
        }
    }

    /// An owner's groups, one in each queue it has had jobs in.
    pub(super) fn groups_of(&self, owner: Index) -> impl Iterator<Item = Index> {
        let first = self.owners[owner].group.get();
        std::iter::successors(first, |&group| self.groups[group].sibling.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is kept for each of a million groups, beside its name, four bytes for its place in line and six to find it.
    #[test]
    fn a_group_takes_little_room() {
        assert_eq!((size_of::<Group>(), size_of::<Owner>()), (88, 24));
    }
}
