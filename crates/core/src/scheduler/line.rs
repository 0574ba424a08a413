//! Standing in line: a group for its queue, a queue for the fleet. A closed gate takes them out once, its opening puts them back.

use std::time::Duration;

use super::{Scheduler, gates::Keeper, rows::Queue, table::Index, turns::GroupTurns};
use crate::{
    backlog::{Place, Slot},
    few::Few,
    settings::Fairness,
    time::Timestamp,
    turn::{Account, Charge},
};

/// Where groups begin that come to a queue with jobs of a class, as worked out since the last input.
#[derive(Debug, Clone, Default)]
pub(super) struct Levels(Vec<(Index, Index, Charge)>);

impl Levels {
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    fn get(&self, queue: Index, class: Index) -> Option<Charge> {
        self.0.iter().find(|level| (level.0, level.1) == (queue, class)).map(|level| level.2)
    }

    fn set(&mut self, queue: Index, class: Index, level: Charge) {
        self.0.push((queue, class, level));
    }
}

impl Scheduler {
    /// Lets a group stand in line for every class it has something ready of, unless its owner's gate is closed.
    pub(super) fn refresh_group(&mut self, now: Timestamp, at: Index) {
        let open = self.gate(now, Keeper::Owner(self.groups[at].owner)).is_none();
        self.drop_dead(at);
        let group = &self.groups[at];
        if let ([lane], [entered], true) = (group.lanes.as_slice(), group.entered.as_slice(), open)
            && self.kinds[lane.kind].class() == entered.class
        {
            return;
        }
        let mut classes: Few<Index> = Few::None;
        for lane in group.lanes.as_slice().iter().filter(|_| open) {
            let class = self.kinds[lane.kind].class();
            if !classes.as_slice().contains(&class) {
                classes.push(class);
            }
        }
        classes.as_mut_slice().sort_unstable();
        if group.entered.as_slice().iter().map(|entered| entered.class).eq(classes.as_slice().iter().copied()) {
            return;
        }
        let was_out = group.entered.is_empty();
        // Having nothing to run earns no credit, whether for idleness or for a gate of one's own. What is still in flight is
        // charged already.
        let queue = group.queue;
        let level =
            was_out.then(|| classes.as_slice().iter().map(|&class| self.level(now, queue, class)).min()).flatten();
        self.leave_turns(at);
        let Self { groups, queues, .. } = self;
        let group = &mut groups[at];
        if let Some(level) = level {
            group.account.charge = group.account.charge.max(level);
        }
        let queue = group.queue;
        let turns = &mut queues[queue].turns;
        for &class in classes.as_slice() {
            let known = turns.iter().position(|turns| turns.class() == class);
            let place = known.unwrap_or_else(|| {
                turns.push(GroupTurns::of(class));
                turns.len() - 1
            });
            turns[place].enter(groups, at);
        }
        if !self.queues[queue].entered {
            self.refresh_queue(now, queue);
        }
    }

    /// Where a group begins that had nothing to run of this class: at the virtual time, or level with what the next one has
    /// really used, if that is less. What that one has in flight is charged by estimate, and where that is too high most of it
    /// is given back: a group that began above it would wait until all of that is used up. One that cannot be served falls behind,
    /// so it is next among those that wait with it, and among no others. Worked out once for each input, whatever comes with it.
    fn level(&mut self, now: Timestamp, at: Index, class: Index) -> Charge {
        if let Some(level) = self.levels.get(at, class) {
            return level;
        }
        let queue = &self.queues[at];
        let used = |(account, group): (Account, Index)| {
            let weight = self.owners[self.groups[group].owner].weight();
            let unused = match self.groups[group].in_flight {
                0 => Duration::ZERO,
                _ => self.unused_in_flight(group),
            };
            account.charge.minus(Charge::of(unused, weight))
        };
        let counts = |other: Index| other == class || self.class_served(now, queue, other);
        let least = match queue.settings.fairness {
            // A turn costs what it is expected to.
            Fairness::Turns => None,
            Fairness::Time => {
                let next = queue
                    .turns
                    .iter()
                    .filter(|turns| counts(turns.class()))
                    .filter_map(|turns| turns.first(&self.groups));
                next.map(used).min()
            }
        };
        let level = queue.now.min(least.unwrap_or(queue.now));
        self.levels.set(at, class, level);
        level
    }

    /// The same among queues, of which the next is the first that could be served.
    fn level_of_queues(&self, now: Timestamp, tree: Index) -> Charge {
        let tree = &self.trees[tree as usize];
        let mut turns = std::iter::successors(tree.turns.first(), |&turn| tree.turns.after(turn));
        let used = |(account, at): (Account, Index)| {
            let queue = &self.queues[at];
            account.charge.minus(Charge::of(queue.unused, queue.settings.weight))
        };
        let next = turns.find(|(_, at)| self.queue_served(now, *at)).map(used);
        tree.now.min(next.unwrap_or(tree.now))
    }

    fn unused_in_flight(&self, group: Index) -> Duration {
        let of_group = |slot: Slot| self.backlog.group(slot) == group;
        self.flights.iter().filter(|(slot, _)| of_group(*slot)).map(|(_, flight)| flight.unused).sum()
    }

    /// Whether a node that had room would begin something of these kinds.
    fn class_served(&self, now: Timestamp, queue: &Queue, class: Index) -> bool {
        self.fleet.indexes().any(|seat| !queue.full_on(seat) && self.class_open(now, class, seat))
    }

    fn queue_served(&self, now: Timestamp, at: Index) -> bool {
        let queue = &self.queues[at];
        if queue.serial() {
            self.head_of_line(at).is_some_and(|head| {
                self.fleet.indexes().any(|seat| !queue.full_on(seat) && self.head_open(now, head, seat))
            })
        } else {
            queue.turns.iter().any(|turns| !turns.is_empty() && self.class_served(now, queue, turns.class()))
        }
    }

    pub(super) fn leave_turns(&mut self, at: Index) {
        let Self { groups, queues, .. } = self;
        let group = &groups[at];
        if !group.entered.is_empty() {
            queues[group.queue].turns.iter_mut().for_each(|turns| turns.leave(groups, at));
        }
    }

    /// Changes a group's account while it stands in line.
    pub(super) fn change_account(&mut self, at: Index, change: impl FnOnce(&mut Account)) {
        let Self { groups, queues, .. } = self;
        let group = &mut groups[at];
        change(&mut group.account);
        if !group.entered.is_empty() {
            queues[group.queue].turns.iter_mut().for_each(|turns| turns.changed(groups, at));
        }
    }

    /// Buries what died at the head of a group's lanes, and lanes that are empty.
    pub(super) fn drop_dead(&mut self, at: Index) {
        let Self { groups, backlog, .. } = self;
        let lanes = &mut groups[at].lanes;
        let mut emptied = false;
        for lane in lanes.as_mut_slice() {
            lane.drop_dead(backlog);
            emptied |= lane.is_empty();
        }
        if emptied {
            lanes.retain(|lane| !lane.is_empty());
        }
    }

    pub(super) fn refresh_queue(&mut self, now: Timestamp, at: Index) {
        if !self.queues[at].line.is_empty() {
            self.drop_dead_line(at);
        }
        let wanted = self.has_something(at) && self.gate(now, Keeper::Queue(at)).is_none();
        if wanted == self.queues[at].entered {
            return;
        }
        let level = wanted.then(|| self.level_of_queues(now, self.queues[at].tree));
        let queue = &mut self.queues[at];
        queue.entered = wanted;
        let turns = &mut self.trees[queue.tree as usize].turns;
        match level {
            Some(level) => {
                queue.account.charge = queue.account.charge.max(level);
                turns.enter(queue.account, at);
            }
            None => turns.leave(queue.account, at),
        }
    }

    /// Whether a queue has something ready that some node could run: waiting for a node earns no more than idleness does.
    fn has_something(&self, at: Index) -> bool {
        let queue = &self.queues[at];
        if queue.serial() {
            self.head_of_line(at).is_some_and(|head| self.kinds[self.backlog.kind(head)].runnable())
        } else {
            queue.turns.iter().any(|turns| !turns.is_empty() && self.kinds.class(turns.class()).runnable())
        }
    }

    /// The job of a serial queue that goes next.
    pub(super) fn head_of_line(&self, at: Index) -> Option<Slot> {
        let queue = &self.queues[at];
        match queue.begun {
            // A suspect that holds the line waits for a node of its own, and the line with it.
            Some(begun) => {
                Some(begun).filter(|&begun| self.backlog.place(begun) == Place::Ready && !self.is_suspect(begun))
            }
            None => queue.line.first(),
        }
    }

    pub(super) fn drop_dead_line(&mut self, at: Index) {
        let Self { queues, backlog, .. } = self;
        let line = &mut queues[at].line;
        while let Some(slot) = line.first()
            && backlog.place(slot) == Place::Dead
        {
            line.pop(|a, b| backlog.by_seq(a, b));
            backlog.bury(slot);
        }
    }

    /// Reading the backlog has begun or ended: serial queues and those that wait for others open and close with it.
    pub(super) fn refresh_queues_that_wait(&mut self, now: Timestamp) {
        for at in self.queues.indexes() {
            if self.queues[at].serial() || !self.queues[at].settings.after.is_empty() {
                self.refresh_queue(now, at);
            }
        }
    }

    /// A queue is finished: those that wait for it may open.
    pub(super) fn refresh_queues_after(&mut self, now: Timestamp, finished: Index) {
        let name = self.queues[finished].name.clone();
        for at in self.queues.indexes() {
            if self.queues[at].settings.after.contains(&name) {
                self.refresh_queue(now, at);
            }
        }
    }

    pub(super) fn refresh_owner(&mut self, now: Timestamp, at: Index) {
        let groups: Few<Index> = self.groups_of(at).collect();
        for &group in groups.as_slice() {
            self.refresh_group(now, group);
            self.refresh_queue(now, self.groups[group].queue);
        }
    }

    /// Others of this owner may or may not begin now, if it has a limit.
    pub(super) fn refresh_limited(&mut self, now: Timestamp, owner: Index) {
        if self.owners[owner].limited() {
            self.refresh_owner(now, owner);
        }
    }

    /// The key has room: of every lane that has jobs waiting for it the first comes back. Jobs of one lane differ in nothing
    /// a gate asks for, so if the first cannot run now, neither can the next; and when it runs, the next is asked for.
    pub(super) fn unpark(&mut self, now: Timestamp, key: Index) {
        if self.gate(now, Keeper::Key(key)).is_some() {
            return;
        }
        let mut back = Vec::new();
        let Self { keys, backlog, .. } = self;
        keys[key].parked.retain(|_, lane| {
            while let Some(slot) = lane.pop(|a, b| backlog.by_rank(a, b)) {
                if backlog.place(slot) == Place::Parked {
                    back.push(slot);
                    break;
                }
                backlog.bury(slot);
            }
            !lane.is_empty()
        });
        for slot in back {
            self.put_ready(now, slot);
        }
    }

    pub(super) fn ring_alarms(&mut self, now: Timestamp) {
        while let Some(keeper) = self.times.take_alarm(now) {
            match keeper {
                Keeper::Queue(queue) => self.refresh_queue(now, queue),
                Keeper::Owner(owner) => self.refresh_owner(now, owner),
                Keeper::Key(key) => self.unpark(now, key),
                Keeper::Task(_) => {}
            }
        }
    }
}
