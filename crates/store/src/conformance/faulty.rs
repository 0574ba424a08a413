//! A store that has an accident: at one chosen call the process dies, before the call or after it with the reply lost.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use async_trait::async_trait;

use crate::{
    Result, Store, StoreError,
    delegate::{Call, Delegate},
};

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

/// The store as one process reaches it, with an [`Accident`]. Clones share the count: they are the same process.
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
}

fn died() -> StoreError {
    StoreError::transient("reach the store", "the process has died")
}

#[async_trait]
impl Delegate for Faulty {
    fn inner(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    async fn pass<T: Send + 'static>(&self, _: &'static str, _: &(dyn Any + Send + Sync), call: Call<T>) -> Result<T> {
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
                // The caller does not learn what became of the call: its error is lost like its reply.
                drop(call.await);
                Err(died())
            }
            _ => call.await,
        }
    }
}
