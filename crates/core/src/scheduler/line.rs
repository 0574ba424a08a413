//! Standing in line: a group for its queue, a queue for the fleet. A closed gate takes them out once, its opening puts them back.

use std::{cmp::Reverse, time::Duration};

use super::{Scheduler, tables::*};
use crate::{
    backlog::{Place, Slot},
    few::Few,
    settings::Fairness,
    time::Timestamp,
    turn::{Account, Charge, Turns},
};

impl Scheduler {
    /// Lets a group stand in line for every class it has something ready of, unless its owner's gate is closed.
    pub(super) fn refresh_group(&mut self, now: Timestamp, at: Index) {
        let open = self.owner_gate(now, self.groups[at as usize].owner).is_none();
        self.drop_dead(at);
        let group = &self.groups[at as usize];
        let mut classes: Few<Index> = Few::None;
        for lane in group.lanes.as_slice().iter().filter(|_| open) {
            let class = self.kinds[lane.kind as usize].class;
            if !classes.as_slice().contains(&class) {
                classes.push(class);
            }
        }
        classes.as_mut_slice().sort_unstable();
        if classes.as_slice() == group.entered.as_slice() {
            return;
        }
        let was_out = group.entered.is_empty();
        let level = self.level(self.groups[at as usize].queue);
        self.leave_turns(at);
        let group = &mut self.groups[at as usize];
        let queue = &mut self.queues[group.queue as usize];
        if was_out {
            // Having nothing to run earns no credit, whether for idleness or for a gate of one's own. What is still in
            // flight is charged already.
            group.account.charge = group.account.charge.max(level);
        }
        for &class in classes.as_slice() {
            let turns = match queue.turns.iter().position(|(known, _)| *known == class) {
                Some(at) => &mut queue.turns[at].1,
                None => {
                    queue.turns.push((class, Turns::default()));
                    &mut queue.turns.last_mut().expect("just pushed").1
                }
            };
            turns.enter(group.account, at);
        }
        group.entered = classes;
        let queue = group.queue;
        if !self.queues[queue as usize].entered {
            self.refresh_queue(now, queue);
        }
    }

    /// Where a group begins that had nothing to run: at the virtual time, or level with what the next one has really used, if
    /// that is less. What that one has in flight is charged by estimate, and where that is too high most of it is given back:
    /// whoever began above it would wait until all of that is used up. Worked out once for each input, whatever comes with it.
    fn level(&mut self, queue: Index) -> Charge {
        if let Some(&(_, _, level)) = self.levels.iter().find(|(at, round, _)| *at == queue && *round == self.round) {
            return level;
        }
        let set = &self.queues[queue as usize];
        let next: Vec<_> = set.turns.iter().filter_map(|(_, turns)| turns.first()).collect();
        let used = |&(account, group): &(Account, Index)| {
            let weight = self.owners[self.groups[group as usize].owner as usize].weight();
            let flying = match self.groups[group as usize].in_flight {
                0 => Duration::ZERO,
                _ => self.charged_in_flight(|slot| self.backlog.group(slot) == group),
            };
            account.charge.minus(Charge::of(flying, weight))
        };
        let least = match set.settings.fairness {
            // A turn costs what it is expected to.
            Fairness::Turns => None,
            Fairness::Time => next.iter().map(used).min(),
        };
        let level = set.now.min(least.unwrap_or(set.now));
        self.levels.retain(|(_, round, _)| *round == self.round);
        self.levels.push((queue, self.round, level));
        level
    }

    /// The same among queues.
    fn level_of_queues(&self, tree: Index) -> Charge {
        let tree = &self.trees[tree as usize];
        let Some((account, next)) = tree.turns.first() else { return tree.now };
        let queue = &self.queues[next as usize];
        if queue.settings.fairness == Fairness::Turns || queue.in_flight == 0 {
            return tree.now.min(account.charge);
        }
        let flying = self.charged_in_flight(|slot| self.queue_of(slot) == next);
        tree.now.min(account.charge.minus(Charge::of(flying, queue.settings.weight)))
    }

    fn charged_in_flight(&self, wanted: impl Fn(Slot) -> bool) -> Duration {
        self.flights.iter().filter(|(slot, _)| wanted(**slot)).map(|(_, flight)| flight.charged).sum()
    }

    pub(super) fn leave_turns(&mut self, at: Index) {
        let group = &mut self.groups[at as usize];
        let queue = &mut self.queues[group.queue as usize];
        for class in std::mem::take(&mut group.entered) {
            if let Some((_, turns)) = queue.turns.iter_mut().find(|(known, _)| *known == class) {
                turns.leave(group.account, at);
            }
        }
    }

    /// Changes a group's account while it stands in line.
    pub(super) fn change_account(&mut self, at: Index, change: impl FnOnce(&mut Account)) {
        let group = &mut self.groups[at as usize];
        let queue = &mut self.queues[group.queue as usize];
        let before = group.account;
        change(&mut group.account);
        for class in group.entered.as_slice() {
            if let Some((_, turns)) = queue.turns.iter_mut().find(|(known, _)| known == class) {
                turns.leave(before, at);
                turns.enter(group.account, at);
            }
        }
    }

    /// Buries what died at the head of a group's lanes, and lanes that are empty.
    pub(super) fn drop_dead(&mut self, at: Index) {
        let Self { groups, backlog, .. } = self;
        let lanes = &mut groups[at as usize].lanes;
        for lane in lanes.as_mut_slice() {
            lane.drop_dead(backlog);
        }
        lanes.retain(|lane| !lane.jobs.is_empty());
    }

    pub(super) fn refresh_queue(&mut self, now: Timestamp, at: Index) {
        self.drop_dead_line(at);
        let queue = &self.queues[at as usize];
        let something = match queue.serial() {
            true => match queue.begun {
                Some(begun) => self.backlog.place(begun) == Place::Ready && !self.is_suspect(begun),
                None => !queue.line.is_empty(),
            },
            false => queue.turns.iter().any(|(_, turns)| !turns.is_empty()),
        };
        let open = self.queue_gate(now, at).is_none();
        let wanted = something && open;
        if wanted == self.queues[at as usize].entered {
            return;
        }
        let level = self.level_of_queues(self.queues[at as usize].tree);
        let queue = &mut self.queues[at as usize];
        queue.entered = wanted;
        let turns = &mut self.trees[queue.tree as usize].turns;
        if wanted {
            queue.account.charge = queue.account.charge.max(level);
            turns.enter(queue.account, at);
        } else {
            turns.leave(queue.account, at);
        }
    }

    pub(super) fn drop_dead_line(&mut self, at: Index) {
        let Self { queues, backlog, .. } = self;
        let line = &mut queues[at as usize].line;
        while let Some(slot) = line.first()
            && backlog.place(slot) == Place::Dead
        {
            line.pop(|a, b| backlog.by_seq(a, b));
            backlog.bury(slot);
        }
    }

    /// Reading the backlog has begun or ended: serial queues and those that wait for others open and close with it.
    pub(super) fn refresh_queues_that_wait(&mut self, now: Timestamp) {
        for at in 0..self.queues.len() {
            if self.queues[at].serial() || !self.queues[at].settings.after.is_empty() {
                self.refresh_queue(now, index(at));
            }
        }
    }

    /// A queue is finished: those that wait for it may open.
    pub(super) fn refresh_queues_after(&mut self, now: Timestamp, finished: Index) {
        let name = self.queues[finished as usize].name.clone();
        for at in 0..self.queues.len() {
            if self.queues[at].settings.after.contains(&name) {
                self.refresh_queue(now, index(at));
            }
        }
    }

    pub(super) fn refresh_owner(&mut self, now: Timestamp, at: Index) {
        let groups: Few<Index> = self.groups_of(at).collect();
        for &group in groups.as_slice() {
            self.refresh_group(now, group);
            self.refresh_queue(now, self.groups[group as usize].queue);
        }
    }

    pub(super) fn refresh_owner_of(&mut self, now: Timestamp, slot: Slot) {
        let owner = self.groups[self.backlog.group(slot) as usize].owner;
        if self.owners[owner as usize].limited() {
            self.refresh_owner(now, owner);
        }
    }

    /// The key has room: of every lane that has jobs waiting for it the first comes back. Jobs of one lane differ in nothing
    /// a gate asks for, so if the first cannot run now, neither can the next; and when it runs, the next is asked for.
    pub(super) fn unpark(&mut self, now: Timestamp, key: Index) {
        if self.key_gate(now, key).is_some() {
            return;
        }
        let mut back = Vec::new();
        let Self { keys, backlog, .. } = self;
        keys[key as usize].parked.retain(|_, lane| {
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
        while let Some(&Reverse((at, alarm))) = self.alarms.peek() {
            if at > now {
                return;
            }
            self.alarms.pop();
            match alarm {
                Alarm::Queue(queue) => self.refresh_queue(now, queue),
                Alarm::Owner(owner) => self.refresh_owner(now, owner),
                Alarm::Key(key) => self.unpark(now, key),
                Alarm::Task => {}
            }
        }
    }
}
