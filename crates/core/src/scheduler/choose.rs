//! Choosing: whose turn it is, down the tree.

use std::cmp::Reverse;

use super::{Pick, Scheduler, UNKNOWN_COST, tables::*};
use crate::{
    backlog::{Backlog, Place, Slot},
    heap,
    job::Class,
    limits::Bucket,
    time::Timestamp,
};

impl Scheduler {
    pub(super) fn pick_batch(&mut self, now: Timestamp) -> Vec<Pick> {
        let mut picks = Vec::new();
        self.reserve_for_a_suspect(now);
        self.start_reserved_suspects(now, &mut picks);
        let mut seats: Vec<Index> =
            (0..index(self.seats.len())).filter(|&seat| self.seats[seat as usize].has_room()).collect();
        while picks.len() < self.batch
            && let Some(at) = (0..seats.len()).min_by_key(|&at| self.seats[seats[at] as usize].fullness())
        {
            let seat = seats[at];
            match self.pick_for(now, seat) {
                Some(slot) => {
                    picks.push(self.hand_over(now, slot, seat));
                    if !self.seats[seat as usize].has_room() {
                        seats.swap_remove(at);
                    }
                }
                None => drop(seats.swap_remove(at)),
            }
        }
        picks
    }

    /// Into the node's hands: counted against every limit, charged to its group and queue.
    pub(super) fn hand_over(&mut self, now: Timestamp, slot: Slot, seat: Index) -> Pick {
        let cost = self.kinds[self.backlog.kind(slot) as usize].cost.unwrap_or(UNKNOWN_COST);
        self.enter_flight(now, slot, Some(seat), Place::Picked);
        self.charge(slot, cost);
        self.take_tokens(now, slot);
        let queue = self.queue_of(slot);
        self.refresh_group(now, self.backlog.group(slot));
        self.refresh_queue(now, queue);
        self.refresh_owner_of(now, slot);
        if let Some(key) = self.extras.get(&slot).and_then(|extra| extra.key) {
            self.unpark(now, key);
        }
        Pick {
            job: self.backlog.id(slot),
            fence: self.backlog.fence(slot),
            node: self.seats[seat as usize].node.incarnation,
        }
    }

    pub(super) fn take_tokens(&mut self, now: Timestamp, slot: Slot) {
        let kind = &self.kinds[self.backlog.kind(slot) as usize];
        let owner = self.groups[self.backlog.group(slot) as usize].owner;
        let key = self.extras.get(&slot).and_then(|extra| extra.key);
        let (queue, task) = (kind.queue, kind.task);
        let alarms = &mut self.alarms;
        let mut take = |bucket: &mut Option<Bucket>, alarm| {
            if let Some(bucket) = bucket {
                bucket.take(now);
                if !bucket.allows(now) {
                    alarms.push(Reverse((bucket.next(), alarm)));
                }
            }
        };
        take(&mut self.queues[queue as usize].bucket, Alarm::Queue(queue));
        if let Some(special) = &mut self.owners[owner as usize].special {
            take(&mut special.bucket, Alarm::Owner(owner));
        }
        take(&mut self.tasks[task as usize].bucket, Alarm::Task);
        if let Some(key) = key {
            take(&mut self.keys[key as usize].bucket, Alarm::Key(key));
        }
    }

    /// One node at a time drains for one suspect, and after it everybody else has the node for as long as the suspect
    /// kept it: a handful of suspects can stop neither the fleet nor a single node.
    pub(super) fn reserve_for_a_suspect(&mut self, now: Timestamp) {
        if self.suspects.is_empty() || self.seats.iter().any(|seat| seat.suspect.is_some()) {
            return;
        }
        if now < self.suspects_rest_until && !self.turns.is_empty() {
            return self.alarms.push(Reverse((self.suspects_rest_until, Alarm::Task)));
        }
        for _ in 0..self.suspects.len() {
            let Some(slot) = self.suspects.pop_front() else { return };
            match self.backlog.place(slot) {
                Place::Ready => {}
                Place::Dead => {
                    self.backlog.bury(slot);
                    continue;
                }
                _ => continue,
            }
            let able = &self.classes[self.kinds[self.backlog.kind(slot) as usize].class as usize].able;
            let freest = (0..self.seats.len())
                .filter(|&at| able[at] && self.seats[at].node.slots > 0)
                .min_by_key(|&at| self.seats[at].in_flight);
            match freest {
                Some(at) => {
                    self.backlog.set_place(slot, Place::Reserved);
                    self.seats[at].suspect = Some(self.backlog.id(slot));
                    self.suspect_since = now;
                    return;
                }
                None => self.suspects.push_back(slot),
            }
        }
    }

    pub(super) fn start_reserved_suspects(&mut self, now: Timestamp, picks: &mut Vec<Pick>) {
        for at in 0..self.seats.len() {
            let seat = &self.seats[at];
            if seat.in_flight == 0
                && let Some(slot) = seat.suspect.and_then(|id| self.backlog.find(id))
                && self.backlog.place(slot) == Place::Reserved
                && self.gates_open(now, slot)
            {
                picks.push(self.hand_over(now, slot, index(at)));
            }
        }
    }

    /// Whether every limit allows this job, which does not stand in line with the others.
    pub(super) fn gates_open(&self, now: Timestamp, slot: Slot) -> bool {
        let kind = &self.kinds[self.backlog.kind(slot) as usize];
        let owner = self.groups[self.backlog.group(slot) as usize].owner;
        let key = self.extras.get(&slot).and_then(|extra| extra.key);
        let line_free = self.queues[kind.queue as usize].begun.is_none_or(|begun| begun == slot);
        line_free
            && self.queue_gate(now, kind.queue).is_none()
            && self.owner_gate(now, owner).is_none()
            && self.task_gate(now, kind.task).is_none()
            && key.is_none_or(|key| self.key_gate(now, key).is_none())
    }

    /// The next queue in turn, its next group in turn, that group's next job that this node can run.
    pub(super) fn pick_for(&mut self, now: Timestamp, seat: Index) -> Option<Slot> {
        let mut turn = self.turns.first();
        while let Some((account, queue)) = turn {
            if let Some(slot) = self.pick_from(now, queue, seat) {
                return Some(slot);
            }
            // The queue may have left the line meanwhile; whoever comes after its account is next all the same.
            turn = self.turns.after((account, queue));
        }
        None
    }

    pub(super) fn pick_from(&mut self, now: Timestamp, at: Index, seat: Index) -> Option<Slot> {
        let queue = &self.queues[at as usize];
        if queue.settings.per_node.is_some_and(|cap| queue.on_seat.get(&seat).copied().unwrap_or(0) >= cap) {
            return None;
        }
        if queue.serial() {
            return self.pick_from_line(now, at, seat);
        }
        loop {
            let queue = &self.queues[at as usize];
            let open = |class: Index| {
                let class = &self.classes[class as usize];
                class.able[seat as usize] && class.limited.is_none_or(|task| self.task_gate(now, task).is_none())
            };
            let first =
                queue.turns.iter().filter(|(class, _)| open(*class)).filter_map(|(_, turns)| turns.first()).min();
            let (_, group) = first?;
            let slot = self.take_from_group(now, group, seat);
            self.refresh_group(now, group);
            match slot {
                Some(slot) if self.park_on_key(now, slot) => {}
                Some(slot) => return Some(slot),
                // Nothing but dead entries; it has left the line by now.
                None => {}
            }
        }
    }

    /// A job whose key is at its limit waits on the key's list instead of at the head of its lane.
    pub(super) fn park_on_key(&mut self, now: Timestamp, slot: Slot) -> bool {
        let Some(key) = self.extras.get(&slot).and_then(|extra| extra.key) else { return false };
        if self.key_gate(now, key).is_none() {
            return false;
        }
        self.backlog.set_place(slot, Place::Parked);
        let backlog = &self.backlog;
        let lane = self.keys[key as usize].parked.entry((backlog.group(slot), backlog.kind(slot))).or_default();
        heap::push(lane, slot, |a, b| backlog.by_rank(a, b));
        true
    }

    /// In a serial queue the first in line goes first or nobody does.
    pub(super) fn pick_from_line(&mut self, now: Timestamp, at: Index, seat: Index) -> Option<Slot> {
        self.drop_dead_line(at);
        let queue = &self.queues[at as usize];
        let slot = match queue.begun {
            Some(begun) => Some(begun).filter(|&begun| self.backlog.place(begun) == Place::Ready),
            None => queue.line.first().copied(),
        }?;
        let kind = &self.kinds[self.backlog.kind(slot) as usize];
        let owner = self.groups[self.backlog.group(slot) as usize].owner;
        let key = self.extras.get(&slot).and_then(|extra| extra.key);
        let open = self.classes[kind.class as usize].able[seat as usize]
            && self.owner_gate(now, owner).is_none()
            && self.task_gate(now, kind.task).is_none()
            && key.is_none_or(|key| self.key_gate(now, key).is_none());
        if !open {
            return None;
        }
        let backlog = &self.backlog;
        let queue = &mut self.queues[at as usize];
        if queue.begun.is_none() {
            heap::pop(&mut queue.line, |a, b| backlog.by_seq(a, b));
        }
        queue.begun = None;
        Some(slot)
    }

    /// Due stuck jobs first, whatever the hint; then the class the scheme prefers, then the other one.
    pub(super) fn take_from_group(&mut self, now: Timestamp, at: Index, seat: Index) -> Option<Slot> {
        self.drop_dead(at);
        let group = &self.groups[at as usize];
        let runnable: Vec<usize> = (0..group.lanes.len())
            .filter(|&lane| {
                let class = &self.classes[self.kinds[group.lanes[lane].kind as usize].class as usize];
                class.able[seat as usize] && class.limited.is_none_or(|task| self.task_gate(now, task).is_none())
            })
            .collect();
        let scheme = self.owners[group.owner as usize]
            .scheme()
            .or(self.queues[group.queue as usize].settings.scheme)
            .unwrap_or(self.scheme);
        let Self { groups, backlog, .. } = self;
        let group = &mut groups[at as usize];
        let first = |heap: fn(&mut Lane) -> &mut Vec<Slot>,
                     before: fn(&Backlog, Slot, Slot) -> bool,
                     lanes: &mut Vec<Lane>,
                     backlog: &Backlog| {
            let mut best: Option<(usize, Slot)> = None;
            for &lane in &runnable {
                if let Some(&top) = heap(&mut lanes[lane]).first()
                    && best.is_none_or(|(_, other)| before(backlog, top, other))
                {
                    best = Some((lane, top));
                }
            }
            best.and_then(|(lane, _)| heap::pop(heap(&mut lanes[lane]), |a, b| before(backlog, a, b)))
        };
        let stuck: fn(&mut Lane) -> &mut Vec<Slot> = |lane| &mut lane.stuck;
        if let Some(slot) = first(stuck, Backlog::by_due, &mut group.lanes, backlog) {
            return Some(slot);
        }
        let class = |class: Class| -> fn(&mut Lane) -> &mut Vec<Slot> {
            match class {
                Class::High => |lane| &mut lane.high,
                Class::Low => |lane| &mut lane.low,
            }
        };
        let preferred = scheme.preferred(group.count);
        let picked = first(class(preferred), Backlog::by_rank, &mut group.lanes, backlog)
            .or_else(|| first(class(preferred.other()), Backlog::by_rank, &mut group.lanes, backlog));
        group.count = group.count.wrapping_add(u32::from(picked.is_some()));
        picked
    }
}
