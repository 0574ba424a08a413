//! Reads what has changed, for programs that show it or pass it on. It writes nothing and takes no lock.

use std::collections::BTreeMap;

use turnwise_core::settings::QueueSettings;
use turnwise_store::{MemoKind, memo};

pub use turnwise_core::watch::KEEP_CHANGES;
pub use turnwise_store::{
    Change,
    operators::{AskWatch, EndedJob, HeldJob, InHands, WatchCursor, Watched},
};

use crate::{Error, QueueName, Turnwise};

impl Turnwise {
    /// What happened since the cursor; without one, where to begin. A program that goes on from cursor to cursor within
    /// [a minute](KEEP_CHANGES) misses nothing, on whichever machine it asks.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators).
    ///
    /// ```
    /// # #[tokio::main] async fn main() -> Result<(), turnwise::Error> {
    /// use turnwise::{JobRequest, Turnwise, watch::AskWatch};
    /// let turnwise = Turnwise::open("memory:").await?;
    /// let begin = turnwise.watch(AskWatch { cursor: None, most: 100, ends: false }).await?.cursor;
    /// let id = turnwise.submit(JobRequest::new("mail", &())).await?;
    /// let seen = turnwise.watch(AskWatch { cursor: Some(begin), most: 100, ends: false }).await?;
    /// assert_eq!(seen.jobs[0].id, id);
    /// # Ok(()) }
    /// ```
    pub async fn watch(&self, ask: AskWatch) -> Result<Watched, Error> {
        Ok(self.operators()?.watch(ask).await?)
    }

    /// What nodes have in their hands, the first `most` jobs by id, with how far they have come.
    ///
    /// [`Error::Invalid`] on a store without a [side for operators](Turnwise::operators).
    pub async fn in_hands(&self, most: u32) -> Result<InHands, Error> {
        Ok(self.operators()?.in_hands(most).await?)
    }

    /// What is set for queues alone; the others have their defaults. [`Error::Store`] if the database does not answer.
    pub async fn queue_settings(&self) -> Result<BTreeMap<QueueName, QueueSettings>, Error> {
        Ok(memo::settings(&self.store().recall(vec![MemoKind::Queue]).await?).queues)
    }
}
