//! A doorbell, not a message: it says "look", never what there is to see. A lost ring costs one poll, as long as that is then.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// The three doors of a node. Rings are coalesced: many of them before a look are one look.
///
/// Clones share their ears: one of them hears a ring. [`Bell::another`] has ears of its own.
#[derive(Debug, Clone)]
pub struct Bell {
    /// Jobs or changes for the dispatcher.
    pub news: Arc<Notify>,
    /// Assignments or cancels for this node.
    pub mail: Arc<Notify>,
    /// Nobody dispatches, or the fleet has changed: whoever may dispatch looks.
    pub lead: Arc<Notify>,
    /// All who listen, as long as they do; as many as there are nodes on this handle.
    ears: Arc<Mutex<Vec<Ears>>>,
    /// Whether every ring from elsewhere is heard at present.
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

    /// For one more who listens: every ring is heard by all.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::with(self.ears.clone(), self.near.clone())
    }

    /// Whether every ring from elsewhere is heard at present: whoever waits need hardly look without one.
    pub fn hears(&self) -> bool {
        self.near.load(Ordering::Acquire)
    }

    /// For a store whose rings come from afar: whether they arrive.
    pub fn set_hears(&self, hears: bool) {
        self.near.store(hears, Ordering::Release);
    }

    pub fn ring_news(&self) {
        self.ring(|ears| &ears.news);
    }

    pub fn ring_mail(&self) {
        self.ring(|ears| &ears.mail);
    }

    pub fn ring_lead(&self) {
        self.ring(|ears| &ears.lead);
    }

    fn ring(&self, door: impl Fn(&Ears) -> &Weak<Notify>) {
        let all = self.ears.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(|ears| door(ears).upgrade()).for_each(|door| door.notify_one());
    }
}
