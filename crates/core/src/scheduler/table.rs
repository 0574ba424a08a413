//! Rows that are found by name and used by index: each name is kept once, and an index stays valid, since no row is ever removed.

use std::{
    hash::Hash,
    ops::{self, Range},
};

use foldhash::{HashMap, HashMapExt};

/// Index into one of the scheduler's tables.
pub(super) type Index = u32;

pub(super) fn index(length: usize) -> Index {
    Index::try_from(length).expect("fewer than four billion names and nodes")
}

#[derive(Debug, Clone)]
pub(super) struct Table<N, R> {
    rows: Vec<R>,
    by_name: HashMap<N, Index>,
}

impl<N, R> Default for Table<N, R> {
    fn default() -> Self {
        Self { rows: Vec::new(), by_name: HashMap::new() }
    }
}

impl<N: Hash + Eq, R> Table<N, R> {
    pub(super) fn find(&self, name: &N) -> Option<Index> {
        self.by_name.get(name).copied()
    }

    /// A row whose name is not there yet.
    pub(super) fn add(&mut self, name: N, row: R) -> Index {
        let at = index(self.rows.len());
        self.rows.push(row);
        self.by_name.insert(name, at);
        at
    }
}

impl<N, R> Table<N, R> {
    pub(super) fn get(&self, at: Index) -> Option<&R> {
        self.rows.get(at as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn indexes(&self) -> Range<Index> {
        0..index(self.rows.len())
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, R> {
        self.rows.iter()
    }

    pub(super) fn iter_mut(&mut self) -> std::slice::IterMut<'_, R> {
        self.rows.iter_mut()
    }
}

impl<N, R> ops::Index<Index> for Table<N, R> {
    type Output = R;

    #[inline]
    fn index(&self, at: Index) -> &R {
        &self.rows[at as usize]
    }
}

impl<N, R> ops::IndexMut<Index> for Table<N, R> {
    #[inline]
    fn index_mut(&mut self, at: Index) -> &mut R {
        &mut self.rows[at as usize]
    }
}
