//! What stays the same for all lives of this node: its set-up, its clock and its counters.

use std::sync::{Arc, atomic::AtomicU64};

use turnwise_core::{Serves, secret::Secrets};

use crate::{
    chance::Chance, clock::DatabaseClock, config::Config, contain::HoldOff, ctx::States, event::Hub, host::Process,
    idle::Idle, logs::Logs, middleware::Middleware, registry::Registry, stop_sign::StopSign, trace::Trace,
};

pub(crate) struct ThisNode {
    pub(crate) config: Config,
    pub(crate) serves: Serves,
    pub(crate) registry: Registry,
    /// What its tasks' jobs must not show.
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) states: States,
    /// What goes around every task, outermost first.
    pub(crate) middleware: Arc<[Middleware]>,
    pub(crate) hub: Hub,
    pub(crate) idle: Arc<Idle>,
    /// Whether this is the node's own pool, which reports for all pools that the process is idle.
    pub(crate) speaks: bool,
    pub(crate) trace: Trace,
    pub(crate) clock: DatabaseClock,
    pub(crate) chance: Chance,
    pub(crate) process: Process,
    /// Jobs per page while the dispatcher reads the backlog.
    pub(crate) page: u32,
    pub(crate) counters: Counters,
    pub(crate) logs: Arc<Logs>,
    /// Whether this node should leave dispatching to others for a while.
    pub(crate) hold_off: HoldOff,
    /// The node shall stop.
    pub(crate) stop: StopSign,
}

impl ThisNode {
    /// What is added to a wait, as a share. Nothing where a test moves the clock: there the test decides how much time passes.
    pub(crate) fn jitter(&self) -> f64 {
        if self.clock.is_still() { 0.0 } else { self.chance.random() }
    }
}

impl std::fmt::Debug for ThisNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThisNode").field("config", &self.config).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Ends that were written, those of jobs that were handed back included.
    pub(crate) written: AtomicU64,
    pub(crate) settled: AtomicU64,
    pub(crate) stale: AtomicU64,
    pub(crate) lost: AtomicU64,
    /// Of the dispatcher.
    pub(crate) looks: AtomicU64,
    pub(crate) rings: AtomicU64,
}
