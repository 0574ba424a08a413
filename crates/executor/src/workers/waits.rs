//! Takes that wait. Each is rung by name; for rings that are lost, one of them looks for all, in one statement.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use turnwise_core::{Incarnation, pace};

use super::{Workers, known::Known};
use crate::lock::locked;

/// Workers in one statement.
const AT_ONCE: usize = 5_000;
/// Between two looks for rings that name no worker.
const MOMENT: Duration = Duration::from_millis(50);

#[derive(Debug, Default)]
pub(super) struct Waits {
    waiting: Mutex<HashMap<Incarnation, Arc<Waiting>>>,
    /// The take that looks for all holds it; when that ends, another one goes on.
    looking: tokio::sync::Mutex<()>,
    /// When the last look was.
    looked: Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Waiting {
    mail: Arc<Notify>,
    /// The look found something, be it that the worker is gone.
    doubted: AtomicBool,
}

/// A take that waits; it is forgotten when this is dropped.
pub(super) struct Entry<'a> {
    waits: &'a Waits,
    node: Incarnation,
    waiting: Arc<Waiting>,
}

impl Entry<'_> {
    /// Whether a look without a ring found that this worker should look.
    pub(super) fn is_doubted(&self) -> bool {
        self.waiting.doubted.load(Ordering::Acquire)
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut waiting = locked(&self.waits.waiting);
        // A newer take of the same worker may have taken its place.
        if waiting.get(&self.node).is_some_and(|other| Arc::ptr_eq(other, &self.waiting)) {
            waiting.remove(&self.node);
        }
    }
}

impl Waits {
    pub(super) fn begin(&self, known: &Known) -> Entry<'_> {
        let waiting = Arc::new(Waiting { mail: Arc::clone(&known.mail), doubted: AtomicBool::new(false) });
        locked(&self.waiting).insert(known.node, Arc::clone(&waiting));
        Entry { waits: self, node: known.node, waiting }
    }

    fn nodes(&self) -> Vec<Incarnation> {
        locked(&self.waiting).keys().copied().collect()
    }

    fn wake(&self, node: Incarnation) {
        if let Some(waiting) = locked(&self.waiting).get(&node) {
            waiting.doubted.store(true, Ordering::Release);
            waiting.mail.notify_one();
        }
    }
}

impl Workers {
    /// Looks for all takes that wait, as long as this one does. It never ends by itself.
    pub(super) async fn poll(&self) {
        let _looking = self.waits.looking.lock().await;
        loop {
            let interval = if self.bell.hears() { pace::QUIET_POLL } else { pace::POLL };
            let looked = *locked(&self.waits.looked).get_or_insert_with(Instant::now);
            tokio::select! {
                () = sleep_until(looked + interval) => {}
                () = self.rung_for_any(looked) => {}
            }
            // Before the look: what is rung meanwhile is looked for again.
            let now = Instant::now();
            for nodes in self.waits.nodes().chunks(AT_ONCE) {
                match self.operators.mail_waiting(nodes.to_vec()).await {
                    Ok(found) => {
                        let alive = nodes.iter().filter(|node| !found.contains(node));
                        alive.for_each(|node| self.is_heard_of(*node));
                        found.into_iter().for_each(|node| self.waits.wake(node));
                    }
                    Err(error) => tracing::debug!(%error, "could not look for workers' mail"),
                }
            }
            *locked(&self.waits.looked) = Some(now);
        }
    }

    async fn rung_for_any(&self, looked: Instant) {
        self.bell.rung_for_any().await;
        sleep_until(looked + MOMENT).await;
    }
}
