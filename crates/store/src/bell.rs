//! A doorbell, not a message: a ring means "look", and carries no content. After a lost ring, the next poll finds the same.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// The three bells of a node. Rings are coalesced: many rings before a look cause one look.
///
/// Of the clones of a bell, one is woken by a ring. A bell from [`Bell::another`] is woken by every ring, too.
#[derive(Debug, Clone)]
pub struct Bell {
    /// Jobs or changes for the dispatcher.
    pub news: Arc<Notify>,
    /// Assignments or cancels for this node.
    pub mail: Arc<Notify>,
    /// No node dispatches, or the fleet has changed: nodes that may dispatch look.
    pub lead: Arc<Notify>,
    /// All bells that are still in use: as many as there are nodes on this handle.
    ears: Arc<Mutex<Vec<Ears>>>,
    /// Whether rings from other processes arrive at present.
    near: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Ears {
    news: Weak<Notify>,
    mail: Weak<Notify>,
    lead: Weak<Notify>,
}

impl Default for Bell {
    fn default() -> Self {
        Self::with(Arc::default(), Arc::default())
    }
}

impl Bell {
    fn with(ears: Arc<Mutex<Vec<Ears>>>, near: Arc<AtomicBool>) -> Self {
        let [news, mail, lead] = [(); 3].map(|()| Arc::new(Notify::new()));
        let mut all = ears.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|ears| ears.lead.strong_count() > 0);
        let own = Ears { news: Arc::downgrade(&news), mail: Arc::downgrade(&mail), lead: Arc::downgrade(&lead) };
        all.push(own);
        drop(all);
        Self { news, mail, lead, ears, near }
    }

    /// A bell for one more listener: every ring wakes all listeners.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::with(self.ears.clone(), self.near.clone())
    }

    /// Whether rings from other processes arrive at present: if so, a listener rarely needs to look without one.
    pub fn hears(&self) -> bool {
        self.near.load(Ordering::Acquire)
    }

    /// For a store whose rings come from other processes: sets whether they arrive.
    pub fn set_hears(&self, hears: bool) {
        self.near.store(hears, Ordering::Release);
    }

    /// Wakes dispatchers on this handle: there may be jobs or changes to read. Never fails.
    pub fn ring_news(&self) {
        self.ring(|ears| &ears.news);
    }

    /// Wakes nodes on this handle: there may be assignments or cancels to read. Never fails.
    pub fn ring_mail(&self) {
        self.ring(|ears| &ears.mail);
    }

    /// Wakes nodes on this handle that may dispatch: the lead may be free, or the fleet has changed. Never fails.
    pub fn ring_lead(&self) {
        self.ring(|ears| &ears.lead);
    }

    fn ring(&self, door: impl Fn(&Ears) -> &Weak<Notify>) {
        let all = self.ears.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(|ears| door(ears).upgrade()).for_each(|door| door.notify_one());
    }
}
