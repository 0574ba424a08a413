//! A store that counts what it is asked, and holds up what a test says.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use std::any::Any;
use tokio::sync::watch;
use turnwise::Turnwise;
use turnwise_store::{
    MemoryStore, OperatorStore, Result, Store,
    delegate::{Call, Delegate, DelegateOperators},
};

/// On the memory store.
#[derive(Debug)]
pub(crate) struct Counted {
    store: MemoryStore,
    asked: Mutex<BTreeMap<&'static str, usize>>,
    held: watch::Sender<BTreeSet<&'static str>>,
}

impl Counted {
    pub(crate) fn new() -> (Arc<Self>, Turnwise) {
        let held = watch::Sender::new(BTreeSet::new());
        let counted = Arc::new(Self { store: MemoryStore::default(), asked: Mutex::default(), held });
        (counted.clone(), Turnwise::on(counted.clone()).with_operators(counted))
    }

    /// How often a verb was called.
    pub(crate) fn asked(&self, verb: &str) -> usize {
        self.asked.lock().unwrap().get(verb).copied().unwrap_or_default()
    }

    /// How often any verb was called.
    pub(crate) fn asked_in_all(&self) -> usize {
        self.asked.lock().unwrap().values().sum()
    }

    /// From now on calls of this verb are held up.
    pub(crate) fn hold(&self, verb: &'static str) {
        self.held.send_modify(|held| {
            held.insert(verb);
        });
    }

    /// All calls go on.
    pub(crate) fn release(&self) {
        self.held.send_modify(BTreeSet::clear);
    }
}

#[async_trait]
impl Delegate for Counted {
    fn inner(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    async fn pass<T: Send + 'static>(
        &self,
        verb: &'static str,
        _asked: &(dyn Any + Send + Sync),
        call: Call<T>,
    ) -> Result<T> {
        *self.asked.lock().unwrap().entry(verb).or_default() += 1;
        // The sender lives as long as this.
        let _ = self.held.subscribe().wait_for(|held| !held.contains(verb)).await;
        call.await
    }
}

impl DelegateOperators for Counted {
    fn operators(&self) -> Arc<dyn OperatorStore> {
        Arc::new(self.store.clone())
    }
}
