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

/// In virtual time, where `limit` may be long.
pub(crate) async fn until_within(limit: Duration, what: &str, mut met: impl AsyncFnMut() -> bool) {
    const LOOKS: u32 = 100_000;
    for _ in 0..LOOKS {
        if met().await {
            return;
        }
        tokio::time::sleep(limit / LOOKS).await;
    }
    panic!("did not happen: {what}");
}
