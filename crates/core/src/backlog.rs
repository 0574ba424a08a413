//! Every job the scheduler knows, in forty bytes each and six to find it.
//!
//! A slot is in exactly one chain or heap while its place says so. A job that is forgotten meanwhile leaves a dead slot there,
//! which is freed when it comes to the front. So no chain or heap is ever searched.

use std::hash::BuildHasher;

use foldhash::{HashMap, quality::FixedState};
use uuid::Uuid;

use crate::{
    chunks::Chunks,
    find::Finder,
    job::{Fence, JobId},
    time::Timestamp,
};

/// Index of a slot.
pub(crate) type Slot = u32;

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In its group's lane, its serial queue's line, or among the suspects.
    Ready = 0,
    /// Not due yet, or tried in vain: in the heap of times.
    Future = 1,
    /// Stuck without a time.
    Manual = 2,
    /// Its key is at its limit: on the key's list.
    Parked = 3,
    /// A suspect whose node is being emptied for it.
    Reserved = 4,
    /// Picked; the store has not answered.
    Picked = 5,
    /// In a node's hands.
    Assigned = 6,
    /// Forgotten, but still in a heap.
    Dead = 7,
}

impl Place {
    const ALL: [Place; 8] = [
        Place::Ready,
        Place::Future,
        Place::Manual,
        Place::Parked,
        Place::Reserved,
        Place::Picked,
        Place::Assigned,
        Place::Dead,
    ];

    fn of(when: u64) -> Self {
        Self::ALL[(when >> 61) as usize]
    }

    fn in_a_heap(self) -> bool {
        matches!(self, Place::Ready | Place::Future | Place::Parked)
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    id: Uuid,
    /// Due time in micros (56 bits), priority (4), stuck (1), place (3).
    when: u64,
    /// Order of submission (40 bits), kind (24).
    order: u64,
    /// Group (28 bits), fence (4). Few jobs are assigned fifteen times or more; for those the fence is [`LARGE`] here.
    group: u32,
    /// The next slot in the chain, or among the free ones.
    next: Slot,
}

/// The fence does not fit into four bits: it is in `large_fences`.
const LARGE: u32 = 15;
const GROUP_BITS: u32 = (1 << 28) - 1;

const DUE_BITS: u64 = (1 << 56) - 1;
/// Priority above due time.
const RANK_BITS: u64 = (1 << 60) - 1;
/// Marks a free slot: no job has the priority 15.
const FREE: u64 = u64::MAX;
const SEQ_BITS: u64 = (1 << 40) - 1;

/// What a new slot holds.
pub(crate) struct New {
    pub(crate) id: JobId,
    pub(crate) seq: i64,
    pub(crate) fence: Fence,
    pub(crate) due: Timestamp,
    pub(crate) priority: u8,
    pub(crate) stuck: bool,
    pub(crate) kind: u32,
    pub(crate) group: u32,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Backlog {
    entries: Chunks<Entry>,
    large_fences: HashMap<Slot, Fence>,
    finder: Finder,
    /// The first free slot. Each names the next one; the last names itself.
    free: Option<Slot>,
}

fn hash(id: Uuid) -> u64 {
    FixedState::default().hash_one(id.as_u128())
}

impl Backlog {
    pub(crate) fn len(&self) -> usize {
        self.finder.len()
    }

    pub(crate) fn find(&self, id: JobId) -> Option<Slot> {
        self.finder.find(hash(id.uuid()), |slot| self.entries[slot as usize].id == id.uuid())
    }

    /// All that a slot holds.
    pub(crate) fn copy(&self, slot: Slot) -> New {
        New {
            id: self.id(slot),
            seq: i64::try_from(self.seq(slot)).unwrap_or(i64::MAX),
            fence: self.fence(slot),
            due: self.due(slot),
            priority: u8::try_from(self.entries[slot as usize].when >> 56 & 15).unwrap_or(u8::MAX),
            stuck: self.stuck(slot),
            kind: self.kind(slot),
            group: self.group(slot),
        }
    }

    /// Adds a job that is not there, without a place yet.
    pub(crate) fn insert(&mut self, new: New) -> Slot {
        let micros = u64::try_from(new.due.micros()).unwrap_or(0).min(DUE_BITS);
        let seq = u64::try_from(new.seq).unwrap_or(0) & SEQ_BITS;
        let entry = Entry {
            id: new.id.uuid(),
            when: micros
                | u64::from(new.priority & 15) << 56
                | u64::from(new.stuck) << 60
                | (Place::Manual as u64) << 61,
            order: seq | u64::from(new.kind) << 40,
            group: new.group,
            next: 0,
        };
        assert!(new.group <= GROUP_BITS, "fewer than 268 million groups");
        let slot = match self.free {
            Some(slot) => {
                let next = self.entries[slot as usize].next;
                self.free = Some(next).filter(|&next| next != slot);
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                Slot::try_from(self.entries.len() - 1).expect("fewer than four billion jobs")
            }
        };
        let entries = &self.entries;
        self.finder.insert(slot, hash(entry.id), |slot| hash(entries[slot as usize].id));
        if new.fence != Fence(0) {
            self.set_fence(slot, new.fence);
        }
        slot
    }

    /// Forgets a job. Its slot is free at once, or when the heap it is in releases it.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let Entry { id, group, when, .. } = self.entries[slot as usize];
        self.finder.remove(slot, hash(id));
        if group >> 28 == LARGE {
            self.set_fence(slot, Fence(0));
        }
        if Place::of(when).in_a_heap() { self.set_place(slot, Place::Dead) } else { self.free(slot) }
    }

    /// Frees a dead slot that a heap has released.
    pub(crate) fn bury(&mut self, slot: Slot) {
        assert_eq!(self.place(slot), Place::Dead, "what is buried is dead");
        self.free(slot);
    }

    /// A slot that is freed twice would be given to two jobs.
    fn free(&mut self, slot: Slot) {
        let entry = &mut self.entries[slot as usize];
        assert!(entry.when != FREE, "a slot is freed once");
        entry.when = FREE;
        entry.next = self.free.unwrap_or(slot);
        self.free = Some(slot);
    }

    pub(crate) fn id(&self, slot: Slot) -> JobId {
        JobId::from_uuid(self.entries[slot as usize].id)
    }

    pub(crate) fn place(&self, slot: Slot) -> Place {
        Place::of(self.entries[slot as usize].when)
    }

    pub(crate) fn set_place(&mut self, slot: Slot, place: Place) {
        let entry = &mut self.entries[slot as usize];
        entry.when = entry.when & !(7 << 61) | (place as u64) << 61;
    }

    pub(crate) fn due(&self, slot: Slot) -> Timestamp {
        let micros = self.entries[slot as usize].when & DUE_BITS;
        Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    pub(crate) fn set_due(&mut self, slot: Slot, due: Timestamp) {
        let micros = u64::try_from(due.micros()).unwrap_or(0).min(DUE_BITS);
        let entry = &mut self.entries[slot as usize];
        entry.when = entry.when & !DUE_BITS | micros;
    }

    pub(crate) fn priority(&self, slot: Slot) -> u8 {
        (self.entries[slot as usize].when >> 56) as u8 & 15
    }

    pub(crate) fn stuck(&self, slot: Slot) -> bool {
        self.entries[slot as usize].when >> 60 & 1 == 1
    }

    pub(crate) fn set_stuck(&mut self, slot: Slot, stuck: bool) {
        let entry = &mut self.entries[slot as usize];
        entry.when = entry.when & !(1 << 60) | u64::from(stuck) << 60;
    }

    pub(crate) fn seq(&self, slot: Slot) -> u64 {
        self.entries[slot as usize].order & SEQ_BITS
    }

    pub(crate) fn kind(&self, slot: Slot) -> u32 {
        (self.entries[slot as usize].order >> 40) as u32
    }

    /// Both with one access to memory.
    pub(crate) fn kind_and_group(&self, slot: Slot) -> (u32, u32) {
        let entry = &self.entries[slot as usize];
        ((entry.order >> 40) as u32, entry.group & GROUP_BITS)
    }

    pub(crate) fn group(&self, slot: Slot) -> u32 {
        self.entries[slot as usize].group & GROUP_BITS
    }

    /// The next slot in the chain, as it was set.
    pub(crate) fn next(&self, slot: Slot) -> Slot {
        self.entries[slot as usize].next
    }

    pub(crate) fn set_next(&mut self, slot: Slot, next: Slot) {
        self.entries[slot as usize].next = next;
    }

    pub(crate) fn fence(&self, slot: Slot) -> Fence {
        match self.entries[slot as usize].group >> 28 {
            LARGE => self.large_fences[&slot],
            small => Fence(small.into()),
        }
    }

    /// Only for a job that is in no heap.
    pub(crate) fn set_kind(&mut self, slot: Slot, kind: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.order = entry.order & SEQ_BITS | u64::from(kind) << 40;
    }

    pub(crate) fn set_fence(&mut self, slot: Slot, fence: Fence) {
        let entry = &mut self.entries[slot as usize];
        let was = entry.group >> 28;
        let small = u32::try_from(fence.0).unwrap_or(LARGE).min(LARGE);
        entry.group = entry.group & GROUP_BITS | small << 28;
        if small == LARGE {
            self.large_fences.insert(slot, fence);
        } else if was == LARGE {
            self.large_fences.remove(&slot);
        }
    }

    /// Order within a class: priority, due time, submission.
    pub(crate) fn by_rank(&self, a: Slot, b: Slot) -> bool {
        // An entry is likely not in the CPU's cache, so each is read once.
        let rank = |slot: Slot| {
            let Entry { when, order, .. } = self.entries[slot as usize];
            (when & RANK_BITS, order & SEQ_BITS)
        };
        rank(a) < rank(b)
    }

    pub(crate) fn by_due(&self, a: Slot, b: Slot) -> bool {
        let rank = |slot: Slot| {
            let Entry { when, order, .. } = self.entries[slot as usize];
            (when & DUE_BITS, order & SEQ_BITS)
        };
        rank(a) < rank(b)
    }

    pub(crate) fn by_seq(&self, a: Slot, b: Slot) -> bool {
        self.seq(a) < self.seq(b)
    }

    /// All jobs that are known.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.finder.iter()
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.entries.bytes() + self.finder.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_slot_keeps_what_it_is_given() {
        let mut backlog = Backlog::default();
        let id = JobId::from_uuid(Uuid::from_u128(7));
        let due = Timestamp::from_micros(1_800_000_000_000_001);
        let new =
            New { id, seq: 12_345_678_901, fence: Fence(9), due, priority: 10, stuck: true, kind: 70_000, group: 4 };
        let slot = backlog.insert(new);
        backlog.set_place(slot, Place::Assigned);
        assert_eq!(backlog.find(id), Some(slot));
        assert_eq!((backlog.seq(slot), backlog.kind(slot), backlog.group(slot)), (12_345_678_901, 70_000, 4));
        assert_eq!((backlog.due(slot), backlog.priority(slot), backlog.stuck(slot)), (due, 10, true));
        assert_eq!((backlog.place(slot), backlog.fence(slot)), (Place::Assigned, Fence(9)));
        backlog.set_due(slot, Timestamp::from_micros(5));
        backlog.set_stuck(slot, false);
        assert_eq!((backlog.due(slot).micros(), backlog.priority(slot), backlog.stuck(slot)), (5, 10, false));
        assert_eq!(backlog.place(slot), Place::Assigned);
        backlog.remove(slot);
        assert_eq!((backlog.find(id), backlog.len()), (None, 0));
    }

    fn job(n: u32) -> New {
        New {
            id: JobId::from_uuid(Uuid::from_u128(n.into())),
            seq: n.into(),
            fence: Fence(0),
            due: Timestamp::MAX,
            priority: 5,
            stuck: false,
            kind: 0,
            group: 0,
        }
    }

    proptest! {
        #[test]
        fn order_is_by_priority_then_due_time_then_submission(
            jobs in proptest::collection::vec((1u8..=10, 0i64..3, 0i64..3, any::<bool>()), 2),
        ) {
            let mut backlog = Backlog::default();
            for (n, &(priority, due, seq, stuck)) in (0..).zip(&jobs) {
                let due = Timestamp::from_micros(due * 1_000_000_000_000_000);
                let slot = backlog.insert(New { priority, due, seq, stuck, kind: 9 - n, ..job(n) });
                backlog.set_place(slot, Place::ALL[n as usize]);
            }
            let (a, b) = (jobs[0], jobs[1]);
            prop_assert_eq!(backlog.by_rank(0, 1), (a.0, a.1, a.2) < (b.0, b.1, b.2));
            prop_assert_eq!(backlog.by_due(0, 1), (a.1, a.2) < (b.1, b.2));
            prop_assert_eq!(backlog.by_seq(0, 1), a.2 < b.2);
        }
    }

    #[test]
    fn a_fence_of_any_size_is_kept_and_none_is_left_to_the_next_job_in_the_slot() {
        let mut backlog = Backlog::default();
        for fence in [14, 15, 16, 254, 255, 256, i64::MAX, 3] {
            let slot = backlog.insert(New { fence: Fence(fence), ..job(1) });
            assert_eq!((slot, backlog.fence(slot)), (0, Fence(fence)));
            for next in [255, 1_000_000, 7, 15, 14, 255, 300] {
                backlog.set_fence(slot, Fence(next));
                assert_eq!((backlog.fence(slot), backlog.group(slot)), (Fence(next), 0));
            }
            backlog.remove(slot);
            assert!(backlog.large_fences.is_empty());
        }
    }

    #[test]
    #[should_panic(expected = "a slot is freed once")]
    fn a_slot_is_not_freed_twice() {
        let mut backlog = Backlog::default();
        let slot = backlog.insert(job(1));
        backlog.set_place(slot, Place::Ready);
        backlog.remove(slot);
        backlog.bury(slot);
        backlog.bury(slot);
    }

    #[test]
    fn slots_are_used_again_each_once() {
        let mut backlog = Backlog::default();
        (0..100).for_each(|n| _ = backlog.insert(job(n)));
        let even: Vec<Slot> = (0..100).filter(|slot| slot % 2 == 0).collect();
        even.iter().for_each(|&slot| backlog.remove(slot));
        let mut again: Vec<Slot> = (100..150).map(|n| backlog.insert(job(n))).collect();
        again.sort_unstable();
        assert_eq!(again, even);
        assert_eq!(backlog.insert(job(150)), 100, "then there is a new one");
        assert!((0..151).all(|n| backlog.find(job(n).id).is_some() == (n % 2 == 1 || n >= 100)));
    }

    #[test]
    fn a_waiting_job_takes_forty_six_bytes_at_every_size() {
        // With its place in line, if it came in order: see `chain`.
        assert_eq!(size_of::<Entry>(), 40);
        let mut backlog = Backlog::default();
        for n in 0..1_000_000_u32 {
            backlog.insert(job(n));
            // Neither just before a table would have doubled nor just after. Beyond it there is room in three chunks.
            let (bytes, jobs) = (backlog.bytes(), n as usize + 1);
            assert!(n % 50_000 != 0 || bytes < 46 * jobs + 3 * 70_000, "{bytes} bytes for {jobs} jobs");
        }
    }
}
