//! Every job the scheduler knows, in forty bytes each.
//!
//! A slot is in exactly one heap while its place says so; a job that is forgotten meanwhile leaves a dead slot behind,
//! which is freed when it comes up. So nothing is ever searched for in the middle of a heap.

use std::hash::{DefaultHasher, Hasher};

use hashbrown::HashTable;
use uuid::Uuid;

use crate::{
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
    fence: u32,
    group: u32,
}

const DUE_BITS: u64 = (1 << 56) - 1;
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
    entries: Vec<Entry>,
    free: Vec<Slot>,
    index: HashTable<Slot>,
}

fn hash(id: Uuid) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u128(id.as_u128());
    hasher.finish()
}

impl Backlog {
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn find(&self, id: JobId) -> Option<Slot> {
        self.index.find(hash(id.0), |&slot| self.entries[slot as usize].id == id.0).copied()
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
            id: new.id.0,
            when: micros
                | u64::from(new.priority & 15) << 56
                | u64::from(new.stuck) << 60
                | (Place::Manual as u64) << 61,
            order: seq | u64::from(new.kind) << 40,
            fence: u32::try_from(new.fence.0).unwrap_or(u32::MAX),
            group: new.group,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                Slot::try_from(self.entries.len() - 1).expect("fewer than four billion jobs")
            }
        };
        let entries = &self.entries;
        self.index.insert_unique(hash(entry.id), slot, |&slot| hash(entries[slot as usize].id));
        slot
    }

    /// Forgets a job. Its slot is free at once, or when the heap it is in lets go of it.
    pub(crate) fn remove(&mut self, slot: Slot) {
        let id = self.entries[slot as usize].id;
        if let Ok(found) = self.index.find_entry(hash(id), |&other| other == slot) {
            found.remove();
        }
        match self.place(slot).in_a_heap() {
            true => self.set_place(slot, Place::Dead),
            false => self.free.push(slot),
        }
    }

    /// A heap has let go of a dead slot.
    pub(crate) fn bury(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    pub(crate) fn id(&self, slot: Slot) -> JobId {
        JobId(self.entries[slot as usize].id)
    }

    pub(crate) fn place(&self, slot: Slot) -> Place {
        Place::ALL[(self.entries[slot as usize].when >> 61) as usize]
    }

    pub(crate) fn set_place(&mut self, slot: Slot, place: Place) {
        let when = &mut self.entries[slot as usize].when;
        *when = *when & !(7 << 61) | (place as u64) << 61;
    }

    pub(crate) fn due(&self, slot: Slot) -> Timestamp {
        let micros = self.entries[slot as usize].when & DUE_BITS;
        Timestamp::from_micros(i64::try_from(micros).unwrap_or(i64::MAX))
    }

    pub(crate) fn set_due(&mut self, slot: Slot, due: Timestamp) {
        let micros = u64::try_from(due.micros()).unwrap_or(0).min(DUE_BITS);
        let when = &mut self.entries[slot as usize].when;
        *when = *when & !DUE_BITS | micros;
    }

    pub(crate) fn priority(&self, slot: Slot) -> u8 {
        (self.entries[slot as usize].when >> 56) as u8 & 15
    }

    pub(crate) fn stuck(&self, slot: Slot) -> bool {
        self.entries[slot as usize].when >> 60 & 1 == 1
    }

    pub(crate) fn set_stuck(&mut self, slot: Slot, stuck: bool) {
        let when = &mut self.entries[slot as usize].when;
        *when = *when & !(1 << 60) | u64::from(stuck) << 60;
    }

    pub(crate) fn seq(&self, slot: Slot) -> u64 {
        self.entries[slot as usize].order & SEQ_BITS
    }

    pub(crate) fn kind(&self, slot: Slot) -> u32 {
        (self.entries[slot as usize].order >> 40) as u32
    }

    pub(crate) fn group(&self, slot: Slot) -> u32 {
        self.entries[slot as usize].group
    }

    pub(crate) fn fence(&self, slot: Slot) -> Fence {
        Fence(i64::from(self.entries[slot as usize].fence))
    }

    /// Only for a job that is in no heap.
    pub(crate) fn set_kind(&mut self, slot: Slot, kind: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.order = entry.order & SEQ_BITS | u64::from(kind) << 40;
    }

    pub(crate) fn set_fence(&mut self, slot: Slot, fence: Fence) {
        self.entries[slot as usize].fence = u32::try_from(fence.0).unwrap_or(u32::MAX);
    }

    /// Order within a class: priority, due time, submission.
    pub(crate) fn by_rank(&self, a: Slot, b: Slot) -> bool {
        (self.priority(a), self.due(a), self.seq(a)) < (self.priority(b), self.due(b), self.seq(b))
    }

    pub(crate) fn by_due(&self, a: Slot, b: Slot) -> bool {
        (self.due(a), self.seq(a)) < (self.due(b), self.seq(b))
    }

    pub(crate) fn by_seq(&self, a: Slot, b: Slot) -> bool {
        self.seq(a) < self.seq(b)
    }

    /// All jobs that are known.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.index.iter().copied()
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.free.capacity() * 4 + self.index.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_what_it_is_given() {
        let mut backlog = Backlog::default();
        let id = JobId(Uuid::from_u128(7));
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

    #[test]
    fn a_waiting_job_takes_forty_bytes_and_its_place_in_the_index() {
        assert_eq!(size_of::<Entry>(), 40);
        let mut backlog = Backlog::default();
        for n in 0..1_000_000_u32 {
            let id = JobId(Uuid::from_u128(n.into()));
            backlog.insert(New {
                id,
                seq: n.into(),
                fence: Fence(0),
                due: Timestamp::MAX,
                priority: 5,
                stuck: false,
                kind: 0,
                group: 0,
            });
        }
        assert!(backlog.bytes() / 1_000_000 < 56, "{}", backlog.bytes());
    }
}
