//! Adding up what happens, by the minute: for each kind of job, for each group, for each error.
//!
//! The work for each event is constant. A group that nothing happens to in a minute costs nothing: what it could claim follows from the
//! queue's virtual time when the minute began, and what all groups of a queue could claim together is added up as that time advances.

use std::time::Duration;

use foldhash::{HashMap, HashMapExt};

use super::{
    Scheduler,
    charge::{LEAST_COST, ONE_TURN},
    groups::Group,
    table::Index,
};
use crate::{
    backlog::Slot,
    failure::Fingerprint,
    settings::{Fairness, Weight},
    small_list::SmallList,
    statistics::{
        BUCKETS, Counted, ErrorRow, Minute, Of, Row, Span, Sums,
        choice::{Merit, busiest_tasks, choose, most_frequent},
        histogram::bucket_of,
    },
    time::Timestamp,
    turn::Charge,
};

/// Groups that are counted one by one in a minute; later ones of the minute are among the others. So many take twenty megabytes.
const GROUPS: usize = 100_000;
/// Errors that are counted one by one in a minute.
const ERRORS: usize = 2_000;
/// How many groups at the front of each line are looked at that nothing happened to. The line is in the order of their charges, so these
/// are the ones furthest under their share.
const SILENT: usize = 1_000;
/// Minutes that are over and were not taken yet.
const UNTAKEN: usize = 10;

const KINDS: usize = Counted::ALL.len();
const CELLS: usize = KINDS * BUCKETS;

#[derive(Debug, Clone)]
pub(super) struct Tallies {
    /// When this minute began. While nothing is counted, it never ends.
    begun: Timestamp,
    ends: Timestamp,
    kinds: Vec<KindTally>,
    groups: GroupTallies,
    queues: Vec<Share>,
    errors: HashMap<(Index, Fingerprint), ErrorTally>,
    over: Vec<Minute>,
    /// Whether anything was counted since the minutes were last taken.
    unread: bool,
}

/// What happened to jobs of a queue and a task.
#[derive(Debug, Clone, Default)]
struct KindTally {
    counts: [u64; KINDS],
    micros: [u64; KINDS],
    used: u64,
    /// None until something happens.
    cells: Option<Box<[u32; CELLS]>>,
}

#[derive(Debug, Clone, Default)]
struct GroupTallies {
    all: Vec<GroupTally>,
    /// By group, where in `all` it is, plus one; zero: nowhere.
    places: Vec<u32>,
}

#[derive(Debug, Clone)]
struct GroupTally {
    group: Index,
    /// The queue's virtual time up to which `entitled` counts; `None` while the group has nothing ready.
    since: Option<Charge>,
    counts: [u32; KINDS],
    micros: [u64; KINDS],
    used: u64,
    /// In picoseconds, times the thousandths of its weight.
    entitled: u128,
    longest: u64,
    cells: Cells,
}

/// Counts by cell. Most groups have few jobs in a minute, which are much alike.
#[derive(Debug, Clone)]
enum Cells {
    Few([(u16, u32); 6]),
    Many(Box<[u32; CELLS]>),
}

/// What the groups of a queue could claim.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    /// The virtual time when the minute began.
    begun: Charge,
    /// The weights of all groups that have something ready, in thousandths.
    weights: u64,
    /// What these could claim in this minute, in the unit of [`GroupTally::entitled`].
    entitled: u128,
}

/// Whether the weights of an owner's groups count: not while they are changed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Weighed {
    Out,
    In,
}

#[derive(Debug, Clone, Copy)]
struct ErrorTally {
    count: u64,
    first: Timestamp,
    last: Timestamp,
}

impl Default for Tallies {
    fn default() -> Self {
        Self {
            begun: Timestamp::MIN,
            ends: Timestamp::MAX,
            kinds: Vec::new(),
            groups: GroupTallies::default(),
            queues: Vec::new(),
            errors: HashMap::new(),
            over: Vec::new(),
            unread: false,
        }
    }
}

impl Tallies {
    #[inline]
    fn on(&self) -> bool {
        self.ends != Timestamp::MAX
    }

    fn share(&mut self, queue: Index) -> &mut Share {
        at(&mut self.queues, queue)
    }

    /// The queue's virtual time goes from one charge to another.
    #[inline]
    pub(super) fn advance(&mut self, queue: Index, from: Charge, to: Charge) {
        if to > from && self.on() {
            let share = self.share(queue);
            share.entitled += u128::from(share.weights) * to.minus(from).picos();
        }
    }

    /// A group has something ready from this virtual time on.
    pub(super) fn enter(&mut self, at: Index, group: &Group, weight: Weight, now: Charge) {
        if self.on() {
            self.share(group.queue).weights += u64::from(weight.thousandths());
            if let Some(tally) = self.groups.of(at, None) {
                tally.since = Some(now);
            }
        }
    }

    /// It has nothing ready any more.
    pub(super) fn leave(&mut self, at: Index, group: &Group, weight: Weight, now: Charge) {
        if self.on() {
            let share = self.share(group.queue);
            share.weights = share.weights.saturating_sub(u64::from(weight.thousandths()));
            let begun = share.begun;
            if let Some(tally) = self.groups.of(at, Some(begun)) {
                tally.claim(weight, now);
                tally.since = None;
            }
        }
    }

    /// Something happened to a job, and took that long; `used`: of its group's share.
    #[inline]
    fn count(&mut self, kind: Index, at_group: Index, group: &Group, what: Counted, took: Option<Duration>, used: u64) {
        self.unread = true;
        let took = took.map(micros);
        let cell = took.map(|took| what.index() * BUCKETS + bucket_of(took));
        let tally = at(&mut self.kinds, kind);
        tally.counts[what.index()] += 1;
        tally.micros[what.index()] += took.unwrap_or(0);
        tally.used += used;
        if let Some(cell) = cell {
            tally.cells.get_or_insert_with(|| Box::new([0; CELLS]))[cell] += 1;
        }
        let begun = self.share(group.queue).begun;
        let since = (!group.entered.is_empty()).then_some(begun);
        if let Some(tally) = self.groups.of(at_group, since) {
            tally.counts[what.index()] += 1;
            tally.micros[what.index()] += took.unwrap_or(0);
            tally.used += used;
            if what == Counted::Started {
                tally.longest = tally.longest.max(took.unwrap_or(0));
            }
            if let Some(cell) = cell {
                tally.cells.put(cell);
            }
        }
    }

    fn fail(&mut self, kind: Index, error: Fingerprint, now: Timestamp) {
        let full = self.errors.len() >= ERRORS;
        match self.errors.get_mut(&(kind, error)) {
            Some(tally) => (tally.count, tally.last) = (tally.count + 1, now),
            None if full => {}
            None => _ = self.errors.insert((kind, error), ErrorTally { count: 1, first: now, last: now }),
        }
    }
}

impl GroupTallies {
    /// `since`: up to when its claim was counted, if it is met for the first time in this minute. `None`: too many others are counted.
    #[inline]
    fn of(&mut self, group: Index, since: Option<Charge>) -> Option<&mut GroupTally> {
        let place = *at(&mut self.places, group);
        if place > 0 {
            return self.all.get_mut(place as usize - 1);
        }
        if self.all.len() >= GROUPS {
            return None;
        }
        self.all.push(GroupTally {
            group,
            since,
            counts: [0; KINDS],
            micros: [0; KINDS],
            used: 0,
            entitled: 0,
            longest: 0,
            cells: Cells::Few([(0, 0); 6]),
        });
        self.places[group as usize] = super::table::index(self.all.len());
        self.all.last_mut()
    }

    fn find(&self, group: Index) -> Option<&GroupTally> {
        let place = *self.places.get(group as usize)?;
        self.all.get((place as usize).checked_sub(1)?)
    }

    fn clear(&mut self) {
        for tally in self.all.drain(..) {
            self.places[tally.group as usize] = 0;
        }
    }
}

impl GroupTally {
    /// Counts what it could claim up to this virtual time.
    fn claim(&mut self, weight: Weight, now: Charge) {
        if let Some(since) = &mut self.since {
            self.entitled += u128::from(weight.thousandths()) * now.minus(*since).picos();
            *since = now;
        }
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::of_share(self.used, claimed(self.entitled));
        for counted in Counted::ALL {
            let at = counted.index();
            sums.tally(counted, u64::from(self.counts[at]), self.micros[at]);
        }
        match &self.cells {
            Cells::Few(few) => few.iter().filter(|(_, count)| *count > 0).for_each(|&(cell, count)| {
                put(&mut sums, usize::from(cell), count);
            }),
            Cells::Many(all) => put_all(&mut sums, all),
        }
        sums
    }
}

impl Cells {
    #[inline]
    fn put(&mut self, cell: usize) {
        match self {
            Self::Many(all) => all[cell] += 1,
            Self::Few(few) => {
                let same = |&(other, count): &(u16, u32)| count == 0 || usize::from(other) == cell;
                match few.iter().position(same) {
                    Some(at) => few[at] = (u16::try_from(cell).expect("a few hundred cells"), few[at].1 + 1),
                    None => {
                        let mut all = Box::new([0; CELLS]);
                        few.iter().for_each(|&(cell, count)| all[usize::from(cell)] = count);
                        all[cell] += 1;
                        *self = Self::Many(all);
                    }
                }
            }
        }
    }
}

impl KindTally {
    fn sums(&self) -> Sums {
        let mut sums = Sums::of_share(self.used, 0);
        for counted in Counted::ALL {
            sums.tally(counted, self.counts[counted.index()], self.micros[counted.index()]);
        }
        if let Some(cells) = &self.cells {
            put_all(&mut sums, cells);
        }
        sums
    }

    fn clear(&mut self) {
        (self.counts, self.micros, self.used) = ([0; KINDS], [0; KINDS], 0);
        if let Some(cells) = &mut self.cells {
            cells.fill(0);
        }
    }
}

fn put_all(sums: &mut Sums, cells: &[u32; CELLS]) {
    cells.iter().enumerate().filter(|(_, count)| **count > 0).for_each(|(cell, &count)| put(sums, cell, count));
}

fn put(sums: &mut Sums, cell: usize, count: u32) {
    sums.put(Counted::ALL[cell / BUCKETS], cell % BUCKETS, u64::from(count));
}

/// From picoseconds times thousandths of a weight to microseconds.
fn claimed(entitled: u128) -> u64 {
    u64::try_from(entitled / 1_000_000_000).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The entry at an index, of a list that grows with the indexes.
#[inline]
fn at<T: Default + Clone>(list: &mut Vec<T>, index: Index) -> &mut T {
    let index = index as usize;
    if index >= list.len() {
        list.resize(index + 1, T::default());
    }
    &mut list[index]
}

impl Scheduler {
    /// Counts what happens from now on. Schedulers that only answer questions do not.
    pub fn keep_statistics(&mut self, now: Timestamp) {
        self.tallies = Tallies::default();
        self.tallies.ends = now;
        self.turn_minute(now);
        for group in self.groups.indexes() {
            if !self.groups[group].entered.is_empty() {
                let weight = self.owners[self.groups[group].owner].weight();
                self.tallies.share(self.groups[group].queue).weights += u64::from(weight.thousandths());
            }
        }
    }

    /// Whether anything was counted since [`Scheduler::statistics`] was last called.
    pub fn has_counted(&self) -> bool {
        self.tallies.unread
    }

    /// What has happened in minutes that are over, and in this one so far. The former are not returned again.
    pub fn statistics(&mut self, now: Timestamp) -> Vec<Minute> {
        self.turn_minute(now);
        self.tallies.unread = false;
        let mut minutes = std::mem::take(&mut self.tallies.over);
        if self.tallies.on() {
            minutes.push(self.minute(now));
        }
        minutes
    }

    /// If the minute is over, begins a new one. A clock that goes back stays within its minute.
    #[inline]
    pub(super) fn turn_minute(&mut self, now: Timestamp) {
        if now >= self.tallies.ends {
            self.begin_minute(now);
        }
    }

    #[cold]
    fn begin_minute(&mut self, now: Timestamp) {
        if self.tallies.begun > Timestamp::MIN {
            let over = self.minute(now);
            if !over.is_empty() {
                self.tallies.over.push(over);
            }
            let over = self.tallies.over.len().saturating_sub(UNTAKEN);
            self.tallies.over.drain(..over);
        }
        let begun = Span::Minute.begin(now);
        (self.tallies.begun, self.tallies.ends) = (begun, begun.plus(Span::Minute.length()));
        self.tallies.kinds.iter_mut().for_each(KindTally::clear);
        self.tallies.groups.clear();
        self.tallies.errors.clear();
        for at in self.queues.indexes() {
            let begun = self.queues[at].now;
            let share = self.tallies.share(at);
            (share.begun, share.entitled) = (begun, 0);
        }
    }

    /// A node has got the job.
    #[inline]
    pub(super) fn count_start(&mut self, now: Timestamp, slot: Slot) {
        if self.tallies.on() {
            let (kind, group) = self.backlog.kind_and_group(slot);
            let waited = Some(now.since(self.backlog.due(slot)));
            self.tallies.count(kind, group, &self.groups[group], Counted::Started, waited, 0);
        }
    }

    /// A job has left its node's hands, or has ended without having been there.
    #[inline]
    pub(super) fn count_end(
        &mut self,
        now: Timestamp,
        slot: Slot,
        what: Counted,
        used: Option<Duration>,
        error: Option<Fingerprint>,
    ) {
        if self.tallies.on() {
            let (kind, group) = self.backlog.kind_and_group(slot);
            let of_share = match self.queues[self.kinds[kind].queue].settings.fairness {
                Fairness::Time => used.map(|used| used.max(LEAST_COST)),
                Fairness::Turns => used.map(|_| ONE_TURN),
            };
            let of_share = of_share.map_or(0, micros);
            self.tallies.count(kind, group, &self.groups[group], what, used, of_share);
            if let Some(error) = error {
                self.tallies.fail(kind, error, now);
            }
        }
    }

    /// A run was lost with its node; what becomes of the job is read from the store.
    pub fn count_lost(&mut self, now: Timestamp, id: crate::JobId, what: Counted, error: Option<Fingerprint>) {
        if let Some(slot) = self.backlog.find(id) {
            let used = self.used_so_far(now, slot);
            self.count_end(now, slot, what, used, error);
        }
    }

    /// The weight of an owner is about to be changed, and its groups do not count meanwhile.
    pub(super) fn weigh(&mut self, owner: Index, becomes: Weighed) {
        if !self.tallies.on() {
            return;
        }
        let weight = self.owners[owner].weight();
        let groups: SmallList<Index> = self.groups_of(owner).collect();
        for &at in groups.as_slice() {
            let group = &self.groups[at];
            if !group.entered.is_empty() {
                let now = self.queues[group.queue].now;
                match becomes {
                    Weighed::Out => self.tallies.leave(at, group, weight, now),
                    Weighed::In => self.tallies.enter(at, group, weight, now),
                }
            }
        }
    }

    /// What has happened in this minute so far.
    fn minute(&mut self, now: Timestamp) -> Minute {
        let Self { tallies, groups, queues, owners, .. } = self;
        for tally in &mut tallies.groups.all {
            let group = &groups[tally.group];
            tally.claim(owners[group.owner].weight(), queues[group.queue].now);
        }
        debug_assert!(self.claims_add_up(), "what groups could claim is not what their queues had");
        let mut of_queue: Vec<Vec<Candidate>> = vec![Vec::new(); self.queues.indexes().len()];
        for tally in &self.tallies.groups.all {
            let queue = self.groups[tally.group].queue;
            let entitled = claimed(tally.entitled);
            let waited = tally.longest.max(self.oldest_wait(now, tally.group));
            let busy = (tally.used, tally.counts.iter().skip(1).map(|count| u64::from(*count)).sum());
            let merit = Merit { busy, waited, under: entitled.saturating_sub(tally.used) };
            of_queue[queue as usize].push(Candidate { group: tally.group, entitled, merit });
        }
        let mut tasks: Vec<Vec<(Of, Sums)>> = vec![Vec::new(); of_queue.len()];
        for (at, tally) in self.tallies.kinds.iter().enumerate() {
            if tally.counts.iter().any(|count| *count > 0) {
                let kind = &self.kinds[super::table::index(at)];
                let task = Of::Task(self.tasks[kind.task].name.clone());
                tasks[kind.queue as usize].push((task, tally.sums()));
            }
        }
        let mut rows = Vec::new();
        for (queue, (mut candidates, tasks)) in self.queues.indexes().zip(of_queue.into_iter().zip(tasks)) {
            self.add_silent(now, queue, &mut candidates);
            self.rows_of_queue(queue, &candidates, tasks, &mut rows);
        }
        let error = |(&(kind, fingerprint), tally): (&(Index, Fingerprint), &ErrorTally)| {
            let kind = &self.kinds[kind];
            let (queue, task) = (self.queues[kind.queue].name.clone(), self.tasks[kind.task].name.clone());
            ErrorRow { queue, task, fingerprint, count: tally.count, first: tally.first, last: tally.last }
        };
        let errors = most_frequent(self.tallies.errors.iter().map(error).collect());
        Minute { at: self.tallies.begun, rows, errors }
    }

    /// Whether the claims of all groups of a queue come to what was added up for the queue. Looks at every group: for tests.
    fn claims_add_up(&self) -> bool {
        const FEW: usize = 1_000;
        if self.groups.indexes().len() > FEW {
            return true;
        }
        let mut claims = vec![0; self.queues.indexes().len()];
        for at in self.groups.indexes() {
            let group = &self.groups[at];
            let begun = self.tallies.queues.get(group.queue as usize).map(|share| share.begun).unwrap_or_default();
            let advanced = self.queues[group.queue].now.minus(begun).picos();
            let weight = u128::from(self.owners[group.owner].weight().thousandths());
            claims[group.queue as usize] += match self.tallies.groups.find(at) {
                Some(tally) => tally.entitled,
                None if group.entered.is_empty() => 0,
                None => weight * advanced,
            };
        }
        let of_queue = |queue: usize| self.tallies.queues.get(queue).map_or(0, |share| share.entitled);
        claims.into_iter().enumerate().all(|(queue, claims)| claims == of_queue(queue))
    }

    fn rows_of_queue(&self, queue: Index, candidates: &[Candidate], tasks: Vec<(Of, Sums)>, rows: &mut Vec<Row>) {
        let mut others = Sums::default();
        tasks.iter().for_each(|(_, sums)| others.add(sums));
        others.entitled = claimed(self.tallies.queues.get(queue as usize).map_or(0, |share| share.entitled));
        let merits: Vec<Merit> = candidates.iter().map(|candidate| candidate.merit).collect();
        let name = &self.queues[queue].name;
        let mut row = |of: Of, sums: Sums| {
            if !sums.is_empty() {
                rows.push(Row { queue: name.clone(), of, sums });
            }
        };
        for at in choose(&merits) {
            let Candidate { group, entitled, .. } = candidates[at];
            let tally = self.tallies.groups.find(group);
            let sums = tally.map_or_else(|| Sums::of_share(0, entitled), GroupTally::sums);
            others.take_away(&sums);
            row(Of::Group(self.owners.name(&self.owners[self.groups[group].owner])), sums);
        }
        row(Of::OtherGroups, others);
        let mut other_tasks = Sums::default();
        busiest_tasks(tasks, &mut other_tasks).into_iter().for_each(|(of, sums)| row(of, sums));
        row(Of::OtherTasks, other_tasks);
    }

    /// Groups at the front of their line that nothing happened to in this minute.
    fn add_silent(&self, now: Timestamp, at: Index, candidates: &mut Vec<Candidate>) {
        let queue = &self.queues[at];
        let Some(share) = self.tallies.queues.get(at as usize) else { return };
        let advanced = queue.now.minus(share.begun).picos();
        let mut seen = foldhash::HashSet::default();
        let front = queue.turns.iter().flat_map(|turns| turns.front(SILENT));
        for group in front.filter(|&group| self.tallies.groups.find(group).is_none()) {
            if seen.insert(group) {
                let weight = self.owners[self.groups[group].owner].weight();
                let entitled = claimed(u128::from(weight.thousandths()) * advanced);
                let merit = Merit { busy: (0, 0), waited: self.oldest_wait(now, group), under: entitled };
                candidates.push(Candidate { group, entitled, merit });
            }
        }
    }

    /// For how long the first of a group's ready jobs has been due.
    fn oldest_wait(&self, now: Timestamp, group: Index) -> u64 {
        let firsts = self.groups[group].lanes.as_slice().iter().filter_map(|lane| lane.first(&self.backlog));
        firsts.map(|slot| micros(now.since(self.backlog.due(slot)))).max().unwrap_or(0)
    }
}

/// A group that may get a row of its own.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    group: Index,
    entitled: u64,
    merit: Merit,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_groups_that_are_counted_take_twenty_megabytes() {
        assert!(size_of::<GroupTally>() * GROUPS <= 20_000_000, "{}", size_of::<GroupTally>());
    }

    #[test]
    fn a_group_with_many_different_times_is_counted_like_one_with_few() {
        let mut cells = Cells::Few([(0, 0); 6]);
        let times = [3, 0, 3, 7, 9, 11, 3, 0, 13, 15, 279, 0];
        times.into_iter().for_each(|cell| cells.put(cell));
        let Cells::Many(all) = cells else { panic!("more than six cells") };
        for cell in 0..CELLS {
            let expected = times.iter().filter(|time| **time == cell).count();
            assert_eq!(all[cell] as usize, expected, "{cell}");
        }
    }
}
