//! Waiting for something to happen, and not for ever.

use std::{future::Future, time::Duration};

/// Long enough for any machine; a test that needs it has failed.
const DEADLINE: Duration = Duration::from_secs(30);

pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("did not happen in time")
}

/// What `look` finds, once it does.
pub(crate) async fn found<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    soon(async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await
}

pub(crate) async fn until(mut met: impl AsyncFnMut() -> bool) {
    found(async || met().await.then_some(())).await;
}

/// In virtual time, up to half an hour of it: what makes every dispatcher panic is tried again ever more seldom.
pub(crate) async fn sooner_or_later(what: &str, mut met: impl AsyncFnMut() -> bool) {
    const LIMIT: Duration = Duration::from_secs(30 * 60);
    const LOOKS: u32 = 100_000;
    for _ in 0..LOOKS {
        if met().await {
            return;
        }
        tokio::time::sleep(LIMIT / LOOKS).await;
    }
    panic!("did not happen: {what}");
}
