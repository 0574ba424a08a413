//! Lines: groups stand in the line of their queue, queues in that of the fleet. A closed gate takes them out once, its opening puts
//! them back.

use super::{Scheduler, gates::Keeper, rows::Queue, table::Index, turns::GroupTurns};
use crate::{
    backlog::{Place, Slot},
    small_list::SmallList,
    time::Timestamp,
    turn::{Account, Charge},
};

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
        let mut classes: SmallList<Index> = SmallList::None;
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
        let queue = group.queue;
        self.leave_turns(at);
        let places: SmallList<usize> = classes.as_slice().iter().map(|&class| self.line_of(queue, class)).collect();
        if was_out {
            // Having nothing to run earns no credit, whether the group was idle or a gate of its own was closed. What is still in
            // flight is charged already.
            let levels = places.as_slice().iter().map(|&place| self.level(now, queue, place));
            if let Some(level) = levels.min() {
                let charge = &mut self.groups[at].account.charge;
                *charge = (*charge).max(level);
            }
        }
        let Self { groups, queues, owners, tallies, .. } = self;
        for &place in places.as_slice() {
            queues[queue].turns[place].enter(groups, at);
        }
        let group = &groups[at];
        if !group.entered.is_empty() {
            tallies.enter(at, group, owners[group.owner].weight(), queues[queue].now);
        }
        if !self.queues[queue].entered {
            self.refresh_queue(now, queue);
        }
    }

    /// The line of a class in a queue, by its place.
    fn line_of(&mut self, queue: Index, class: Index) -> usize {
        let turns = &mut self.queues[queue].turns;
        let known = turns.iter().position(|turns| turns.class() == class);
        known.unwrap_or_else(|| {
            turns.push(GroupTurns::of(class));
            turns.len() - 1
        })
    }

    /// The charge at which a group enters this line: the queue's virtual time. A class with a limit, or with fewer nodes than
    /// others, falls behind that time. There a new group begins at the charge that is served in its class now: otherwise it would
    /// wait until all other groups of the class have caught up with the queue.
    fn level(&mut self, now: Timestamp, at: Index, place: usize) -> Charge {
        let queue = &self.queues[at];
        let turns = &queue.turns[place];
        let level = turns.first(&self.groups).map_or(queue.now, |(account, first)| {
            let group = &self.groups[first];
            // If the class can be served, its level is the first group's charge. If not, it is what that group has used: much of
            // the charge for its jobs in flight may be given back.
            let served = self.class_served(now, queue, turns.class());
            let charge = if served { account.charge } else { group.used(self.owners[group.owner].weight()) };
            turns.now.max(queue.now.min(charge))
        });
        self.queues[at].turns[place].now = level;
        level
    }

    /// Whether a node that had room would begin something of these kinds.
    fn class_served(&self, now: Timestamp, queue: &Queue, class: Index) -> bool {
        self.fleet.indexes().any(|seat| !queue.full_on(seat) && self.class_open(now, class, seat))
    }

    pub(super) fn leave_turns(&mut self, at: Index) {
        let Self { groups, queues, owners, tallies, .. } = self;
        let group = &groups[at];
        if !group.entered.is_empty() {
            tallies.leave(at, group, owners[group.owner].weight(), queues[group.queue].now);
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
        let level = wanted.then(|| self.level_of_queue(at));
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

    /// The charge at which a queue begins that had nothing to run. As for a group in its queue, it is the virtual time, or the
    /// charge that is served now among the queues that are behind it because of the same few nodes or the same task's limit.
    fn level_of_queue(&self, at: Index) -> Charge {
        let tree = &self.trees[self.queues[at].tree as usize];
        let behind = || {
            let turns = std::iter::successors(tree.turns.first(), |&turn| tree.turns.after(turn));
            turns.take_while(|(account, _)| account.charge < tree.now)
        };
        let held = |class: Index| {
            let (class, mut seats) = (self.kinds.class(class), self.fleet.indexes());
            class.limited().is_some()
                || seats.any(|seat| self.fleet[seat].tree() == self.queues[at].tree && !class.able(seat))
        };
        let mut level = tree.now;
        for class in self.ready_classes(at).filter(|&class| held(class)) {
            let next = behind().find(|&(_, other)| self.ready_classes(other).any(|ready| ready == class));
            level = next.map_or(level, |(account, _)| level.min(account.charge));
        }
        level
    }

    /// The classes of what is ready in a queue.
    fn ready_classes(&self, at: Index) -> impl Iterator<Item = Index> {
        let queue = &self.queues[at];
        let head = self.head_of_line(at).filter(|_| queue.serial());
        let line = head.map(|head| self.kinds[self.backlog.kind(head)].class());
        let turns = queue.turns.iter().filter(|turns| !queue.serial() && !turns.is_empty());
        line.into_iter().chain(turns.map(GroupTurns::class))
    }

    /// Whether a queue has something ready that some node could run: waiting for a node earns no credit, as idleness does not.
    fn has_something(&self, at: Index) -> bool {
        self.ready_classes(at).any(|class| self.kinds.class(class).runnable())
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
        let groups: SmallList<Index> = self.groups_of(at).collect();
        for &group in groups.as_slice() {
            self.refresh_group(now, group);
            self.refresh_queue(now, self.groups[group].queue);
        }
    }

    /// If this owner has a limit, its other jobs may begin now, or no longer.
    pub(super) fn refresh_limited(&mut self, now: Timestamp, owner: Index) {
        if self.owners[owner].limited() {
            self.refresh_owner(now, owner);
        }
    }

    /// If the key has room, the first job of every lane that waits for it comes back. To the gates all jobs of one lane are
    /// equal: if the first cannot run now, neither can the next; and when it is picked, the next one comes back.
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
