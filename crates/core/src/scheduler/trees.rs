//! Turn trees: queues take turns only with queues they share a node with. Nodes that have no queue in common, such as the pools
//! of a process, have a tree each: what one of them does moves neither the charges nor the virtual time of the other.

use super::{Scheduler, fleet::Seat, table::Index};
use crate::{
    name::QueueName,
    turn::{Charge, Turns},
};

/// The tree of queues that no living node serves.
pub(super) const NOBODYS: Index = 0;

#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    /// Queues with something ready.
    pub(super) turns: Turns,
    /// Virtual time among its queues.
    pub(super) now: Charge,
}

impl Scheduler {
    pub(super) fn anybody_in_line(&self) -> bool {
        self.trees.iter().any(|tree| !tree.turns.is_empty())
    }

    /// The tree of all nodes that serve this queue: they are in the same one.
    pub(super) fn tree_of(&self, queue: &QueueName) -> Index {
        self.fleet.alive().find(|seat| seat.node().queues.contains(queue)).map_or(NOBODYS, Seat::tree)
    }

    /// The fleet has changed: sorts nodes and queues into trees anew. A queue that moves to another tree is there as far ahead or
    /// behind as it was before: how much other trees have done counts neither for nor against it.
    pub(super) fn plant(&mut self) {
        let mut trees = NOBODYS;
        self.fleet.iter_mut().for_each(|seat| seat.plant(NOBODYS));
        for first in self.fleet.indexes() {
            if !self.fleet[first].is_alive() || self.fleet[first].tree() != NOBODYS {
                continue;
            }
            trees += 1;
            self.fleet[first].plant(trees);
            let mut reached = vec![first];
            while let Some(at) = reached.pop() {
                for other in self.fleet.indexes() {
                    let seat = &self.fleet[other];
                    if seat.tree() == NOBODYS
                        && seat.is_alive()
                        && seat.node().queues.meets(&self.fleet[at].node().queues)
                    {
                        self.fleet[other].plant(trees);
                        reached.push(other);
                    }
                }
            }
        }
        let homes: Vec<Index> = self.queues.iter().map(|queue| self.tree_of(&queue.name)).collect();
        let same = trees as usize + 1 == self.trees.len();
        if same && self.queues.iter().zip(&homes).all(|(queue, home)| queue.tree == *home) {
            return;
        }
        let old = std::mem::take(&mut self.trees);
        self.trees = vec![Tree::default(); trees as usize + 1];
        for (queue, home) in self.queues.iter().zip(&homes) {
            let now = &mut self.trees[*home as usize].now;
            *now = (*now).max(old[queue.tree as usize].now);
        }
        for ((at, queue), home) in (0..).zip(self.queues.iter_mut()).zip(homes) {
            let (before, tree) = (old[queue.tree as usize].now, &mut self.trees[home as usize]);
            let charge = queue.account.charge;
            queue.account.charge = if charge >= before {
                tree.now.plus(charge.minus(before))
            } else {
                tree.now.minus(before.minus(charge))
            };
            queue.tree = home;
            if queue.entered {
                tree.turns.enter(queue.account, at);
            }
        }
    }
}
