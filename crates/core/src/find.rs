//! Finding an index by what it stands for: a hash table that keeps no keys and grows by one bucket at a time.
//!
//! The items live in the caller's table; here are only chains of indexes. A table that doubles would be half empty
//! after it has grown, hold two copies while it grows, and block its caller meanwhile: more than a second at ten million jobs.
//! Linear hashing (Litwin 1980) splits one bucket for every few items that come, so each insert costs about the same.

use std::num::NonZero;

use crate::chunks::Chunks;

/// An index or none, in four bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Link(Option<NonZero<u32>>);

impl Link {
    pub(crate) fn to(at: u32) -> Self {
        assert!(at < u32::MAX, "fewer than four billion of anything");
        Self(NonZero::new(at + 1))
    }

    pub(crate) fn get(self) -> Option<u32> {
        self.0.map(|more| more.get() - 1)
    }
}

/// An index and four bits of its hash, or none (zero). The bits rule out most of the other items in a chain without a look at the
/// items themselves, which lie far away in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Mark(u32);

const INDEX_BITS: u32 = 28;

impl Mark {
    fn new(at: u32, hash: u64) -> Self {
        assert!(at < (1 << INDEX_BITS) - 1, "fewer than 268 million of anything");
        Self(Self::bits(hash) << INDEX_BITS | (at + 1))
    }

    /// The highest bits; the lowest choose the bucket.
    fn bits(hash: u64) -> u32 {
        u32::try_from(hash >> 60).expect("four bits")
    }

    fn like(self, hash: u64) -> bool {
        self.0 >> INDEX_BITS == Self::bits(hash)
    }

    fn some(self) -> Option<Self> {
        (self.0 != 0).then_some(self)
    }

    fn at(self) -> u32 {
        (self.0 & ((1 << INDEX_BITS) - 1)) - 1
    }
}

/// Items per bucket. Four bytes divided by this is what a bucket costs an item; a longer chain costs a longer walk.
const CHAIN: usize = 2;

#[derive(Debug, Clone, Default)]
pub(crate) struct Finder {
    /// The first of each bucket's chain.
    heads: Chunks<Mark>,
    /// What follows each index in its chain.
    next: Chunks<Mark>,
    len: usize,
    /// How many chains there are, and the bits of the hash that choose one.
    buckets: u64,
    mask: u64,
}

impl Finder {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The index in the chain of `hash` that satisfies `is`.
    pub(crate) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut mark = self.heads[self.bucket(hash)].some()?;
        while !(mark.like(hash) && is(mark.at())) {
            mark = self.next[mark.at() as usize].some()?;
        }
        Some(mark.at())
    }

    /// Adds an index that is not there. `hash_of` must answer for every index that is.
    pub(crate) fn insert(&mut self, at: u32, hash: u64, hash_of: impl Fn(u32) -> u64) {
        // An index that is inserted twice would make its chain a ring.
        debug_assert!(self.find(hash, |other| other == at).is_none(), "{at} is put in twice");
        if self.len as u64 == self.buckets * CHAIN as u64 {
            self.split(hash_of);
        }
        while self.next.len() <= at as usize {
            self.next.push(Mark::default());
        }
        self.link(at, hash);
        self.len += 1;
    }

    /// Takes out an index that is there.
    pub(crate) fn remove(&mut self, at: u32, hash: u64) {
        let (bucket, mark) = (self.bucket(hash), Mark::new(at, hash));
        let after = self.next[at as usize];
        let first = self.heads[bucket];
        if first == mark {
            self.heads[bucket] = after;
        } else {
            let mut before = first.some().expect("what is taken out was put in").at() as usize;
            while self.next[before] != mark {
                before = self.next[before].some().expect("what is taken out was put in").at() as usize;
            }
            self.next[before] = after;
        }
        self.len -= 1;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.heads.iter().flat_map(|&head| self.chain(head)).map(Mark::at)
    }

    /// With n buckets, those below the greatest power of two that have been split use one bit of the hash more.
    fn bucket(&self, hash: u64) -> usize {
        let wide = hash & self.mask;
        let at = if wide < self.buckets { wide } else { hash & (self.mask >> 1) };
        usize::try_from(at).expect("less than the number of buckets")
    }

    /// One more bucket, which takes its share of the one it is split from.
    fn split(&mut self, hash_of: impl Fn(u32) -> u64) {
        let new = self.heads.len();
        self.heads.push(Mark::default());
        self.buckets += 1;
        self.mask = self.buckets.next_power_of_two() - 1;
        let Some(bits) = new.checked_ilog2() else { return };
        let old = new - (1 << bits);
        let mut rest = std::mem::take(&mut self.heads[old]);
        while let Some(mark) = rest.some() {
            rest = self.next[mark.at() as usize];
            self.link(mark.at(), hash_of(mark.at()));
        }
    }

    /// At the end of its chain: what came first is looked up first, so it should not lie behind what came later.
    fn link(&mut self, at: u32, hash: u64) {
        self.next[at as usize] = Mark::default();
        let (bucket, mark) = (self.bucket(hash), Mark::new(at, hash));
        let Some(mut last) = self.heads[bucket].some() else {
            self.heads[bucket] = mark;
            return;
        };
        while let Some(next) = self.next[last.at() as usize].some() {
            last = next;
        }
        self.next[last.at() as usize] = mark;
    }

    fn chain(&self, head: Mark) -> impl Iterator<Item = Mark> {
        std::iter::successors(head.some(), |mark| self.next[mark.at() as usize].some())
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.heads.bytes() + self.next.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashMap,
        hash::{DefaultHasher, Hash, Hasher},
    };

    use super::*;
    use proptest::prelude::*;

    fn good(key: u32) -> u64 {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        hasher.finish()
    }

    /// Eight chains, whatever the number of buckets.
    fn poor(key: u32) -> u64 {
        u64::from(key % 8)
    }

    proptest! {
        #[test]
        fn what_was_put_in_is_found_as_in_a_hash_map(
            steps in proptest::collection::vec((any::<bool>(), 0u32..300), 0..600),
            poorly in any::<bool>(),
        ) {
            let hash = if poorly { poor } else { good };
            let mut finder = Finder::default();
            let mut known: HashMap<u32, u32> = HashMap::new();
            // Keys by index; indexes are used again, as the backlog's slots are.
            let (mut keys, mut free): (Vec<u32>, Vec<u32>) = Default::default();
            for (adds, key) in steps {
                match known.get(&key).copied() {
                    None if adds => {
                        let at = free.pop().unwrap_or_else(|| {
                            keys.push(key);
                            u32::try_from(keys.len() - 1).unwrap()
                        });
                        keys[at as usize] = key;
                        finder.insert(at, hash(key), |at| hash(keys[at as usize]));
                        known.insert(key, at);
                    }
                    Some(at) if !adds => {
                        finder.remove(at, hash(key));
                        known.remove(&key);
                        free.push(at);
                    }
                    expected => prop_assert_eq!(finder.find(hash(key), |at| keys[at as usize] == key), expected),
                }
                prop_assert_eq!(finder.len(), known.len());
            }
            for key in 0..300 {
                prop_assert_eq!(finder.find(hash(key), |at| keys[at as usize] == key), known.get(&key).copied());
            }
            let (mut all, mut expected): (Vec<_>, Vec<_>) = (finder.iter().collect(), known.into_values().collect());
            all.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(all, expected);
        }
    }

    #[test]
    fn chains_stay_short_and_an_index_costs_six_bytes_at_every_size() {
        let mut finder = Finder::default();
        for at in 0..200_000_u32 {
            finder.insert(at, good(at), good);
            if at > 50_000 && at % 10_000 == 0 {
                let longest = finder.heads.iter().map(|&head| finder.chain(head).count()).max().unwrap();
                // A bucket that is still to be split carries twice as much as one that has been.
                assert!(longest < 8 * CHAIN, "{longest} at {at}");
                assert!(finder.bytes() < finder.len() * 6 + 2 * 70_000, "{} at {at}", finder.bytes());
            }
        }
    }
}
