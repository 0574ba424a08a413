//! Ready jobs of one lane, each naming the next: four bytes a job, no allocation, and the first is taken without a look at
//! the others.
//!
//! Most jobs arrive in the order in which they leave, or in the opposite one. A job that does not fit begins a chain of its own.
//! Where a few chains are not enough, for example when jobs with all kinds of due times are read in no order, the rest is in a
//! heap.

use crate::{
    backlog::{Backlog, Slot},
    heap::Heap,
};

/// Most chains side by side: one for each priority of a class. To take the first job, the first of each chain is compared.
const RUNS: usize = 5;

#[derive(Debug, Clone, Default)]
pub(crate) enum Chain {
    #[default]
    None,
    One(Stretch),
    /// More than one run, or something in the heap.
    Many(Box<Many>),
}

/// From the first to the last, each names the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    first: Slot,
    last: Slot,
}

/// One allocation, with room for three jobs in the heap as well: a million groups may have a few jobs each, in no order.
#[derive(Debug, Clone)]
pub(crate) struct Many {
    runs: [Stretch; RUNS],
    count: u8,
    rest: Heap,
}

impl Stretch {
    fn of(slot: Slot) -> Self {
        Self { first: slot, last: slot }
    }

    fn append(&mut self, backlog: &mut Backlog, slot: Slot) {
        backlog.set_next(self.last, slot);
        self.last = slot;
    }

    fn prepend(&mut self, backlog: &mut Backlog, slot: Slot) {
        backlog.set_next(slot, self.first);
        self.first = slot;
    }

    /// What is left without the first.
    fn rest(self, backlog: &Backlog) -> Option<Self> {
        (self.first != self.last).then(|| Self { first: backlog.next(self.first), last: self.last })
    }

    fn slots(self, backlog: &Backlog) -> impl Iterator<Item = Slot> {
        std::iter::successors(Some(self), |run| run.rest(backlog)).map(|run| run.first)
    }
}

impl Chain {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Adds a job that is in no other chain or heap; `before(backlog, a, b)` says whether a goes before b.
    pub(crate) fn push(&mut self, backlog: &mut Backlog, slot: Slot, before: impl Fn(&Backlog, Slot, Slot) -> bool) {
        match self {
            Self::None => *self = Self::One(Stretch::of(slot)),
            Self::One(run) if !before(backlog, slot, run.last) => run.append(backlog, slot),
            Self::One(run) if before(backlog, slot, run.first) => run.prepend(backlog, slot),
            Self::One(run) => {
                let mut many = Many { runs: [*run; RUNS], count: 1, rest: Heap::default() };
                many.begin_run(slot);
                *self = Self::Many(Box::new(many));
            }
            Self::Many(many) => many.push(backlog, slot, before),
        }
    }

    pub(crate) fn first(&self, backlog: &Backlog, before: impl Fn(&Backlog, Slot, Slot) -> bool) -> Option<Slot> {
        match self {
            Self::None => None,
            Self::One(run) => Some(run.first),
            Self::Many(many) => many.first_run(backlog, &before).map(|at| many.runs()[at].first).or(many.rest.first()),
        }
    }

    /// Takes out the first.
    pub(crate) fn pop(&mut self, backlog: &Backlog, before: impl Fn(&Backlog, Slot, Slot) -> bool) -> Option<Slot> {
        match self {
            Self::None => None,
            Self::One(run) => {
                let first = run.first;
                *self = run.rest(backlog).map_or(Self::None, Self::One);
                Some(first)
            }
            Self::Many(many) => {
                let first = match many.first_run(backlog, &before) {
                    Some(at) => many.pop_run(backlog, at),
                    None => many.rest.pop(|a, b| before(backlog, a, b))?,
                };
                if many.rest.is_empty()
                    && let [] | [_] = many.runs()
                {
                    *self = many.runs().first().map_or(Self::None, |run| Self::One(*run));
                }
                Some(first)
            }
        }
    }

    /// All of them, in no order that means anything.
    pub(crate) fn slots(&self, backlog: &Backlog) -> impl Iterator<Item = Slot> {
        let (runs, rest) = match self {
            Self::None => (&[][..], &[][..]),
            Self::One(run) => (std::slice::from_ref(run), &[][..]),
            Self::Many(many) => (many.runs(), many.rest.as_slice()),
        };
        runs.iter().flat_map(|run| run.slots(backlog)).chain(rest.iter().copied())
    }
}

impl Many {
    fn runs(&self) -> &[Stretch] {
        &self.runs[..usize::from(self.count)]
    }

    fn runs_mut(&mut self) -> &mut [Stretch] {
        &mut self.runs[..usize::from(self.count)]
    }

    /// There must be room for it.
    fn begin_run(&mut self, slot: Slot) {
        self.count += 1;
        self.runs[usize::from(self.count) - 1] = Stretch::of(slot);
    }

    fn push(&mut self, backlog: &mut Backlog, slot: Slot, before: impl Fn(&Backlog, Slot, Slot) -> bool) {
        // To the run whose last is nearest before it: the others are kept for what comes earlier.
        let fits = self.runs_mut().iter_mut().filter(|run| !before(backlog, slot, run.last));
        let nearest = fits.reduce(|best, other| if before(backlog, best.last, other.last) { other } else { best });
        if let Some(run) = nearest {
            return run.append(backlog, slot);
        }
        match self.runs().iter().position(|run| before(backlog, slot, run.first)) {
            Some(at) => self.runs[at].prepend(backlog, slot),
            None if self.runs().len() < RUNS => self.begin_run(slot),
            None => self.rest.push(slot, |a, b| before(backlog, a, b)),
        }
    }

    /// The run that has the first of all; none, if the heap has it.
    fn first_run(&self, backlog: &Backlog, before: &impl Fn(&Backlog, Slot, Slot) -> bool) -> Option<usize> {
        let runs = self.runs().iter().enumerate();
        let best = runs.reduce(|best, other| if before(backlog, other.1.first, best.1.first) { other } else { best });
        let (at, run) = best?;
        let beaten = self.rest.first().is_some_and(|rest| before(backlog, rest, run.first));
        (!beaten).then_some(at)
    }

    fn pop_run(&mut self, backlog: &Backlog, at: usize) -> Slot {
        let run = self.runs[at];
        match run.rest(backlog) {
            Some(rest) => self.runs[at] = rest,
            None => {
                self.count -= 1;
                self.runs[at] = self.runs[usize::from(self.count)];
            }
        }
        run.first
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{Fence, JobId, Timestamp, backlog::New};
    use proptest::prelude::*;
    use uuid::Uuid;

    fn job(backlog: &mut Backlog, seq: u32, priority: u8, due: i64) -> Slot {
        let id = JobId::from_uuid(Uuid::from_u128(seq.into()));
        let due = Timestamp::from_micros(due);
        backlog.insert(New { id, seq: seq.into(), fence: Fence(0), due, priority, stuck: false, kind: 0, group: 0 })
    }

    proptest! {
        #[test]
        fn jobs_come_out_in_order_in_whatever_order_they_come(
            steps in prop_oneof![
                // In order but for a few; of some priorities; and of all times.
                proptest::collection::vec(proptest::option::weighted(0.6, (5u8..=5, 0i64..3)), 0..200),
                proptest::collection::vec(proptest::option::weighted(0.6, (1u8..=5, 0i64..1)), 0..200),
                proptest::collection::vec(proptest::option::weighted(0.7, (1u8..=5, 0i64..1_000)), 0..200),
            ],
        ) {
            let (mut backlog, mut chain, mut sorted) = (Backlog::default(), Chain::default(), BTreeSet::new());
            for (seq, step) in (0..).zip(&steps) {
                match *step {
                    Some((priority, due)) => {
                        let slot = job(&mut backlog, seq, priority, due);
                        chain.push(&mut backlog, slot, Backlog::by_rank);
                        sorted.insert((priority, due, slot));
                    }
                    None => prop_assert_eq!(
                        chain.pop(&backlog, Backlog::by_rank),
                        sorted.pop_first().map(|(_, _, slot)| slot)
                    ),
                }
                prop_assert_eq!(chain.first(&backlog, Backlog::by_rank), sorted.first().map(|(_, _, slot)| *slot));
                prop_assert_eq!(chain.is_empty(), sorted.is_empty());
                let mut slots: Vec<Slot> = chain.slots(&backlog).collect();
                let mut expected: Vec<Slot> = sorted.iter().map(|(_, _, slot)| *slot).collect();
                slots.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(slots, expected);
            }
        }
    }

    #[test]
    fn jobs_that_come_in_order_or_in_the_opposite_one_need_no_allocation() {
        assert_eq!((size_of::<Chain>(), size_of::<Many>()), (16, 72));
        for down in [false, true] {
            let (mut backlog, mut chain) = (Backlog::default(), Chain::default());
            for n in 0..1_000 {
                let slot = job(&mut backlog, n, 5, if down { -i64::from(n) + 1_000 } else { n.into() });
                chain.push(&mut backlog, slot, Backlog::by_rank);
                assert!(matches!(chain, Chain::One(_)));
            }
        }
    }

    #[test]
    fn a_chain_that_had_many_is_small_again_when_they_are_gone() {
        let (mut backlog, mut chain) = (Backlog::default(), Chain::default());
        for n in 0..1_000 {
            let slot = job(&mut backlog, n, 5, i64::from(n) * 7_919 % 1_000);
            chain.push(&mut backlog, slot, Backlog::by_rank);
        }
        assert!(matches!(&chain, Chain::Many(many) if many.runs().len() == RUNS && !many.rest.is_empty()));
        for _ in 0..999 {
            chain.pop(&backlog, Backlog::by_rank);
        }
        assert!(matches!(chain, Chain::One(_)));
    }
}
