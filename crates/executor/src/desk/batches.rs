//! The batches that jobs came in. A batch stays in the store until all of its jobs are settled: it is how the dispatcher finds what a
//! lost node has held.

use foldhash::{HashMap, HashSet};
use turnwise_store::BatchId;

#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Those with unsettled jobs, and how many.
    open: HashMap<BatchId, usize>,
    /// Those that came, or are on their way here from this process's own dispatcher.
    known: HashSet<BatchId>,
    /// Looks at the mail that are under way, and the batches that were forgotten meanwhile: what was read before that may
    /// bring them once more.
    looks: usize,
    forgotten: HashSet<BatchId>,
    /// Those that may be removed from the store.
    done: Vec<BatchId>,
}

impl Batches {
    /// This process's own dispatcher is about to assign it. `false`: it is here already.
    pub(super) fn expect(&mut self, batch: BatchId) -> bool {
        self.known.insert(batch)
    }

    pub(super) fn unexpect(&mut self, batch: BatchId) {
        self.known.remove(&batch);
    }

    /// The mail brought it. `false`: it came before.
    pub(super) fn arrive(&mut self, batch: BatchId) -> bool {
        !self.forgotten.contains(&batch) && self.known.insert(batch)
    }

    /// The mail is looked at: what it need not bring.
    pub(super) fn begin_look(&mut self) -> Vec<BatchId> {
        self.looks += 1;
        self.known.iter().copied().collect()
    }

    pub(super) fn end_look(&mut self) {
        self.looks -= 1;
        if self.looks == 0 {
            self.forgotten.clear();
        }
    }

    /// So many jobs came with it.
    pub(super) fn open(&mut self, batch: BatchId, jobs: usize) {
        *self.open.entry(batch).or_default() += jobs;
    }

    pub(super) fn is_open(&self, batch: BatchId) -> bool {
        self.open.contains_key(&batch)
    }

    /// One of its jobs is out of this node's hands.
    pub(super) fn settle_one(&mut self, batch: BatchId) {
        if let Some(left) = self.open.get_mut(&batch) {
            *left -= 1;
            if *left == 0 {
                self.open.remove(&batch);
                self.done.push(batch);
            }
        }
    }

    /// The end of one of its jobs could not be written: the batch stays in the store.
    pub(super) fn keep(&mut self, batch: BatchId) {
        self.open.remove(&batch);
    }

    pub(super) fn add_done(&mut self, done: impl IntoIterator<Item = BatchId>) {
        self.done.extend(done);
    }

    pub(super) fn any_done(&self) -> bool {
        !self.done.is_empty()
    }

    pub(super) fn take_done(&mut self) -> Vec<BatchId> {
        std::mem::take(&mut self.done)
    }

    /// The store has removed them; they cannot come again.
    pub(super) fn forget(&mut self, done: &[BatchId]) {
        self.known.retain(|batch| !done.contains(batch));
        if self.looks > 0 {
            self.forgotten.extend(done);
        }
    }
}
