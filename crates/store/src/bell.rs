//! A doorbell, not a message: a ring means "look", and carries no content. After a lost ring, the next poll finds the same.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;
use turnwise_core::Incarnation;

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
    named: Arc<Named>,
}

/// Listeners for the mail of one node each: foreign workers, of which a process may answer thousands.
#[derive(Debug, Default)]
struct Named {
    by_node: Mutex<HashMap<Incarnation, Weak<Notify>>>,
    /// There may be mail, and it is not known for which of them.
    any: Notify,
}

impl Named {
    fn by_node(&self) -> MutexGuard<'_, HashMap<Incarnation, Weak<Notify>>> {
        self.by_node.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Ears {
    news: Weak<Notify>,
    mail: Weak<Notify>,
    lead: Weak<Notify>,
}

impl Default for Bell {
    fn default() -> Self {
        Self::with(Arc::default(), Arc::default(), Arc::default())
    }
}

impl Bell {
    fn with(ears: Arc<Mutex<Vec<Ears>>>, near: Arc<AtomicBool>, named: Arc<Named>) -> Self {
        let [news, mail, lead] = [(); 3].map(|()| Arc::new(Notify::new()));
        let mut all = ears.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|ears| ears.lead.strong_count() > 0);
        let own = Ears { news: Arc::downgrade(&news), mail: Arc::downgrade(&mail), lead: Arc::downgrade(&lead) };
        all.push(own);
        drop(all);
        Self { news, mail, lead, ears, near, named }
    }

    /// A bell for one more listener: every ring wakes all listeners.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::with(self.ears.clone(), self.near.clone(), self.named.clone())
    }

    /// A listener for this node's mail alone. All listeners for one node are the same one; it is forgotten once it is dropped.
    #[must_use]
    pub fn listen_for(&self, node: Incarnation) -> Arc<Notify> {
        let mut all = self.named.by_node();
        if let Some(listener) = all.get(&node).and_then(Weak::upgrade) {
            return listener;
        }
        // Those that are gone are swept as often as their number doubles, so that each costs a look or two.
        if all.len() == all.capacity() {
            all.retain(|_, listener| listener.strong_count() > 0);
        }
        let listener = Arc::new(Notify::new());
        all.insert(node, Arc::downgrade(&listener));
        listener
    }

    /// Wakes the listener for this node's mail, if there is one. Never fails.
    pub fn ring_for(&self, node: Incarnation) {
        if let Some(listener) = self.named.by_node().get(&node).and_then(Weak::upgrade) {
            listener.notify_one();
        }
    }

    /// There may be mail for any of the nodes that are listened for by name. Never fails.
    pub fn ring_for_any(&self) {
        self.named.any.notify_one();
    }

    /// Waits for a ring that names no node.
    pub async fn rung_for_any(&self) {
        self.named.any.notified().await;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u128) -> Incarnation {
        Incarnation(uuid::Uuid::from_u128(n))
    }

    async fn is_rung(listener: &Notify) -> bool {
        tokio::select! { biased; () = listener.notified() => true, () = async {} => false }
    }

    #[tokio::test]
    async fn a_ring_for_a_node_wakes_its_listener_and_no_other_and_is_kept_for_the_next_look() {
        let bell = Bell::default();
        let (one, other) = (bell.listen_for(node(1)), bell.another().listen_for(node(2)));
        bell.ring_for(node(1));
        bell.ring_for(node(3));
        assert!(is_rung(&one).await && !is_rung(&one).await && !is_rung(&other).await);
        assert!(Arc::ptr_eq(&one, &bell.listen_for(node(1))), "there is one for each node");
    }

    #[tokio::test]
    async fn listeners_that_are_gone_are_forgotten() {
        let bell = Bell::default();
        let kept = bell.listen_for(node(0));
        (1..10_000).for_each(|n| drop(bell.listen_for(node(n))));
        assert!(bell.named.by_node().len() < 100, "{}", bell.named.by_node().len());
        bell.ring_for(node(0));
        assert!(is_rung(&kept).await);
    }
}
