//! Job counts that the dispatcher writes while a caller asks for them.
//!
//! Whether one asks comes with the news, which are read anyway, and with the answer to each write: so this costs nothing while no caller
//! asks, and one statement a second while one does.

use std::time::Duration;

use tokio::time::Instant;
use turnwise_core::Timestamp;
use turnwise_store::StoreError;

use super::Dispatcher;
use crate::contain::{self, caught};

/// Between two writes, at least.
const INTERVAL: Duration = Duration::from_secs(1);
/// After a panic: it may come again. Who asks counts by looking meanwhile.
const AFTER_PANIC: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct Telling {
    /// Until when a caller asks.
    asked: Option<Timestamp>,
    /// Not before.
    next: Instant,
}

impl Telling {
    pub(super) fn new() -> Self {
        Self { asked: None, next: Instant::now() }
    }

    /// The news say whether a caller asks.
    pub(super) fn hear(&mut self, asked: Option<Timestamp>) {
        self.asked = asked;
    }

    /// When to write next, if a caller asks.
    pub(super) fn next_time(&self) -> Option<Instant> {
        self.asked.map(|_| self.next)
    }
}

impl Dispatcher<'_> {
    pub(super) async fn tell_totals_if_asked(&mut self) -> Result<(), StoreError> {
        let now = Instant::now();
        let Some(operators) = &self.life.operators else { return Ok(()) };
        if self.telling.next_time().is_none_or(|next| now < next) {
            return Ok(());
        }
        self.telling.next = now + INTERVAL;
        let lead = (self.life.incarnation, self.epoch);
        let written = caught(async { operators.write_totals(lead, self.scheduler.totals()).await });
        match written.await {
            Ok(Ok(asked)) => self.telling.asked = asked,
            // People see older totals meanwhile, and then those that they count themselves.
            Ok(Err(error)) if error.is_transient() => self.life.node.logs.no_answer("could not write totals", &error),
            Ok(Err(error)) => return Err(error),
            // A question stops no dispatcher.
            Err(panic) => {
                contain::panicked_aside(&self.life.node, "totals", &*panic);
                self.telling.next = now + AFTER_PANIC;
            }
        }
        Ok(())
    }
}
