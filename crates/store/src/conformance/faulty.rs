//! A store that has an accident: at one chosen call the process dies, before the call or after it with the reply lost.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use async_trait::async_trait;
use turnwise_core::{Incarnation, Job, JobId, NewJob, story::Story};

use crate::{Bell, StoreError, store::*};

/// When and how the process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accident {
    /// Never: only count.
    None,
    /// The call with this number (from 1) does not happen, nor any later one.
    Before(u64),
    /// The call with this number happens, but its reply is lost; no later one happens.
    After(u64),
}

/// A process' way to its store, with an [`Accident`] in it. Clones share the count: they are the same process.
#[derive(Debug, Clone)]
pub struct Faulty {
    inner: Arc<dyn Store>,
    accident: Accident,
    calls: Arc<AtomicU64>,
    cut: Arc<AtomicBool>,
    slow: Arc<AtomicU64>,
}

impl Faulty {
    pub fn new(inner: Arc<dyn Store>, accident: Accident) -> Self {
        Self { inner, accident, calls: Arc::default(), cut: Arc::default(), slow: Arc::default() }
    }

    /// Whether the store is out of reach from now on: calls neither happen nor are answered with anything but an error.
    pub fn cut_off(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
    }

    /// Every call takes this long, there and back, from now on.
    pub fn slow_down(&self, millis: u64) {
        self.slow.store(millis, Ordering::SeqCst);
    }

    /// Calls made so far, those of a dead process included.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Whether the accident has happened.
    pub fn dead(&self) -> bool {
        match self.accident {
            Accident::None => false,
            Accident::Before(at) | Accident::After(at) => self.calls() >= at,
        }
    }

    async fn call<T>(&self, verb: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let slow = std::time::Duration::from_millis(self.slow.load(Ordering::SeqCst));
        if !slow.is_zero() {
            tokio::time::sleep(slow).await;
        }
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if self.cut.load(Ordering::SeqCst) {
            return Err(StoreError::transient("reach the store", "it is out of reach"));
        }
        match self.accident {
            Accident::Before(at) if number >= at => Err(died()),
            Accident::After(at) if number > at => Err(died()),
            Accident::After(at) if number == at => {
                // What became of the call is nobody's to know: its error is lost like its reply.
                drop(verb.await);
                Err(died())
            }
            _ => verb.await,
        }
    }
}

fn died() -> StoreError {
    StoreError::transient("reach the store", "the process has died")
}

#[async_trait]
impl Store for Faulty {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Submitted>> {
        self.call(self.inner.enqueue(jobs)).await
    }
    async fn join(&self, join: Join) -> Result<Joined> {
        self.call(self.inner.join(join)).await
    }
    async fn beat(&self, beat: Beat) -> Result<Pulse> {
        self.call(self.inner.beat(beat)).await
    }
    async fn leave(&self, node: Incarnation) -> Result<bool> {
        self.call(self.inner.leave(node)).await
    }
    async fn load(&self, load: Load) -> Result<Page> {
        self.call(self.inner.load(load)).await
    }
    async fn news(&self, ask: AskNews) -> Result<News> {
        self.call(self.inner.news(ask)).await
    }
    async fn assign(&self, assign: Assign) -> Result<Vec<(JobId, AssignReply)>> {
        self.call(self.inner.assign(assign)).await
    }
    async fn assignments(&self, node: Incarnation, known: Vec<BatchId>) -> Result<Vec<Delivery>> {
        self.call(self.inner.assignments(node, known)).await
    }
    async fn settle(&self, settle: Settle) -> Result<Vec<Settled>> {
        self.call(self.inner.settle(settle)).await
    }
    async fn note(&self, node: Incarnation, notes: Vec<Note>) -> Result<Vec<Settled>> {
        self.call(self.inner.note(node, notes)).await
    }
    async fn lost_nodes(&self, ask: AskLost) -> Result<Vec<LostNode>> {
        self.call(self.inner.lost_nodes(ask)).await
    }
    async fn control(&self, interventions: Vec<Intervention>) -> Result<Vec<Settled>> {
        self.call(self.inner.control(interventions)).await
    }
    async fn prune(&self, seen: Option<Cursor>, limit: u32) -> Result<u64> {
        self.call(self.inner.prune(seen, limit)).await
    }
    async fn job(&self, id: JobId) -> Result<Option<Job>> {
        self.call(self.inner.job(id)).await
    }
    async fn jobs(&self, filter: Filter) -> Result<Vec<Job>> {
        self.call(self.inner.jobs(filter)).await
    }
    async fn story(&self, ask: AskStory) -> Result<Story> {
        self.call(self.inner.story(ask)).await
    }
    async fn nodes(&self) -> Result<Fleet> {
        self.call(self.inner.nodes()).await
    }
    async fn recall(&self, kinds: Vec<MemoKind>) -> Result<Vec<Memo>> {
        self.call(self.inner.recall(kinds)).await
    }
    async fn remember(&self, lead: Option<(Incarnation, Epoch)>, memos: Vec<NewMemo>) -> Result<Vec<bool>> {
        self.call(self.inner.remember(lead, memos)).await
    }
    fn bell(&self) -> Bell {
        self.inner.bell()
    }
}
