//! A heap of indexes: four bytes an entry; the caller says which comes first.
//!
//! Each entry has four below it, not two. A comparison reads memory that is likely not cached, and four such reads at once take
//! little longer than one: so with half the levels it takes little more than half the time.
//!
//! Up to three entries need no allocation: a million groups may have a job or two each. A longer heap grows by an eighth, since
//! doubling would leave as much room empty as it uses.

const BELOW: usize = 4;

#[derive(Debug, Clone)]
pub(crate) enum Heap {
    SmallList { len: u8, items: [u32; 3] },
    Many(Vec<u32>),
}

impl Default for Heap {
    fn default() -> Self {
        Self::SmallList { len: 0, items: [0; 3] }
    }
}

impl Heap {
    /// The first one first, the others in no order that means anything.
    pub(crate) fn as_slice(&self) -> &[u32] {
        match self {
            Self::SmallList { len, items } => &items[..usize::from(*len)],
            Self::Many(items) => items,
        }
    }

    fn as_mut_slice(&mut self) -> &mut [u32] {
        match self {
            Self::SmallList { len, items } => &mut items[..usize::from(*len)],
            Self::Many(items) => items,
        }
    }

    pub(crate) fn first(&self) -> Option<u32> {
        self.as_slice().first().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// Adds `item`; `before(a, b)` says whether a comes out before b.
    pub(crate) fn push(&mut self, item: u32, before: impl Fn(u32, u32) -> bool) {
        self.add_last(item);
        let heap = self.as_mut_slice();
        let mut at = heap.len() - 1;
        while at > 0 {
            let parent = (at - 1) / BELOW;
            if !before(heap[at], heap[parent]) {
                break;
            }
            heap.swap(at, parent);
            at = parent;
        }
    }

    /// Takes out the first.
    pub(crate) fn pop(&mut self, before: impl Fn(u32, u32) -> bool) -> Option<u32> {
        let first = self.first()?;
        let last = self.take_last();
        let heap = self.as_mut_slice();
        if heap.is_empty() {
            return Some(first);
        }
        heap[0] = last;
        let mut at = 0;
        loop {
            let below = (BELOW * at + 1).min(heap.len())..(BELOW * at + 1 + BELOW).min(heap.len());
            let least = below.fold(at, |least, other| if before(heap[other], heap[least]) { other } else { least });
            if least == at {
                return Some(first);
            }
            heap.swap(at, least);
            at = least;
        }
    }

    fn add_last(&mut self, item: u32) {
        match self {
            Self::SmallList { len, items } if usize::from(*len) < items.len() => {
                items[usize::from(*len)] = item;
                *len += 1;
            }
            Self::SmallList { items, .. } => {
                // Six and then four more at a time fill what malloc gives.
                let mut many = Vec::with_capacity(6);
                many.extend_from_slice(items);
                many.push(item);
                *self = Self::Many(many);
            }
            Self::Many(items) => {
                if items.len() == items.capacity() {
                    items.reserve_exact((items.len() / 8).max(4));
                }
                items.push(item);
            }
        }
    }

    /// The heap must not be empty. Gives memory back, so that a group that had a flood once does not keep it for ever.
    fn take_last(&mut self) -> u32 {
        match self {
            Self::SmallList { len, items } => {
                *len -= 1;
                items[usize::from(*len)]
            }
            Self::Many(items) => {
                let last = items.pop().expect("the caller has checked that it is not empty");
                // Not as soon as three would fit: a heap of three or four would move to and fro.
                if let [only] = items[..] {
                    *self = Self::SmallList { len: 1, items: [only, 0, 0] };
                } else if items.capacity() > 64 && items.len() * 2 < items.capacity() {
                    items.shrink_to(items.len() + items.len() / 8);
                }
                last
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_come_out_in_order(
            steps in prop_oneof![
                proptest::collection::vec(proptest::option::weighted(0.6, 0u32..1000), 0..400),
                proptest::collection::vec(proptest::option::weighted(0.5, 0u32..1000), 0..60),
            ],
        ) {
            let values: Vec<u32> = steps.iter().flatten().copied().collect();
            let before = |a: u32, b: u32| (values[a as usize], a) < (values[b as usize], b);
            let mut heap = Heap::default();
            let mut sorted = std::collections::BTreeSet::new();
            let mut next = 0;
            for step in &steps {
                match step {
                    Some(value) => {
                        heap.push(next, before);
                        sorted.insert((*value, next));
                        next += 1;
                    }
                    None => prop_assert_eq!(heap.pop(before), sorted.pop_first().map(|(_, index)| index)),
                }
                prop_assert_eq!(heap.first(), sorted.first().map(|(_, index)| *index));
                prop_assert_eq!(heap.as_slice().len(), sorted.len());
            }
            while let Some((_, index)) = sorted.pop_first() {
                prop_assert_eq!(heap.pop(before), Some(index));
            }
            prop_assert!(heap.is_empty());
        }
    }

    #[test]
    fn three_need_no_allocation_and_a_flood_leaves_no_room_behind() {
        assert_eq!(size_of::<Heap>(), 24);
        let mut heap = Heap::default();
        let before = |a: u32, b: u32| a < b;
        let room = |heap: &Heap| match heap {
            Heap::SmallList { .. } => 0,
            Heap::Many(items) => items.capacity(),
        };
        (0..3).for_each(|n| heap.push(n, before));
        assert_eq!(room(&heap), 0);
        (3..100_000).for_each(|n| heap.push(n, before));
        assert!(room(&heap) < 100_000 * 9 / 8 + 8, "{}", room(&heap));
        (0..99_000).for_each(|n| assert_eq!(heap.pop(before), Some(n)));
        assert!(room(&heap) <= 2_000, "{}", room(&heap));
        (0..999).for_each(|_| _ = heap.pop(before));
        assert_eq!(room(&heap), 0);
    }
}
