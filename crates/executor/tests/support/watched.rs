//! A process's way to its store, on which the test watches every call, and may hold it up or refuse it.

use std::{any::Any, future::Future, pin::Pin, sync::Arc};

use async_trait::async_trait;
use turnwise_executor::executor::{Connect, Connected};
use turnwise_store::{
    Bell, MemoryStore, OperatorStore, Result, Store,
    delegate::{Call, Delegate, DelegateOperators},
};

pub(crate) type Watching<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sees calls by the verb's name and what was asked.
pub(crate) trait Watch: Send + Sync + 'static {
    /// An error is the answer, and the call does not happen.
    fn before<'a>(&'a self, verb: &'static str, asked: &'a (dyn Any + Send + Sync)) -> Watching<'a, Result<()>> {
        let _ = (verb, asked);
        Box::pin(async { Ok(()) })
    }

    /// The store has answered; the caller has not got the answer yet.
    fn after(&self, verb: &'static str) -> Watching<'_, ()> {
        let _ = verb;
        Box::pin(async {})
    }

    /// Instead of the store's own, which rings for every write of this process.
    fn bell(&self) -> Option<Bell> {
        None
    }
}

pub(crate) fn connect(store: &MemoryStore, watch: &Arc<impl Watch>) -> Connect {
    let (store, watch) = (store.clone(), watch.clone());
    Arc::new(move || {
        let store = Watched { inner: Arc::new(store.another_process()), watch: watch.clone() };
        Box::pin(async move { Ok(Connected::to(Arc::new(store))) })
    })
}

/// As [`connect`], with the side for operators: the test sees its calls as well.
pub(crate) fn connect_both(store: &MemoryStore, watch: &Arc<impl Watch>) -> Connect {
    let (store, watch) = (store.clone(), watch.clone());
    Arc::new(move || {
        let store = Watched { inner: Arc::new(store.another_process()), watch: watch.clone() };
        Box::pin(async move { Ok(Connected::to_both(Arc::new(store))) })
    })
}

struct Watched {
    inner: Arc<MemoryStore>,
    watch: Arc<dyn Watch>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

#[async_trait]
impl Delegate for Watched {
    fn inner(&self) -> Arc<dyn Store> {
        self.inner.clone()
    }

    async fn pass<T: Send + 'static>(
        &self,
        verb: &'static str,
        asked: &(dyn Any + Send + Sync),
        call: Call<T>,
    ) -> Result<T> {
        self.watch.before(verb, asked).await?;
        let answer = call.await;
        self.watch.after(verb).await;
        answer
    }

    fn bell(&self) -> Bell {
        self.watch.bell().unwrap_or_else(|| Store::bell(&*self.inner))
    }
}

impl DelegateOperators for Watched {
    fn operators(&self) -> Arc<dyn OperatorStore> {
        self.inner.clone()
    }
}
