//! Counting: how much there is, kept as jobs come and go, and put together when a person asks.

use std::cmp::Reverse;

use foldhash::{HashMap, HashMapExt};

use super::{Scheduler, groups::Group, rows::Ties, table::Index};
use crate::{
    backlog::Slot,
    totals::{GROUPS, GroupTotal, HeldLine, KEYS, Known, NAMES, Tally, Totals},
    turn::Charge,
};

/// Unfinished jobs of something, those in nodes' hands included.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JobCount {
    pub(super) jobs: u32,
    /// Those of them that have failed and were not finished by it.
    pub(super) stuck: u32,
}

impl JobCount {
    #[inline]
    fn add(&mut self, stuck: bool) {
        self.jobs += 1;
        self.stuck += u32::from(stuck);
    }

    #[inline]
    fn take(&mut self, stuck: bool) {
        self.jobs -= 1;
        self.stuck -= u32::from(stuck);
    }
}

/// Stuck jobs by owner: few owners have any.
pub(super) type StuckByOwner = HashMap<Index, u32>;

/// The part of a count that nodes have in their hands.
#[derive(Debug, Clone, Copy, Default)]
struct InHand {
    scheduled: usize,
    running: usize,
    /// Those of them that were stuck before: they are so no longer.
    was_stuck: usize,
}

impl InHand {
    fn add(&mut self, runs: bool, was_stuck: bool) {
        self.running += usize::from(runs);
        self.scheduled += usize::from(!runs);
        self.was_stuck += usize::from(was_stuck);
    }

    fn tally(self, jobs: usize, stuck: usize) -> Tally {
        let Self { scheduled, running, was_stuck } = self;
        let stuck = stuck - was_stuck;
        let mut tally = Tally::default();
        (tally.waiting, tally.scheduled, tally.running, tally.stuck) =
            (jobs - stuck - scheduled - running, scheduled, running, stuck);
        tally
    }
}

impl Scheduler {
    /// A job has come: its queue and its owner have one more.
    #[inline]
    pub(super) fn count_job(&mut self, queue: Index, owner: Index) {
        self.queues[queue].jobs += 1;
        self.owners[owner].jobs += 1;
    }

    /// The same job has gone.
    #[inline]
    pub(super) fn uncount_job(&mut self, queue: Index, owner: Index) {
        self.queues[queue].jobs -= 1;
        self.owners[owner].jobs -= 1;
    }

    /// A job is known: its kind, its owner if it is stuck, and its key count it.
    #[inline]
    pub(super) fn count(&mut self, slot: Slot, ties: Ties) {
        let stuck = self.backlog.stuck(slot);
        self.kinds.count(ties.kind).add(stuck);
        if stuck {
            *self.stuck.entry(ties.owner).or_default() += 1;
        }
        if let Some(key) = ties.key {
            self.keys[key].count.add(stuck);
        }
    }

    /// The same job is about to go, or to be of another kind.
    #[inline]
    pub(super) fn uncount(&mut self, slot: Slot, ties: Ties) {
        let stuck = self.backlog.stuck(slot);
        self.kinds.count(ties.kind).take(stuck);
        if stuck && let Some(count) = self.stuck.get_mut(&ties.owner) {
            *count -= 1;
            if *count == 0 {
                self.stuck.remove(&ties.owner);
            }
        }
        if let Some(key) = ties.key {
            self.keys[key].count.take(stuck);
        }
    }

    /// How much there is. Walks what is in nodes' hands, the kinds and the groups, but not the jobs that wait: some milliseconds for a
    /// million groups.
    pub fn totals(&self) -> Totals {
        let mut queues = vec![(JobCount::default(), InHand::default()); self.queues.len()];
        let mut tasks = vec![(JobCount::default(), InHand::default()); self.tasks.len()];
        let mut keys: HashMap<Index, InHand> = HashMap::new();
        let mut owners: HashMap<Index, InHand> = HashMap::new();
        for kind in self.kinds.iter() {
            for count in [&mut queues[kind.queue as usize].0, &mut tasks[kind.task as usize].0] {
                count.jobs += kind.count.jobs;
                count.stuck += kind.count.stuck;
            }
        }
        for (slot, flight) in self.flights.iter() {
            let Ties { queue, task, owner, key, .. } = self.ties(slot);
            let (runs, was_stuck) = (flight.runs_since.is_some(), self.backlog.stuck(slot));
            queues[queue as usize].1.add(runs, was_stuck);
            tasks[task as usize].1.add(runs, was_stuck);
            owners.entry(owner).or_default().add(runs, was_stuck);
            if let Some(key) = key {
                keys.entry(key).or_default().add(runs, was_stuck);
            }
        }
        let tally = |(count, in_hand): &(JobCount, InHand)| in_hand.tally(count.jobs as usize, count.stuck as usize);
        let queues: Vec<_> =
            self.queues.iter().zip(&queues).map(|(queue, counted)| (&queue.name, tally(counted))).collect();
        let tasks: Vec<_> = self.tasks.iter().zip(&tasks).map(|(task, counted)| (&task.name, tally(counted))).collect();
        let keys = self.keys.indexes().map(|at| {
            let key = &self.keys[at];
            (&key.name, tally(&(key.count, keys.get(&at).copied().unwrap_or_default())))
        });
        let mut all = Tally::default();
        queues.iter().for_each(|(_, tally)| all.add_all(*tally));
        let (groups, known_groups) = self.largest_groups(&owners);
        let (queues, known_queues) = largest(queues.into_iter(), NAMES);
        let (tasks, known_tasks) = largest(tasks.into_iter(), NAMES);
        let (keys, known_keys) = largest(keys, KEYS);
        let held = self.held_lines().into_iter().take(NAMES);
        Totals {
            complete: !self.loading,
            all,
            queues,
            groups,
            tasks,
            keys,
            known: Known { queues: known_queues, groups: known_groups, tasks: known_tasks, keys: known_keys },
            held: held.map(|(queue, job, task)| HeldLine { queue, job, task }).collect(),
        }
    }

    /// The groups that totals name, and how many have jobs at all.
    fn largest_groups(&self, in_hand: &HashMap<Index, InHand>) -> (Vec<GroupTotal>, usize) {
        let mut sizes: Vec<(u32, Index)> = Vec::new();
        for (at, owner) in self.owners.indexes().zip(self.owners.iter()).filter(|(_, owner)| owner.jobs > 0) {
            sizes.push((owner.jobs, at));
        }
        let known = sizes.len();
        let mut named = most(sizes, GROUPS);
        let busiest =
            in_hand.iter().map(|(&at, hand)| (u32::try_from(hand.scheduled + hand.running).unwrap_or(u32::MAX), at));
        named.extend(most(busiest.collect(), GROUPS));
        named.sort_unstable();
        named.dedup();
        let group = |at: Index| {
            let owner = &self.owners[at];
            let stuck = self.stuck.get(&at).copied().unwrap_or_default() as usize;
            let hand = in_hand.get(&at).copied().unwrap_or_default();
            let ahead = |group: &Group| group.account.charge.minus(self.queues[group.queue].now);
            let ahead = self.groups_of(at).map(|group| ahead(&self.groups[group])).max().unwrap_or(Charge::default());
            GroupTotal { name: self.owners.name(owner), jobs: hand.tally(owner.jobs as usize, stuck), ahead }
        };
        let mut groups: Vec<_> = named.into_iter().map(group).collect();
        groups.sort_by(|a, b| b.jobs.jobs().cmp(&a.jobs.jobs()).then_with(|| a.name.cmp(&b.name)));
        (groups, known)
    }
}

/// The indexes with the largest numbers, at most so many.
fn most(mut sizes: Vec<(u32, Index)>, limit: usize) -> Vec<Index> {
    if sizes.len() > limit {
        sizes.select_nth_unstable_by_key(limit, |&(size, at)| (Reverse(size), at));
        sizes.truncate(limit);
    }
    sizes.into_iter().map(|(_, at)| at).collect()
}

/// Those with the most jobs, at most so many, and how many have any.
fn largest<'a, N: Clone + Ord + 'a>(
    all: impl Iterator<Item = (&'a N, Tally)>,
    limit: usize,
) -> (Vec<(N, Tally)>, usize) {
    let mut some: Vec<_> = all.filter(|(_, tally)| !tally.is_empty()).collect();
    let known = some.len();
    some.sort_unstable_by(|(a, one), (b, other)| other.jobs().cmp(&one.jobs()).then_with(|| a.cmp(b)));
    some.truncate(limit);
    (some.into_iter().map(|(name, tally)| (name.clone(), tally)).collect(), known)
}
