//! A sign that something shall stop.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Goes up once and stays up.
#[derive(Debug, Default)]
pub(crate) struct StopSign {
    up: AtomicBool,
    raised: Notify,
}

impl StopSign {
    pub(crate) fn raise(&self) {
        self.up.store(true, Ordering::Release);
        self.raised.notify_waiters();
    }

    /// For the next start, when all that the sign was raised for has ended.
    pub(crate) fn lower(&self) {
        self.up.store(false, Ordering::Release);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    pub(crate) async fn wait(&self) {
        let raised = self.raised.notified();
        tokio::pin!(raised);
        // Listening before looking: a sign raised in between is not missed.
        raised.as_mut().enable();
        if !self.is_up() {
            raised.await;
        }
    }
}
