//! The fleet: the nodes that live, and what each has in its hands.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::{self, Range},
    time::Duration,
};

use super::{
    Scheduler,
    table::{Index, index},
    trees::NOBODYS,
};
use crate::{
    backlog::{Place, Slot},
    estimate::expected,
    job::JobId,
    node::{Incarnation, Node},
    pool,
    time::Timestamp,
};

/// A node, as the scheduler sees it.
#[derive(Debug, Clone)]
pub(super) struct Seat {
    node: Node,
    alive: bool,
    /// Where its queues take their turns.
    tree: Index,
    in_flight: u32,
    /// Jobs in flight that run.
    running: u32,
    /// The other jobs in flight, in order; those that have left since are skipped when they come to the front.
    buffer: VecDeque<(Slot, u64)>,
    load: Duration,
    /// The cost of so many of its jobs is not known: nothing is prefetched beside them.
    guesses: u32,
    /// Long arguments of its jobs.
    bytes: u64,
    /// A suspect runs here alone, or the node drains for it.
    suspect: Option<JobId>,
}

impl Seat {
    fn new(node: Node) -> Self {
        Self {
            node,
            alive: true,
            tree: NOBODYS,
            in_flight: 0,
            running: 0,
            buffer: VecDeque::new(),
            load: Duration::ZERO,
            guesses: 0,
            bytes: 0,
            suspect: None,
        }
    }

    pub(super) fn node(&self) -> &Node {
        &self.node
    }

    pub(super) fn is_alive(&self) -> bool {
        self.alive
    }

    #[inline]
    pub(super) fn tree(&self) -> Index {
        self.tree
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    pub(super) fn suspect(&self) -> Option<JobId> {
        self.suspect
    }

    pub(super) fn has_room(&self) -> bool {
        if !self.alive || self.suspect.is_some() {
            return false;
        }
        let slots = self.node.slots;
        self.in_flight < slots
            || (slots > 0
                && self.in_flight - slots < self.node.queue_capacity
                && self.guesses == 0
                && self.bytes < pool::MOST_BYTES
                && self.load < pool::PREFETCH.saturating_mul(slots))
    }

    /// Jobs it is given in one batch, at most.
    pub(super) fn share(&self) -> usize {
        self.node.batch_size.map_or(usize::MAX, |jobs| jobs.get() as usize)
    }

    /// A job is in flight here now: it runs if there is a slot for it, and is in the buffer otherwise. Returns whether it runs. `cost`:
    /// `None` if it is not known; `bytes`: of its arguments.
    pub(super) fn enter(&mut self, slot: Slot, number: u64, cost: Option<Duration>, bytes: u32) -> bool {
        self.in_flight += 1;
        self.load += expected(cost);
        self.guesses += u32::from(cost.is_none());
        self.bytes += u64::from(bytes);
        let runs = self.running < self.node.slots;
        if runs {
            self.running += 1
        } else {
            self.buffer.push_back((slot, number))
        }
        runs
    }

    /// A job is in flight here no longer. `cost`, `bytes`: as it entered with.
    pub(super) fn leave(&mut self, runs: bool, cost: Option<Duration>, bytes: u32) {
        self.in_flight -= 1;
        self.running -= u32::from(runs);
        self.load = self.load.saturating_sub(expected(cost));
        self.guesses -= u32::from(cost.is_none());
        self.bytes -= u64::from(bytes);
    }

    /// The next jobs of the buffer begin in free slots. `begin`: whether the job is still there.
    pub(super) fn begin_next(&mut self, mut begin: impl FnMut(Slot, u64) -> bool) {
        while self.running < self.node.slots
            && let Some((slot, number)) = self.buffer.pop_front()
        {
            self.running += u32::from(begin(slot, number));
        }
    }

    /// From now on other jobs do not begin here: the node is this suspect's. Returns whether it was not yet.
    pub(super) fn keep_for(&mut self, suspect: JobId) -> bool {
        self.suspect.replace(suspect) != Some(suspect)
    }

    /// If the node is kept for this suspect, it is not any more. Returns whether it was.
    pub(super) fn keep_no_longer_for(&mut self, suspect: JobId) -> bool {
        self.suspect.take_if(|kept_for| *kept_for == suspect).is_some()
    }

    /// Its queues take their turns in this tree.
    pub(super) fn plant(&mut self, tree: Index) {
        self.tree = tree;
    }

    /// It is given no more than it has slots for.
    pub(super) fn prefetch_nothing(&mut self) {
        self.node.queue_capacity = 0;
    }

    /// How full the node is, in thousandths of its slots: so nodes of different sizes can be compared.
    pub(super) fn fullness(&self) -> u64 {
        u64::from(self.in_flight) * 1_000 / u64::from(self.node.slots.max(1))
    }
}

/// Seats by index and by the node's incarnation.
#[derive(Debug, Clone, Default)]
pub(super) struct Fleet {
    seats: Vec<Seat>,
    by_node: BTreeMap<Incarnation, Index>,
}

impl Fleet {
    pub(super) fn find(&self, node: Incarnation) -> Option<Index> {
        self.by_node.get(&node).copied()
    }

    pub(super) fn indexes(&self) -> Range<Index> {
        0..index(self.seats.len())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Seat> {
        self.seats.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Seat> {
        self.seats.iter_mut()
    }

    pub(super) fn alive(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| seat.alive)
    }

    /// Whether a node is kept free for a suspect, or one runs there alone.
    pub(super) fn has_a_suspect(&self) -> bool {
        self.seats.iter().any(|seat| seat.suspect.is_some())
    }

    /// These live, and no others.
    fn see(&mut self, nodes: Vec<Node>) {
        self.seats.iter_mut().for_each(|seat| seat.alive = false);
        for node in nodes {
            match self.find(node.incarnation) {
                Some(at) => {
                    let seat = &mut self[at];
                    seat.alive = true;
                    seat.node = node;
                }
                None => {
                    self.by_node.insert(node.incarnation, index(self.seats.len()));
                    self.seats.push(Seat::new(node));
                }
            }
        }
    }

    /// Forgets nodes that have left and hold nothing. Only seats at the end are removed, so that indexes stay valid.
    fn forget_the_last(&mut self) {
        let gone = |seat: &Seat| !seat.alive && seat.in_flight == 0 && seat.suspect.is_none();
        while let Some(seat) = self.seats.pop_if(|seat| gone(seat)) {
            self.by_node.remove(&seat.node.incarnation);
        }
    }
}

impl ops::Index<Index> for Fleet {
    type Output = Seat;

    #[inline]
    fn index(&self, at: Index) -> &Seat {
        &self.seats[at as usize]
    }
}

impl ops::IndexMut<Index> for Fleet {
    #[inline]
    fn index_mut(&mut self, at: Index) -> &mut Seat {
        &mut self.seats[at as usize]
    }
}

impl Scheduler {
    pub(super) fn see_nodes(&mut self, now: Timestamp, nodes: Vec<Node>) {
        self.fleet.see(nodes);
        let mut homeless = Vec::new();
        for at in self.fleet.indexes() {
            // It may have more slots than before.
            self.begin_next(now, at);
            let seat = &mut self.fleet[at];
            if !seat.alive
                && let Some(slot) = seat.suspect.and_then(|id| self.backlog.find(id))
                && self.backlog.place(slot) == Place::Reserved
            {
                seat.suspect = None;
                homeless.push(slot);
            }
        }
        self.fleet.forget_the_last();
        self.plant();
        self.classify(now);
        // A suspect that waited for a node that is gone waits for another.
        for slot in homeless {
            self.unreserve(now, slot);
            self.put_ready(now, slot);
        }
    }
}
