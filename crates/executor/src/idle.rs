//! When a process is idle or drained: what is left for it to do ([`turnwise_core::remaining`] decides what counts).
//!
//! All pools of a process are asked for together. What one of them ends last may go on in another, so a look at what is left
//! counts only if they had nothing in their hands before it and nothing has ended since.

use std::{
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use turnwise_core::{
    Incarnation,
    remaining::{self, Remaining},
    settings::Settings,
};
use turnwise_store::{Load, Store, StoreError, memo};

use crate::{
    dispatcher::PAGE,
    event::{Event, Hub},
    life::Life,
    lock::locked,
};

/// How soon a node that does not dispatch asks the store whether anything is left for it, having nothing; and how long it
/// waits between two such looks, at most.
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(60);
/// Pages that it reads for it. With more jobs than that in the store it does not report that it is idle.
const PAGES: u32 = 10;

/// The pools of a process, and whether it was reported that nothing is left for them.
#[derive(Debug)]
pub(crate) struct Idle {
    pools: usize,
    lives: Mutex<Vec<Weak<Life>>>,
    said: AtomicBool,
}

/// A moment at which no pool had anything in its hands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Empty {
    pub(crate) pools: Vec<Incarnation>,
    /// Ends that had been written by then.
    ends: u64,
}

impl Idle {
    pub(crate) fn new(pools: usize) -> Self {
        Self { pools, lives: Mutex::default(), said: AtomicBool::new(false) }
    }

    /// One more life of a pool.
    pub(crate) fn enter(&self, life: &Arc<Life>) {
        let mut lives = locked(&self.lives);
        lives.retain(|life| life.strong_count() > 0);
        lives.push(Arc::downgrade(life));
    }

    /// A job has begun.
    pub(crate) fn busy(&self) {
        // Written only where it changes: all workers of the process come by here.
        if self.said() {
            self.said.store(false, Ordering::Release);
        }
    }

    pub(crate) fn said(&self) -> bool {
        self.said.load(Ordering::Acquire)
    }

    /// `None`: a pool has something in its hands, or is not in the fleet, so that it is not known.
    pub(crate) fn empty(&self) -> Option<Empty> {
        let lives: Vec<Arc<Life>> = locked(&self.lives).iter().filter_map(Weak::upgrade).collect();
        let lives = lives.iter().filter(|life| !life.over.is_up());
        let mut empty = Empty { pools: Vec::new(), ends: 0 };
        for life in lives {
            if !life.has_nothing() {
                return None;
            }
            let counters = &life.node.counters;
            // Counted before their jobs are released.
            empty.ends += counters.written.load(Ordering::Relaxed) + counters.stale.load(Ordering::Relaxed);
            empty.pools.push(life.incarnation);
        }
        (empty.pools.len() == self.pools).then_some(empty)
    }

    /// Nothing is left since `empty`: reports it, once each time.
    pub(crate) fn say(&self, hub: &Hub, empty: &Empty) {
        if self.empty().as_ref() == Some(empty) && !self.said.swap(true, Ordering::AcqRel) {
            hub.tell(Event::Idle);
        }
    }
}

/// Reports when the process is idle, as long as it has no dispatcher of its own, which knows better.
pub(crate) async fn watch(life: Arc<Life>) {
    let (idle, hub) = (&life.node.idle, &life.node.hub);
    let (mut wait, mut last) = (FIRST, None);
    while life.node.speaks && !life.over.is_up() {
        tokio::select! {
            biased;
            () = life.over.wait() => return,
            () = tokio::time::sleep(wait) => {}
        }
        let empty = idle.empty().filter(|_| life.term.epoch().is_none() && hub.listened_to() && !idle.said());
        let Some(empty) = empty else {
            (wait, last) = (FIRST, None);
            continue;
        };
        // Nothing has happened here since the last look: other nodes may do what is left, sooner or later.
        wait = if last.as_ref() == Some(&empty) { (wait * 2).min(LONGEST) } else { FIRST };
        match nothing_left(&*life.store, &empty.pools, Remaining::Now).await {
            Ok(true) => idle.say(hub, &empty),
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, "could not look whether anything is left"),
        }
        last = Some(empty);
    }
}

/// Whether the store knows of nothing that is left for these nodes `from` now or later on. Reads the backlog until it finds
/// something.
pub(crate) async fn nothing_left(store: &dyn Store, here: &[Incarnation], from: Remaining) -> Result<bool, StoreError> {
    let fleet = store.nodes().await?;
    if !here.iter().all(|pool| fleet.nodes.iter().any(|node| node.incarnation == *pool)) {
        return Ok(false);
    }
    // Settings decide only between now and later.
    let (settings, mut pages) = match from {
        Remaining::Now => (memo::read_settings(store).await?, PAGES),
        Remaining::Later | Remaining::Never => (Settings::default(), u32::MAX),
    };
    let mut after = None;
    while pages > 0 {
        pages -= 1;
        let page = store.load(Load::After { id: after, limit: PAGE }).await?;
        if page.jobs.iter().any(|head| remaining::remaining(head, &fleet.nodes, here, &settings, page.now) >= from) {
            return Ok(false);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(true),
        }
    }
    Ok(false)
}
