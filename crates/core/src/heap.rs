//! A binary heap of indexes, ordered by what they stand for: four bytes an entry, the order is the caller's.

/// Adds `item`; `before(a, b)` says whether a comes out before b.
pub(crate) fn push(heap: &mut Vec<u32>, item: u32, before: impl Fn(u32, u32) -> bool) {
    heap.push(item);
    let mut at = heap.len() - 1;
    while at > 0 {
        let parent = (at - 1) / 2;
        if !before(heap[at], heap[parent]) {
            break;
        }
        heap.swap(at, parent);
        at = parent;
    }
}

/// Takes out the first.
pub(crate) fn pop(heap: &mut Vec<u32>, before: impl Fn(u32, u32) -> bool) -> Option<u32> {
    if heap.is_empty() {
        return None;
    }
    let first = heap.swap_remove(0);
    let mut at = 0;
    loop {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        let mut least = at;
        if left < heap.len() && before(heap[left], heap[least]) {
            least = left;
        }
        if right < heap.len() && before(heap[right], heap[least]) {
            least = right;
        }
        if least == at {
            break;
        }
        heap.swap(at, least);
        at = least;
    }
    // A group that had a flood once need not keep its room for ever.
    if heap.capacity() > 64 && heap.len() * 4 < heap.capacity() {
        heap.shrink_to(heap.len() * 2);
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_come_out_in_order(values in proptest::collection::vec(0u32..1000, 0..200)) {
            let mut heap = Vec::new();
            for index in 0..u32::try_from(values.len()).unwrap() {
                super::push(&mut heap, index, |a, b| values[a as usize] < values[b as usize]);
            }
            let mut out = Vec::new();
            while let Some(index) = super::pop(&mut heap, |a, b| values[a as usize] < values[b as usize]) {
                out.push(values[index as usize]);
            }
            let mut sorted = values.clone();
            sorted.sort_unstable();
            prop_assert_eq!(out, sorted);
        }
    }
}
