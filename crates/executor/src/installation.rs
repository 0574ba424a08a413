//! What is set for the installation, as far as every node goes by it: how long finished jobs and their logs are kept. The
//! dispatcher hears of all settings as news; a node that only runs jobs asks now and then.

use std::{sync::Arc, time::Duration};

use turnwise_store::{MemoKind, Store, StoreError};

use crate::life::Life;

/// So long a node may go by what was set before.
const READ_INTERVAL: Duration = Duration::from_secs(10);

/// The store goes by what it hears.
pub(crate) async fn read(store: &dyn Store) -> Result<(), StoreError> {
    store.recall(vec![MemoKind::Installation]).await.map(drop)
}

pub(crate) async fn watch(life: Arc<Life>) {
    loop {
        tokio::select! {
            biased;
            () = life.over.wait() => return,
            () = tokio::time::sleep(READ_INTERVAL) => {}
        }
        if let Err(error) = read(&*life.store).await {
            tracing::debug!(%error, "could not read what is set for the installation");
        }
    }
}
