//! A clock that stands still until it is moved, and the memory store's harness on it.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use turnwise_core::Timestamp;

use super::{Harness, OperatorHarness};
use crate::{MemoryStore, OperatorStore, Options, Store, memory::Clock};

/// A clock that stands still until it is moved.
#[derive(Debug, Clone)]
pub struct StillClock(Arc<AtomicI64>);

impl Default for StillClock {
    /// Not a round number: so a store that keeps less than microseconds is found out.
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(1_893_456_000_123_457)))
    }
}

impl StillClock {
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }

    pub fn set(&self, to: Timestamp) {
        self.0.store(to.micros(), Ordering::SeqCst);
    }

    pub fn advance(&self, by: Duration) {
        self.set(self.now().plus(by));
    }

    /// As the memory store takes it.
    pub fn clock(&self) -> Clock {
        let this = self.clone();
        Clock::new(move || this.now())
    }
}

/// The memory store on a still clock.
#[derive(Debug)]
pub struct MemoryHarness {
    store: Mutex<MemoryStore>,
    options: Options,
    pub clock: StillClock,
}

impl MemoryHarness {
    pub fn new(options: Options) -> Self {
        let clock = StillClock::default();
        Self { store: Mutex::new(MemoryStore::new(options.clone(), clock.clock())), options, clock }
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.store.lock().expect("nothing panics under this lock").another_process())
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn reset(&self) {
        *self.store.lock().expect("nothing panics under this lock") =
            MemoryStore::new(self.options.clone(), self.clock.clock());
    }
}

#[async_trait]
impl OperatorHarness for MemoryHarness {
    async fn both(&self) -> (Arc<dyn Store>, Arc<dyn OperatorStore>) {
        let store = self.store.lock().expect("nothing panics under this lock").another_process();
        (Arc::new(store.clone()), Arc::new(store))
    }
}
