//! A doorbell, not a message: it says "look", never what there is to see. A lost ring costs one poll interval.

use std::sync::Arc;

use tokio::sync::Notify;

/// The three doors of a node. Rings are coalesced: many of them before a look are one look.
#[derive(Debug, Clone, Default)]
pub struct Bell {
    /// Jobs or changes for the dispatcher.
    pub news: Arc<Notify>,
    /// Assignments or cancels for this node.
    pub mail: Arc<Notify>,
    /// Nobody dispatches: whoever hears it may.
    pub lead: Arc<Notify>,
}

impl Bell {
    pub fn ring_news(&self) {
        self.news.notify_one();
    }

    pub fn ring_mail(&self) {
        self.mail.notify_one();
    }

    pub fn ring_lead(&self) {
        self.lead.notify_one();
    }
}
