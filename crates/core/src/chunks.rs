//! A vector in chunks: ten million items cost ten million items' room.
//!
//! A `Vec` doubles: half of it may stand empty, and while it grows the old and the new one are there together. Here a full
//! chunk is never touched again, so room to spare is at most one chunk, and no growth takes longer than the others.

use std::ops::{Index, IndexMut};

/// Below the size from which malloc asks the kernel for every chunk on its own.
const CHUNK_BYTES: usize = 1 << 16;

#[derive(Debug, Clone)]
pub(crate) struct Chunks<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Chunks<T> {
    /// Items in a full chunk: a power of two, so that finding one is a shift and a mask.
    const FULL: usize = 1 << (CHUNK_BYTES / size_of::<T>()).ilog2();

    pub(crate) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * Self::FULL + last.len())
    }

    pub(crate) fn push(&mut self, item: T) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < Self::FULL => last.push(item),
            full => {
                // The first chunk grows as it is needed: most tables are small.
                let room = if full.is_some() { Self::FULL } else { 0 };
                let mut chunk = Vec::with_capacity(room);
                chunk.push(item);
                self.chunks.push(chunk);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let items: usize = self.chunks.iter().map(Vec::capacity).sum();
        items * size_of::<T>() + self.chunks.capacity() * size_of::<Vec<T>>()
    }
}

impl<T> Index<usize> for Chunks<T> {
    type Output = T;
    fn index(&self, at: usize) -> &T {
        &self.chunks[at / Self::FULL][at % Self::FULL]
    }
}

impl<T> IndexMut<usize> for Chunks<T> {
    fn index_mut(&mut self, at: usize) -> &mut T {
        &mut self.chunks[at / Self::FULL][at % Self::FULL]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_what_a_vec_would_across_their_borders() {
        let mut chunks = Chunks::default();
        let mut plain = Vec::new();
        for n in 0..3 * Chunks::<u64>::FULL + 5 {
            chunks.push(n);
            plain.push(n);
            assert_eq!(chunks.len(), plain.len());
        }
        // A copy has no room to spare in its last chunk, and grows all the same.
        let mut copy = chunks.clone();
        for n in 0..2 * Chunks::<u64>::FULL {
            copy.push(n);
            copy[n] += 1;
        }
        assert!(copy.iter().skip(plain.len()).copied().eq(0..2 * Chunks::<u64>::FULL));
        assert!((0..2 * Chunks::<u64>::FULL).all(|n| copy[n] == n + 1));
        assert!(chunks.iter().eq(&plain));
        assert!((0..plain.len()).all(|n| chunks[n] == plain[n]));
    }

    #[test]
    fn there_is_never_more_than_one_chunk_to_spare() {
        let mut chunks = Chunks::default();
        for n in 0..1_000_000_u32 {
            chunks.push(n);
            if n % 1_000 == 0 {
                let spare = chunks.bytes() - chunks.len() * size_of::<u32>();
                assert!(spare <= CHUNK_BYTES + chunks.chunks.capacity() * size_of::<Vec<u32>>(), "{spare} at {n}");
            }
        }
    }
}
