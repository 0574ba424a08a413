//! Groups in line, the one with the smallest charge first; among equals the one served longest ago.
//!
//! Where turns are counted, and where jobs cost about the same, a group that is served is last in line afterwards. So most groups
//! stand in a row: they leave it at its front and enter it at its end, without a search. The others, such as those whose
//! jobs cost less than expected, are in a heap. Each group knows its place, and the order is that of the groups' accounts:
//! four bytes for each of a million groups, where a tree would take fifty.

use std::collections::VecDeque;

use super::{
    groups::Groups,
    table::{Index, index},
};
use crate::turn::{Account, Charge};

/// Each entry has four below it: see [`crate::heap`].
const BELOW: usize = 4;
/// Set in a place that is in the row; the other places are in the heap.
const IN_ROW: u32 = 1 << 31;
/// Stands in the row where a group has left it.
const EMPTY: Index = Index::MAX;

#[derive(Debug, Clone)]
pub(super) struct GroupTurns {
    class: Index,
    /// Virtual time among them. Where the class has fewer nodes than others, or a limit, it is behind the queue's.
    pub(super) now: Charge,
    heap: Vec<Index>,
    /// In order; neither the first place nor the last is empty.
    row: VecDeque<Index>,
    /// The place of the row's first group. Places only grow, and begin again at zero after the last number.
    front: u32,
    /// How many places in the row are empty.
    left: usize,
}

/// Where a group stands in line for kinds of a class.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entered {
    pub(super) class: Index,
    place: u32,
}

type Turn = (Account, Index);

impl GroupTurns {
    pub(super) fn of(class: Index) -> Self {
        Self { class, now: Charge::default(), heap: Vec::new(), row: VecDeque::new(), front: 0, left: 0 }
    }

    pub(super) fn class(&self) -> Index {
        self.class
    }

    pub(super) fn is_empty(&self) -> bool {
        self.heap.is_empty() && self.row.is_empty()
    }

    pub(super) fn first(&self, groups: &Groups) -> Option<Turn> {
        let row = self.row.front().map(|&group| turn(groups, group));
        match self.heap.first() {
            None => row,
            Some(&group) => Some(turn(groups, group)).into_iter().chain(row).min(),
        }
    }

    /// Some of the groups that come next, about `most` of them.
    pub(super) fn front(&self, most: usize) -> impl Iterator<Item = Index> {
        let row = self.row.iter().copied().filter(|&group| group != EMPTY).take(most);
        row.chain(self.heap.iter().copied().take(most))
    }

    /// A group comes into line, where it does not stand yet.
    pub(super) fn enter(&mut self, groups: &mut Groups, group: Index) {
        groups[group].entered.push(Entered { class: self.class, place: 0 });
        self.put_in(groups, group);
    }

    /// A group leaves the line, if it stands in it.
    pub(super) fn leave(&mut self, groups: &mut Groups, group: Index) {
        let class = self.class;
        if let Some(place) = self.place_of(groups, group) {
            self.take_out(groups, place);
            groups[group].entered.retain(|entered| entered.class != class);
        }
    }

    /// The account of a group has changed, which may stand in this line.
    pub(super) fn changed(&mut self, groups: &mut Groups, group: Index) {
        if let Some(place) = self.place_of(groups, group) {
            self.take_out(groups, place);
            self.put_in(groups, group);
        }
    }

    fn place_of(&self, groups: &Groups, group: Index) -> Option<u32> {
        let entered = groups[group].entered.as_slice();
        entered.iter().find(|entered| entered.class == self.class).map(|entered| entered.place)
    }

    fn set_place(&self, groups: &mut Groups, group: Index, place: u32) {
        let mut entered = groups[group].entered.as_mut_slice().iter_mut();
        if let Some(entered) = entered.find(|entered| entered.class == self.class) {
            entered.place = place;
        }
    }

    fn put_in(&mut self, groups: &mut Groups, group: Index) {
        let this = turn(groups, group);
        if self.row.back().is_some_and(|&last| this < turn(groups, last)) {
            // One group that is far behind must not keep all others out of the row.
            let fits = self.row.iter().rev().nth(1).is_none_or(|&other| other != EMPTY && turn(groups, other) < this);
            if !fits {
                return self.heap_in(groups, group);
            }
            let last = self.row.pop_back().expect("it has a last one, as checked above");
            self.heap_in(groups, last);
        }
        let place = self.front.wrapping_add(index(self.row.len())) | IN_ROW;
        self.row.push_back(group);
        self.set_place(groups, group, place);
    }

    /// The account of the group that stands there has changed already: only the others are in order.
    fn take_out(&mut self, groups: &mut Groups, place: u32) {
        if place & IN_ROW == 0 {
            return self.heap_out(groups, place as usize);
        }
        let at = (place.wrapping_sub(self.front) & !IN_ROW) as usize;
        self.row[at] = EMPTY;
        self.left += 1;
        while self.row.front() == Some(&EMPTY) {
            self.row.pop_front();
            self.front = self.front.wrapping_add(1);
            self.left -= 1;
        }
        while self.row.back() == Some(&EMPTY) {
            self.row.pop_back();
            self.left -= 1;
        }
        if self.left * 2 > self.row.len() + 64 {
            self.row.retain(|&group| group != EMPTY);
            self.left = 0;
            for (at, &group) in self.row.iter().enumerate() {
                self.set_place(groups, group, self.front.wrapping_add(index(at)) | IN_ROW);
            }
        }
    }

    fn heap_in(&mut self, groups: &mut Groups, group: Index) {
        let this = turn(groups, group);
        self.heap.push(group);
        self.rise(groups, self.heap.len() - 1, this);
    }

    fn heap_out(&mut self, groups: &mut Groups, at: usize) {
        let last = self.heap.pop().expect("a group that leaves stood in line");
        if at < self.heap.len() {
            let this = turn(groups, last);
            let at = self.sink(groups, at, this);
            self.rise(groups, at, this);
        }
    }

    /// Moves groups that come before `this` up from below a free place. Returns the place that is free then.
    fn sink(&mut self, groups: &mut Groups, mut at: usize, this: Turn) -> usize {
        loop {
            let below = BELOW * at + 1;
            let Some(&first) = self.heap.get(below) else { return at };
            let mut least = (turn(groups, first), below);
            for (other, &group) in self.heap.iter().enumerate().take(below + BELOW).skip(below + 1) {
                let other = (turn(groups, group), other);
                if other.0 < least.0 {
                    least = other;
                }
            }
            if this < least.0 {
                return at;
            }
            self.heap_put(groups, at, least.0.1);
            at = least.1;
        }
    }

    /// Moves groups that come after `this` down from above a free place, and puts `this` into the place that is free then.
    fn rise(&mut self, groups: &mut Groups, mut at: usize, this: Turn) {
        while at > 0 {
            let above = (at - 1) / BELOW;
            let group = self.heap[above];
            if turn(groups, group) < this {
                break;
            }
            self.heap_put(groups, at, group);
            at = above;
        }
        self.heap_put(groups, at, this.1);
    }

    fn heap_put(&mut self, groups: &mut Groups, at: usize, group: Index) {
        self.heap[at] = group;
        self.set_place(groups, group, index(at));
    }
}

fn turn(groups: &Groups, group: Index) -> Turn {
    (groups[group].account, group)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, time::Duration};

    use super::super::groups::Group;
    use super::*;
    use crate::settings::Weight;
    use proptest::prelude::*;

    fn charge(millis: u64) -> Charge {
        Charge::of(Duration::from_millis(millis), Weight::default())
    }

    fn groups(count: u32) -> Groups {
        let mut groups = Groups::default();
        for owner in 0..count {
            groups.add(Group::new(0, owner));
        }
        groups
    }

    proptest! {
        /// In two lines at once, which share only the accounts of the groups.
        #[test]
        fn groups_take_turns_as_a_sorted_set_would(
            front in any::<u32>(),
            steps in proptest::collection::vec((0u8..5, 0u32..12, prop_oneof![Just(100u64), 0u64..300]), 0..300),
        ) {
            let mut groups = groups(12);
            let mut lines = [7, 3].map(|class| GroupTurns { front, ..GroupTurns::of(class) });
            let mut sorted: [BTreeSet<Turn>; 2] = Default::default();
            for (step, group, millis) in steps {
                let before = turn(&groups, group);
                match step {
                    0 | 1 => {
                        let at = usize::from(step);
                        if sorted[at].remove(&before) { lines[at].leave(&mut groups, group) } else {
                                sorted[at].insert(before);
                                lines[at].enter(&mut groups, group);
                            }
                    }
                    // The first is served, or another group's charge changes.
                    _ => {
                        let served = lines[0].first(&groups).filter(|_| step < 4).map(|(_, group)| group);
                        let group = served.unwrap_or(group);
                        let before = turn(&groups, group);
                        let account = &mut groups[group].account;
                        account.charge = match served {
                            Some(_) => account.charge.plus(charge(millis)),
                            None => charge(millis),
                        };
                        let after = turn(&groups, group);
                        for (line, sorted) in lines.iter_mut().zip(&mut sorted) {
                            if sorted.remove(&before) {
                                sorted.insert(after);
                            }
                            line.changed(&mut groups, group);
                        }
                    }
                }
                for (line, sorted) in lines.iter().zip(&sorted) {
                    prop_assert_eq!(line.first(&groups), sorted.first().copied());
                    prop_assert_eq!(line.is_empty(), sorted.is_empty());
                }
            }
            for (line, sorted) in lines.iter_mut().zip(sorted) {
                for next in sorted {
                    prop_assert_eq!(line.first(&groups), Some(next));
                    line.leave(&mut groups, next.1);
                }
                prop_assert!(line.is_empty());
            }
        }
    }

    #[test]
    fn a_group_that_has_left_takes_no_room() {
        let (mut groups, mut line) = (groups(2_000), GroupTurns::of(0));
        (0..2_000).for_each(|group| line.enter(&mut groups, group));
        assert!(line.heap.is_empty(), "they came in order");
        for group in (1..1_999).filter(|group| group % 10 != 0) {
            line.leave(&mut groups, group);
        }
        assert!(line.row.len() < 700, "{}", line.row.len());
        // A group that is far behind does not keep the others out of the row.
        groups[0].account.charge = charge(1_000_000);
        line.changed(&mut groups, 0);
        for millis in 1..1_000 {
            let (_, first) = line.first(&groups).unwrap();
            groups[first].account.charge = charge(millis);
            line.changed(&mut groups, first);
        }
        assert_eq!(line.heap, [0]);
    }
}
