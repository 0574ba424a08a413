//! Lanes: the ready jobs of a group, by kind and rank, each lane in its own order.

use super::table::Index;
use crate::{
    backlog::{Backlog, Place, Slot},
    chain::Chain,
    job::Class,
};

/// Ready jobs of one kind and one rank in one group.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) kind: Index,
    pub(super) rank: Rank,
    jobs: Chain,
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

impl Class {
    pub(super) fn other(self) -> Class {
        match self {
            Class::High => Class::Low,
            Class::Low => Class::High,
        }
    }
}

impl Lane {
    pub(super) fn new(kind: Index, rank: Rank) -> Self {
        Self { kind, rank, jobs: Chain::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(super) fn slots<'a>(&'a self, backlog: &'a Backlog) -> impl Iterator<Item = Slot> + 'a {
        self.jobs.slots(backlog)
    }

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
